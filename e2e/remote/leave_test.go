package remote

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// seriesWith are the series of the operator's metrics whose name or labels contain a text.
func seriesWith(t require.TestingT, text string) []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(suite.Metrics(t, operator))), func(series string) bool {
		return !strings.Contains(series, text)
	})
}

// goroutines is how many the operator has.
func goroutines(t require.TestingT) int { return suite.Metric(t, operator, "go_goroutines") }

// TestLastOneLeaves deletes the VidraResources of a destination: the last one takes its
// watches, goroutines and connections along, and a new one begins anew.
func TestLastOneLeaves(t *testing.T) {
	d, forwarder := newAccountDestination(t)
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	inMetrics := `destination="` + d.url() + `"`
	// The first destination has the Secrets read, from then on.
	warm := newVidraResource(t, d.url(), d.name, greeting("warm", "hello"), named(d.name+"-warm"))
	awaitReady(t, warm.Name)
	remove(t, warm)
	here.AwaitGone(t, warm)
	await(t, func(c *assert.CollectT) { require.Zero(c, forwarder.Connections()) })
	before := goroutines(t)
	for range 2 {
		first := newVidraResource(t, d.url(), d.name, greeting("first", "hello"), named(d.name+"-first"))
		last := newVidraResource(t, d.url(), d.name, manifests(greeting("last", "hello"), idle), named(d.name+"-last"))
		awaitReady(t, first.Name)
		awaitReady(t, last.Name)
		require.NotEmpty(t, seriesWith(t, inMetrics))
		require.NotZero(t, forwarder.Connections())
		require.Greater(t, goroutines(t), before)

		remove(t, first)
		here.AwaitGone(t, first)
		there.edit(t, configMap(d.name, "last"), `{"data":{"greeting":"changed"}}`)
		there.awaitSays(t, d.name, "last", "hello")
		remove(t, last)
		here.AwaitGone(t, last)
		await(t, func(c *assert.CollectT) {
			for _, line := range seriesWith(c, inMetrics) {
				require.False(c, strings.HasPrefix(line, "vidra_watch_") || strings.HasPrefix(line, "vidra_trigger_"), line)
			}
			require.Zero(c, forwarder.Connections())
			require.LessOrEqual(c, goroutines(c), before+5)
		}, "nothing is left of the destination")
		// The end of an earlier request may be noted later.
		mark, left := there.AuditMark(t), time.Now()
		require.Never(t, func() bool {
			return slices.ContainsFunc(there.RequestsBy(t, mark, d.user), func(r testenv.AuditEvent) bool {
				if r.Time.After(left) {
					t.Log(r)
				}
				return r.Time.After(left)
			})
		}, time.Second, 10*poll, "it is asked for nothing")
	}
	require.Zero(t, suite.Metric(t, operator, "vidra_watch_inconsistencies_total"))
}

// TestRestart kills the operator while remote objects are in order: nothing is written.
func TestRestart(t *testing.T) {
	d, _ := newDestination(t)
	newVidraResource(t, d.url(), d.name, manifests(greeting("page", "hello"), greeting("other", "hello"), idle))
	awaitReady(t, d.name)
	settled := awaitCondition(t, d.name, metav1.Condition{
		Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHealthy,
	})
	marks := []testenv.AuditMark{here.AuditMark(t), there.AuditMark(t)}
	killOperator(t)
	require.NoError(t, launch(t.Context()))
	await(t, func(c *assert.CollectT) {
		lines := seriesWith(c, `vidra_watch_state{destination="`+d.url()+`"`)
		require.Len(c, lines, 2)
		for _, line := range lines {
			require.Contains(c, line, `state="Synced"`)
		}
	}, "it watches again")
	there.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"changed"}}`)
	there.awaitSays(t, d.name, "page", "hello")
	there.requireOnePatch(t, marks[1], d.user, d.name)
	v := awaitReady(t, d.name)
	require.Equal(t, settled.Status.Conditions, v.Status.Conditions, "no condition changed")
	writes := here.RequestsBy(t, marks[0], suite.OperatorUser).Writes().Only(func(e suite.Request) bool { return e.Name == d.name })
	require.LessOrEqual(t, len(writes), 1, "the heal may be told: %s", writes)
}

// TestRestartWhileRemoteIsAway kills the operator while it cannot reach what it
// manages: it says that, once, and forgets nothing.
func TestRestartWhileRemoteIsAway(t *testing.T) {
	const watched = 4 * time.Second
	d, proxy := newDestination(t)
	newVidraResource(t, d.url(), d.name, manifests(greeting("page", "hello"), greeting("other", "hello")))
	ready := awaitReady(t, d.name)
	killOperator(t)
	t.Cleanup(func() { require.NoError(t, proxy.Up()) })
	proxy.Down()
	require.NoError(t, launch(t.Context()))
	v := awaitUnreachable(t, d.name, "refused")
	require.Equal(t, ready.Status.ManagedResources, v.Status.ManagedResources)

	awaitEvent(t, v, corev1.EventTypeWarning, "DestinationUnreachable", "") // what waits is lost with a killed process
	since := time.Now()
	await(t, func(c *assert.CollectT) { // its watches are told of after it
		if now := getVidraResource(c, d.name); now.ResourceVersion != v.ResourceVersion {
			v, since = now, time.Now()
		}
		require.Greater(c, time.Since(since), time.Second)
	})

	// Once more, while the status says so already.
	killOperator(t)
	mark := here.AuditMark(t)
	require.NoError(t, launch(t.Context()))
	require.Never(t, func() bool {
		return getVidraResource(t, d.name).ResourceVersion != v.ResourceVersion
	}, watched, poll, "the status does not flap: %s", here.RequestsBy(t, mark, suite.OperatorUser).Writes())
	setManifest(t, v.Name, greeting("page", "hi"))
	awaitUnreachable(t, d.name, "refused")
	require.Equal(t, "hello", there.says(t, d.name, "other"))
	require.NoError(t, proxy.Up())
	there.awaitSays(t, d.name, "page", "hi")
	there.AwaitGone(t, configMap(d.name, "other"))
	awaitReady(t, d.name)
	require.Len(t, eventsAbout(t, v, "DestinationUnreachable"), 1)
}
