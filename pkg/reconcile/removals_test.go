package reconcile

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestUntoldAtTheEnd: what a pass did that could not write its status is kept, but for what a state that is made anew, from the status, finds again.
func TestUntoldAtTheEnd(t *testing.T) {
	t.Parallel()
	again := []events.Action{events.Created, events.Configured, events.Detected, events.Contended, events.Settled}
	once := []events.Action{
		events.Restored, events.Recreated, events.Relabelled, events.Replaced, events.Pruned, events.Released, events.Orphaned,
	}
	l := newLab(t, colors("a"))
	p := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()})
	for _, action := range slices.Concat(again, once) {
		p.state.plan.Reports.Events = append(p.state.plan.Reports.Events, events.Change{Action: action})
	}
	l.failWrites = 1
	_, err := p.finish(t.Context(), status.Outcome{})
	require.Error(t, err)
	pending := func(s *ownerState) (kept []events.Action) {
		for _, change := range s.plan.Reports.Events {
			kept = append(kept, change.Action)
		}
		return kept
	}
	require.Equal(t, slices.Concat(again, once), pending(p.state))

	p.state.lane.leave()
	l.states.restart(faulty, false)
	l.states.restart(faulty, false) // as after two conflicts in one reconcile
	renewed := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()}).state
	require.Equal(t, once, pending(renewed))
	require.Equal(t, types.UID("vr"), renewed.plan.UID)
}
