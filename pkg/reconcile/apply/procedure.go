package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// End is the end of a task.
type End int

// The ends of tasks.
const (
	// Undecided is the state before the end: calls are needed.
	Undecided    End = iota
	AsIntended       // the object is as expected
	AsSkipped        // the object is in the state of its last skip
	BeingDeleted     // the object is being deleted
	Unchanged        // only users added something, which is reported
	Observed         // the object is not reverted
	Applied          // the object is as the manifest says
	Replaced         // the object is to be deleted and created again
	Completed        // the object has ended, and its controller has removed it
	Failed
	Unread // the creation failed, and so did the read of an object in its place
)

// procedure brings one object to the state of its task. Its methods are the steps in the order of their calls; a step returns the object
// after it.
type procedure struct {
	known known
	// result is the result, as far as the steps know it; record adds the rest.
	result Result
	// refused is the refusal of the change of an object that is replaced.
	refused error
	api     objectAPI
	// body is the applied configuration that is sent: without the ignored fields after their release.
	body []byte
	// rechecks counts how often the object was read again because another client had written it before the first apply.
	rechecks int
	// confirmed reports that an apply without an answer was confirmed, or can not be: it is read once.
	confirmed bool
	// edit is the edit that is being undone; nil otherwise. edited is the object with it.
	edit   *ownership.Undo
	edited *unstructured.Unstructured
	// sent is the object at the time of the last apply that undid an edit; nil before the first one.
	sent *unstructured.Unstructured
	// versions are versions of the object during the task. They decide with others whether values are shown.
	versions []*unstructured.Unstructured
}

func newProcedure(k known, api objectAPI) *procedure {
	return &procedure{known: k, api: api, body: k.task.Object.Body}
}

// judge returns the end of a task that needs no call.
func (p *procedure) judge() End {
	switch found := p.known.task.Cause.Found; {
	case p.known.completed:
		return Completed
	case p.known.asExpected:
		return AsIntended
	case found != nil && found.GetDeletionTimestamp() != nil && !p.known.task.Cause.Deleted: // its watch shows its end
		return BeingDeleted
	case !p.known.task.Decision.Reverts() && (found == nil || p.known.task.Decision.Silent):
		return Observed
	case p.known.task.Decision.Reverts() && p.known.settings.Additions.Policy == v1alpha1.AdditionsWarn && p.known.onlyAdditions():
		return Unchanged
	}
	return Undecided
}

// run does the task, unless judge has ended it.
func (p *procedure) run(ctx context.Context) {
	switch {
	case p.result.End == Observed:
		p.result.Change.Fields = p.known.byTools(p.known.task.Cause.Found).Changes
	case p.result.End != Undecided:
	case !p.known.task.Decision.Reverts():
		p.result.End = Observed
		p.observe(ctx)
	default:
		live, err := p.converge(ctx)
		if errors.Is(err, errExempt) {
			p.result.End = Observed
			p.observe(ctx)
			return
		}
		if p.replaceable(err) && p.known.task.Why != plan.WhyDrift {
			live, err = p.withoutDefaults(ctx, err)
		}
		if p.replaceable(err) {
			p.replace(ctx, err)
			return
		}
		if p.result.End, p.result.Applied.Live, p.result.Err = Applied, live, err; err != nil {
			p.result.End, p.result.Applied.Live = Failed, nil
		}
	}
}

// replaceable reports whether an error refuses the object as it is, so that the API server may accept it as a new one.
func (p *procedure) replaceable(err error) bool {
	return err != nil && apierrors.IsInvalid(err) && !object.Denied(err) && (p.known.task.Why != plan.WhyNew || p.known.task.Cause.Found != nil)
}

// converge brings the object to its configuration.
func (p *procedure) converge(ctx context.Context) (live *unstructured.Unstructured, err error) {
	if p.known.unmet() || p.known.task.Cause.Deleted && (p.known.task.Why != plan.WhyNew || p.known.task.Object.Lifetime.Apply.Leaves()) {
		live, err = p.create(ctx)
	} else {
		live, err = p.change(ctx)
	}
	if err != nil || p.known.task.Object.Lifetime.Apply.Leaves() && p.known.task.Cause.Found != nil {
		return live, err
	}
	return p.finish(ctx, live)
}

