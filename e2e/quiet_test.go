package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/suite"
)

// TestQuiet watches Vidra while nothing happens: it sends no write at all, and no
// read but watches. It looks at every object meanwhile, because the resync interval
// is the shortest that is allowed.
//
// It is not parallel: it counts every request of the operator.
func TestQuiet(t *testing.T) {
	const (
		resources = 4
		interval  = 10 * time.Second
	)
	rounds := suite.Size(1, 3)
	quiet := time.Duration(rounds) * interval * 115 / 100 // the operator spreads the looks a little
	objects := 0
	for i := range resources {
		ns := newNamespace(t)
		crd, thing := newKind(t)
		if i == 0 {
			require.NoError(t, admin.Create(t.Context(), crd))
		} else {
			thing = configMap("thing", "hello")
		}
		newVidraResource(t, ns, manifests(sets(3), thing), every(interval))
		v := awaitReady(t, ns)
		objects += len(v.Status.ManagedResources)
	}
	require.GreaterOrEqual(t, objects, 50)
	awaitSilence(t)

	mark, passes := auditMark(t), reconciles(t)
	require.Never(t, func() bool {
		return len(operatorSince(t, mark).Writes()) > 0
	}, quiet, time.Second, "writes of the operator while nothing happens")
	await(t, func(c *assert.CollectT) {
		require.GreaterOrEqual(c, reconciles(c)-passes, resources*rounds)
	}, "every object is looked at")
	sent := operatorSince(t, mark)
	passes = reconciles(t) - passes
	require.Empty(t, sent.Writes(), "%s", sent)
	require.Empty(t, sent.Only(verbIs("get")), "%s", sent)
	require.Empty(t, sent.Only(verbIs("list")), "%s", sent)
	t.Logf("%d objects of %d VidraResources: %d passes, %d requests in %s, all of them watches:\n%s",
		objects, resources, passes, len(sent), quiet, sent)
}

// awaitSilence waits until the operator has sent nothing for two seconds, between some
// looks in a row: it has done what it had to, and the controllers of Kubernetes have got
// over what the test made. Heals that the status does not count yet are not waited for.
func awaitSilence(t *testing.T) {
	t.Helper()
	// They are counted, because a machine that stands still is silent for a while, too.
	const looks, every = 10, 200 * time.Millisecond
	mark, silent := auditMark(t), 0
	require.Eventually(t, func() bool {
		if silent++; len(operatorSince(t, mark)) > 0 {
			mark, silent = auditMark(t), 0
		}
		return silent >= looks
	}, patience, every, "the operator has done what it had to")
}

// reconciles is how many passes over VidraResources the operator has made.
func reconciles(t require.TestingT) int { return metric(t, operator, passesMetric) }
