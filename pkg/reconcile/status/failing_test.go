package status

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// failedTask is the result of a task for the ConfigMap page-i.
func failedTask(i int, why plan.Why, err error) apply.Result {
	id := fixture.IDOf(fixture.ConfigMapKind, "shop", fmt.Sprintf("page-%d", i))
	entry := object.NewEntry(id, fixture.ConfigMapKind)
	return apply.Result{Err: err, Task: plan.Task{
		Object: &desired.Object{ID: id, GVK: fixture.ConfigMapKind}, Known: &plan.Object{ID: id, Entry: entry}, Why: why,
	}}
}

// TestFailingWhileApplied: what a reconcile reports before its end is what it reports at its end, once.
func TestFailingWhileApplied(t *testing.T) {
	denied, invalid := errors.New("denied"), apierrors.NewInvalid(fixture.ConfigMapKind.GroupKind(), "page-2", nil)
	one, two := ProblemOf(failedTask(1, plan.WhyNew, denied)), ProblemOf(failedTask(2, plan.WhyDrift, invalid))
	require.Equal(t, v1alpha1.ReasonApplyFailed, two.Reason, "it was accepted before")
	began := time.Now().Add(-time.Minute)
	well := Outcome{All: true, watching: plan.Watching{Watches: map[watchregistry.Key]watchregistry.Status{{}: {State: watchregistry.Synced}}}, now: began}
	end := well
	end.objects.problems = []v1alpha1.Problem{one, two}
	for name, before := range map[string]v1alpha1.VidraResourceStatus{
		"New":     Applying(v1alpha1.VidraResourceStatus{}, nil, false, began),
		"Changed": Summarize(v1alpha1.VidraResourceStatus{}, well),
	} {
		t.Run(name, func(t *testing.T) {
			first := Failing(before, []v1alpha1.Problem{one}, began)
			require.NotEqual(t, before.Conditions, first.Conditions, "the one before is not changed")
			require.Len(t, toldOf(before, first), 1)
			second := Failing(first, []v1alpha1.Problem{two}, began)
			for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling} {
				c := meta.FindStatusCondition(second.Conditions, kind)
				require.Equal(t, v1alpha1.ReasonApplyFailed, c.Reason)
				require.Equal(t, kind == v1alpha1.ConditionReady, c.Status == metav1.ConditionFalse)
				require.Contains(t, c.Message, "ConfigMap shop/page-1: denied; ConfigMap shop/page-2: ")
			}
			require.Equal(t, v1alpha1.DeployRunning, second.DeployState)
			require.Contains(t, second.LastError, "page-1: denied")
			require.Equal(t, second.Problems, Failing(second, []v1alpha1.Problem{one}, time.Now()).Problems, "it is known")

			last := Summarize(second, end)
			whole := toldOf(before, Summarize(before, end))
			require.Len(t, whole, 1)
			told := append(toldOf(before, first), toldOf(first, second)...)
			require.Equal(t, whole[0].Note, told[0].Note+"; "+told[1].Note)
			require.Equal(t, whole[0].Reason, told[0].Reason)
			require.Empty(t, toldOf(second, last), "none is reported twice")
			require.Equal(t, began.Truncate(time.Second), last.Problems[0].Since.Time)
			require.Equal(t, events.ReasonRecovered, toldOf(last, Summarize(last, well))[0].Reason)
		})
	}
}

// TestFailingIsBounded: the status lists no more problems than there is room for, and counts the others.
func TestFailingIsBounded(t *testing.T) {
	var all []v1alpha1.Problem
	for i := range v1alpha1.MaxProblems {
		all = append(all, ProblemOf(failedTask(i, plan.WhyNew, errors.New("denied"))))
	}
	status := Failing(v1alpha1.VidraResourceStatus{}, all[:60], time.Now())
	status = Failing(status, all[60:], time.Now())
	require.Len(t, status.Problems, v1alpha1.MaxProblems)
	status = Failing(status, []v1alpha1.Problem{ProblemOf(failedTask(1000, plan.WhyNew, errors.New("denied")))}, time.Now())
	require.Len(t, status.Problems, v1alpha1.MaxProblems)
	require.Equal(t, int32(1), status.UnlistedProblems)
}

// TestFailingSourcesInOrder: the problems of several failing sources have one order.
func TestFailingSourcesInOrder(t *testing.T) {
	o := Outcome{All: true, vr: of(0, unwatched), watching: plan.Watching{FailingSources: map[string]watchregistry.Status{}}}
	for _, name := range []string{"ConfigMap a/a", "ConfigMap a/b", "ConfigMap a/c"} {
		o.watching.FailingSources[name] = watchregistry.Status{State: watchregistry.Degraded, Reason: watchregistry.ReasonForbidden, Message: "no"}
	}
	before := Summarize(v1alpha1.VidraResourceStatus{}, o)
	for range 50 {
		after := Summarize(before, o)
		require.False(t, Changed(before, after))
	}
}
