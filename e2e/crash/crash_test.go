package crash

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

const (
	// killsShort and killsLong are how often the operator is killed.
	killsShort, killsLong = 20, 200
	// checkpoint is after how many kills the operator may finish its work.
	checkpoint = 10
	// reach is how long after it has started, or after a change, the operator is
	// killed at the latest.
	reach = 300 * time.Millisecond
	// maxBoot bounds what is taken for the time that the operator needs until it writes:
	// most kills are to hit it at work.
	maxBoot = 500 * time.Millisecond
	// patience bounds the wait for the operator to finish. The kind of an object that is
	// to be removed must have been gone for a while, and retries get fewer.
	patience = time.Minute
)

// victim is the operator that is killed again and again.
type victim struct {
	*testenv.Operator
	// boot is how long it takes from its start to its first write.
	boot time.Duration
	// mark is where the audit log was when it started.
	mark testenv.AuditMark
}

// start starts the operator, and waits for nothing.
func (o *victim) start(t *testing.T) {
	t.Helper()
	o.mark = env.AuditMark()
	started, err := env.LaunchOperator(t.Context(), testenv.OperatorOptions{
		Binary: operatorBinary, Args: []string{"--metrics-bind-address=0", "--health-probe-bind-address=0"},
	})
	require.NoError(t, err)
	o.Operator = started
}

// live lets the operator work for a while. It must not end by itself.
func (o *victim) live(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-o.Done():
		require.NoError(t, o.Err(), "the operator ended by itself: see %s", o.Log)
		require.Fail(t, "the operator ended by itself")
	}
}

// lastWrite is what the operator wrote last, if anything.
func (o *victim) lastWrite(t *testing.T) string {
	t.Helper()
	sent, err := env.AuditSince(o.mark)
	require.NoError(t, err)
	last := ""
	for _, e := range sent {
		if strings.HasSuffix(e.User, ":"+testenv.OperatorServiceAccount) && (e.Verb == "patch" || e.Verb == "delete") {
			last = strings.TrimSpace(e.Verb + " " + e.Resource + " " + e.Subresource)
		}
	}
	return last
}

// TestCrash kills the operator at random moments. After every kill, all that it has
// created is in an inventory. At the checkpoints, everything is as the manifests say,
// nothing else is there, and no other object was deleted.
func TestCrash(t *testing.T) {
	kills, seed := suite.Size(killsShort, killsLong), suite.Seed(t)
	m, o := newModel(seed), &victim{}
	require.NoError(t, m.prepare(t.Context()))
	o.measureBoot(t, m)

	begin, unfinished, last := time.Now(), 0, map[string]int{}
	for kill := 1; kill <= kills; kill++ {
		for range m.rng.IntN(3) {
			require.NoError(t, m.step(t.Context()))
		}
		o.start(t)
		if m.rng.IntN(4) == 0 { // while it starts
			o.live(t, m.upTo(o.boot))
		} else { // while it does what was left to do
			o.live(t, o.boot*3/4+m.upTo(reach))
		}
		if m.rng.IntN(2) == 0 { // or what it has just been asked for
			require.NoError(t, m.step(t.Context()))
			o.live(t, m.upTo(reach))
		}
		require.NoError(t, o.Kill())
		last[o.lastWrite(t)]++
		found, err := m.observe(t.Context())
		require.NoError(t, err)
		require.Empty(t, m.strays(found), "kill %d, VIDRA_SEED=%d", kill, seed)
		if len(m.compare(found)) > 0 {
			unfinished++
		}
		if kill%checkpoint == 0 || kill == kills {
			o.finish(t, m, seed)
		}
	}
	t.Logf("%d kills in %s, boot %s; %d left work to do; the last write was: %v",
		kills, time.Since(begin).Round(time.Second), o.boot.Round(time.Millisecond), unfinished, last)
	require.GreaterOrEqual(t, unfinished, kills/8, "too many kills hit nothing")
	m.end(t, o, seed)
}

// upTo is a random time.
func (m *model) upTo(d time.Duration) time.Duration { return time.Duration(m.rng.Int64N(int64(d))) }

// measureBoot starts the operator on the first VidraResource, and measures how long it
// takes until it writes.
func (o *victim) measureBoot(t *testing.T, m *model) {
	t.Helper()
	require.NoError(t, m.create(t.Context(), ownerName(0)))
	begin := time.Now()
	o.start(t)
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.NotEmpty(c, o.lastWrite(t)) }, patience, 5*time.Millisecond)
	o.boot = min(time.Since(begin), maxBoot)
	require.NoError(t, o.Kill())
}

// finish lets the operator finish its work, and compares what came of it.
func (o *victim) finish(t *testing.T, m *model, seed uint64) {
	t.Helper()
	begin := time.Now()
	o.start(t)
	var found cluster
	var wrong []string
	done := assert.EventuallyWithT(t, func(c *assert.CollectT) {
		var err error
		found, err = m.observe(context.Background())
		require.NoError(c, err)
		wrong = m.compare(found)
		require.Empty(c, wrong)
	}, patience, suite.Poll)
	require.True(t, done, "VIDRA_SEED=%d, see %s:\n%s", seed, o.Log, strings.Join(wrong, "\n"))
	m.settle(found)
	t.Logf("all is as it should be, %s after the start: %d VidraResources, %d objects", time.Since(begin).Round(time.Millisecond), len(m.wants), len(m.settled))
	require.NoError(t, o.Kill())
}

// end deletes all VidraResources: nothing is left but what is foreign.
func (m *model) end(t *testing.T, o *victim, seed uint64) {
	t.Helper()
	for i := range owners {
		if _, exists := m.wants[ownerName(i)]; exists {
			require.NoError(t, m.delete(t.Context(), ownerName(i)))
		}
	}
	o.finish(t, m, seed)
	require.Len(t, m.settled, 1, "what bears a copied label")
	left := &corev1.ConfigMapList{}
	require.NoError(t, admin.List(t.Context(), left, client.InNamespace(namespace(0)), client.HasLabels{"managed-by"}))
	require.Len(t, left.Items, 1)
}
