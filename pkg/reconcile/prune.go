package reconcile

import (
	"cmp"
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

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
	// gone says that the object is no longer ours: it does not exist, or others
	// own it.
	gone bool
	// deleted says that a deletion was accepted, now or before. waitsFor is what the
	// object waits for then, as far as it is known.
	deleted  bool
	waitsFor string
	// released says that our fields were given up and others still own it.
	released bool
	// orphaned says that it was left in place, as nobody's.
	orphaned bool
	// missing says that its kind is not served.
	missing bool
	// key is the object.
	key trigger.ObjectKey
	err error
	// sensitive says that its values must not be shown.
	sensitive bool
}

// remove lets go of an object: it deletes the object if nobody else owns it
// with us, and otherwise gives up our fields only. What is not ours at this
// moment is left alone.
func (a *applier) remove(ctx context.Context, e *v1alpha1.ManagedResourceStatus) removal {
	mapping, err := a.destination.Mapping(ctx, gvkOf(e))
	switch {
	case meta.IsNoMatchError(err):
		return removal{missing: true}
	case err != nil:
		return removal{err: err}
	}
	key := trigger.ObjectKey{Cluster: a.destination.Name(), GVR: mapping.GVR, Namespace: e.Namespace, Name: e.Name}
	if a.watched {
		a.index.Leave(a.owner, key)
	}
	var done removal
	// Somebody may write to the object between our look and our deletion.
	_ = retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		done = a.removeLive(ctx, key, gvkOf(e))
		return done.err
	})
	done.key = key
	if done.gone {
		a.index.Forget(a.owner, key)
	}
	return done
}

func (a *applier) removeLive(ctx context.Context, key trigger.ObjectKey, gvk schema.GroupVersionKind) removal {
	live, err := a.get(ctx, key)
	switch {
	case err != nil && kindGone(err, key.Name):
		a.destination.Invalidate(key.GVR.Group)
		return removal{missing: true}
	case err != nil:
		return removal{err: err}
	case live == nil, !a.owns(live):
		return removal{gone: true}
	}
	done := a.discard(ctx, key, gvk, live)
	done.sensitive = ownership.Sensitive(live)
	return done
}

// discard lets go of an object that is ours.
func (a *applier) discard(ctx context.Context, key trigger.ObjectKey, gvk schema.GroupVersionKind, live *unstructured.Unstructured) removal {
	switch {
	case live.GetDeletionTimestamp() != nil:
		return removal{deleted: true, waitsFor: waitsFor(live)}
	case a.orphans || live.GetAnnotations()[v1alpha1.KeepAnnotation] == "true":
		return a.orphan(ctx, key, live)
	case a.shared(live):
		return a.handOver(ctx, key, gvk, live)
	}
	return a.delete(ctx, key, live)
}

// handOver leaves an object to the others that own it, and has them look at it. Who only
// notes that the object is wanted takes over what we leave, as it is: without it the
// object might be empty, or refused, until then.
func (a *applier) handOver(ctx context.Context, key trigger.ObjectKey, gvk schema.GroupVersionKind, live *unstructured.Unstructured) removal {
	done := removal{}
	if staked(live, a.manager) {
		done = a.orphan(ctx, key, live)
	} else if done = a.release(ctx, key, gvk); apierrors.IsInvalid(done.err) {
		done = a.orphan(ctx, key, live)
	}
	if done.orphaned {
		done.orphaned, done.released = false, true
	}
	if done.released {
		for _, name := range v1alpha1.Owners(live.GetAnnotations()) {
			if name != a.owner.Name {
				a.trigger.EnqueueAll(trigger.Owner{Name: name})
			}
		}
	}
	return done
}

// owns says whether we applied the object, or it names us as an owner.
func (a *applier) owns(live *unstructured.Unstructured) bool {
	return slices.Contains(ownership.Managers(live, a.manager), a.manager) ||
		slices.Contains(v1alpha1.Owners(live.GetAnnotations()), a.owner.Name)
}

// release gives up our fields by applying none. Should the others have let go
// at the same time, nobody owns the object any more, and it is deleted.
func (a *applier) release(ctx context.Context, key trigger.ObjectKey, gvk schema.GroupVersionKind) removal {
	body, err := bare(gvk, key).MarshalJSON()
	if err != nil {
		return removal{err: err}
	}
	live, err := a.send(ctx, key, body, true)
	if err != nil {
		return removal{err: err}
	}
	if len(ownership.Managers(live, v1alpha1.FieldManagerPrefix)) > 0 {
		return removal{gone: true, released: true}
	}
	return a.delete(ctx, key, live)
}

// bare is an object without content.
func bare(gvk schema.GroupVersionKind, key trigger.ObjectKey) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	return u
}

// delete deletes exactly the object that was looked at.
func (a *applier) delete(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured) removal {
	uid, version := live.GetUID(), live.GetResourceVersion()
	err := a.resource(key).Delete(ctx, key.Name, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return removal{err: err}
	}
	return removal{deleted: true, waitsFor: waitsFor(live)}
}

// waitsFor says what has to happen before the object is gone: the finalizers that are to
// be removed, and what whoever removes those of a Namespace or of a
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
