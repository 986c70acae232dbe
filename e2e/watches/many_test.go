package watches

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// view is what an owner sees of the status of a watch that can be compared.
type view struct {
	State  watchregistry.State
	Reason watchregistry.Reason
}

const (
	// badKinds is how many kinds cannot be watched: a third each is forbidden, missing and stalled.
	badKinds = 15
	// goodShort is how many others there are, or goodLong in long tests: several times the
	// number of lists that may be under way.
	goodShort, goodLong = 65, 185
)

func viewOf(status watchregistry.Status) view { return view{status.State, status.Reason} }

// lastTold is what an owner was told last of each watch.
func lastTold(all []told, owner string) map[watchregistry.Key]view {
	last := map[watchregistry.Key]view{}
	for _, told := range all {
		if told.owner == owner && told.status.State != "" {
			last[told.watch] = viewOf(told.status)
		}
	}
	return last
}

// manyKinds are kinds of which badKinds cannot be watched.
type manyKinds struct {
	// config is that of a user who may not see the forbidden ones.
	config                            *rest.Config
	good, forbidden, missing, stalled []watchregistry.Key
}

// bad are the kinds that cannot be watched.
func (k *manyKinds) bad() []watchregistry.Key {
	return slices.Concat(k.forbidden, k.missing, k.stalled)
}

// newManyKinds makes the kinds. A version of a kind is watched like a kind of its
// own, and costs less to make.
func newManyKinds(t *testing.T) *manyKinds {
	t.Helper()
	const customKinds, builtInKinds, badOfEach = 3, 35, badKinds / 3
	k := &manyKinds{}
	usual := builtIn(1 + 2*badOfEach)
	k.forbidden, k.stalled = usual[1:1+badOfEach], usual[1+badOfEach:]
	for _, key := range everyBuiltIn(t) {
		if !slices.Contains(k.bad(), key) {
			k.good = append(k.good, key)
		}
	}
	t.Logf("%d of the kinds are built in", len(k.good))
	good := suite.Size(goodShort, goodLong)
	names := make([]string, (good-builtInKinds+customKinds-1)/customKinds)
	for i := range names {
		names[i] = fmt.Sprintf("v%d", i+1)
	}
	for range customKinds {
		crd := testenv.CRD(unique(t), names...)
		install(t, crd)
		key := keyOf(crd)
		for _, name := range names {
			key.GVR.Version = name
			k.good = append(k.good, key)
		}
	}
	require.GreaterOrEqual(t, len(k.good), good)
	k.good = k.good[len(k.good)-good:]
	for range badOfEach {
		k.missing = append(k.missing, keyOf(testenv.CRD(unique(t))))
	}
	require.Len(t, k.bad(), badKinds)

	user := unique(t)
	var err error
	k.config, err = env.UserConfig(user)
	require.NoError(t, err)
	allowed := []schema.GroupVersionResource{
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, {Group: "apiregistration.k8s.io", Resource: "apiservices"},
	}
	for _, key := range slices.Concat(k.good, k.missing, k.stalled) {
		allowed = append(allowed, key.GVR)
	}
	grant(t, user, allowed...)
	return k
}

// stall has the API server not answer the lists of some kinds, of which every
// other one is not streamed.
func (k *manyKinds) stall(l *lab) []*faultproxy.Rule {
	rules := make([]*faultproxy.Rule, 0, len(k.stalled))
	for i, key := range k.stalled {
		if i%2 == 0 {
			rules = append(rules, l.Inject(resource(key, "watch"), faultproxy.Stall()))
			continue
		}
		rules = append(rules, l.Inject(resource(key, "list"), faultproxy.Stall()))
		l.notStreamed(key, 1)
	}
	return rules
}

// views are what there is to see of all watches.
func (l *lab) views() map[watchregistry.Key]view {
	views := map[watchregistry.Key]view{}
	for _, w := range l.Watches() {
		views[w.Key] = viewOf(w.Status)
	}
	return views
}

// start has an owner ask for kinds, and returns how long Sync took, and how long
// it was until the good ones were Synced.
func (k *manyKinds) start(t *testing.T, l *lab, keys []watchregistry.Key) (call, synced time.Duration) {
	t.Helper()
	start := time.Now()
	statuses := l.Sync(owner("one"), keys)
	call = time.Since(start)
	require.Less(t, call, time.Second, "Sync does not wait")
	require.Len(t, statuses, len(keys))
	for key, status := range statuses {
		require.Equal(t, watchregistry.Starting, status.State, "%s: it was asked for just now", key)
	}
	await(t, func(c *assert.CollectT) {
		views := l.views()
		for _, key := range k.good {
			assert.Equal(c, view{State: watchregistry.Synced}, views[key], "%s", key)
		}
	})
	good := map[watchregistry.Key]bool{}
	for _, key := range k.good {
		good[key] = true
	}
	for _, w := range l.Watches() {
		if good[w.Key] {
			synced = max(synced, w.Since.Sub(start))
		}
	}
	return call, synced
}

