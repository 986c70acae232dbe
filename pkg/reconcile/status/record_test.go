package status

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/wanted"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestEndOfFailures: a task that does not fail ends the knowledge from the failures before it. A VidraResource that refused the object wakes this one no more,
// and the delay of the next failure is the first one.
func TestEndOfFailures(t *testing.T) {
	t.Parallel()
	left := policy.Leave(policy.Suspended, "spec.suspend is true", time.Time{})
	for name, result := range map[string]apply.Result{
		"applied":     {End: apply.AsIntended},
		"left":        {End: apply.Observed, Task: plan.Task{Decision: left, Why: plan.WhyDrift}, Change: apply.Change{Fields: []ownership.Change{{Path: "data.color"}}}},
		"not created": {Err: apply.ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, s := wanted.ConfigMap("a"), &plan.State{}
			s.Objects.SetManifest([]*desired.Object{d})
			o := s.Objects.ByID[d.ID]
			o.Entry = fixture.InState(v1alpha1.ObjectFailed, "1")
			o.Fail(v1alpha1.ReasonApplyFailed, "no")
			o.Attempts = plan.Attempts{Refused: &plan.Refused{Other: "rival"}, Retry: plan.Retry{Failures: 7, At: time.Now().Add(time.Minute)}, MissingRights: make([]access.Right, 1)}
			result.Task.Object, result.Task.Known = d, o
			p := Recorder{Plan: &plan.Planner{Settings: &plan.Settings{}, VR: &v1alpha1.VidraResource{}, State: s, Env: &plan.Env{Index: trigger.NewIndex()}}}
			p.RecordResult(result)
			p.Plan.NoteFailures(plan.Ending{})
			require.Nil(t, o.Problem)
			require.Equal(t, plan.Attempts{}, o.Attempts)
		})
	}
}

// A first failed apply of an object has the first delay, whatever reads of its health failed before; a later one goes on with the delays of the first.
func TestFirstFailureAfterReadsOfHealth(t *testing.T) {
	t.Parallel()
	d, s, now := wanted.ConfigMap("a"), &plan.State{}, time.Now()
	s.Objects.SetManifest([]*desired.Object{d})
	o := s.Objects.ByID[d.ID]
	o.Entry = fixture.InState(v1alpha1.ObjectApplied, "1")
	o.Attempts.Retry = plan.Retry{Failures: 9, At: now.Add(2 * time.Minute)}
	env := &plan.Env{Index: trigger.NewIndex()}
	p := Recorder{Plan: &plan.Planner{Now: now, Settings: &plan.Settings{}, VR: &v1alpha1.VidraResource{}, State: s, Env: env}, Applier: &apply.Applier{Destination: here{}}}
	failed := apply.Result{Task: plan.Task{Object: d, Known: o, Why: plan.WhyChanged}, Err: apierrors.NewInternalError(errors.New("down"))}
	p.RecordFailure(failed)
	require.Zero(t, o.Attempts.Retry)
	p.Plan.NoteFailures(plan.Ending{})
	p.RecordFailure(failed)
	require.Equal(t, 1, o.Attempts.Retry.Failures)
}

type here struct{ access.Destination }

func (here) Name() string { return "" }
