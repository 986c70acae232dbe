package ui

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

func TestHealsPerHour(t *testing.T) {
	now := time.Date(2026, 1, 31, 18, 30, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		reason string
		heals  []healing
		want   map[int]int64
	}{
		"none":     {reason: "no bar", want: map[int]int64{}},
		"one":      {reason: "the present hour is the last bar", heals: []healing{{now, now, 1}}, want: map[int]int64{hours - 1: 1}},
		"old":      {reason: "what is older than a day is left out", heals: []healing{{now.Add(-25 * time.Hour), now.Add(-25 * time.Hour), 1}}, want: map[int]int64{}},
		"repeated": {reason: "the others are spread between the first and the last one", heals: []healing{{now.Add(-2 * time.Hour), now, 5}}, want: map[int]int64{hours - 3: 1, hours - 2: 2, hours - 1: 2}},
		"many":     {reason: "none is lost", heals: []healing{{now.Add(-time.Minute), now, 100002}}, want: map[int]int64{hours - 1: 100002}},
		"future":   {reason: "a clock that is ahead counts as the present hour", heals: []healing{{now.Add(time.Hour), now.Add(time.Hour), 1}}, want: map[int]int64{hours - 1: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[int]int64{}
			for i, n := range healsPerHour(test.heals, now) {
				if n > 0 {
					got[i] = n
				}
			}
			require.Equal(t, test.want, got, test.reason)
		})
	}
}

func TestStateOf(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason}
	}
	ready := condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonApplied)
	problem := v1alpha1.Problem{Conditions: []string{v1alpha1.ConditionReady}, Reason: v1alpha1.ReasonApplyFailed}
	waiting := problem
	waiting.Transient = true
	for name, test := range map[string]struct {
		reason     string
		conditions []metav1.Condition
		problems   []v1alpha1.Problem
		suspended  bool
		age        time.Duration
		inOrder    bool
		want       state
	}{
		"in order":        {reason: "the judgement of the command line counts", conditions: []metav1.Condition{ready}, inOrder: true, want: stateInOrder},
		"new":             {reason: "the operator may answer yet", age: time.Second, want: stateInProgress},
		"no operator":     {reason: "no operator has answered", age: time.Hour, want: stateFailing},
		"suspended":       {reason: "whatever else is wrong was asked for", suspended: true, conditions: []metav1.Condition{condition("Ready", "False", "ApplyFailed")}, problems: []v1alpha1.Problem{problem}, want: stateSuspended},
		"failing":         {reason: "a user has to act", conditions: []metav1.Condition{condition("Ready", "False", "ApplyFailed")}, problems: []v1alpha1.Problem{problem}, want: stateFailing},
		"waiting":         {reason: "Vidra expects it to end", conditions: []metav1.Condition{condition("Ready", "False", "Progressing")}, problems: []v1alpha1.Problem{waiting}, want: stateInProgress},
		"drifted":         {reason: "an edit waits", conditions: []metav1.Condition{condition("Ready", "False", "DriftDetected"), condition("Drifted", "True", "DriftDetected")}, problems: []v1alpha1.Problem{{Conditions: []string{"Ready"}, Reason: "DriftDetected"}}, want: stateDrifted},
		"contended":       {reason: "a fight that is reverted all the time is one", conditions: []metav1.Condition{ready, condition("Drifted", "True", "DriftContended")}, want: stateDrifted},
		"unhealthy":       {reason: "an object has failed", conditions: []metav1.Condition{ready, condition("Healthy", "False", "Unhealthy")}, want: stateUnhealthy},
		"not yet healthy": {reason: "objects start", conditions: []metav1.Condition{ready, condition("Healthy", "False", "Progressing")}, want: stateInProgress},
		"not watched":     {reason: "edits would be missed", conditions: []metav1.Condition{ready, condition("Watching", "False", "WatchFailed")}, want: stateFailing},
	} {
		t.Run(name, func(t *testing.T) {
			vr := &v1alpha1.VidraResource{}
			vr.CreationTimestamp = metav1.NewTime(time.Now().Add(-test.age))
			vr.Spec.Suspend, vr.Status.Conditions, vr.Status.Problems = test.suspended, test.conditions, test.problems
			require.Equal(t, states[test.want].Word, states[stateOf(vr, test.inOrder)].Word, test.reason)
		})
	}
}

