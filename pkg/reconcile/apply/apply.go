package apply

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/tracing"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Applier applies the objects of one VidraResource. It is safe for concurrent
// use on different objects.
type Applier struct {
	*plan.Settings
	Destination access.Destination
	// Client reads and writes the objects, as Vidra itself or as a ServiceAccount. It is
	// made by access.Accounts.ClientOf, and nil until the destination is connected.
	Client dynamic.Interface
	// User is the user that Client impersonates; empty for Vidra itself.
	User    string
	Trigger *trigger.Factory
	Index   *trigger.Index
	// Finder finds the other VidraResources that own an object.
	Finder *owners.Finder
	// Limit is how many objects of a stage are applied or removed at a time.
	Limit int
	// Orphans reports that what is to be removed is left in place.
	Orphans bool
}

// Apply does a task: it gathers what is known, and sends requests until the task ends.
func (a *Applier) Apply(ctx context.Context, t plan.Task) (done Result) {
	ctx, span := tracing.Object(ctx, "apply object", t.ID)
	defer func() { span.Done(string(done.Action), done.Err) }()
	k, err := a.gather(ctx, t)
	if err != nil {
		return Result{Task: k.Task, Err: err}
	}
	ctx, warnings := withWarnings(ctx)
	r := decide(k)
	a.begin(r)
	for !r.kind.ends() {
		r = next(r, a.send(ctx, r))
	}
	answered := time.Now()
	done = a.record(r, warnings.all())
	done.Answered = answered
	if r.kind != failed || !k.unmet() {
		return done
	}
	met, err := a.Preflight(ctx, t) // the create has failed: the object may exist
	switch refused := new(owners.Refusal); {
	case errors.As(err, &refused):
		done.Err = err
	case err == nil && (met.Cause.Found != nil || apierrors.IsConflict(done.Err)):
		return a.Apply(ctx, met)
	case apierrors.IsForbidden(done.Err):
		done.Unread = err != nil && !t.Begun
	}
	return done
}

// Preflight reads an object that was never applied, and refuses it if it exists
// and may not be adopted. The cause then has what was found.
func (a *Applier) Preflight(ctx context.Context, t plan.Task) (plan.Task, error) {
	live, err := a.Get(ctx, t.Key)
	if err != nil {
		return t, err
	}
	if live != nil {
		if err := a.mayTake(ctx, t, live); err != nil {
			return t, err
		}
	}
	t.Cause = trigger.Cause{Deleted: live == nil, Found: live}
	t.Begun = t.Begun && live != nil && a.Applied(live)
	return t, nil
}

// mayTake fails if an object that exists may not be applied for the first time. It may
// be if we applied it before, if it names us as an owner, as the first Vidra operator
// noted it, if other VidraResources own it, to own it together, or if it is adopted.
func (a *Applier) mayTake(ctx context.Context, t plan.Task, live *unstructured.Unstructured) error {
	if a.Applied(live) {
		return nil
	}
	others, err := a.Finder.CoOwners(ctx, t.Key, live)
	switch {
	case err != nil:
		return err
	case len(others) >= owners.MaxOwners:
		return owners.Crowded(others)
	case len(others) > 0, slices.Contains(a.Installation.Owners(live.GetAnnotations()), a.Owner.Name):
		return nil
	}
	return a.adopts(ctx, t, live)
}
