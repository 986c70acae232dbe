package reconcile

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestUntoldAtTheEnd: what a pass did that could not write its status is told by Flush if
// it ends with Vidra, but for what the next Vidra finds again in the status.
func TestUntoldAtTheEnd(t *testing.T) {
	t.Parallel()
	again := []events.Action{events.Created, events.Configured, events.Detected, events.Contended, events.Settled}
	once := []events.Action{
		events.Restored, events.Recreated, events.Relabelled, events.Replaced, events.Pruned, events.Released, events.Orphaned,
	}
	all := append(append([]events.Action{}, again...), once...)
	for name, tc := range map[string]struct {
		ends bool
		want []events.Action
	}{"Goes on": {false, all}, "Ends": {true, once}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, colors("a"))
			p := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()})
			for _, action := range all {
				p.state.plan.PendingEvents = append(p.state.plan.PendingEvents, events.Change{Action: action})
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.ends {
				cancel()
			}
			l.failWrites = 1
			_, err := p.finish(ctx, status.Outcome{})
			require.Error(t, err)
			var kept []events.Action
			for _, change := range p.state.plan.PendingEvents {
				kept = append(kept, change.Action)
			}
			require.Equal(t, tc.want, kept)

			// A state that is made anew, from the status, finds it again as well.
			p.state.lane.leave()
			l.states.restart(faulty)
			l.states.restart(faulty) // as after two conflicts in one reconcile
			renewed := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()}).state
			require.Len(t, renewed.plan.PendingEvents, len(once))
			require.Equal(t, types.UID("vr"), renewed.plan.UID)
		})
	}
}