// ErrForeign is the end of a task about an object that another client created, and that stays as it is by the annotation in
// the manifest.
var ErrForeign = errors.New("it exists, and its annotation " + v1alpha1.ApplyAnnotation + " has Vidra change nothing of it")

// errExempt is the end of the creation of an object that exists without its label, and whose annotations exempt it.
var errExempt = errors.New("its annotations exempt it")

// finish follows the apply that brought the object to its configuration.
func (p *procedure) finish(ctx context.Context, live *unstructured.Unstructured) (_ *unstructured.Unstructured, err error) {
	if p.known.settings.Additions.Policy == v1alpha1.AdditionsRevert {
		if live, err = p.removeAdditions(ctx, live); err != nil {
			return nil, err
		}
	}
	if p.known.task.Why == plan.WhyNew && p.known.settings.Claimant.LeftByFirstOperator(live) {
		if live, err = editManagedFields(ctx, p.api, live, withoutFirstOperator); err != nil {
			return nil, fmt.Errorf("release the fields of the first operator: %w", err)
		}
	}
	if missing := p.known.settings.Claimant.Signature().MissingLabel(live); missing != "" {
		return nil, object.AsLasting(fmt.Errorf("the API server took it without its label %s, by which it is watched: look for a mutating webhook that removes the label", missing))
	}
	return live, nil
}

// create creates the object. An object that lost its watched label looks deleted, too: it is changed then.
// applyUnmet reads the object in the place of one that was never applied.
func (p *procedure) create(ctx context.Context) (*unstructured.Unstructured, error) {
	anew := p.known.task.Object.Unstructured()
	anew.SetResourceVersion(object.NoVersion)
	live, err := p.applyObject(ctx, anew)
	live, err = p.confirm(ctx, live, err)
	switch {
	case err == nil && p.known.task.Object.Rules.Ignored:
		return p.release(ctx, live)
	case err == nil:
		return live, nil
	case p.known.unmet(), !apierrors.IsConflict(err) && !object.Unmergeable(err):
		return nil, err
	}
	found, readErr := p.api.get(ctx)
	switch {
	case readErr != nil:
		return nil, readErr
	case found == nil && p.known.task.Object.Lifetime.Apply.Leaves(): // it is gone again
		return nil, err
	}
	p.known.task.Cause.Found = found
	if !p.known.task.Object.Lifetime.Apply.Leaves() {
		if p.known.task.Decision, p.known.glass = p.known.settings.Decide(p.known.task); !p.known.task.Decision.Reverts() {
			return nil, errExempt
		}
	}
	return p.change(ctx)
}

// change changes the object, which exists unless it is new.
func (p *procedure) change(ctx context.Context) (*unstructured.Unstructured, error) {
	live := p.known.task.Cause.Found
	if live != nil && p.known.task.Object.Lifetime.Apply.Leaves() {
		if !p.known.settings.Claimant.Applied(live) {
			return nil, ErrForeign
		}
		return live, nil
	}
	if p.known.task.Why == plan.WhyChanged && live != nil {
		// A field of owners that state no lasting wish would stay in the object if the manifest has dropped it.
		var err error
		live, err = editManagedFields(ctx, p.api, live, func(live *unstructured.Unstructured) ([]any, bool) {
			return ownership.WithoutStaleOwners(live, p.known.settings.Claimant.Manager, p.known.settings.Tools)
		})
		if err != nil {
			return nil, fmt.Errorf("remove other owners of the applied fields from metadata.managedFields: %w", err)
		}
		p.known.task.Cause.Found = live
	}
	switch {
	case p.known.settings.Additions.Policy == v1alpha1.AdditionsRevert && p.known.onlyAdditions():
		return live, nil
	case p.isEdited(p.known.task.Why, live):
		edit := p.known.undoOf()
		p.known.task.Cause.Before = p.known.before // for another reconcile
		p.known.before, _ = p.known.beforeEdit()
		return p.undo(ctx, edit, live, nil)
	case p.known.task.Why == plan.WhyChanged || p.known.task.Why == plan.WhyRetry:
		return p.applyWithAlias(ctx, live)
	}
	return p.apply(ctx, p.known.task.Why, live)
}

