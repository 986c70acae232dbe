package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// compareForRemoval orders objects so that what was applied last is removed
// first.
func compareForRemoval(a, b identity) int {
	return cmp.Or(
		cmp.Compare(b.stage(), a.stage()),
		cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name),
	)
}

// stage is the one in which the object is applied.
func (id identity) stage() manifest.Stage { return manifest.StageOf(id.GroupKind, id.namespace != "") }

// removal is what came of the removal of one object.
type removal struct {
	// gone reports that the object is no longer ours: it does not exist, or others
	// own it.
	gone bool
	// absent reports that it does not exist.
	absent bool
	// deleted reports that a deletion was accepted, now or before. waitsFor is what the
	// object waits for then, as far as it is known.
	deleted  bool
	waitsFor string
	// released reports that our fields were given up and others still own it.
	released bool
	// unmanaged reports that it was left in place, unmanaged.
	unmanaged bool
	// missing reports that its kind is not served, in no version.
	missing bool
	// kept reports that the object itself asks to be left in place; unsure, that this is
	// not known.
	kept, unsure bool
	// held is why it is not removed before something else is.
	held string
	// key is the object.
	key trigger.ObjectKey
	// glass is the answer to its break-glass annotations.
	glass glassAnswer
	err   error
	// sensitive reports that its values must not be shown.
	sensitive bool
}

// remover removes objects of one VidraResource: those that left the manifest, or all of them.
type remover struct {
	*applier
	plan *planner
	// spared is what the removal must not take along.
	spared *spared
}

// remove lets go of an object: it deletes the object if no other VidraResource owns it
// with us, and otherwise gives up our fields only. What is not ours at this
// moment is left alone.
func (a *remover) remove(ctx context.Context, e *v1alpha1.ManagedResourceStatus) removal {
	done := a.removeIn(ctx, e)
	if done.missing && done.key.Name != "" { // discovery was behind
		done = a.removeIn(ctx, e)
	}
	return done
}

// removeIn removes an object in the version in which it is served, as far as discovery
// is known.
func (a *remover) removeIn(ctx context.Context, e *v1alpha1.ManagedResourceStatus) removal {
	mapping, err := a.destination.MappingInAnyVersion(ctx, gvkOf(e))
	switch {
	case meta.IsNoMatchError(err):
		return removal{missing: true}
	case err != nil:
		return removal{err: err, unsure: true}
	}
	key := trigger.ObjectKey{Cluster: a.destination.Name(), GVR: mapping.GVR, Namespace: e.Namespace, Name: e.Name}
	if a.watched {
		a.index.ExpectRemoval(a.owner, key)
	}
	var done removal
	// Another client may write to the object between the read and the deletion.
	_ = retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		done = a.removeLive(ctx, key, e)
		return done.err
	})
	done.key = key
	if done.gone || done.held != "" { // what is held may come back into the manifest
		a.index.Forget(a.owner, key)
	}
	return done
}

func (a *remover) removeLive(ctx context.Context, key trigger.ObjectKey, e *v1alpha1.ManagedResourceStatus) removal {
	live, err := a.get(ctx, key)
	switch {
	case err != nil && kindGone(err, key.Name):
		a.destination.Invalidate(key.GVR.Group)
		return removal{missing: true}
	case err != nil:
		kept, unsure := a.keptUnread(ctx, key)
		return removal{err: err, kept: kept, unsure: unsure}
	case live == nil:
		return removal{gone: true, absent: true}
	case a.spared.wants(live):
		return removal{gone: true}
	case !a.owns(live, e):
		return removal{gone: true, kept: keeps(live)}
	}
	done := a.discard(ctx, key, live, e)
	if apierrors.IsNotFound(done.err) && isObject(done.err, key.Name) { // somebody was faster
		return removal{gone: true}
	}
	done.kept, done.sensitive = keeps(live), ownership.Sensitive(live)
	return done
}

// discard lets go of an object that is ours.
func (a *remover) discard(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, e *v1alpha1.ManagedResourceStatus) removal {
	id := identityIn(live)
	stays := a.orphans || asksToStay(live) || a.spared.holds(id)
	switch {
	case live.GetDeletionTimestamp() != nil && stays: // somebody else deletes it
		return removal{gone: true}
	case live.GetDeletionTimestamp() != nil:
		return removal{deleted: true, waitsFor: waitsFor(live)}
	case stays:
		return a.release(ctx, key, live)
	}
	if glass := a.answerTo(e, nil, live); exempts(glass.answer, time.Now()) {
		l := exemption(glass.answer)
		return removal{glass: glass, held: "is to be removed, and is not before its break-glass ends: " + l.why}
	}
	if inIt, unsure := a.spared.unsureIn(id); unsure {
		return removal{held: fmt.Sprintf("is not removed before it is known whether %s, which would go with it, is to be kept", inIt)}
	}
	if others, err := a.finder.allOwners(ctx, key, live); err != nil {
		return removal{err: err}
	} else if len(others) > 0 {
		return a.handOver(ctx, key, live, others)
	}
	return a.deleteRead(ctx, key, live)
}

