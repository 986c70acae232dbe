package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestWarningsStand keeps what an operator before this one was warned of, until the
// objects are applied anew.
func TestWarningsStand(t *testing.T) {
	t.Parallel()
	a, b := wanted("a"), wanted("b")
	const before = "ConfigMap shop/a: one; ConfigMap shop/b: two"
	cases := map[string]struct {
		reason  string
		results []result
		want    []string
	}{
		"Restart": {"Nothing was applied yet.", nil, []string{"ConfigMap shop/a: one", "ConfigMap shop/b: two"}},
		"Heal": {
			"What was put back is warned of again, and the other stands.",
			[]result{{task: task{desired: a, why: whyDrift}, warnings: []string{"one"}}},
			[]string{"ConfigMap shop/a: one", "ConfigMap shop/b: two"},
		},
		"HealInSilence": {
			"The API server need not warn of what it had before.",
			[]result{{task: task{desired: a, why: whyDrift}}}, []string{"ConfigMap shop/a: one", "ConfigMap shop/b: two"},
		},
		"Mended": {
			"Another configuration is another matter.",
			[]result{{task: task{desired: a, why: whyChanged}}}, []string{"ConfigMap shop/b: two"},
		},
		"Worse": {
			"A text cannot look like that of another object.",
			[]result{{task: task{desired: a, why: whyChanged}, warnings: []string{"x; ConfigMap shop/b: y"}}},
			[]string{"ConfigMap shop/a: x, ConfigMap shop/b: y", "ConfigMap shop/b: two"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newOwnerState(&v1alpha1.VidraResource{Status: v1alpha1.VidraResourceStatus{Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionWarnings, Status: metav1.ConditionTrue, Message: before,
			}}}}, nil)
			s.adopt(1, []*desired{a, b}, nil)
			p := &pass{state: s}
			for _, r := range tc.results {
				r.live = &unstructured.Unstructured{}
				r.known = s.objects[r.id]
				p.recordWarnings(r)
			}
			require.Equal(t, tc.want, s.warningsIn(), tc.reason)
		})
	}
}