// isEdited reports whether an object holds an edit that is to be undone.
func (p *procedure) isEdited(as plan.Why, found *unstructured.Unstructured) bool {
	if as == plan.WhyNew || found == nil {
		return false
	}
	return as == plan.WhyDrift || p.known.expectedKnown && !asExpected(found, p.known.expected)
}

const (
	// maxRechecks is how often an object is read again that other clients keep writing, before the apply is left to the next reconcile.
	maxRechecks = 3
	// maxRepairs is how often unreadable list items are removed before an apply.
	maxRepairs = 8
)

// apply applies the configuration for a reason, which is WhyDrift for the removal of additions. live is the object as it is known; nil if
// it is unknown. Fields that ignore rules name are released before the apply, or after it if it creates the object.
//
// The first apply of a new task about an object that exists, such as an adoption, is for the object that was judged: it is refused after a write of
// another client.
func (p *procedure) apply(ctx context.Context, as plan.Why, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	p.body = p.known.task.Object.Body
	live, err := p.editOwn(ctx, live, p.withoutBindings)
	if err != nil {
		return nil, fmt.Errorf("release the bindings of the object: %w", err)
	}
	if p.known.task.Object.Rules.Ignored && cmp.Or(live, p.known.base) != nil {
		released, body, err := p.releaseFields(ctx, live)
		if err != nil {
			return nil, err
		}
		live, p.body = released, body
	}
	exact, force := as == plan.WhyNew && live != nil, false
	for repairs, readable := 0, as == plan.WhyNew; ; {
		forced, err := p.forces(ctx, as, live, force)
		if err != nil {
			return nil, err
		}
		written, err := p.send(ctx, live, exact, forced)
		switch {
		case err == nil && p.known.task.Object.Rules.Ignored && live == nil && p.known.base == nil:
			return p.release(ctx, written)
		case err == nil:
			return written, nil
		case object.Unmergeable(err) && !readable:
			repaired, err := p.replaceLists(ctx, err)
			if err != nil {
				return nil, err
			}
			// An error names the first list of each list item alone.
			repairs++
			readable = !repaired || repairs == maxRepairs
		case exact && apierrors.IsConflict(err) && len(owners.FieldConflictsIn(err)) == 0:
			return p.applyAgain(ctx, as, err)
		case forced || !apierrors.IsConflict(err):
			return nil, err
		default:
			found, others, unknown := p.conflictingOwners(ctx, live)
			if unknown != nil {
				return nil, unknown
			}
			if found == nil { // it is gone, and is tried again
				return nil, err
			}
			// Fields are taken from all field managers except other VidraResources: two of them would take the field from
			// each other forever. Where there are other VidraResources, the fields are taken from the object about which the
			// decision was made.
			switch refused := p.ownershipConflict(as, err, found, others); {
			case refused == nil && (exact || as == plan.WhyDrift || as == plan.WhyChanged && len(others) == 0):
				force = true
			case refused == nil && as == plan.WhyNew: // another client may have created it
				return p.applyAgain(ctx, as, err)
			case refused == nil:
				live, exact, force = found, true, true
			case as == plan.WhyNew && live != nil && !slices.Contains(ownership.Managers(live, p.known.settings.Claimant.Manager), p.known.settings.Claimant.Manager):
				return nil, errors.Join(refused, claim(ctx, p.api, p.known.settings, p.known.task))
			default:
				return nil, refused
			}
		}
	}
}

// send sends the apply. With exact, it fails if another client has written live since.
func (p *procedure) send(ctx context.Context, live *unstructured.Unstructured, exact, force bool) (written *unstructured.Unstructured, err error) {
	body := p.body
	if exact {
		if body, err = withVersion(body, live.GetResourceVersion()); err != nil {
			return nil, err
		}
	}
	written, err = p.api.apply(ctx, body, force)
	return p.confirm(ctx, written, err)
}

// withVersion returns an applied configuration for an object of a resourceVersion alone.
func withVersion(body []byte, version string) ([]byte, error) {
	configuration := &unstructured.Unstructured{}
	if err := configuration.UnmarshalJSON(body); err != nil {
		return nil, err
	}
	configuration.SetResourceVersion(version)
	return desired.Encode(configuration)
}

// applyObject applies an object, and takes fields from all other managers.
func (p *procedure) applyObject(ctx context.Context, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	body, err := desired.Encode(u)
	if err != nil {
		return nil, err
	}
	return p.api.apply(ctx, body, true)
}

