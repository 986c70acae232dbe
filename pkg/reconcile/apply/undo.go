package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

const (
	// lastScope is how much of an edit is undone at last. More is undone only if the API server calls the object invalid.
	lastScope = ownership.SinceApply
	// maxUndos is how often the requests are sent that undo an edit, while the object is written to between them.
	maxUndos = 8
	// maxReclaims is how often it is tried to change managedFields of an object that is written
	// to at the same time. A controller often writes once after an edit.
	maxReclaims = 2
)

// undoOf describes the edit that was found, in the scope BesideRemoved.
func (k known) undoOf() ownership.Undo {
	before, observed := k.beforeEdit()
	u := ownership.Undo{
		Manager: k.settings.Claimant.Manager, Prefix: v1alpha1.FieldManagerPrefix, Configuration: k.task.Object.Unstructured().Object,
		Keep: k.task.Object.Rules.Exemptions.Exempts, Known: k.disclosureWith(), Unobserved: !observed,
	}
	if before != nil {
		u.Before, u.BeforeKnown = *before, true
	}
	return u
}

// withoutDefaults applies a changed configuration that the API server called invalid. Fields without an owner may be in the
// way, such as the defaults of a value that the manifest has changed. They are reclaimed and removed like additions, once a dry run has
// shown that the API server accepts the object without them. It returns refused if nothing of that kind is in the way.
func (p *procedure) withoutDefaults(ctx context.Context, refused error) (*unstructured.Unstructured, error) {
	edit := p.known.undoOf()
	edit.Scope, edit.Refused = ownership.Defaults, object.FieldNames(refused)
	live, err := p.api.get(ctx)
	if err != nil || live == nil {
		return nil, refused
	}
	defaults := edit.Added(live, live)
	if len(defaults.Patch) == 0 || p.tryWithout(ctx, defaults, live) != nil {
		return nil, refused
	}
	if live, err = p.undo(ctx, edit, live, refused); err != nil {
		return nil, err
	}
	return p.finish(ctx, live)
}

// tryWithout asks whether the API server accepts the apply without additions.
func (p *procedure) tryWithout(ctx context.Context, additions ownership.Addition, live *unstructured.Unstructured) error {
	var configuration map[string]any
	if err := json.Unmarshal(p.body, &configuration); err != nil {
		return err
	}
	_, err := p.api.patch(ctx, additions.Apply(live, configuration, p.known.settings.Claimant.Manager), metav1.DryRunAll)
	return err
}

// undo undoes an edit of the object, or removes its defaults, and applies the configuration. invalid is the refusal of an apply before.
//
// Each attempt reclaims the additions, which moves their ownership to the manager of the VidraResource, and then applies,
// which removes them. An operator that ends between the two finds an unexpected object, and applies.
//
// Where the object is written to meanwhile, the apply is sent all the same: it reverts as much as it can, and its answer is the
// object of the next attempt. Additions of the user who made the edit are a part of the edit meanwhile.
func (p *procedure) undo(ctx context.Context, edit ownership.Undo, found *unstructured.Unstructured, invalid error) (*unstructured.Unstructured, error) {
	p.edit, p.edited = &edit, found
	live := found
	var unclaimed *unstructured.Unstructured // the object before anything was reclaimed that no apply has removed
	undone := false                          // the last apply was accepted
	for range maxUndos {
		previous := live
		p.versions = append(p.versions, previous)
		got := p.reclaim(ctx, edit, found, live)
		if got.err != nil {
			return nil, p.abandon(ctx, live, unclaimed, got.err)
		}
		if got.complete && edit.Scope != ownership.Defaults { // a default is no part of an edit
			p.result.Change.Added = p.result.Change.Added.And(got.addition)
		}
		switch {
		case got.live != nil:
			live, unclaimed = got.live, cmp.Or(unclaimed, previous)
		case got.complete && undone:
			return live, nil // others added the rest: their events show whether with an edit
		case got.complete && invalid != nil:
			if edit.Scope++; edit.Scope > lastScope {
				return nil, p.giveUp(ctx, live, unclaimed, invalid)
			}
			continue
		}
		p.sent = live
		written, err := p.apply(ctx, p.known.task.Why, live)
		switch {
		case err == nil && got.complete && p.raced(ownership.Others(written, v1alpha1.FieldManagerPrefix)) == nil:
			return written, nil
		case err == nil:
			live, unclaimed, undone, invalid = written, nil, true, nil
			edit.Editors = edit.EditorsOf(found)
			continue
		case object.Denied(err):
			return nil, p.giveUp(ctx, live, unclaimed, err)
		case !apierrors.IsInvalid(err):
			return nil, p.abandon(ctx, live, unclaimed, err)
		case got.complete && undone:
			return p.giveBack(ctx, live, previous)
		}
		if invalid = err; !got.complete { // the answer to an apply would have been the object of the next attempt
			fresh, err := p.api.get(ctx)
			switch {
			case err != nil:
				return nil, p.abandon(ctx, live, unclaimed, err)
			case fresh == nil:
				return nil, invalid // its deletion is another event
			}
			live, undone = fresh, false
			continue
		}
		if edit.Scope++; edit.Scope > lastScope {
			return nil, p.giveUp(ctx, live, unclaimed, invalid)
		}
		if !ownership.Recorded(live) {
			// managedFields were cleared. After this apply the API server records which fields the object
			// has: the knowledge that is needed to take one of them.
			marks := object.Bare(p.known.task.Object.GVK, p.known.task.Object.Key.Namespace, p.known.task.Object.Key.Name)
			marks.SetResourceVersion(live.GetResourceVersion()) // another write makes it fail
			p.known.settings.Claimant.Signature().Mark(marks)
			marked, err := p.applyObject(ctx, marks)
			if err != nil {
				return nil, p.abandon(ctx, live, unclaimed, err)
			}
			live = marked
		}
	}
	return nil, p.giveUp(ctx, live, unclaimed, fmt.Errorf("it was changed each of the %d times that the changes were reverted; it is tried again", maxUndos))
}

