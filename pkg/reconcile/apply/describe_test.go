package apply

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

const ourManager = "vidra/shop"

// versionOf is a ConfigMap in a version, with data, of which fields are ours and others a
// person's.
func versionOf(t *testing.T, version, data, ours, theirs string) *unstructured.Unstructured {
	t.Helper()
	if theirs != "" {
		theirs = fmt.Sprintf(`,{"manager":"person","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:05:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{%s}}}`, theirs)
	}
	return fixture.UnstructuredOf(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{
		"name":"a","namespace":"shop","uid":"u","resourceVersion":%q,"labels":{"managed-by":"vidra"},"managedFields":[
		{"manager":"vidra/shop","operation":"Apply","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{%s}}}%s]},"data":{%s}}`,
		version, ours, theirs, data))
}

// TestDescribe distinguishes what another writer changed from what the manifest changes.
func TestDescribe(t *testing.T) {
	t.Parallel()
	const x, y, xy, xyz = `"f:x":{}`, `"f:y":{}`, `"f:x":{},"f:y":{}`, `"f:x":{},"f:y":{},"f:z":{}`
	applied := versionOf(t, "5", `"x":"1","y":"1"`, xy, "")
	expected := trigger.Applied{Manager: ourManager, Digest: trigger.DigestOf(applied, ourManager, false, nil), UID: "u"}
	edited := versionOf(t, "6", `"x":"9","y":"1"`, y, x)
	removed := versionOf(t, "6", `"y":"1"`, y, "")
	next := versionOf(t, "7", `"x":"1","y":"2"`, xy, "")
	stripped := edited.DeepCopy()
	stripped.SetLabels(nil)
	stranger := applied.DeepCopy()
	stranger.SetUID("v")
	created := applied.DeepCopy()
	created.SetCreationTimestamp(metav1.Date(2026, 1, 2, 3, 4, 4, 0, time.UTC))
	received := applied.DeepCopy()
	received.SetCreationTimestamp(metav1.Date(2026, 1, 1, 3, 4, 5, 0, time.UTC))
	at := func(second int) *metav1.Time { return new(metav1.Date(2026, 1, 2, 3, 4, second, 0, time.UTC)) }
	put := func(found *unstructured.Unstructured) trigger.Cause { return trigger.Cause{Found: found} }
	cases := map[string]struct {
		reason   string
		task     plan.Task
		live     *unstructured.Unstructured
		unknown  bool
		action   events.Action
		fields   []string
		reverted []string
	}{
		"New":   {reason: "It was not there.", task: plan.Task{Why: plan.WhyNew, Cause: trigger.Cause{Deleted: true}}, live: applied, action: events.Created},
		"Taken": {reason: "It was there, and is changed.", task: plan.Task{Why: plan.WhyNew, Cause: put(edited)}, live: next, unknown: true, action: events.Configured},
		"WasSo": {reason: "An apply that changes nothing is not told.", task: plan.Task{Why: plan.WhyNew, Cause: put(applied)}, live: applied, unknown: true},
		"WasOurs": {
			reason: "A creation that was not reported is reported now.", task: plan.Task{Why: plan.WhyNew, Cause: put(created), Begun: true, Synced: at(3)},
			live: created, unknown: true, action: events.Created,
		},
		"WasOursFirst":  {reason: "So is one of the first sync.", task: plan.Task{Why: plan.WhyNew, Cause: put(created), Begun: true}, live: created, unknown: true, action: events.Created},
		"WasOursBefore": {reason: "The first operator drops the UIDs of the inventory.", task: plan.Task{Why: plan.WhyNew, Cause: put(created), Begun: true, Synced: at(5)}, live: created, unknown: true},
		"WasReceived":   {reason: "Another VidraResource created it, and left it to a suspended one.", task: plan.Task{Why: plan.WhyNew, Cause: put(received), Begun: true}, live: received, unknown: true},
		"Restored": {
			reason: "What another writer changed is reverted.", task: plan.Task{Why: plan.WhyDrift, Cause: put(edited)}, live: applied,
			action: events.Restored, fields: []string{"data.x"},
		},
		"Changed": {reason: "Only the manifest has changed.", task: plan.Task{Why: plan.WhyChanged}, live: next, action: events.Configured},
		"ChangedLookedAt": {
			reason: "Also if it was looked at first.", task: plan.Task{Why: plan.WhyChanged, Cause: put(applied)}, live: next, action: events.Configured,
		},
		"ChangedAndEdited": {
			reason: "The edit is told for itself.", task: plan.Task{Why: plan.WhyChanged, Cause: put(edited)}, live: next,
			action: events.Configured, reverted: []string{"data.x"},
		},
		"ChangedAndRemoved": {
			reason: "What is missing is what had become of it, if nothing else is.", task: plan.Task{Why: plan.WhyChanged, Cause: put(removed)}, live: next,
			action: events.Configured, reverted: []string{"data.x"},
		},
		"ChangedAndEditedAndMore": {
			reason: "What the manifest adds was unmanaged.", task: plan.Task{Why: plan.WhyChanged, Cause: put(edited)},
			live: versionOf(t, "7", `"x":"1","y":"1","z":"1"`, xyz, ""), action: events.Configured, reverted: []string{"data.x"},
		},
		"ChangedAndSeen": {
			reason: "What was seen to be removed is told, and what is new is not.", task: plan.Task{Why: plan.WhyChanged, Cause: put(removed), Seen: []ownership.Change{{Path: "data.x"}}},
			live: versionOf(t, "7", `"x":"1","y":"1","z":"1"`, xyz, ""), action: events.Configured, reverted: []string{"data.x"},
		},
		"Agreed": {
			reason: "A manifest that agrees with another writer reverts nothing.", task: plan.Task{Why: plan.WhyChanged, Cause: put(edited)},
			live: versionOf(t, "7", `"x":"9","y":"1","z":"1"`, xyz, ""), action: events.Configured,
		},
		"Told": {
			reason: "An apply whose answer was lost is told with the next.", task: plan.Task{Why: plan.WhyChanged, Cause: put(next)}, live: next, action: events.Configured,
		},
		"Recreated": {
			reason: "It was deleted.", task: plan.Task{Why: plan.WhyDrift, Cause: trigger.Cause{Deleted: true}}, live: stranger, action: events.Recreated,
		},
		"DeletedByVidra": {
			reason: "Vidra had deleted it for another configuration.", live: stranger, action: events.Created,
			task: plan.Task{Why: plan.WhyChanged, Cause: trigger.Cause{Deleted: true}, Known: &plan.Object{Entry: &v1alpha1.ManagedResourceStatus{UID: "u", Recreated: &v1alpha1.RecreatedStatus{UID: "u"}}}},
		},
		"RecreatedByAnotherOwner": {
			reason: "It was deleted, and another client created it first.", task: plan.Task{Why: plan.WhyDrift, Cause: trigger.Cause{Deleted: true, Found: stranger}},
			live: stranger, action: events.Recreated,
		},
		"Relabelled": {
			reason: "It has only lost its label, and what else was changed.", task: plan.Task{Why: plan.WhyDrift, Cause: trigger.Cause{Deleted: true, Found: stripped}},
			live: applied, action: events.Relabelled, fields: []string{"data.x"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.task.Known = cmp.Or(tc.task.Known, &plan.Object{})
			r := Result{Task: tc.task, Applied: AppliedObject{Live: tc.live, State: trigger.Applied{Digest: trigger.DigestOf(tc.live, ourManager, false, nil)}}}
			if tc.unknown {
				r.describe(ourManager, trigger.Applied{}, false)
			} else {
				r.describe(ourManager, expected, true)
			}
			require.Equal(t, tc.action, r.Change.Action, tc.reason)
			require.Equal(t, tc.fields, paths(r.Change.Fields), tc.reason)
			require.Equal(t, tc.reverted, paths(r.Change.Reverted), tc.reason)
		})
	}
}

func paths(changes []ownership.Change) []string {
	var all []string
	for _, c := range changes {
		all = append(all, c.Path)
	}
	return all
}
