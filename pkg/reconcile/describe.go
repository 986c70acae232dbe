package reconcile

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// describe finds out what the apply did. expected is what the last one left behind, if
// that is known.
func (r *result) describe(manager string, expected trigger.Applied, known bool) {
	found := r.cause.Found
	deleted := r.cause.Deleted && (r.why == whyDrift || r.why == whyChanged)
	drifted := known && found != nil && !asExpected(found, expected)
	switch {
	case r.why == whyNew && (found == nil || r.begun):
		r.action = events.Created
	case r.why == whyNew && found.GetResourceVersion() == r.live.GetResourceVersion(): // it was so
	case deleted && r.live.GetUID() != expected.UID && (found == nil || labelled(found)): // another owner may have been first
		r.action = events.Recreated
	case deleted:
		r.action, r.fields = events.Relabelled, r.revertedFields(manager)
	case r.why == whyDrift:
		if r.fields = r.revertedFields(manager); len(r.fields) > 0 {
			r.action = events.Restored
		}
	case expected.UID != "" && r.live.GetUID() != expected.UID:
		r.action = events.Created
	case r.digest != expected.Digest:
		r.action = events.Configured
	}
	if drifted && !deleted && (r.why == whyChanged || r.why == whyRetry) {
		r.reverted = r.revertedFields(manager)
	}
}

// revertedFields is what another writer had changed, of all that the apply changed.
func (r *result) revertedFields(manager string) []ownership.Change {
	changes := ownership.Drift(r.cause.Found, r.live, manager)
	if r.why != whyDrift {
		changes = byOthers(changes, manager, r.seen)
	}
	return r.added.With(changes)
}

// byOthers are the changes that another writer had made, among those that the apply of
// another configuration made an end to. seen are those that were seen before, with the
// configuration that was applied last. A field with a value of its own is the manifest's
// while it is still ours, and else whose it is. What is missing may have been removed, or
// be new in the manifest: it counts if it was seen before, or if nothing else says what
// had become of the object.
func byOthers(changes []ownership.Change, manager string, seen []ownership.Change) []ownership.Change {
	var sure, perhaps []ownership.Change
	explained := seen != nil
	for _, c := range changes {
		ours := c.Manager == manager && c.Operation == string(metav1.ManagedFieldsOperationApply)
		switch {
		case c.Kind == ownership.Taken: // the manifest has agreed
			explained = true
		case ours:
		case c.Kind == ownership.Changed && c.Manager != "", slices.ContainsFunc(seen, func(s ownership.Change) bool { return s.Path == c.Path }):
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
