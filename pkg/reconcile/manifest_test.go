package reconcile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestRecalledManifest: a recalled manifest counts as unread, and as usable except in place of an earlier revision.
func TestRecalledManifest(t *testing.T) {
	t.Parallel()
	l := newLab(t, colors("a"))
	p := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()})
	defer p.state.lane.leave()
	require.Nil(t, p.connect(t.Context()))
	why, _ := p.read(t.Context())
	require.Nil(t, why)
	require.True(t, p.isRead())
	require.True(t, p.isUsable())
	p.state.manifest.recalled = true
	require.False(t, p.isRead(), "a reconcile reads the sources")
	require.True(t, p.isUsable(), "edits are reverted meanwhile")
	p.plan.VR.Spec.Revision = &v1alpha1.RevisionPolicy{Hold: true, To: 1}
	require.False(t, p.isUsable(), "it may be the manifest that the earlier revision replaces")
	p.state.revision.refused = &object.Failure{}
	require.True(t, p.isUsable(), "the earlier revision is refused: edits are reverted, and all else waits")
}

// TestDepartureEndsAtTheReturn: an object that is in the manifest again has left nothing, also while its kind is unserved.
func TestDepartureEndsAtTheReturn(t *testing.T) {
	t.Parallel()
	s := &ownerState{}
	id := fixture.IDOf(fixture.ConfigMapKind, "default", "a")
	s.plan.Objects.Track(id).Departure.At = time.Now()
	s.adopt(1, nil, []desired.Unresolved{{ID: id}})
	require.Zero(t, s.plan.Objects.ByID[id].Departure)
}
