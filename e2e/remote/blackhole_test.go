package remote

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// healTimes edits a local ConfigMap that says hello, again and again, and returns how
// long the edits lived, the shortest first.
func healTimes(t *testing.T, namespace string) []time.Duration {
	t.Helper()
	const edits = 40
	page := configMap(namespace, "page")
	var took []time.Duration
	for i := range edits {
		before := time.Now()
		here.edit(t, page, `{"data":{"greeting":"changed %d"}}`, i)
		require.Eventually(t, func() bool {
			live := page.DeepCopy()
			return here.admin.Get(context.Background(), client.ObjectKeyFromObject(page), live) == nil && live.Data["greeting"] == "hello"
		}, patience, time.Millisecond)
		took = append(took, time.Since(before))
	}
	slices.Sort(took)
	return took
}

// TestBlackHole has a remote API server accept requests and answer none, while many
// VidraResources have something to do there. Local ones do not notice, and it is left
// in peace.
func TestBlackHole(t *testing.T) {
	const (
		many = 10
		// quiet is how long requests are counted, and requestsMost how many there may
		// be in it: probes, and watches that are tried again.
		quiet        = 6 * time.Second
		requestsMost = 10
	)
	d, proxy := newDestination(t)
	home := unique(t)
	here.newNamespace(t, home)
	newVidraResource(t, "", home, greeting("page", "hello"))
	var owners []string
	for i := range many {
		owner := fmt.Sprintf("%s-%d", d.name, i)
		owners = append(owners, owner)
		newVidraResource(t, d.url(), d.name, greeting(owner, "hello"), named(owner))
	}
	for _, owner := range append(owners, home) {
		awaitReady(t, owner)
	}
	before := healTimes(t, home)

	mark := proxy.Mark()
	stall := proxy.Inject(faultproxy.Match{}, faultproxy.Stall())
	t.Cleanup(stall.Remove) // or nothing could be cleaned up
	stalled := time.Now()
	for _, owner := range owners {
		there.edit(t, configMap(d.name, owner), `{"data":{"greeting":"changed"}}`)
		setManifest(t, read(t, owner), greeting(owner, "hi"))
	}
	require.Eventually(t, func() bool { return stall.Hits() > 0 }, patience, poll)
	hanging := healTimes(t, home)
	for _, owner := range owners {
		awaitUnreachable(t, owner, "does not answer in time", "see that it runs")
		t.Logf("%s is said to be out of reach after %s", owner, time.Since(stalled).Round(time.Millisecond))
	}
	said := len(proxy.Requests(mark, faultproxy.Match{}))
	proxy.CutStreams(faultproxy.Match{})
	mark, since := proxy.Mark(), time.Now()
	known := healTimes(t, home)
	for time.Since(since) < quiet {
		known = healTimes(t, home)
	}
	asked := proxy.Requests(mark, faultproxy.Match{})
	t.Logf("heals here in the median: %s before, %s while requests hang, %s while it is known; %d requests until it was known, then %d in %s",
		before[len(before)/2], hanging[len(before)/2], known[len(before)/2], said, len(asked), quiet)
	for _, during := range [][]time.Duration{hanging, known} {
		require.Less(t, during[len(during)/2], 2*before[len(before)/2]+poll)
	}
	require.Less(t, len(asked), requestsMost, "%v", asked)

	back := time.Now()
	stall.Remove()
	for _, owner := range owners {
		there.awaitSays(t, d.name, owner, "hi")
		awaitReady(t, owner)
	}
	for _, owner := range owners {
		require.Empty(t, eventsOf(t, read(t, owner), v1alpha1.ReasonApplyFailed), "nothing was wrong with the objects")
	}
	t.Logf("in order %s after it was back", time.Since(back).Round(time.Millisecond))
}
