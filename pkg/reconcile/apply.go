package reconcile

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// settings is what holds for all objects of one VidraResource in one reconcile.
type settings struct {
	claimant
	// adopt says what is done about objects that exist.
	adopt v1alpha1.AdoptPolicy
	// force reports that what cannot be changed is deleted and created again.
	force bool
	// maxBreakGlass is how long break-glass annotations exempt an object at most.
	maxBreakGlass time.Duration
	// glassRoom is how many more objects may get an answer to such annotations.
	glassRoom func() *breakGlassRoom
	// additions says what is done about what users add to the objects.
	additions additions
	// watched reports whether events of the objects are wanted.
	watched bool
}

// signature is what the objects show of the VidraResource.
func (s *claimant) signature() signature { return signatureOf(s.installation, s.owner.Name) }

// applier applies the objects of one VidraResource. It is safe for concurrent
// use on different objects.
type applier struct {
	*settings
	destination Destination
	// client reads and writes the objects, as Vidra itself or as a ServiceAccount. It is
	// made by clientOf, and nil until connect has succeeded that far.
	client dynamic.Interface
	// user is whom client impersonates; Vidra itself if empty.
	user    string
	trigger *trigger.Factory
	index   *trigger.Index
	// finder finds the other VidraResources that own an object.
	finder *coOwnerFinder
	// limit is how many objects of a stage are applied or removed at a time.
	limit int
	// orphans reports that what is to be removed is left in place.
	orphans bool
}

// apply does a task: it gathers what is known, and sends requests until the task ends.
func (a *applier) apply(ctx context.Context, t task) result {
	k, err := a.gather(ctx, t)
	if err != nil {
		return result{task: k.task, err: err}
	}
	ctx, warnings := withWarnings(ctx)
	r := decide(k)
	a.begin(r)
	for !r.kind.ends() {
		r = next(r, a.send(ctx, r))
	}
	return a.record(r, warnings.all())
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
func (s *claimant) applied(live *unstructured.Unstructured) bool {
	return slices.Contains(ownership.Managers(live, s.manager), s.manager)
}

// mayTake fails if an object that exists may not be applied for the first time. It may
// be if we applied it before, if it names us as an owner, as the first Vidra operator
// noted it, if other VidraResources own it, to own it together, or if it is adopted.
func (a *applier) mayTake(ctx context.Context, t task, live *unstructured.Unstructured) error {
	if a.applied(live) {
		return nil
	}
	others, err := a.finder.coOwners(ctx, t.key, live)
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
