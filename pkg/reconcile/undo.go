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
// it can, and its answer is the object to go on with. What whoever made the edit adds
// meanwhile is a part of the edit.
func (a *applier) sendUndoing(ctx context.Context, t *task) (*unstructured.Unstructured, error) {
	if !a.edited(*t) {
		return a.sendCeding(ctx, *t)
	}
	undo := a.undo(*t)
	if undo.BeforeKnown {
		t.before = &undo.Before
		t.cause.Before = t.before // for another attempt
	}
	undone := *t
	live, scope, applied := t.cause.Found, 0, false
	var invalid error
	// found is the object before anything was reclaimed that no apply has removed; nil if
	// nothing was.
	var found *unstructured.Unstructured
	refuse := func(err error) (*unstructured.Unstructured, error) {
		if found == nil {
			return nil, err
		}
		_, failed := a.giveBack(ctx, *t, live, found) // so that the next attempt finds the whole edit
		return nil, errors.Join(err, failed)
	}
	for range maxUndos {
		undo.Scope = scopes[scope]
		before := live
		taken, reclaimed, err := a.reclaim(ctx, t, live, undo)
		if err != nil {
			return nil, err
		}
		switch {
		case taken != nil:
			if live = taken; found == nil {
				found = before
			}
		case !reclaimed:
		case applied:
			return live, nil // others added the rest: their events tell whether with an edit
		case invalid != nil:
			if scope++; scope == len(scopes) {
				return refuse(invalid)
			}
			continue
		}
		undone.cause.Found, t.sent = live, live
		answer, err := a.sendCeding(ctx, undone)
		switch {
		case err == nil && reclaimed && !a.addedMore(*t, answer):
			return answer, nil
		case err == nil:
			live, found, applied, invalid, undo.Editors = answer, nil, true, nil, undo.EditorsOf(t.cause.Found)
		case denied(err):
			return refuse(err)
		case !apierrors.IsInvalid(err):
			return nil, err
		case reclaimed:
			if applied {
				return a.giveBack(ctx, *t, live, before)
			}
			if invalid = err; scope == len(scopes)-1 {
				return refuse(err)
			}
			scope++
			if !ownership.Recorded(live) {
				if live, err = a.applyMarks(ctx, *t, live); err != nil {
					return nil, err
				}
			}
		default: // the answer to an apply would have been the object to go on with
			applied, invalid = false, err
			if live, err = a.get(ctx, t.key); err != nil {
				return nil, err
			}
			if live == nil {
				return nil, invalid // its deletion is another event
			}
		}
	}
	return nil, fmt.Errorf("it was changed each of the %d times that the changes were reverted; it is tried again", maxUndos)
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

// giveBack returns to other managers what was reclaimed since before, because the API server
// calls the object without that invalid. It returns the object.
func (a *applier) giveBack(ctx context.Context, t task, live, before *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, err := a.editManagedFields(ctx, t.key, live, func(live *unstructured.Unstructured) (any, bool, error) {
		return ownership.GiveBack(live, before, a.manager), true, nil
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