// forces reports whether an apply takes fields from all other managers. A heal does while the VidraResource
// is the only owner of the object.
func (p *procedure) forces(ctx context.Context, as plan.Why, live *unstructured.Unstructured, force bool) (bool, error) {
	if force || as != plan.WhyDrift || live == nil {
		return force || as == plan.WhyDrift, nil
	}
	others, err := p.api.coOwners(ctx, live)
	return len(others) == 0, err
}

// confirm reads the object after an unanswered apply, which may have reverted an edit: that is reported, and a
// later edit of the object would hide it. It returns the answer of the apply unless the edit is undone.
func (p *procedure) confirm(ctx context.Context, written *unstructured.Unstructured, err error) (*unstructured.Unstructured, error) {
	if err == nil || p.confirmed || p.known.task.Why != plan.WhyDrift || !p.known.expectedKnown || !object.Unanswered(err) || object.Denied(err) || object.Unmergeable(err) {
		return written, err
	}
	p.confirmed = true
	live, readErr := p.api.get(ctx)
	if readErr != nil || live == nil || !asExpected(live, p.known.expected) || p.edit != nil && len(p.edit.Added(p.edited, live).Patch) > 0 {
		return written, err
	}
	return live, nil
}

// applyAgain applies the configuration after another client has written the object. refused is the answer of the last apply.
func (p *procedure) applyAgain(ctx context.Context, as plan.Why, refused error) (*unstructured.Unstructured, error) {
	p.rechecks++
	var found *unstructured.Unstructured
	var err error
	if as == plan.WhyNew {
		var met plan.Task
		met, err = adopter{p.known.settings, p.api}.preflight(ctx, p.known.task)
		found = met.Cause.Found
	} else {
		found, err = p.api.get(ctx)
	}
	switch _, rivals := errors.AsType[*owners.Conflict](err); {
	case rivals && found != nil && !p.known.settings.Claimant.Applied(found): // the marks alone would remove the fields that we applied
		return nil, errors.Join(err, claim(ctx, p.api, p.known.settings, p.known.task))
	case err != nil:
		return nil, err
	case found == nil, p.rechecks > maxRechecks: // it is gone, or others write it without end
		return nil, refused
	}
	p.known.task.Cause.Found = found
	return p.apply(ctx, as, found)
}

// conflictingOwners returns the other VidraResources that own the object, and the object that they own; nil if it is gone.
func (p *procedure) conflictingOwners(ctx context.Context, live *unstructured.Unstructured) (_ *unstructured.Unstructured, others []owners.CoOwner, err error) {
	if live == nil {
		if live, err = p.api.get(ctx); err != nil || live == nil {
			return nil, nil, err
		}
	}
	others, err = p.api.conflicting(ctx, live)
	return live, others, err
}

// ownershipConflict returns an owners.Conflict if the apply was refused for a field that another
// VidraResource owns. A field manager of another installation counts, too, except where an edit is reverted
// or spec.adopt is Always: any user who may edit the object can apply it under such a name. others are
// the other owners of the object.
func (p *procedure) ownershipConflict(as plan.Why, refused error, live *unstructured.Unstructured, others []owners.CoOwner) error {
	var elsewhere []owners.CoOwner
	if p.known.settings.Adopt != v1alpha1.AdoptAlways && !p.isEdited(as, live) {
		elsewhere = p.known.settings.Claimant.OwnersElsewhere(p.known.task.Object.Key, live, others)
	}
	return owners.Contested(refused, live, p.known.task.Object.Unstructured(), others, elsewhere, as == plan.WhyDrift)
}

// claim notes on an object that another VidraResource holds, and that stays unapplied for
// that reason, that we want it, too: our mark alone. Otherwise the other one
// would be its last owner, and would delete it when it releases it: a Namespace with all
// that we have in it, for example.
func claim(ctx context.Context, api objectAPI, settings *plan.Settings, t plan.Task) error {
	mark := object.Bare(t.Object.GVK, t.Object.Key.Namespace, t.Object.Key.Name)
	settings.Claimant.Signature().Mark(mark)
	body, err := mark.MarshalJSON()
	if err != nil {
		return err
	}
	if _, err := api.apply(ctx, body, false); err != nil {
		return fmt.Errorf("claim the object: %w", err)
	}
	return nil
}