func TestTimelineOf(t *testing.T) {
	at := time.Date(2026, 1, 31, 18, 0, 0, 500_000_000, time.UTC)
	id := object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "shop", Name: "settings"}
	entry := v1alpha1.HistoryEntry{
		Object: v1alpha1.ProblemObject{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"}, Reason: "DriftCorrected", Message: "reverted it",
		Fields: []string{"data.color"}, FirstTime: metav1.NewTime(at.Truncate(time.Second)), LastTime: metav1.NewTime(at.Truncate(time.Second)), Count: 1, User: "alice",
	}
	seen := edit{VidraResource: "shop", Object: id, Seen: at, Reverted: at.Add(38 * time.Millisecond), Changes: []ownership.Change{{Path: "data.color", Found: `"red"`, Restored: `"blue"`, Manager: "kubectl-edit"}}}
	later := seen
	later.Seen, later.Reverted = at.Add(time.Minute), time.Time{}
	elsewhere := seen
	elsewhere.Object.Name = "other"
	gone := edit{VidraResource: "shop", Object: id, Seen: at, Reverted: at.Add(time.Millisecond), Gone: true}
	for name, test := range map[string]struct {
		reason   string
		history  []v1alpha1.HistoryEntry
		observed []edit
		want     []string
	}{
		"merged":    {reason: "the history has the user, the watch the values and the exposure", history: []v1alpha1.HistoryEntry{entry}, observed: []edit{seen}, want: []string{`Reverted by Vidra edited by alice with kubectl-edit "blue" "red" 38 ms`}},
		"not yet":   {reason: "an edit is shown before the history has it", observed: []edit{seen}, want: []string{`Reverted by Vidra edited with kubectl-edit, person unknown "blue" "red" 38 ms`}},
		"two":       {reason: "the same edit a minute later is another one, and stands", history: []v1alpha1.HistoryEntry{entry}, observed: []edit{later, seen}, want: []string{`Not reverted yet edited with kubectl-edit, person unknown "blue" "red" `, `Reverted by Vidra edited by alice with kubectl-edit "blue" "red" 38 ms`}},
		"elsewhere": {reason: "an edit of another object is no match", history: []v1alpha1.HistoryEntry{entry}, observed: []edit{elsewhere}, want: []string{`Reverted by Vidra edited with kubectl-edit, person unknown "blue" "red" 38 ms`, `Reverted by Vidra edited by alice   `}},
		"deletion":  {reason: "a deletion has no fields, so an edit of fields is no match", history: []v1alpha1.HistoryEntry{entry}, observed: []edit{gone}, want: []string{`Reverted by Vidra deleted; Kubernetes does not record by whom   1 ms`, `Reverted by Vidra edited by alice   `}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, m := range timelineOf("shop", test.history, test.observed, nil) {
				field := fieldChange{}
				if len(m.Fields) > 0 {
					field = m.Fields[0]
				}
				got = append(got, m.Outcome+" "+m.By()+" "+field.Old+" "+field.New+" "+m.ShownExposure())
			}
			require.Equal(t, test.want, got, test.reason)
		})
	}
}

// TestHub has a page that reads nothing take no memory.
func TestHub(t *testing.T) {
	h := newHub()
	page, end := h.subscribe([]string{"overview"})
	for range 1000 {
		h.publish("overview")
		h.publish("vr/other")
	}
	require.Equal(t, []string{"cluster", "overview"}, h.take(page))
	require.Empty(t, h.take(page))
	maps := objectFeed(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "")
	h.answered(maps, true)
	require.Empty(t, h.take(page), "nothing has changed")
	h.answered(maps, false)
	h.answered(vidraResourceFeed, false)
	require.Equal(t, []string{"cluster"}, h.take(page))
	since := h.away()
	require.False(t, since.IsZero())
	h.answered(vidraResourceFeed, true)
	require.Empty(t, h.take(page), "one of two watches is back")
	require.Equal(t, since, h.away())
	h.answered(maps, true)
	require.Equal(t, []string{"cluster"}, h.take(page))
	require.True(t, h.away().IsZero())
	end()
	h.publish("overview")
	require.Empty(t, h.take(page))
}
