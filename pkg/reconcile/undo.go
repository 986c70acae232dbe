package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// exemptIn are the ignore rules for an object, with all their paths: what a user adds to the
// object is not in the manifest.
func exemptIn(rules []*rule, obj *unstructured.Unstructured) []managedPaths {
	var exempt []managedPaths
	for _, r := range rules {
		if !r.covers(obj) {
			continue
		}
		m := managedPaths{managers: r.spec.Managers}
		for _, pointer := range r.spec.Paths {
			m.paths = append(m.paths, parsePointer(pointer))
		}
		exempt = append(exempt, m)
	}
	return exempt
}

// exempts reports whether the ignore rules leave a path to a field manager.
func (d *desired) exempts(manager string, path []string) bool {
	return slices.ContainsFunc(d.exempt, func(m managedPaths) bool {
		return (len(m.managers) == 0 || slices.Contains(m.managers, manager)) &&
			(len(m.paths) == 0 || slices.ContainsFunc(m.paths, func(above []string) bool { return isBelow(path, above) }))
	})
}

// edited reports whether what was found of an object holds an edit that is to be undone.
func (a *applier) edited(t task) bool {
	if t.why == whyNew || t.cause.Found == nil {
		return false
	}
	expected, known := a.expected(t)
	return t.why == whyDrift || known && !asExpected(t.cause.Found, expected)
}

// undo describes the edit that was found, in the scope BesideRemoved.
func (a *applier) undo(t task) ownership.Undo {
	u := ownership.Undo{
		Manager: a.manager, Prefix: v1alpha1.FieldManagerPrefix, Configuration: t.object().Object,
		Keep: t.exempts,
	}
	switch {
	case t.cause.Before != nil:
		u.Before, u.BeforeKnown = *t.cause.Before, true
	case a.watched:
		u.Before, u.BeforeKnown = a.index.Before(a.owner, t.key)
	}
	return u
}

// scopes are how much of an edit is undone, in the order in which it is tried: more only if
// the API server calls the object invalid.
var scopes = []ownership.Scope{ownership.BesideRemoved, ownership.BesideChanged, ownership.Everything}

// sendUndoing sends the apply, and has what the edit added removed by it: it moves the
// ownership of the additions to the manager of the VidraResource before. An operator that
// ends between the two finds the object differing from what it expects, and applies.
//
// Where the object is written to meanwhile, the apply is sent all the same: it reverts what
// it can, and its answer is the object to go on with. What the user who made the edit adds
// meanwhile is a part of the edit.
func (a *applier) sendUndoing(ctx context.Context, t *task) (*unstructured.Unstructured, error) {
	if !a.edited(*t) {
		return a.sendWithoutIgnored(ctx, *t)
	}
	u := undoing{applier: a, task: t, undo: a.undo(*t), live: t.cause.Found}
	if u.undo.BeforeKnown {
		t.before = &u.undo.Before
		t.cause.Before = t.before // for another attempt
	}
	for range maxUndos {
		if undone, err := u.attempt(ctx); undone != nil || err != nil {
			return undone, err
		}
	}
	return nil, fmt.Errorf("it was changed each of the %d times that the changes were reverted; it is tried again", maxUndos)
}

// undoing is the state of an edit of an object that is being undone.
type undoing struct {
	*applier
	task *task
	undo ownership.Undo
	// live is the object as it is known now.
	live *unstructured.Unstructured
	// scope is the index in scopes of how much is undone.
	scope int
	// unclaimed is the object before anything was reclaimed that no apply has removed; nil if
	// nothing was.
	unclaimed *unstructured.Unstructured
	// applied reports whether the last apply was accepted, and invalid is why it was not.
	applied bool
	invalid error
}

// attempt reclaims what was added and applies. It returns the object if that has undone the
// edit, and nil if it takes another attempt.
func (u *undoing) attempt(ctx context.Context) (*unstructured.Unstructured, error) {
	before := u.live
	u.undo.Scope = scopes[u.scope]
	taken, reclaimed, err := u.reclaim(ctx, u.task, u.live, u.undo)
	switch {
	case err != nil:
		return nil, err
	case taken != nil:
		if u.live = taken; u.unclaimed == nil {
			u.unclaimed = before
		}
	case reclaimed && u.applied:
		return u.live, nil // others added the rest: their events tell whether with an edit
	case reclaimed && u.invalid != nil:
		return nil, u.widen(ctx)
	}
	sent := *u.task
	sent.cause.Found, u.task.sent = u.live, u.live
	answer, err := u.sendWithoutIgnored(ctx, sent)
	switch {
	case err == nil && reclaimed && !u.addedMore(*u.task, answer):
		return answer, nil
	case err == nil:
		u.live, u.unclaimed, u.applied, u.invalid = answer, nil, true, nil
		u.undo.Editors = u.undo.EditorsOf(u.task.cause.Found)
		return nil, nil
	case !apierrors.IsInvalid(err) && !denied(err):
		return nil, err
	case denied(err):
		return nil, u.refuse(ctx, err)
	case reclaimed && u.applied:
		return u.returnFields(ctx, *u.task, u.live, before)
	}
	u.invalid = err
	return nil, u.goOn(ctx, reclaimed)
}

