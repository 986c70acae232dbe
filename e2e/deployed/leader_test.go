package deployed

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/suite"
)

const (
	// atOnce bounds how long an edit stands when the Pod of the leader is deleted.
	atOnce = time.Second
	// leaseDuration is how long a leader keeps the Lease that does not renew it.
	leaseDuration = 15 * time.Second
	// slack is what the kubelet, the elector and a busy machine take.
	slack = 5 * time.Second
)

// TestLeaderDeleted deletes the Pod of the leader, and edits an object again and again, from the
// moment of the deletion until the other Pod leads and has reverted an edit. It requires that no
// edit stands for a second: neither those that the leader reverts while it ends, nor those that it
// does not. The best of five attempts counts, because a busy machine is no defect of the operator.
func TestLeaderDeleted(t *testing.T) {
	p := page(t)
	best := time.Hour
	for attempt := 0; attempt < 5 && best >= atOnce; attempt++ {
		leads, next := leader(t, replicas(t, 2))
		mark := cluster.AuditMark(t)
		require.NoError(t, cluster.Admin.Delete(t.Context(), leads))
		start, edits, longest := time.Now(), 0, time.Duration(0)
		for last := false; !last; edits++ {
			require.Less(t, time.Since(start), suite.Patience, "%s leads, and not the Pod that waited for the Lease", holder(t))
			last = leadsNow(t, next) // the edit after that is the last one
			longest = max(longest, editAndAwait(t, p))
		}
		t.Logf("takeover in %s: the longest of %d edits stood for %s", time.Since(start), edits, longest)
		require.Less(t, longest, leaseDuration, "the leader released the Lease")
		listed := cluster.ByOperator(t, mark).Only(func(r suite.Request) bool {
			return r.Pod == next.Name && r.Resource == "configmaps" && (r.Verb == "list" || r.Verb == "watch")
		})
		require.Empty(t, listed, "the standby has watched the ConfigMaps already")
		best = min(best, longest)
	}
	require.Less(t, best, atOnce)
}

// TestLeaderKilled kills the process of the leader. The edit stands until the Lease has expired,
// whether the other Pod or the restarted container acquires it.
func TestLeaderKilled(t *testing.T) {
	cluster.NeedsNodes(t)
	p := page(t)
	leads, _ := leader(t, replicas(t, 2))
	first := holder(t)
	require.NoError(t, cluster.SignalPod(t.Context(), leads, "KILL"))
	stood := editAndAwait(t, p)
	t.Logf("the edit stood for %s", stood)
	require.Less(t, stood, leaseDuration+slack)
	require.NotEqual(t, first, holder(t))
}

// TestLeaderPaused pauses the process of the leader until the other Pod leads, and resumes it while
// objects are edited. From the takeover on, the audit log has no write of an object by the Pod that
// was paused, and one by the other Pod for each edit.
func TestLeaderPaused(t *testing.T) {
	cluster.NeedsNodes(t)
	p := page(t)
	leads, next := leader(t, replicas(t, 2))
	before := restarts(t, leads)
	require.NoError(t, cluster.SignalPod(t.Context(), leads, "STOP"))
	resumed := false
	resume := func() {
		if !resumed {
			resumed = true
			require.NoError(t, cluster.SignalPod(context.Background(), leads, "CONT"))
		}
	}
	t.Cleanup(resume)
	mark := cluster.AuditMark(t)
	t.Logf("the edit stood for %s", editAndAwait(t, p))
	require.True(t, leadsNow(t, next))
	resume()
	edits := 1
	for start := time.Now(); restarts(t, leads) == before; edits++ {
		require.Less(t, time.Since(start), suite.Patience, "the operator that was paused ends, because it lost the Lease")
		editAndAwait(t, p)
	}
	writes := cluster.ByOperator(t, mark).On("configmaps", p.Namespace, p.Name).Writes()
	require.Empty(t, writes.Only(func(r suite.Request) bool { return r.Pod != next.Name }))
	require.Equal(t, edits, len(writes), "%s", writes) //nolint:testifylint // Len would print the requests as they are in memory
}
