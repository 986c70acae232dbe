package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// TestReported compares drift with what the status reported before a restart.
func TestReported(t *testing.T) {
	t.Parallel()
	id, other := fixture.IDOf(fixture.ConfigMapKind, "shop", "a"), fixture.IDOf(fixture.ConfigMapKind, "shop", "b")
	long := strings.Repeat("x", v1alpha1.MaxProblemMessage+1)
	problem := func(id object.Identity, reason, message string) v1alpha1.Problem {
		return object.ProblemOf(object.ProblemObject(fixture.ConfigMapKind, id), reason, message, v1alpha1.ConditionDrifted)
	}
	cases := map[string]struct {
		reason  string
		problem v1alpha1.Problem
		text    string
		want    bool
	}{
		"Same":      {"It was reported.", problem(id, v1alpha1.ReasonDriftDetected, "x is 1"), "x is 1", true},
		"Other":     {"It was another drift.", problem(id, v1alpha1.ReasonDriftDetected, "x is 1"), "x is 1; y is 2", false},
		"Unnamed":   {"What is not listed is not reported again.", problem(other, v1alpha1.ReasonDriftDetected, "y is 2"), "x is 1", true},
		"NoDrift":   {"Another problem of the object has another text.", problem(id, v1alpha1.ReasonApplyFailed, "no"), "x is 1", true},
		"Blanks":    {"Its blanks are one.", problem(id, v1alpha1.ReasonDriftDetected, `x is "a  b"`), `x is "a  b"`, true},
		"Truncated": {"The status has the beginning of a long text.", problem(id, v1alpha1.ReasonDriftDetected, long), long, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := NewState(&v1alpha1.VidraResource{Status: v1alpha1.VidraResourceStatus{Problems: []v1alpha1.Problem{tc.problem}}}, nil)
			require.Equal(t, tc.want, s.Inherited.Reported(id, tc.text), tc.reason)
		})
	}
}
