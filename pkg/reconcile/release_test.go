package reconcile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/wanted"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestReleaseIsAskedForOnce: two VidraResources that swap objects enqueue each other once. Each releases its object when it can.
func TestReleaseIsAskedForOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, colors("a"))
	p := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()})
	defer p.state.lane.leave()
	d := &desired.Object{}
	d.ID = object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "default", Name: "page"}
	o := p.state.plan.Objects.Track(d.ID)
	o.Desired = d
	for _, tc := range []struct {
		reason  string
		leaving bool
		asks    bool
	}{
		{"It is asked at the first conflict.", true, true},
		{"It knows.", true, false},
		{"It has the object in its manifest again.", false, false},
		{"It drops it again.", true, true},
	} {
		o.Entry = object.NewEntry(d.ID, d.GVK)
		conflict := &owners.Conflict{Manager: "vidra/other", Leaving: tc.leaving} // without the name of the other one
		p.recorder().RecordResult(apply.Result{Task: plan.Task{Object: d, Known: o, Why: plan.WhyChanged}, Err: conflict})
		require.Equal(t, tc.leaving, o.Problem.AwaitsRelease, tc.reason)
		p.state.adopt(1, []*desired.Object{d}, nil) // the manifest is read again and again while a kind in it is unserved
		require.Equal(t, tc.asks, l.Watching.Trigger.TakeCauses(trigger.Owner{}).Retry, tc.reason)
	}
	o.Entry, o.Attempts.ReleaseAsked = nil, false
	p.recorder().RecordFailure(apply.Result{Task: plan.Task{Object: d, Known: o}, Err: &owners.Conflict{Manager: "vidra/other", Leaving: true}})
	require.True(t, l.Watching.Trigger.TakeCauses(trigger.Owner{}).Retry, "the read before a first apply may find the conflict")
	require.Nil(t, o.Entry, "it stays out of the inventory")
}

// TestRefusalsOutlastReads: an object that its owner never releases rests, also while an unserved kind has the manifest read at each attempt.
func TestRefusalsOutlastReads(t *testing.T) {
	t.Parallel()
	l := newLab(t, colors("a"))
	p := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()})
	defer p.state.lane.leave()
	d := wanted.ConfigMap("page")
	for attempt := 1; ; attempt++ {
		require.Less(t, attempt, 10, "it is tried again without end")
		p.state.adopt(1, []*desired.Object{d}, nil)
		o := p.state.plan.Objects.ByID[d.ID]
		require.Nil(t, o.Problem, "it is to be attempted")
		p.recorder().RecordResult(apply.Result{Task: plan.Task{Object: d, Known: o}, Err: &owners.Conflict{Manager: "vidra/other", Leaving: true}})
		p.plan.NoteFailures(plan.Ending{})
		if p.plan.Now = p.plan.Now.Add(5 * time.Second); plan.Earliest(p.state.plan.Retries()) == (plan.Wake{}) {
			break
		}
	}
}

// TestRivalEndsBeforeItsNote: a VidraResource that ends after it had an apply refused, and before the refusal is noted, has the apply retried once.
func TestRivalEndsBeforeItsNote(t *testing.T) {
	t.Parallel()
	l := newLab(t, colors("a"))
	other := &v1alpha1.VidraResource{}
	other.Name = "other"
	require.NoError(t, l.client.Create(t.Context(), other))
	p := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()})
	defer p.state.lane.leave()
	o := p.state.plan.Objects.Track(object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "default", Name: "page"})
	for _, tc := range []struct {
		reason    string
		rival     string
		elsewhere client.Reader
		retries   bool
	}{
		{"Its own end wakes the VidraResource.", "other", nil, false},
		{"No end of it follows.", "gone", nil, true},
		{"It was retried.", "gone", nil, false},
		{"It may be of another shard.", "unknown", l.client, false},
	} {
		o.Attempts.Refused = &plan.Refused{Other: tc.rival}
		l.Assignment.Elsewhere = tc.elsewhere
		p.noteRivals(t.Context())
		require.Equal(t, tc.retries, l.Watching.Trigger.TakeCauses(faulty).Retry, tc.reason)
		require.Equal(t, []trigger.Owner{faulty}, l.related.rivals.Owners(tc.rival))
	}
}