// handOver leaves an object to the others that own it, and has them look at it. Who only
// notes that the object is wanted, or has not applied it yet, takes over what we leave,
// as it is: without it the object might be empty, or refused, until then.
func (a *remover) handOver(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, others []coOwner) removal {
	done := removal{}
	if onlyClaimed(live, others) {
		done = a.release(ctx, key, live)
	} else if done = a.releaseShared(ctx, key, live); apierrors.IsInvalid(done.err) {
		done = a.release(ctx, key, live)
	}
	if done.unmanaged {
		done.unmanaged, done.released = false, true
	}
	if done.released {
		for _, other := range others {
			if other.manager != a.installation.FieldManager(other.name) {
				continue // its operator finds out at its next attempt
			}
			a.trigger.EnqueueAll(trigger.Owner{Name: other.name})
		}
	}
	return done
}

// release leaves an object in place, without a trace of us: what we own of it is
// unmanaged then. An apply of nothing would remove it. The label stays while
// another VidraResource needs it.
func (a *remover) release(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured) removal {
	annotations := unlisted(live, a.owner.Name)
	annotations[a.signature().annotation] = nil
	metadata := map[string]any{"annotations": annotations, "managedFields": ownership.Without(live, a.manager)}
	if references, changed := otherReferences(live, a.owner.Name); changed {
		metadata["ownerReferences"] = references
	}
	others, err := a.finder.allOwners(ctx, key, live)
	if err == nil && len(others) == 0 {
		metadata["labels"] = map[string]any{v1alpha1.ManagedByLabel: nil}
	}
	if err == nil {
		_, err = a.editMetadata(ctx, key, live, metadata)
	}
	if err != nil {
		return removal{err: fmt.Errorf("leave the object in place: %w", err)}
	}
	return removal{gone: true, unmanaged: true}
}

// releaseShared gives up our fields by applying none to the object that was read. Should
// the others have let go at the same time, no owner is left, and it is
// deleted.
func (a *remover) releaseShared(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured) removal {
	metadata := map[string]any{}
	if annotations := unlisted(live, a.owner.Name); len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if references, changed := otherReferences(live, a.owner.Name); changed {
		metadata["ownerReferences"] = references
	}
	if len(metadata) > 0 {
		var err error
		if live, err = a.editMetadata(ctx, key, live, metadata); err != nil {
			return removal{err: err}
		}
	}
	nothing := bare(live.GroupVersionKind(), key)
	// An apply creates what does not exist, unless it names the one that it is for.
	nothing.SetUID(live.GetUID())
	nothing.SetResourceVersion(live.GetResourceVersion())
	body, err := nothing.MarshalJSON()
	if err != nil {
		return removal{err: err}
	}
	if live, err = a.applyBody(ctx, key, body, true); err != nil {
		return removal{err: err}
	}
	others, err := a.finder.allOwners(ctx, key, live)
	switch {
	case err != nil:
		return removal{err: err}
	case len(others) > 0:
		return removal{gone: true, released: true}
	}
	return a.deleteRead(ctx, key, live)
}

// deleteRead deletes the object that was read.
func (a *remover) deleteRead(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured) removal {
	if err := a.delete(ctx, key, live); err != nil {
		return removal{err: err}
	}
	return removal{deleted: true, waitsFor: waitsFor(live)}
}

// waitsFor returns what has to happen before the object is gone: the finalizers that are to
// be removed, and what the controller that removes those of a Namespace or of a
// CustomResourceDefinition says of it.
func waitsFor(live *unstructured.Unstructured) string {
	finalizers, conditions := live.GetFinalizers(), ""
	switch live.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "Namespace"}:
		more, _, _ := unstructured.NestedStringSlice(live.Object, "spec", "finalizers")
		finalizers, conditions = append(finalizers, more...), "Namespace"
	case crdKind:
		conditions = "Terminating"
	}
	if len(finalizers) == 0 {
		return ""
	}
	waits := "its finalizers (" + strings.Join(finalizers, ", ") + ")"
	all, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	for _, condition := range all {
		c, _ := condition.(map[string]any)
		text := func(field string) string {
			value, _, _ := unstructured.NestedString(c, field)
			return value
		}
		if conditions != "" && strings.HasPrefix(text("type"), conditions) && text("status") == string(metav1.ConditionTrue) {
			waits += ": " + text("message")
		}
	}
	return waits
}
