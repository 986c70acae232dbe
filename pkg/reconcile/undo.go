package reconcile

import (
	"context"
	"encoding/json"
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
	defer func() { t.sent = undone.cause.Found }()
	var invalid error
	for _, undo.Scope = range scopes {
		live, added, err := a.reclaim(ctx, *t, undone.cause.Found, undo)
		if err != nil {
			return nil, err
		}
		if invalid != nil && len(added.Patch) == 0 {
			continue
		}
		t.added, undone.cause.Found = t.added.And(added), live
		live, err = a.sendCeding(ctx, undone)
		if err == nil {
			return a.sendAfterRace(ctx, t, &undone, live)
		}
		if !apierrors.IsInvalid(err) || denied(err) {
			return nil, err
		}
		invalid = err
		if !ownership.Recorded(undone.cause.Found) {
			if undone.cause.Found, err = a.applyMarks(ctx, *t, undone.cause.Found); err != nil {
				return nil, err
			}
		}
	}
	return nil, invalid
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
	mark(marks, a.owner.Name)
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

// sendAfterRace undoes what users added, beside what the edit had removed, while the requests
// were under way. The events of these writes are older than the apply, or change nothing of ours.
func (a *applier) sendAfterRace(ctx context.Context, t, undone *task, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	for range maxReclaims {
		sent := *t
		if sent.sent = undone.cause.Found; sent.raced(ownership.Others(live, v1alpha1.FieldManagerPrefix)) == nil {
			break
		}
		reclaimed, added, err := a.reclaim(ctx, *t, live, a.undo(*t))
		if err != nil {
			return nil, err
		}
		if len(added.Patch) == 0 {
			break
		}
		undone.cause.Found = reclaimed
		applied, err := a.sendCeding(ctx, *undone)
		if apierrors.IsInvalid(err) && !denied(err) {
			return a.giveBack(ctx, *t, reclaimed, live)
		}
		if err != nil {
			return nil, err
		}
		live, t.added = applied, t.added.And(added)
	}
	return live, nil
}

// raced returns what others owned before the edits that were undone, if they own more after
// the apply than when it was sent; nil otherwise.
func (t task) raced(others ownership.Paths) *ownership.Paths {
	if t.sent == nil || others.Minus(ownership.Others(t.sent, v1alpha1.FieldManagerPrefix)) == "" {
		return nil
	}
	return t.before
}

// maxReclaims is how often it is tried to change managedFields that other managers change
// at the same time.
const maxReclaims = 4

// reclaim takes what the edit added from those who added it. It returns the object as it is
// then. Only when one of them writes meanwhile, it reads the object and begins again.
func (a *applier) reclaim(ctx context.Context, t task, live *unstructured.Unstructured, undo ownership.Undo) (*unstructured.Unstructured, ownership.Addition, error) {
	for attempt := 1; ; attempt++ {
		added := undo.Added(t.cause.Found, live)
		if len(added.Patch) == 0 {
			return live, added, nil
		}
		patch, err := json.Marshal(added.Patch)
		if err != nil {
			return nil, added, fmt.Errorf("take over what was added: %w", err)
		}
		written, err := a.resource(t.key).Patch(ctx, t.key.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: a.manager})
		if err == nil {
			return written, added, nil
		}
		if attempt == maxReclaims || !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) || denied(err) {
			return nil, added, fmt.Errorf("take over what was added: %w", err)
		}
		if live, err = a.get(ctx, t.key); err != nil {
			return nil, added, err
		}
		if live == nil {
			return t.cause.Found, ownership.Addition{}, nil // its deletion is another event
		}
	}
}