// reclaimed is the result of a reclaim.
type reclaimed struct {
	addition ownership.Addition
	// live is the object after it; nil if nothing was taken.
	live *unstructured.Unstructured
	// complete reports that everything was taken. Otherwise others write to the object again and again.
	complete bool
	err      error
}

// reclaim takes the ownership of the additions that are still there. live is the object as it is known.
func (p *procedure) reclaim(ctx context.Context, edit ownership.Undo, found, live *unstructured.Unstructured) reclaimed {
	values := true
	for try := 1; ; try++ {
		addition := edit.Added(found, live)
		if len(addition.Patch) == 0 {
			return reclaimed{addition: addition, complete: true}
		}
		operations := addition.Patch
		if values {
			operations = slices.Concat(addition.Patch, addition.Empty)
		}
		taken, err := p.api.patch(ctx, operations)
		switch {
		case err == nil:
			return reclaimed{addition: addition, live: taken, complete: true}
		case object.Denied(err), !apierrors.IsInvalid(err) && !apierrors.IsConflict(err):
			return reclaimed{err: fmt.Errorf("reclaim what was added: %w", err)}
		case values && len(addition.Empty) > 0 && object.FieldNames(err) != nil:
			// The object is invalid without the additions: an apply of the fields beside them may be needed before.
			if values = false; p.sent == nil && len(addition.Lost) > 0 {
				return reclaimed{addition: addition}
			}
			continue
		case try == maxReclaims:
			return reclaimed{addition: addition}
		}
		if live, err = p.api.get(ctx); err != nil {
			return reclaimed{err: err}
		}
		if live == nil { // its deletion is another event
			return reclaimed{complete: true}
		}
	}
}

// raced returns the paths of other owners before the undone edits, if they own a field
// after the apply that is new since both then and the time of the request; nil otherwise.
func (p *procedure) raced(others ownership.Paths) *ownership.Paths {
	if p.sent == nil || p.known.before == nil {
		return nil
	}
	added := others.Minus(*p.known.before)
	if added == "" || added.Minus(ownership.Others(p.sent, v1alpha1.FieldManagerPrefix)) == "" {
		return nil
	}
	return p.known.before
}

// abandon returns the error of a request. Fields that were reclaimed since unclaimed are returned if the API server refused the request. An
// unanswered request may have been executed: then the next apply finishes the undo, also after a restart of the operator.
func (p *procedure) abandon(ctx context.Context, live, unclaimed *unstructured.Unstructured, err error) error {
	if apierrors.IsNotFound(err) || object.Unanswered(err) && !object.Denied(err) {
		return err
	}
	return p.giveUp(ctx, live, unclaimed, err)
}

// giveUp returns an error after it returned the fields that were reclaimed since unclaimed, so that a later
// heal finds the whole edit.
func (p *procedure) giveUp(ctx context.Context, live, unclaimed *unstructured.Unstructured, err error) error {
	if unclaimed == nil {
		return err
	}
	_, failure := p.giveBack(ctx, live, unclaimed)
	return errors.Join(err, failure)
}

// giveBack returns the fields that were reclaimed since previous to other managers. The contents of emptied maps and lists are a part of the edit, and
// stay away.
func (p *procedure) giveBack(ctx context.Context, live, previous *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, err := editManagedFields(ctx, p.api, live, func(live *unstructured.Unstructured) ([]any, bool) {
		return ownership.RestoreEntries(live, previous, p.known.settings.Claimant.Manager), true
	})
	if err != nil {
		return nil, fmt.Errorf("return what was reclaimed: %w", err)
	}
	return live, nil
}
