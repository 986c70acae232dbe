package apply

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// describe finds the change of the apply. expected is the result of the last one, if
// it is known.
func (r *Result) describe(manager string, expected trigger.Applied, known bool) {
	found := r.Task.Cause.Found
	deleted := r.Task.Cause.Deleted && (r.Task.Why == plan.WhyDrift || r.Task.Why == plan.WhyChanged) && !r.Task.Known.DeletedByVidra()
	drifted := known && found != nil && !asExpected(found, expected)
	switch {
	case r.Task.Why == plan.WhyNew && (found == nil || unreported(r.Task, manager)):
		r.Change.Action = events.Created
	case r.Task.Why == plan.WhyNew && found.GetResourceVersion() == r.Applied.Live.GetResourceVersion(): // it was so
	case deleted && r.Applied.Live.GetUID() != expected.UID && (found == nil || object.Labelled(found)): // another owner may have been first
		r.Change.Action = events.Recreated
	case deleted:
		r.Change.Action, r.Change.Fields = events.Relabelled, r.revertedFields(manager)
	case r.Task.Why == plan.WhyDrift:
		if r.Change.Fields = r.revertedFields(manager); len(r.Change.Fields) > 0 {
			r.Change.Action = events.Restored
		}
	case expected.UID != "" && r.Applied.Live.GetUID() != expected.UID:
		r.Change.Action = events.Created
	case r.Applied.State.Digest != expected.Digest:
		r.Change.Action = events.Configured
	}
	if drifted && !deleted && (r.Task.Why == plan.WhyChanged || r.Task.Why == plan.WhyRetry) {
		r.Change.Reverted = r.revertedFields(manager)
	}
}

// creating bounds the time from the creation of an object to the end of its first apply, which may be several requests.
const creating = 10 * time.Second

// unreported reports whether an existing object comes from an apply of Vidra without a report. An inventory entry without a UID may also be of an object of an
// earlier sync, because the first operator drops the UIDs, or of an object that another VidraResource created and left to this one.
func unreported(t plan.Task, manager string) bool {
	created := t.Cause.Found.GetCreationTimestamp()
	return t.Begun && (t.Synced == nil || !created.Time.Before(t.Synced.Truncate(time.Second))) &&
		slices.ContainsFunc(t.Cause.Found.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" && e.Time != nil && e.Time.Sub(created.Time) < creating
		})
}

// revertedFields are the changes of another writer, of all fields that the apply changed.
func (r *Result) revertedFields(manager string) []ownership.Change {
	changes := ownership.Drift(r.Task.Cause.Found, r.Applied.Live, manager, r.Shown)
	if r.Task.Why == plan.WhyDrift {
		changes = ownership.Admitted(changes, r.Task.Cause.Found, manager)
	} else {
		changes = byOthers(changes, manager, r.Task.Seen)
	}
	return r.Change.Added.With(changes)
}

// byOthers are the changes of another writer, among the changes that the apply of
// another configuration ended. seen are changes that were seen before, with the
// last configuration. A field with a value of its own belongs to the manifest
// while it is ours, and to its owner else. A missing field may have been removed, or
// be new in the manifest: it counts if it was seen before, or if no other field explains the
// state of the object.
func byOthers(changes []ownership.Change, manager string, seen []ownership.Change) []ownership.Change {
	var sure, perhaps []ownership.Change
	explained := seen != nil
	before := sets.Set[string]{}
	for _, c := range seen {
		before.Insert(c.Path)
	}
	for _, c := range changes {
		ours := c.Manager == manager && c.Operation == string(metav1.ManagedFieldsOperationApply)
		switch {
		case c.Kind == ownership.Taken: // the manifest has agreed
			explained = true
		case ours:
		case c.Kind == ownership.Changed && c.Manager != "", before.Has(c.Path):
			sure = append(sure, c)
		default:
			perhaps = append(perhaps, c)
		}
	}
	if len(sure) == 0 && !explained {
		return perhaps
	}
	return sure
}