// become waits until watches look like that.
func (l *lab) become(t *testing.T, keys []watchregistry.Key, state watchregistry.State, reason watchregistry.Reason) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		views := l.views()
		for _, key := range keys {
			assert.Equal(c, view{state, reason}, views[key], "%s", key)
		}
	})
}

// repeated are the reports that told an owner what it had been told just before.
// A told without a state notes that the owner asked for the watch again, at that
// time: it does not know what has happened in between.
func repeated(all []told) []told {
	type pair struct {
		owner string
		watch watchregistry.Key
	}
	last, asked := map[pair]told{}, map[pair]time.Time{}
	var found []told
	for _, now := range all {
		p := pair{now.owner, now.watch}
		if now.status.State == "" {
			asked[p] = now.status.Since
			continue
		}
		before, known := last[p]
		if known && viewOf(before.status) == viewOf(now.status) && !asked[p].After(before.status.Since) {
			found = append(found, now)
		}
		last[p] = now
	}
	return found
}

// alone starts the good kinds with no bad one among them.
func (k *manyKinds) alone(t *testing.T) time.Duration {
	t.Helper()
	l := newLab(t, labOptions{config: k.config})
	_, took := k.start(t, l, k.good)
	return took
}

// among starts the good kinds and the bad ones, which are asked for first.
func (k *manyKinds) among(t *testing.T) time.Duration {
	t.Helper()
	l := newLab(t, labOptions{config: k.config})
	stalls := k.stall(l)
	start := time.Now()
	call, took := k.start(t, l, slices.Concat(k.bad(), k.good))
	t.Logf("Sync of %d kinds took %s", len(k.good)+badKinds, call)
	hanging := l.views()
	if time.Since(start) < 10*time.Second {
		for _, key := range k.stalled {
			require.Equal(t, view{State: watchregistry.Starting}, hanging[key], "%s: it has not been silent for long", key)
		}
	}
	l.become(t, k.forbidden, watchregistry.Degraded, watchregistry.ReasonForbidden)
	l.become(t, k.missing, watchregistry.Pending, watchregistry.ReasonNotFound)
	l.become(t, k.stalled, watchregistry.Degraded, watchregistry.ReasonUnavailable)
	for _, stall := range stalls {
		require.NotZero(t, stall.Hits(), "it was asked for and is not answered")
	}
	l.become(t, k.good, watchregistry.Synced, "")
	require.Empty(t, l.Audit())
	all := len(k.good) + badKinds
	await(t, func(c *assert.CollectT) { assert.GreaterOrEqual(c, l.tolds(), all) })
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(t, repeated(l.told), "an owner is told once of each change")
	require.Len(t, l.told, all, "each watch changed its state once")
	return took
}

// TestTwoHundredKinds: an engine started one kind after the other, and each one that
// could not be watched kept those behind it waiting. Here none waits: the good kinds are
// Synced as soon as they are without the 5 that are forbidden, the 5 that do not exist
// and the 5 that are never answered. It is not parallel, because it measures time.
func TestTwoHundredKinds(t *testing.T) {
	k := newManyKinds(t)
	measure := func(name string, start func(*testing.T) time.Duration) (took time.Duration) {
		require.True(t, t.Run(name, func(t *testing.T) { took = start(t) }))
		return took
	}
	measure("warm-up", k.alone) // the API server makes its caches
	// The bad ones hold 5 of the 16 places for lists, and the machine may be busy with
	// something else.
	const rounds = 5
	asFast := false
	for round := 0; round < rounds && !asFast; round++ {
		alone, among := measure("alone", k.alone), measure("among", k.among)
		t.Logf("%d kinds were Synced after %s alone, and after %s among %d bad ones: %.2f times as long",
			len(k.good), alone.Round(time.Millisecond), among.Round(time.Millisecond), badKinds, among.Seconds()/alone.Seconds())
		asFast = among < min(2*alone+time.Second, silence) // after which a place is given up
	}
	require.True(t, asFast, "the good ones do not wait for the bad ones")
}
