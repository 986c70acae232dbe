package reconcile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
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
	return unstructuredOf(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{
		"name":"a","namespace":"shop","uid":"u","resourceVersion":%q,"labels":{"managed-by":"vidra"},"managedFields":[
		{"manager":"vidra/shop","operation":"Apply","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{%s}}}%s]},"data":{%s}}`,
		version, ours, theirs, data))
}

// TestDescribe tells what somebody had changed from what the manifest changes.
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
	put := func(found *unstructured.Unstructured) trigger.Cause { return trigger.Cause{Found: found} }
	cases := map[string]struct {
		reason   string
		task     task
		live     *unstructured.Unstructured
		unknown  bool
		action   events.Action
		fields   []string
		reverted []string
	}{
		"New":     {reason: "It was not there.", task: task{why: whyNew, cause: trigger.Cause{Deleted: true}}, live: applied, action: events.Created},
		"Taken":   {reason: "It was there, and is changed.", task: task{why: whyNew, cause: put(edited)}, live: next, unknown: true, action: events.Configured},
		"WasSo":   {reason: "An apply that changes nothing is not told.", task: task{why: whyNew, cause: put(applied)}, live: applied, unknown: true},
		"WasOurs": {reason: "Whose creation nobody told is told now.", task: task{why: whyNew, cause: put(applied), begun: true}, live: applied, unknown: true, action: events.Created},
		"Restored": {
			reason: "What somebody changed is put back.", task: task{why: whyDrift, cause: put(edited)}, live: applied,
			action: events.Restored, fields: []string{"data.x"},
		},
		"Changed": {reason: "Only the manifest has changed.", task: task{why: whyChanged}, live: next, action: events.Configured},
		"ChangedLookedAt": {
			reason: "Also if it was looked at first.", task: task{why: whyChanged, cause: put(applied)}, live: next, action: events.Configured,
		},
		"ChangedAndEdited": {
			reason: "The edit is told for itself.", task: task{why: whyChanged, cause: put(edited)}, live: next,
			action: events.Configured, reverted: []string{"data.x"},
		},
		"ChangedAndRemoved": {
			reason: "What is missing is what had become of it, if nothing else is.", task: task{why: whyChanged, cause: put(removed)}, live: next,
			action: events.Configured, reverted: []string{"data.x"},
		},
		"ChangedAndEditedAndMore": {
			reason: "What the manifest adds was nobody's.", task: task{why: whyChanged, cause: put(edited)},
			live: versionOf(t, "7", `"x":"1","y":"1","z":"1"`, xyz, ""), action: events.Configured, reverted: []string{"data.x"},
		},
		"ChangedAndSeen": {
			reason: "What was seen to be removed is told, and what is new is not.", task: task{why: whyChanged, cause: put(removed), seen: []ownership.Change{{Path: "data.x"}}},
			live: versionOf(t, "7", `"x":"1","y":"1","z":"1"`, xyz, ""), action: events.Configured, reverted: []string{"data.x"},
		},
		"Agreed": {
			reason: "A manifest that says what somebody did puts nothing back.", task: task{why: whyChanged, cause: put(edited)},
			live: versionOf(t, "7", `"x":"9","y":"1","z":"1"`, xyz, ""), action: events.Configured,
		},
		"Told": {
			reason: "An apply whose answer was lost is told with the next.", task: task{why: whyChanged, cause: put(next)}, live: next, action: events.Configured,
		},
		"Recreated": {
			reason: "It was deleted.", task: task{why: whyDrift, cause: trigger.Cause{Deleted: true}}, live: stranger, action: events.Recreated,
		},
		"RecreatedByAnotherOwner": {
			reason: "It was deleted, and somebody was faster.", task: task{why: whyDrift, cause: trigger.Cause{Deleted: true, Found: stranger}},
			live: stranger, action: events.Recreated,
		},
		"Relabelled": {
			reason: "It has only lost its label, and what else was changed.", task: task{why: whyDrift, cause: trigger.Cause{Deleted: true, Found: stripped}},
			live: applied, action: events.Relabelled, fields: []string{"data.x"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := result{task: tc.task, live: tc.live, digest: trigger.DigestOf(tc.live, ourManager, false, nil)}
			if tc.unknown {
				r.describe(ourManager, trigger.Applied{}, false)
			} else {
				r.describe(ourManager, expected, true)
			}
			require.Equal(t, tc.action, r.action, tc.reason)
			require.Equal(t, tc.fields, paths(r.fields), tc.reason)
			require.Equal(t, tc.reverted, paths(r.reverted), tc.reason)
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

// TestSays compares drift with what the status reported before a restart.
func TestSays(t *testing.T) {
	t.Parallel()
	id, other := idOf(configMapKind, "shop", "a"), idOf(configMapKind, "shop", "b")
	long := strings.Repeat("x", v1alpha1.MaxProblemMessage+1)
	problem := func(id identity, reason, message string) v1alpha1.Problem {
		return problemOf(problemObject(configMapKind, id), reason, message, v1alpha1.ConditionDrifted)
	}
	cases := map[string]struct {
		reason  string
		problem v1alpha1.Problem
		text    string
		want    bool
	}{
		"Same":      {"It was reported.", problem(id, v1alpha1.ReasonDriftDetected, "x is 1"), "x is 1", true},
		"Other":     {"It was another drift.", problem(id, v1alpha1.ReasonDriftDetected, "x is 1"), "x is 1; y is 2", false},
		"Unnamed":   {"What is not listed is not reported again.", problem(other, v1alpha1.ReasonDriftDetected, "y is 2"), "x is 1", true},
		"NoDrift":   {"Another problem of the object has another text.", problem(id, v1alpha1.ReasonApplyFailed, "no"), "x is 1", true},
		"Truncated": {"The status has the beginning of a long text.", problem(id, v1alpha1.ReasonDriftDetected, long), long, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newVRState(&v1alpha1.VidraResource{Status: v1alpha1.VidraResourceStatus{Problems: []v1alpha1.Problem{tc.problem}}}, nil)
			require.Equal(t, tc.want, s.says(id, tc.text), tc.reason)
		})
	}
}

// TestRemovedWhenGone tells of a removal when there is nothing left.
func TestRemovedWhenGone(t *testing.T) {
	t.Parallel()
	id := idOf(configMapKind, "shop", "a")
	cases := map[string]struct {
		reason string
		state  v1alpha1.ObjectState
		uid    string
		first  bool
		done   removal
		told   []events.Action
		left   bool
	}{
		"Deleted":   {reason: "Its finalizers may take their time.", state: v1alpha1.ObjectApplied, uid: "u", done: removal{deleted: true}, left: true},
		"Gone":      {reason: "It was deleted, and is gone.", state: v1alpha1.ObjectDeleting, uid: "u", done: removal{gone: true, absent: true}, told: []events.Action{events.Pruned}},
		"NotOurs":   {reason: "Somebody else deleted it.", state: v1alpha1.ObjectApplied, uid: "u", done: removal{gone: true, absent: true}},
		"Restarted": {reason: "A Vidra that was stopped may have deleted it.", state: v1alpha1.ObjectApplied, uid: "u", first: true, done: removal{gone: true, absent: true}, told: []events.Action{events.Pruned}},
		"TakenOver": {reason: "It is there, as somebody else's.", state: v1alpha1.ObjectApplied, uid: "u", first: true, done: removal{gone: true}},
		"NeverWas":  {reason: "It was only announced.", state: v1alpha1.ObjectPending, first: true, done: removal{gone: true, absent: true}},
		"Released":  {reason: "Others have it.", state: v1alpha1.ObjectApplied, uid: "u", done: removal{gone: true, released: true}, told: []events.Action{events.Released}},
		"Unknown":   {reason: "A look that failed changes nothing of its deletion.", state: v1alpha1.ObjectDeleting, uid: "u", done: removal{err: context.DeadlineExceeded}, left: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entry := entryOf(id, configMapKind)
			entry.State, entry.UID = tc.state, tc.uid
			s := newOwnerState(&v1alpha1.VidraResource{}, nil)
			o := s.track(id)
			o.entry = entry
			p := &remover{applier: &applier{destination: newLab(t, "")}, plan: &planner{state: &s.vrState, first: tc.first}}
			p.recordRemoval(t.Context(), o, tc.done)
			var told []events.Action
			for _, change := range s.pendingEvents {
				told = append(told, change.Action)
			}
			require.Equal(t, tc.told, told, tc.reason)
			if left := o.entry != nil; tc.left {
				require.True(t, left, tc.reason)
				require.Equal(t, v1alpha1.ObjectDeleting, entry.State, tc.reason)
			} else {
				require.False(t, left, tc.reason)
			}
		})
	}
}

// TestUntoldAtTheEnd: what a pass did that could not write its status is told by Flush if
// it ends with Vidra, but for what the next Vidra finds again in the status.
func TestUntoldAtTheEnd(t *testing.T) {
	t.Parallel()
	again := []events.Action{events.Created, events.Configured, events.Detected, events.Contended, events.Settled}
	once := []events.Action{
		events.Restored, events.Recreated, events.Relabelled, events.Replaced, events.Pruned, events.Released, events.Orphaned,
	}
	all := append(append([]events.Action{}, again...), once...)
	for name, tc := range map[string]struct {
		ends bool
		want []events.Action
	}{"Goes on": {false, all}, "Ends": {true, once}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, colors("a"))
			p := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()})
			for _, action := range all {
				p.state.pendingEvents = append(p.state.pendingEvents, events.Change{Action: action})
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.ends {
				cancel()
			}
			l.failWrites = 1
			_, err := p.finish(ctx, outcome{})
			require.Error(t, err)
			var kept []events.Action
			for _, change := range p.state.pendingEvents {
				kept = append(kept, change.Action)
			}
			require.Equal(t, tc.want, kept)

			// A state that is made anew, from the status, finds it again as well.
			l.restartState(faulty)
			renewed := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()}).state
			require.Len(t, renewed.pendingEvents, len(once))
			require.Equal(t, types.UID("vr"), renewed.uid)
		})
	}
}
