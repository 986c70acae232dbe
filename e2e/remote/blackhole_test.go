package remote

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// healTime edits a local ConfigMap that says hello, again and again, and returns how
// long the edits lived in the median.
func healTime(t *testing.T, namespace string) time.Duration {
	t.Helper()
	const (
		edits = 20
		// look is how often the object is read, which costs this test and the API server most of
		// their processor time.
		look = 5 * time.Millisecond
	)
	page := configMap(namespace, "page")
	var took []time.Duration
	for i := range edits {
		before := time.Now()
		here.edit(t, page, `{"data":{"greeting":"changed %d"}}`, i)
		require.Eventually(t, func() bool {
			live := page.DeepCopy()
			return here.Admin.Get(context.Background(), client.ObjectKeyFromObject(page), live) == nil && live.Data["greeting"] == "hello"
		}, patience, look)
		took = append(took, time.Since(before))
	}
	slices.Sort(took)
	return took[len(took)/2]
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
	here.MakeNamespace(t, home)
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
	before := healTime(t, home)
	isKnown := func() bool {
		return meta.FindStatusCondition(getVidraResource(t, owners[0]).Status.Conditions, v1alpha1.ConditionReady).Reason == v1alpha1.ReasonDestinationUnreachable
	}
	// asFast measures anew, unless it is known meanwhile: the machine may be busy with
	// something else.
	asFast := func(known bool) {
		took, most := healTime(t, home), 2*before+poll
		for again := 0; again < 3 && took >= most; again++ {
			if next := healTime(t, home); isKnown() == known {
				took = min(took, next)
			}
		}
		t.Logf("heals here in the median: %s before, and %s, known: %t", before, took, known)
		require.Less(t, took, most)
	}

	mark := proxy.Mark()
	stall := proxy.Inject(faultproxy.Match{}, faultproxy.Stall())
	t.Cleanup(stall.Remove) // or nothing could be cleaned up
	stalled := time.Now()
	for _, owner := range owners {
		there.edit(t, configMap(d.name, owner), `{"data":{"greeting":"changed"}}`)
		setManifest(t, owner, greeting(owner, "hi"))
	}
	require.Eventually(t, func() bool { return stall.Hits() > 0 }, patience, poll)
	asFast(false)
	for _, owner := range owners {
		awaitUnreachable(t, owner, "does not answer in time", "check that it runs")
		t.Logf("%s is said to be out of reach after %s", owner, time.Since(stalled).Round(time.Millisecond))
	}
	said := len(proxy.Requests(mark, faultproxy.Match{}))
	proxy.CutStreams(faultproxy.Match{})
	mark, since := proxy.Mark(), time.Now()
	asFast(true)
	for time.Since(since) < quiet {
		healTime(t, home)
	}
	asked := slices.DeleteFunc(proxy.Requests(mark, faultproxy.Match{}), func(q faultproxy.Request) bool { return q.Time.Sub(since) > quiet })
	t.Logf("%d requests until it was known, then %d in %s", said, len(asked), quiet)
	require.Less(t, len(asked), requestsMost, "%v", asked)

	back := time.Now()
	stall.Remove()
	for _, owner := range owners {
		there.awaitSays(t, d.name, owner, "hi")
		awaitReady(t, owner)
	}
	for _, owner := range owners {
		require.Empty(t, eventsAbout(t, getVidraResource(t, owner), v1alpha1.ReasonApplyFailed), "nothing was wrong with the objects")
	}
	t.Logf("in order %s after it was back", time.Since(back).Round(time.Millisecond))
}
