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

// TestCompilationTime bounds the processor time of the compilation of an expression by its length.
func TestCompilationTime(t *testing.T) {
	compile := func(text string) time.Duration {
		return fixture.ProcessorTime(t, func() { require.NoError(t, Compile([]v1alpha1.HealthCheck{check(text, "", "")}, nil).Err()) })
	}
	compile("true") // the environment is made once
	usual := compile("true" + strings.Repeat(" && status.a1", 78))
	for name, text := range map[string]string{
		"DoubledTypes": "[0]" + strings.Repeat(".map(x,{x:x})", 14) + ".size() > 0",
		"NestedMaps":   strings.Repeat("{1:", 150) + "1" + strings.Repeat("}", 150) + ".size() > 0",
		"NestedLists":  strings.Repeat("[", 200) + strings.Repeat("]", 200) + ".size() > 0",
		"NestedSteps":  strings.Repeat("a.exists_one(x,", 60) + "true" + strings.Repeat(")", 60),
		"MappedSteps":  "[0]" + strings.Repeat(".map(x,[x])", 60) + ".size() > 0",
	} {
		t.Run(name, func(t *testing.T) {
			took := compile(text)
			t.Log(took, usual)
			require.Less(t, took, 60*usual)
		})
	}
}