// goOn prepares another attempt after the API server called the apply invalid.
func (u *undoing) goOn(ctx context.Context, reclaimed bool) (err error) {
	if !reclaimed { // the answer to an apply would have been the object to go on with
		u.applied = false
		if u.live, err = u.get(ctx, u.task.key); err == nil && u.live == nil {
			return u.invalid // its deletion is another event
		}
		return err
	}
	if err := u.widen(ctx); err != nil || ownership.Recorded(u.live) {
		return err
	}
	u.live, err = u.applyMarks(ctx, *u.task, u.live)
	return err
}

// widen has more undone by the next attempt.
func (u *undoing) widen(ctx context.Context) error {
	if u.scope++; u.scope == len(scopes) {
		return u.refuse(ctx, u.invalid)
	}
	return nil
}

// refuse returns err after it gave back what was reclaimed, so that a later heal finds the
// whole edit.
func (u *undoing) refuse(ctx context.Context, err error) error {
	if u.unclaimed == nil {
		return err
	}
	_, failed := u.returnFields(ctx, *u.task, u.live, u.unclaimed)
	return errors.Join(err, failed)
}

// applyMarks applies the label and the annotation of the owner alone to an object whose
// managedFields were cleared. The API server records then which fields the object has,
// without which it is not known how to take one of them. A write since found was read makes
// it fail.
func (a *applier) applyMarks(ctx context.Context, t task, found *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	marks := &unstructured.Unstructured{}
	marks.SetGroupVersionKind(t.gvk)
	marks.SetNamespace(found.GetNamespace())
	marks.SetName(found.GetName())
	marks.SetResourceVersion(found.GetResourceVersion())
	a.signature().mark(marks)
	body, err := encode(marks)
	if err != nil {
		return nil, err
	}
	return a.send(ctx, t.key, body, true)
}

// returnFields returns to other managers what was reclaimed since before, because the API server
// calls the object without that invalid. It returns the object.
func (a *applier) returnFields(ctx context.Context, t task, live, before *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, err := a.editManagedFields(ctx, t.key, live, func(live *unstructured.Unstructured) (any, bool, error) {
		return ownership.RestoreEntries(live, before, a.manager), true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("give back what was taken over: %w", err)
	}
	return live, nil
}

// addedMore reports whether others own something after the apply that they owned neither
// before the edit nor when the apply was sent.
func (a *applier) addedMore(t task, answer *unstructured.Unstructured) bool {
	return t.raced(ownership.Others(answer, v1alpha1.FieldManagerPrefix)) != nil
}

// raced returns what others owned before the edits that were undone, if they own something
// after the apply that they owned neither then nor when it was sent; nil otherwise.
func (t task) raced(others ownership.Paths) *ownership.Paths {
	if t.sent == nil || t.before == nil || others.Minus(ownership.Others(t.sent, v1alpha1.FieldManagerPrefix)).Minus(*t.before) == "" {
		return nil
	}
	return t.before
}

// maxUndos is how often the requests are sent that undo an edit, while the object is written
// to between them.
const maxUndos = 8

// maxReclaims is how often it is tried to change managedFields of an object that is written
// to at the same time. A controller often writes once after an edit.
const maxReclaims = 2

// reclaim takes what the edit added from those who added it. It returns the object as it is
// then; nil if there is nothing to take, or if it was not taken, because the object is
// written to again and again: then it reports false. Only where it was written to, it reads
// the object.
func (a *applier) reclaim(ctx context.Context, t *task, live *unstructured.Unstructured, undo ownership.Undo) (*unstructured.Unstructured, bool, error) {
	for attempt := 1; ; attempt++ {
		added := undo.Added(t.cause.Found, live)
		if len(added.Patch) == 0 {
			t.added = t.added.And(added)
			return nil, true, nil
		}
		patch, err := json.Marshal(added.Patch)
		if err != nil {
			return nil, false, fmt.Errorf("take over what was added: %w", err)
		}
		written, err := a.resource(t.key).Patch(ctx, t.key.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: a.manager})
		switch {
		case err == nil:
			t.added = t.added.And(added)
			return written, true, nil
		case denied(err), !apierrors.IsInvalid(err) && !apierrors.IsConflict(err):
			return nil, false, fmt.Errorf("take over what was added: %w", err)
		case attempt == maxReclaims:
			return nil, false, nil
		}
		if live, err = a.get(ctx, t.key); err != nil {
			return nil, false, err
		}
		if live == nil {
			return nil, true, nil // its deletion is another event
		}
	}
}
