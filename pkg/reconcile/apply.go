package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// applier applies the objects of one VidraResource. It is safe for concurrent
// use on different objects.
type applier struct {
	destination Destination
	// client reads and writes the objects, as Vidra itself or as a ServiceAccount. It is
	// made by clientOf, and nil until connect has succeeded that far.
	client dynamic.Interface
	// user is whom client impersonates; Vidra itself if empty.
	user    string
	trigger *trigger.Factory
	index   *trigger.Index
	owner   trigger.Owner
	// installation is the one that this operator belongs to; manager is its field manager
	// for the owner.
	installation v1alpha1.Installation
	manager      string
	// adopt says what is done about objects that exist.
	adopt v1alpha1.AdoptPolicy
	// force reports that what cannot be changed is deleted and created again.
	force bool
	// maxBreakGlass is how long break-glass annotations exempt an object at most.
	maxBreakGlass time.Duration
	// glassRoom is how many more objects may get an answer to such annotations.
	glassRoom func() *breakGlassRoom
	// additions says what is done about what people add to the objects.
	additions additions
	// orphans reports that what is to be removed is left in place.
	orphans bool
	// watched reports whether events of the objects are wanted.
	watched bool
	// vidraResources reads them from the cache.
	vidraResources client.Reader
	// limit is how many objects of a stage are applied or removed at a time.
	limit int
}

// signature is what the objects show of the VidraResource.
func (a *applier) signature() signature { return signatureOf(a.installation, a.owner.Name) }

// result is what came of a task.
type result struct {
	task
	err error
	// live is the object as the API server has it now; nil if err is set, and
	// when a look showed that there was nothing to do.
	live *unstructured.Unstructured
	// digest of what is ours in live, and of what is counted with it.
	digest ownership.Digest
	// compared reports that additions are what people added to the object and what is not reverted.
	compared  bool
	additions []ownership.Change
	// action and fields are what was done; no action if nothing was. reverted is what
	// another writer had changed and the new configuration of the manifest has reverted.
	action   events.Action
	fields   []ownership.Change
	reverted []ownership.Change
	// skipped is why the object was left as it was found; nil if it was not. unknown is
	// why what differs is not known then.
	skipped *skipReason
	unknown string
	// asSkipped reports that the object is as it was left before.
	asSkipped bool
	// glass is the answer to its break-glass annotations.
	glass glassAnswer
	// ending reports that the object is being deleted.
	ending bool
	// replaced is why it is deleted to be created again; empty if it is not. replace is
	// the object that is still to be deleted then.
	replaced string
	replace  *unstructured.Unstructured
	// warnings are what the API server said of it besides.
	warnings []string
}

// apply does a task.
func (a *applier) apply(ctx context.Context, t task) result {
	r := result{task: t}
	if t.cause.Unsure {
		live, err := a.get(ctx, t.key)
		if err != nil {
			r.err = err
			return r
		}
		if t.why == whyDrift && live != nil {
			var inOrder bool
			if inOrder, r.asSkipped = a.inOrder(t, live); inOrder {
				r.cause.Found, r.glass = live, a.answerTo(t.known.entry, t.desired, live)
				return r
			}
		}
		r.cause = trigger.Cause{Deleted: live == nil, Found: live, Since: t.cause.Since}
	}
	if found := r.cause.Found; found != nil && found.GetDeletionTimestamp() != nil {
		if r.ending = true; t.why == whyNew && a.watched {
			a.index.ExpectRemoval(a.owner, t.key) // its end is no drift
		}
		return r
	}
	var left *skipReason
	if left, r.glass = a.skipReason(r.task); left != nil {
		return a.observe(ctx, r, left)
	}
	if a.additions.policy == v1alpha1.AdditionsWarn && a.onlyAdditions(r.task) {
		return a.observeAdditions(r)
	}
	expected, known := a.expected(t)
	ctx, heard := withWarnings(ctx)
	r.live, r.digest, r.err = a.patch(ctx, &r.task)
	r.warnings = heard.all()
	if len(r.warnings) > 0 && (t.sensitive || r.live == nil || ownership.Sensitive(r.live)) {
		r.warnings = []string{"the API server warns of it; the warning is withheld because it may quote a value"}
	}
	switch {
	case r.err == nil:
		if !r.glass.seen {
			r.glass = a.answerTo(t.known.entry, t.desired, r.live)
		}
		r.describe(a.manager, expected, known)
		a.describeAdditions(&r)
		r.ending = t.why != whyDrift && r.live.GetDeletionTimestamp() != nil
		if t.ignored == nil { // otherwise not all of it was sent
			r.warnings = append(r.warnings, alteredByWebhook(t.object(), r.live)...)
		}
	case apierrors.IsInvalid(r.err) && !denied(r.err) && (t.why != whyNew || t.cause.Found != nil):
		refused := r.err
		if r.replace, r.err = a.replaceable(ctx, t, refused); r.err == nil {
			r.ending, r.replaced = true, message(refused, r.sensitive)
		}
	}
	return r
}

// preflight looks at an object that was never applied, and refuses it if it exists
// and may not be taken. The cause then says what was found.
func (a *applier) preflight(ctx context.Context, t task) (task, error) {
	live, err := a.get(ctx, t.key)
	if err != nil {
		return t, err
	}
	if live != nil {
		if err := a.mayTake(ctx, t, live); err != nil {
			return t, err
		}
	}
	t.cause = trigger.Cause{Deleted: live == nil, Found: live}
	t.begun = live != nil && t.known.entry != nil && a.applied(live)
	return t, nil
}

// applied reports whether managedFields say that we applied an object.
func (a *applier) applied(live *unstructured.Unstructured) bool {
	return slices.Contains(ownership.Managers(live, a.manager), a.manager)
}

// get reads an object; nil if it does not exist.
func (a *applier) get(ctx context.Context, key trigger.ObjectKey) (*unstructured.Unstructured, error) {
	live, err := a.resource(key).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && isObject(err, key.Name) {
		return nil, nil
	}
	return live, err
}

// isObject reports whether a NotFound error is about the object name rather than
// about its resource, for which the API server answers without details.
func isObject(err error, name string) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == name
}

func (a *applier) resource(key trigger.ObjectKey) dynamic.ResourceInterface {
	return a.client.Resource(key.GVR).Namespace(key.Namespace)
}

// mayTake fails if an object that exists may not be applied for the first time. It may
// be if we applied it before, if it names us as an owner, as the first Vidra operator
// noted it, if other VidraResources own it, to own it together, or if it is adopted.
func (a *applier) mayTake(ctx context.Context, t task, live *unstructured.Unstructured) error {
	if a.applied(live) {
		return nil
	}
	others, err := a.coOwners(ctx, t.key, live)
	switch {
	case err != nil:
		return err
	case len(others) >= maxOwners:
		return crowded(others)
	case len(others) > 0, slices.Contains(a.installation.Owners(live.GetAnnotations()), a.owner.Name):
		return nil
	}
	return a.adopts(ctx, t, live)
}
