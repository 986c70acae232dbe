package ui

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// edit is an edit of an object that a watch has shown, and its revert.
type edit struct {
	VidraResource string
	Object        object.Identity
	// Seen is when the watch has shown the edit, and Reverted the revert; zero while the edit stands.
	Seen, Reverted time.Time
	// Changes are the edited fields; none for an object that was deleted.
	Changes []ownership.Change
	// Late reports that the watch has shown a part after an interruption, so that the exposure is unknown.
	Late bool
	// Gone reports that the object was deleted, or lost the label that selects it for the watch.
	Gone bool
	// Diff is a unified diff of the object as it was edited and as it was reverted to.
	Diff string

	found *unstructured.Unstructured
}

// Exposure is how long the edit stood; 0 while it stands, and where it is unknown.
func (e *edit) Exposure() time.Duration {
	if e.Late || e.Reverted.IsZero() {
		return 0
	}
	return e.Reverted.Sub(e.Seen)
}

// observer distinguishes edits of an object from the applies of its VidraResource, by the digest of the owned fields.
type observer struct {
	vidraResource, manager string
	id                     object.Identity
	gvr                    schema.GroupVersionResource
	// sensitive reports that the inventory has the object as sensitive, and marked that a state of it was.
	sensitive, marked bool
	// clean is the last state without an edit, with the managedFields of the VidraResource alone; nil while none is known.
	clean  *unstructured.Unstructured
	digest ownership.Digest
	// asked reports that the object was requested; a request without an answer is repeated after a while.
	asked bool
	// pending is the edit that stands.
	pending *edit
}

// see takes the next state of the object, and returns an edit that is new or was reverted. late reports a state of an interruption.
func (w *observer) see(u *unstructured.Unstructured, now time.Time, late bool) *edit {
	digest, recorded := ownership.Of(u, w.manager)
	w.marked = w.marked || bool(ownership.SensitivityOf(u))
	switch {
	case w.clean == nil && w.pending == nil:
	case recorded && digest == w.digest, w.appliedBetween(u):
		if w.pending != nil {
			w.pending.Late = w.pending.Late || late
			return w.reverted(u, digest, now)
		}
	default:
		if w.clean == nil { // it was deleted before it was read, and another client created it again
			return nil
		}
		changes := ownership.Drift(u, w.clean, w.manager, w.disclosure())
		if len(changes) == 0 {
			return nil
		}
		if w.pending == nil || w.pending.Gone {
			w.pending = &edit{VidraResource: w.vidraResource, Object: w.id, Seen: now, Late: late}
		}
		w.pending.found, w.pending.Changes, w.pending.Diff = u, changes, diffOf(u, w.clean, w.disclosure())
		return w.pending
	}
	w.clean, w.digest = ownEntries(u, w.manager), digest
	return nil
}

// reverted ends the edit that stands.
func (w *observer) reverted(u *unstructured.Unstructured, digest ownership.Digest, now time.Time) *edit {
	done := w.pending
	done.Reverted = now
	if done.found != nil {
		done.Changes, done.Diff = ownership.Drift(done.found, u, w.manager, w.disclosure()), diffOf(done.found, u, w.disclosure())
	}
	done.found, w.pending = nil, nil
	w.clean, w.digest = ownEntries(u, w.manager), digest
	return done
}

// gone notes that the object was deleted, or lost its label.
func (w *observer) gone(now time.Time, late bool) *edit {
	if w.pending == nil {
		w.pending = &edit{VidraResource: w.vidraResource, Object: w.id, Seen: now, Late: late}
	}
	w.pending.Gone = true
	return w.pending
}

// disclosure is the decision about values of the object, apart from its states.
func (w *observer) disclosure() ownership.Disclosure {
	return ownership.Disclose(ownership.Sensitivity(w.sensitive || w.marked), false, false)
}

// appliedBetween reports whether the VidraResource has applied the object since its clean state: its entry in managedFields
// has another time. The API server keeps the time of an entry when an edit takes fields from it.
func (w *observer) appliedBetween(u *unstructured.Unstructured) bool {
	after := timeOf(u, w.manager)
	return !after.IsZero() && (w.clean == nil || !after.Equal(timeOf(w.clean, w.manager)))
}

// timeOf is the time of the last apply of a field manager.
func timeOf(u *unstructured.Unstructured, manager string) time.Time {
	for _, e := range u.GetManagedFields() {
		if e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Time != nil {
			return e.Time.Time
		}
	}
	return time.Time{}
}

// ownEntries returns the object with the managedFields of one field manager.
func ownEntries(u *unstructured.Unstructured, manager string) *unstructured.Unstructured {
	kept := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
	delete(kept.Object, "status")
	metadata, _ := u.Object["metadata"].(map[string]any)
	kept.Object["metadata"] = maps.Clone(metadata)
	kept.SetManagedFields(slices.DeleteFunc(u.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager != manager }))
	return kept
}

// maxDiff is how many bytes a diff has at most.
const maxDiff = 16 << 10

// diffOf is a unified diff of two states of an object, with the values masked that are never shown.
func diffOf(before, after *unstructured.Unstructured, known ownership.Disclosure) string {
	known = known.With(before, after)
	hidden := [][]string{{"status"}, {"metadata", "deletionTimestamp"}}
	edited, reverted := insight.ShownYAML(before, after, "(edited)", known, hidden...), insight.ShownYAML(after, before, "(reverted)", known, hidden...)
	diff := udiff.Unified("edited", "reverted", edited, reverted)
	_, diff, _ = strings.Cut(diff, "+++ reverted\n")
	if len(diff) > maxDiff {
		diff = strings.ToValidUTF8(diff[:maxDiff], "") + "\n ..."
	}
	return diff
}
