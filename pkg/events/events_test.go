package events

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

var (
	owner      = corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "web", UID: "o1"}
	deployment = corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "d1"}
	replicas   = ownership.Change{Path: "spec.replicas", Found: "5", Restored: "2", Manager: "kubectl-edit"}
)

// ready is a status whose Ready condition is as given.
func ready(status metav1.ConditionStatus, reason, message string) v1alpha1.VidraResourceStatus {
	return v1alpha1.VidraResourceStatus{Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message},
	}}
}

func TestTransitions(t *testing.T) {
	fine := ready(metav1.ConditionTrue, v1alpha1.ReasonApplied, "All objects are applied (2)")
	broken := ready(metav1.ConditionFalse, v1alpha1.ReasonApplyFailed, "Deployment shop/web: no")
	broken.LastError = "Deployment shop/web: no"
	starting := ready(metav1.ConditionFalse, v1alpha1.ReasonStarting, "Starting to watch")
	starting.LastError = broken.LastError
	cases := map[string]struct {
		reason        string
		before, after v1alpha1.VidraResourceStatus
		changes       []Change
		want          []string // type reason/action regarding: note
	}{
		"SteadyPass":    {reason: "Nothing happened, so nothing is said.", before: fine, after: fine},
		"SteadyProblem": {reason: "A problem that stays is said once.", before: broken, after: broken},
		"Applied": {
			reason: "A pass that wrote objects says how many.", after: fine,
			changes: []Change{{Action: Created, Object: deployment}, {Action: Configured, Object: deployment}, {Action: Created, Object: deployment}},
			want:    []string{"Normal Applied/Apply VidraResource web: Applied the manifest: 2 created, 1 changed"},
		},
		"Restored": {
			reason: "A heal is said to the owner and at the object.", before: fine, after: fine,
			changes: []Change{{Action: Restored, Object: deployment, Fields: []ownership.Change{replicas}}},
			want: []string{
				`Normal DriftCorrected/Restore VidraResource web: Deployment shop/web: put back spec.replicas 5 -> 2, set by "kubectl-edit"`,
				`Normal ChangeReverted/Restore Deployment shop/web: VidraResource web manages this object and put back spec.replicas 5 -> 2, set by "kubectl-edit". To keep a change, make it in spec.manifest of the VidraResource`,
			},
		},
		"Recreated": {
			reason: "A deletion has no fields.", before: fine, after: fine,
			changes: []Change{{Action: Recreated, Object: deployment}},
			want: []string{
				"Normal DriftCorrected/Restore VidraResource web: Deployment shop/web: created it again after it had been deleted",
				"Normal ChangeReverted/Restore Deployment shop/web: VidraResource web manages this object and created it again after it had been deleted. To keep a change, make it in spec.manifest of the VidraResource",
			},
		},
		"Pruned": {
			reason: "What was removed and what was left to others is told apart.", before: fine, after: fine,
			changes: []Change{{Action: Pruned, Object: deployment}, {Action: Released, Object: corev1.ObjectReference{Kind: "Namespace", Name: "shop"}}},
			want:    []string{"Normal Pruned/Prune VidraResource web: Removed Deployment shop/web. Left to their other owners: Namespace shop"},
		},
		"ProblemComes": {
			reason: "A problem has the reason of the condition.", before: fine, after: broken,
			want: []string{"Warning ApplyFailed/Apply VidraResource web: Deployment shop/web: no"},
		},
		"ProblemChanges": {
			reason: "Another problem is news.", before: broken,
			after: ready(metav1.ConditionFalse, v1alpha1.ReasonPruneFailed, "ConfigMap shop/a: cannot be removed: no"),
			want:  []string{"Warning PruneFailed/Prune VidraResource web: ConfigMap shop/a: cannot be removed: no"},
		},
		"ProblemGoes": {
			reason: "An end of a problem is said with what it was.", before: broken, after: fine,
			want: []string{"Normal Recovered/Apply VidraResource web: No longer the case: Deployment shop/web: no"},
		},
		"NotReadyYet": {reason: "What is not ready has not recovered.", before: broken, after: starting},
		"ReadyAtLast": {
			reason: "A problem is over when all is ready, however long that takes.", before: starting, after: fine,
			want: []string{"Normal Recovered/Apply VidraResource web: No longer the case: Deployment shop/web: no"},
		},
		"WaitingIsNoProblem": {
			reason: "A watch that starts is part of the normal course.", before: fine,
			after: ready(metav1.ConditionFalse, v1alpha1.ReasonStarting, "Starting to watch"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range Transitions(owner, tc.before, tc.after, tc.changes) {
				got = append(got, e.Type+" "+e.Reason+"/"+e.Action+" "+Name(e.Regarding)+": "+e.Note)
			}
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func TestDifferentFieldsAreDifferentSeries(t *testing.T) {
	image := ownership.Change{Path: "spec.template", Found: "a", Restored: "b"}
	one := Transitions(owner, v1alpha1.VidraResourceStatus{}, v1alpha1.VidraResourceStatus{},
		[]Change{{Action: Restored, Object: deployment, Fields: []ownership.Change{replicas}}})
	two := Transitions(owner, v1alpha1.VidraResourceStatus{}, v1alpha1.VidraResourceStatus{},
		[]Change{{Action: Restored, Object: deployment, Fields: []ownership.Change{image}}})
	require.NotEqual(t, one[0].Related, two[0].Related, "the first note of a series is the only one that is kept")
	require.NotEqual(t, one[1].Regarding, two[1].Regarding)
}

func TestFieldNotes(t *testing.T) {
	cases := map[string]struct {
		reason string
		change ownership.Change
		want   string
	}{
		"Withheld": {
			"A value of a Secret is not shown.",
			ownership.Change{Path: "data.password", Kind: ownership.Changed, Withheld: true, Manager: "kubectl-edit"},
			`data.password (values withheld), changed, set by "kubectl-edit"`,
		},
		"Subresource": {
			"Who scales writes through a subresource.",
			ownership.Change{Path: "spec.replicas", Found: "9", Restored: "2", Manager: "hpa", Subresource: "scale"},
			`spec.replicas 9 -> 2, set by "hpa" through scale`,
		},
		"Taken": {
			"Nothing was put back but the ownership.",
			ownership.Change{Path: "spec.replicas", Kind: ownership.Taken, Found: "2", Restored: "2", Manager: "kubectl"},
			`spec.replicas (taken) 2, owned by "kubectl"`,
		},
		"WithheldAndTaken": {
			"What happened is told, the value is not.",
			ownership.Change{Path: "data.password", Kind: ownership.Taken, Withheld: true, Manager: "kubectl"},
			`data.password (values withheld), taken, owned by "kubectl"`,
		},
		"Removed": {
			"Nobody is blamed for what the API server does not record.",
			ownership.Change{Path: "metadata.labels.app", Restored: `"web"`, Kind: ownership.Removed},
			`metadata.labels.app (removed) -> "web" (the API server does not record who removes a field)`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, Fields([]ownership.Change{tc.change}), tc.reason)
		})
	}
}

func TestTruncate(t *testing.T) {
	for n := 4; n < 20; n++ {
		short := Truncate(strings.Repeat("aä€😀", 10), n)
		require.LessOrEqual(t, len(short), n)
		require.True(t, utf8.ValidString(short), "cut at %d bytes within a rune", n)
	}
	require.Equal(t, "short", Truncate("short", 5))
}
