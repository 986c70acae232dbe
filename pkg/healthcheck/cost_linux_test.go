package healthcheck

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/fixture"
)

// TestEvaluationTime bounds the processor time of the evaluations that take longest: all VidraResources share the watch that makes them.
func TestEvaluationTime(t *testing.T) {
	u := parse(t, "status: {y: false, l: ["+strings.Repeat("a, ", 9_999)+"a], t: "+strings.Repeat("a", 5_000)+"}")
	evaluate := func(text string) time.Duration {
		checks := Compile([]v1alpha1.HealthCheck{check(text, "", "")}, nil)
		require.NoError(t, checks.Err())
		return fixture.ProcessorTime(t, func() { checks.For(widget).Evaluate(u) })
	}
	steps := evaluate("status.l.exists_one(a, false)")
	require.Less(t, steps, 50*time.Millisecond)
	for name, text := range map[string]string{
		"Conditions":  "status.l.exists_one(a, status.y ? status.y : status.y)",
		"Comparisons": "status.l.filter(a, a == 'b').size() == 1",
		"NestedSteps": "status.l.exists(a, status.l.exists_one(b, false))",
		"Searched":    "(status.t + status.t + status.t).indexOf(status.t + 'b') == 1",
		"Matched":     "(status.t + status.t + status.t).matches('(a?a?){20}[b-d]')",
	} {
		t.Run(name, func(t *testing.T) {
			took := evaluate(text)
			t.Log(took, steps)
			require.Less(t, took, 4*steps)
		})
	}
}
