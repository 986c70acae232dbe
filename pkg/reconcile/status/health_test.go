package status

import (
	"errors"
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestHealthWhileWatchesStart has spec.wait meet what is not known: Vidra may have been
// started again, and what it does not see yet is no news.
func TestHealthWhileWatchesStart(t *testing.T) {
	ill := plan.Illness{Object: v1alpha1.ProblemObject{Name: "page"}, Health: trigger.Health{Status: kstatus.InProgressStatus, Message: "0 of 1"}}
	healthy := metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHealthy}
	two := metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing, Message: "two are ill"}
	for name, tc := range map[string]struct {
		reason  string
		report  plan.HealthReport
		before  *metav1.Condition
		healthy metav1.ConditionStatus
		ready   metav1.ConditionStatus
		says    string
	}{
		"Never known":     {"nothing was said of it", plan.HealthReport{Unknown: true, Starting: true}, nil, metav1.ConditionUnknown, metav1.ConditionFalse, "Not every object has been seen yet"},
		"Was healthy":     {"it is taken to be so", plan.HealthReport{Unknown: true, Starting: true}, &healthy, metav1.ConditionTrue, metav1.ConditionTrue, "applied"},
		"Was ill":         {"so is this", plan.HealthReport{Unknown: true, Starting: true}, &two, metav1.ConditionFalse, metav1.ConditionFalse, "two are ill"},
		"Some are known":  {"one of two would be told, and then both", plan.HealthReport{Unknown: true, Starting: true, Ill: []plan.Illness{ill}}, &two, metav1.ConditionFalse, metav1.ConditionFalse, "two are ill"},
		"Others may stay": {"no watch is about to tell of them", plan.HealthReport{Unknown: true, Ill: []plan.Illness{ill}}, &two, metav1.ConditionFalse, metav1.ConditionFalse, "0 of 1"},
		"Invalid check":   {"the author can correct it at once", plan.HealthReport{Unknown: true, Starting: true, Invalid: errors.New("current: no")}, &healthy, metav1.ConditionFalse, metav1.ConditionFalse, "current: no"},
		"All are known":   {"it is told", plan.HealthReport{Ill: []plan.Illness{ill}}, &healthy, metav1.ConditionFalse, metav1.ConditionFalse, "0 of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			before := v1alpha1.VidraResourceStatus{}
			if tc.before != nil {
				meta.SetStatusCondition(&before.Conditions, *tc.before)
			}
			after := Summarize(before, Outcome{vr: of(0, v1alpha1.VidraResourceSpec{Wait: true}), All: true, Health: &tc.report})
			ready := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
			require.Equal(t, tc.healthy, plan.HealthOf(after).Status, tc.reason)
			require.Equal(t, tc.ready, ready.Status, tc.reason)
			require.Contains(t, ready.Message, tc.says, tc.reason)
		})
	}
}

// TestInvalidChecksAreUpToDate: a restart changes nothing of an invalid check, and another fault replaces the first.
func TestInvalidChecksAreUpToDate(t *testing.T) {
	ill := plan.Illness{Object: v1alpha1.ProblemObject{Name: "page"}, Health: trigger.Health{Status: kstatus.InProgressStatus, Message: "0 of 1"}}
	report := func(fault string, ill ...plan.Illness) v1alpha1.VidraResourceStatus {
		return Summarize(v1alpha1.VidraResourceStatus{}, Outcome{All: true, Health: &plan.HealthReport{Invalid: errors.New(fault), Ill: ill}})
	}
	before := report("current: no", ill)
	require.Len(t, before.Problems, 2)
	again := Summarize(before, Outcome{All: true, Health: &plan.HealthReport{Invalid: errors.New("current: no"), Unknown: true, Starting: true}})
	require.Equal(t, before.Problems, again.Problems, "objects that no watch has shown yet are as before")
	after := Summarize(before, Outcome{All: true, Health: &plan.HealthReport{Invalid: errors.New("failed: no"), Ill: []plan.Illness{ill}}})
	require.Contains(t, after.Problems[0].Message, "failed: no")
	healthy := Summarize(before, Outcome{All: true, Health: &plan.HealthReport{}})
	require.Empty(t, healthy.Problems)
}
