package reconcile

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/prune"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestRemovedWhenGone tells of a removal when there is nothing left.
func TestRemovedWhenGone(t *testing.T) {
	t.Parallel()
	id := fixture.IDOf(fixture.ConfigMapKind, "shop", "a")
	cases := map[string]struct {
		reason string
		state  v1alpha1.ObjectState
		uid    string
		first  bool
		done   prune.Removal
		told   []events.Action
		left   bool
	}{
		"Deleted":   {reason: "Its finalizers may take their time.", state: v1alpha1.ObjectApplied, uid: "u", done: prune.Removal{End: prune.Deleted}, left: true},
		"Gone":      {reason: "It was deleted, and is gone.", state: v1alpha1.ObjectDeleting, uid: "u", done: prune.Removal{End: prune.Absent}, told: []events.Action{events.Pruned}},
		"NotOurs":   {reason: "Somebody else deleted it.", state: v1alpha1.ObjectApplied, uid: "u", done: prune.Removal{End: prune.Absent}},
		"Restarted": {reason: "A Vidra that was stopped may have deleted it.", state: v1alpha1.ObjectApplied, uid: "u", first: true, done: prune.Removal{End: prune.Absent}, told: []events.Action{events.Pruned}},
		"TakenOver": {reason: "Another user owns the object that is there.", state: v1alpha1.ObjectApplied, uid: "u", first: true, done: prune.Removal{End: prune.NotOurs}},
		"NeverWas":  {reason: "It was only announced.", state: v1alpha1.ObjectPending, first: true, done: prune.Removal{End: prune.Absent}},
		"Released":  {reason: "Others have it.", state: v1alpha1.ObjectApplied, uid: "u", done: prune.Removal{End: prune.Released}, told: []events.Action{events.Released}},
		"Unknown":   {reason: "A look that failed changes nothing of its deletion.", state: v1alpha1.ObjectDeleting, uid: "u", done: prune.Removal{End: prune.Failed, Err: context.DeadlineExceeded}, left: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entry := object.NewEntry(id, fixture.ConfigMapKind)
			entry.State, entry.UID = tc.state, tc.uid
			s := newOwnerState(&v1alpha1.VidraResource{}, nil)
			o := s.plan.Objects.Track(id)
			o.Entry = entry
			p := &prune.Remover{Applier: &apply.Applier{Destination: newLab(t, "")}, Plan: &plan.Planner{Settings: &plan.Settings{}, State: &s.plan, First: tc.first}}
			p.RecordRemoval(o, tc.done)
			var told []events.Action
			for _, change := range s.plan.PendingEvents {
				told = append(told, change.Action)
			}
			require.Equal(t, tc.told, told, tc.reason)
			if left := o.Entry != nil; tc.left {
				require.True(t, left, tc.reason)
				require.Equal(t, v1alpha1.ObjectDeleting, entry.State, tc.reason)
			} else {
				require.False(t, left, tc.reason)
			}
		})
	}
}

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
