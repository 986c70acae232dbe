package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/wanted"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
)

// TestWarningsStand keeps what an operator before this one was warned of, until the
// objects are applied anew.
func TestWarningsStand(t *testing.T) {
	t.Parallel()
	a, b := wanted.ConfigMap("a"), wanted.ConfigMap("b")
	warned := func(d *desired.Object, text string) v1alpha1.Problem {
		return object.ProblemOf(object.ProblemObject(d.GVK, d.ID), v1alpha1.ReasonWarned, text, v1alpha1.ConditionWarnings)
	}
	of := func(all ...v1alpha1.Problem) []v1alpha1.Problem { return all }
	cases := map[string]struct {
		reason  string
		results []apply.Result
		want    []v1alpha1.Problem
	}{
		"Restart": {"Nothing was applied yet.", nil, of(warned(a, "one"), warned(b, "two"))},
		"Heal": {
			"What was put back is warned of again, and the other stands.",
			[]apply.Result{{Task: plan.Task{Object: a, Why: plan.WhyDrift}, Applied: apply.AppliedObject{Warnings: []string{"one"}}}},
			of(warned(a, "one"), warned(b, "two")),
		},
		"HealInSilence": {
			"The API server need not warn of what it had before.",
			[]apply.Result{{Task: plan.Task{Object: a, Why: plan.WhyDrift}}}, of(warned(a, "one"), warned(b, "two")),
		},
		"Mended": {
			"Another configuration is another matter.",
			[]apply.Result{{Task: plan.Task{Object: a, Why: plan.WhyChanged}}}, of(warned(b, "two")),
		},
		"Worse": {
			"A text cannot look like that of another object.",
			[]apply.Result{{Task: plan.Task{Object: a, Why: plan.WhyChanged}, Applied: apply.AppliedObject{Warnings: []string{"x; ConfigMap shop/b: y"}}}},
			of(warned(a, "x; ConfigMap shop/b: y"), warned(b, "two")),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newOwnerState(&v1alpha1.VidraResource{Status: v1alpha1.VidraResourceStatus{
				Problems: of(warned(a, "one"), warned(b, "two")),
			}}, nil)
			s.adopt(1, []*desired.Object{a, b}, nil)
			p := &status.Recorder{}
			for _, r := range tc.results {
				r.Applied.Live = &unstructured.Unstructured{}
				r.Task.Known = s.plan.Objects.ByID[r.Task.Object.ID]
				p.RecordWarnings(r)
			}
			require.Equal(t, tc.want, s.plan.WarningProblems(), tc.reason)
		})
	}
}
