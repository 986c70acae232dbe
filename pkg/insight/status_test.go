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
