package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestWarningsStand keeps what an operator before this one was warned of, until the
// objects are applied anew.
func TestWarningsStand(t *testing.T) {
	t.Parallel()
	a, b := wanted("a"), wanted("b")
	warned := func(d *desired, text string) v1alpha1.Problem {
		return problemOf(problemObject(d.gvk, d.id), v1alpha1.ReasonWarned, text, v1alpha1.ConditionWarnings)
	}
	of := func(all ...v1alpha1.Problem) []v1alpha1.Problem { return all }
	cases := map[string]struct {
		reason  string
		results []result
		want    []v1alpha1.Problem
	}{
		"Restart": {"Nothing was applied yet.", nil, of(warned(a, "one"), warned(b, "two"))},
		"Heal": {
			"What was put back is warned of again, and the other stands.",
			[]result{{task: task{desired: a, why: whyDrift}, warnings: []string{"one"}}},
			of(warned(a, "one"), warned(b, "two")),
		},
		"HealInSilence": {
			"The API server need not warn of what it had before.",
			[]result{{task: task{desired: a, why: whyDrift}}}, of(warned(a, "one"), warned(b, "two")),
		},
		"Mended": {
			"Another configuration is another matter.",
			[]result{{task: task{desired: a, why: whyChanged}}}, of(warned(b, "two")),
		},
		"Worse": {
			"A text cannot look like that of another object.",
			[]result{{task: task{desired: a, why: whyChanged}, warnings: []string{"x; ConfigMap shop/b: y"}}},
			of(warned(a, "x; ConfigMap shop/b: y"), warned(b, "two")),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newOwnerState(&v1alpha1.VidraResource{Status: v1alpha1.VidraResourceStatus{
				Problems: of(warned(a, "one"), warned(b, "two")),
			}}, nil)
			s.adopt(1, []*desired{a, b}, nil)
			p := &pass{state: s}
			for _, r := range tc.results {
				r.live = &unstructured.Unstructured{}
				r.known = s.objects[r.id]
				p.recordWarnings(r)
			}
			require.Equal(t, tc.want, s.warningProblems(), tc.reason)
		})
	}
}
