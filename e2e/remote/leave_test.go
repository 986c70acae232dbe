package remote

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// metrics are the lines of the metrics of the operator that contain text.
func metrics(t require.TestingT, text string) []string {
	response, err := http.Get(operator.MetricsURL) //nolint:noctx // the operator is on this machine
	require.NoError(t, err)
	defer response.Body.Close() //nolint:errcheck // it was only read
	var lines []string
	scanner := bufio.NewScanner(response.Body)
	for scanner.Scan() {
		if line := scanner.Text(); !strings.HasPrefix(line, "#") && strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	require.NoError(t, scanner.Err())
	return lines
}

// goroutines is how many the operator has.
func goroutines(t require.TestingT) int {
	for _, line := range metrics(t, "go_goroutines ") {
		if value, found := strings.CutPrefix(line, "go_goroutines "); found {
			n, err := strconv.Atoi(value)
			require.NoError(t, err)
			return n
		}
	}
	require.Fail(t, "no metric go_goroutines")
	return 0
}

// TestLastOneLeaves deletes the VidraResources of a destination: the last one takes its
// watches, goroutines and connections along, and a new one begins anew.
func TestLastOneLeaves(t *testing.T) {
	d, forwarder := newAccountDestination(t)
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	inMetrics := `cluster="` + d.url() + `"`
	// The first destination has the Secrets read, from then on.
	warm := newVidraResource(t, d.url(), d.name, greeting("warm", "hello"), named(d.name+"-warm"))
	awaitReady(t, warm.Name)
	remove(t, warm)
	here.awaitGone(t, warm)
	await(t, func(c *assert.CollectT) { require.Zero(c, forwarder.Connections()) })
	before := goroutines(t)
	for range 2 {
		first := newVidraResource(t, d.url(), d.name, greeting("first", "hello"), named(d.name+"-first"))
		last := newVidraResource(t, d.url(), d.name, manifests(greeting("last", "hello"), idle), named(d.name+"-last"))
		awaitReady(t, first.Name)
		awaitReady(t, last.Name)
		require.NotEmpty(t, metrics(t, inMetrics))
		require.NotZero(t, forwarder.Connections())
		require.Greater(t, goroutines(t), before)

		remove(t, first)
		here.awaitGone(t, first)
		there.edit(t, configMap(d.name, "last"), `{"data":{"greeting":"changed"}}`)
		there.awaitSays(t, d.name, "last", "hello")
		remove(t, last)
		here.awaitGone(t, last)
		await(t, func(c *assert.CollectT) {
			for _, line := range metrics(c, inMetrics) {
				require.False(c, strings.HasPrefix(line, "vidra_watch_") || strings.HasPrefix(line, "vidra_trigger_"), line)
			}
			require.Zero(c, forwarder.Connections())
			require.LessOrEqual(c, goroutines(c), before+5)
		}, "nothing is left of the destination")
		mark := there.AuditMark()
		require.Never(t, func() bool { return len(there.since(t, mark, d.user)) > 0 }, time.Second, 10*poll, "it is asked for nothing")
	}
	for _, line := range metrics(t, "vidra_watch_inconsistencies_total") {
		require.True(t, strings.HasSuffix(line, " 0"), line)
	}
}

// TestRestart kills the operator while remote objects are in order: nothing is written.
func TestRestart(t *testing.T) {
	d, _ := newDestination(t)
	newVidraResource(t, d.url(), d.name, manifests(greeting("page", "hello"), greeting("other", "hello"), idle))
	awaitReady(t, d.name)
	settled := awaitCondition(t, d.name, v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	marks := []testenv.AuditMark{here.AuditMark(), there.AuditMark()}
	killOperator(t)
	require.NoError(t, launch(t.Context()))
	await(t, func(c *assert.CollectT) {
		lines := metrics(c, `vidra_watch_state{cluster="`+d.url()+`"`)
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
	writes := here.since(t, marks[0], operatorUser).writes().only(func(e testenv.AuditEvent) bool { return e.Name == d.name })
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

	awaitEvent(t, v, corev1.EventTypeWarning, "DestinationUnreachable") // what waits is lost with a killed process
	since := time.Now()
	await(t, func(c *assert.CollectT) { // its watches are told of after it
		if now := read(c, d.name); now.ResourceVersion != v.ResourceVersion {
			v, since = now, time.Now()
		}
		require.Greater(c, time.Since(since), time.Second)
	})

	// Once more, while the status says so already.
	killOperator(t)
	mark := here.AuditMark()
	require.NoError(t, launch(t.Context()))
	require.Never(t, func() bool {
		return read(t, d.name).ResourceVersion != v.ResourceVersion
	}, watched, poll, "the status does not flap: %s", here.since(t, mark, operatorUser).writes())
	setManifest(t, v, greeting("page", "hi"))
	awaitUnreachable(t, d.name, "refused")
	require.Equal(t, "hello", there.says(t, d.name, "other"))
	require.NoError(t, proxy.Up())
	there.awaitSays(t, d.name, "page", "hi")
	there.awaitGone(t, configMap(d.name, "other"))
	awaitReady(t, d.name)
	require.Len(t, eventsOf(t, v, "DestinationUnreachable"), 1)
}
