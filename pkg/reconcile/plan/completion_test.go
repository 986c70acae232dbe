package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

func TestCompletes(t *testing.T) {
	type entry = v1alpha1.ManagedResourceStatus
	job, once, other := &desired.Object{Lifetime: desired.Lifetime{RemovesItself: true}}, &desired.Object{Lifetime: desired.Lifetime{RemovesItself: true, RunsOnce: true}}, &desired.Object{}
	deleted, inferred := trigger.Cause{Deleted: true}, trigger.Cause{Unsure: true}
	cases := map[string]struct {
		reason string
		object Object
		cause  trigger.Cause
		want   bool
	}{
		"Succeeded":     {"The last state in the watch had succeeded.", Object{Desired: job, Entry: &entry{UID: "1"}}, trigger.Cause{Deleted: true, Succeeded: true}, true},
		"Listed":        {"The inventory has its success, also after a restart.", Object{Desired: job, Entry: &entry{UID: "1", Succeeded: true}}, inferred, true},
		"Running":       {"Its deletion is an edit.", Object{Desired: job, Entry: &entry{UID: "1"}, Seen: Seen{Sighting: Sighting{Exists: true}}}, deleted, false},
		"Missed":        {"A relist does not have its end.", Object{Desired: job, Entry: &entry{UID: "1"}, Seen: Seen{Sighting: Sighting{Exists: true}}}, trigger.Cause{Deleted: true, Unsure: true}, true},
		"Down":          {"Nothing is known of its end.", Object{Desired: job, Entry: &entry{UID: "1"}}, inferred, true},
		"DownFailed":    {"It had failed before.", Object{Desired: job, Entry: &entry{UID: "1", Health: v1alpha1.ObjectUnhealthy}}, inferred, false},
		"Seen":          {"The event of its deletion follows.", Object{Desired: job, Entry: &entry{UID: "1"}, Seen: Seen{Sighting: Sighting{Exists: true}}}, inferred, false},
		"Never applied": {"It is created.", Object{Desired: job, Entry: &entry{}}, inferred, false},
		"Unlisted":      {"It is created.", Object{Desired: job}, inferred, false},
		"Other kind":    {"It does not end.", Object{Desired: other, Entry: &entry{UID: "1"}}, inferred, false},
		"Once":          {"The manifest says so.", Object{Desired: once, Entry: &entry{UID: "1"}, Seen: Seen{Sighting: Sighting{Exists: true}}}, deleted, true},
		"Once failed":   {"It has failed.", Object{Desired: once, Entry: &entry{UID: "1", Health: v1alpha1.ObjectUnhealthy}, Seen: Seen{Sighting: Sighting{Exists: true}}}, deleted, false},
		"Once retried":  {"No deletion was seen: a namespace was made anew.", Object{Desired: once, Entry: &entry{UID: "1"}}, trigger.Cause{}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, tc.object.Completes(tc.cause), tc.reason) })
	}
}

// TestAbsenceIsNotForgotten: an object whose deletion no event reported is looked at after two resyncs.
func TestAbsenceIsNotForgotten(t *testing.T) {
	o := Object{Desired: &desired.Object{Lifetime: desired.Lifetime{RemovesItself: true}}, Entry: &v1alpha1.ManagedResourceStatus{UID: "1", State: v1alpha1.ObjectApplied}, Seen: Seen{Sighting: Sighting{Exists: true}}}
	require.True(t, o.absenceExpected(false))
	require.True(t, o.absenceExpected(true))
	require.True(t, o.absenceExpected(false))
	require.False(t, o.absenceExpected(true))
	o.Entry.State = v1alpha1.ObjectCompleted
	require.True(t, o.absenceExpected(true))
}
