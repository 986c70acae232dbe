package plan

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestDecideByAnnotations: the annotations of the object count instead of those in the inventory, and end no other policy.
func TestDecideByAnnotations(t *testing.T) {
	t.Parallel()
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	exempt := fixture.LiveConfigMap("a", map[string]string{
		v1alpha1.BreakGlassUntilAnnotation: until.Format(time.RFC3339), v1alpha1.BreakGlassReasonAnnotation: "incident 42",
	})
	plain := fixture.LiveConfigMap("a", nil)
	byGlass := policy.Leave(policy.BreakGlass, "as the inventory has it", until)
	warned := policy.Leave(policy.Mode, "spec.drift.mode is Warn", time.Time{})
	timed := policy.Leave(policy.Dependency, "a newer manifest of it waits", until)
	created := &desired.Object{Lifetime: desired.Lifetime{Apply: v1alpha1.ApplyIfNotPresent}}
	cases := map[string]struct {
		reason string
		task   Task
		want   policy.Rule
		seen   bool
	}{
		"Annotated":      {"The annotations are new.", Task{Why: WhyDrift, Cause: trigger.Cause{Found: exempt}}, policy.BreakGlass, true},
		"Removed":        {"The annotations are gone.", Task{Why: WhyDrift, Cause: trigger.Cause{Found: plain}, Decision: byGlass}, 0, true},
		"Warn":           {"The mode comes first.", Task{Why: WhyDrift, Cause: trigger.Cause{Found: exempt}, Decision: warned}, policy.Mode, true},
		"Timed":          {"Another policy with a time stays without annotations.", Task{Why: WhyDrift, Cause: trigger.Cause{Found: plain}, Decision: timed}, policy.Dependency, true},
		"Deleted":        {"The object has no annotations any more.", Task{Why: WhyDrift, Cause: trigger.Cause{Deleted: true}, Decision: byGlass}, policy.BreakGlass, false},
		"New":            {"An object that is new has no edits.", Task{Why: WhyNew, Cause: trigger.Cause{Found: exempt}}, 0, false},
		"Changed":        {"Break-glass delays no new configuration.", Task{Why: WhyChanged, Cause: trigger.Cause{Found: exempt}}, 0, false},
		"Retry":          {"A retry reverts edits, too.", Task{Why: WhyRetry, Cause: trigger.Cause{Found: exempt}}, policy.BreakGlass, true},
		"NoneAtAll":      {"It is reverted.", Task{Why: WhyDrift, Cause: trigger.Cause{Found: plain}}, 0, true},
		"CreatedAlone":   {"An object that is never changed is left, whatever its annotations are.", Task{Object: created, Why: WhyDrift, Cause: trigger.Cause{Found: exempt}, Decision: warned}, policy.Apply, false},
		"CreatedAgain":   {"Its deletion is decided by the other policies.", Task{Object: created, Why: WhyDrift, Cause: trigger.Cause{Deleted: true}, Decision: warned}, policy.Mode, false},
		"CreatedChanged": {"A new configuration changes nothing of it.", Task{Object: created, Why: WhyChanged, Cause: trigger.Cause{Found: plain}}, policy.Apply, false},
		"NothingRead":    {"Without an object, the plan decides.", Task{Why: WhyRetry, Decision: warned}, policy.Mode, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Settings{BreakGlass: BreakGlassSettings{Max: 2 * time.Hour, Room: sync.OnceValue(func() *atomic.Int64 { return NewBreakGlassRoom(nil) })}}
			if tc.task.Object == nil {
				tc.task.Object = &desired.Object{}
			}
			tc.task.Known = &Object{Entry: &v1alpha1.ManagedResourceStatus{}}
			got, answer := s.Decide(tc.task)
			require.Equal(t, tc.want, got.Rule, tc.reason)
			require.Equal(t, tc.seen, answer.Seen, tc.reason)
		})
	}
}
