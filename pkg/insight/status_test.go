package insight

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

func TestReportOfAShard(t *testing.T) {
	cases := map[string]struct {
		reason string
		labels map[string]string
		shards []string
		why    []string
	}{
		"None":    {"No operator has shards.", map[string]string{"key": "one"}, nil, nil},
		"Matches": {"Its operator matches.", map[string]string{"key": "one"}, []string{"key=one"}, nil},
		"Overlap": {"One of them is enough.", map[string]string{"key": "one"}, []string{"key=one", "key=two"}, nil},
		"Left": {
			"The status is what it was before.", map[string]string{"key": "two"}, []string{"key=one"},
			[]string{"no shard: Unreconciled: its labels do not match key=one, and no other operator has taken it over since they changed: " +
				"check that an operator runs whose --watch-label-selector matches them"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			vr := &v1alpha1.VidraResource{}
			vr.Labels, vr.Status.Shards = tc.labels, tc.shards
			vr.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
			r := DefaultProgram.ReportOf(vr)
			require.Equal(t, tc.why, r.Why, tc.reason)
			require.Equal(t, len(tc.why) == 0, r.InOrder)
		})
	}
}

// TestReportOfAWait: a spec that waits for a user or for another VidraResource is not one that the operator has not read.
func TestReportOfAWait(t *testing.T) {
	const outdated = "not Ready: Outdated: the operator has not applied the present spec yet"
	held, dependent := v1alpha1.VidraResourceSpec{Revision: &v1alpha1.RevisionPolicy{Hold: true}}, v1alpha1.VidraResourceSpec{DependsOn: []v1alpha1.Dependency{{Name: "database"}}}
	cases := map[string]struct {
		reason string
		spec   v1alpha1.VidraResourceSpec
		ready  string
		why    string
	}{
		"Held":        {"A user ends it.", held, v1alpha1.ReasonRevisionHeld, "not Ready: RevisionHeld: it waits"},
		"Dependent":   {"The dependency ends it.", dependent, v1alpha1.ReasonDependencyNotReady, "not Ready: DependencyNotReady: it waits"},
		"Released":    {"The hold is over, and the status is about the former spec.", v1alpha1.VidraResourceSpec{}, v1alpha1.ReasonRevisionHeld, outdated},
		"Independent": {"So is the dependency.", held, v1alpha1.ReasonDependencyNotReady, outdated},
		"Changed":     {"A problem of the former spec may be corrected.", held, v1alpha1.ReasonApplyFailed, outdated},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			vr := &v1alpha1.VidraResource{Spec: tc.spec}
			vr.Generation, vr.Status.ObservedGeneration = 2, 1
			vr.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: tc.ready, Message: "it waits"}}
			require.Equal(t, []string{tc.why}, DefaultProgram.ReportOf(vr).Why, tc.reason)
		})
	}
}
