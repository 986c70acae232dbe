package watches

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// elsewhere is the name of a second cluster. It is the same API server behind
// another proxy.
const elsewhere = "elsewhere"

// at are watches in another cluster.
func at(name string, keys ...watchregistry.Key) []watchregistry.Key {
	keys = slices.Clone(keys)
	for i := range keys {
		keys[i].Cluster = name
	}
	return keys
}

// add adds a cluster with a client of its own.
func (l *lab) add(t *testing.T, name string, config *rest.Config) {
	t.Helper()
	destination, err := cluster.New(config)
	require.NoError(t, err)
	l.AddCluster(name, destination)
}

// addBehindProxy adds a cluster behind a proxy of its own.
func (l *lab) addBehindProxy(t *testing.T, name string) *faultproxy.Proxy {
	t.Helper()
	proxy, err := faultproxy.Start(env.Config)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	l.add(t, name, proxy.Config())
	return proxy
}

// tolds are how often owners were told of the state of a watch.
func (l *lab) tolds() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.told)
}

// requireRemoved removes a cluster, and requires that nothing is left of it: what
// count counts is back at before, the proxy is asked for nothing, and no subscriber is notified.
func (l *lab) requireRemoved(t *testing.T, name string, proxy *faultproxy.Proxy, count func() int, before int) {
	t.Helper()
	atOnce(t, "RemoveCluster", func() { l.RemoveCluster(name) })
	told := l.tolds()
	for _, w := range l.Watches() {
		require.NotEqual(t, name, w.Key.Cluster)
	}
	require.Empty(t, l.Audit())
	await(t, func(c *assert.CollectT) { assert.LessOrEqual(c, count(), before, "the goroutines end") })
	require.LessOrEqual(t, settled(t, count), before)
	mark := proxy.Mark() // what was on its way has arrived
	require.LessOrEqual(t, settled(t, count), before)
	require.Empty(t, proxy.Requests(mark, faultproxy.Match{}))
	require.LessOrEqual(t, l.tolds(), told+1, "one call may have been under way")
	require.Empty(t, l.Audit())
}

// TestRemoveCluster removes a cluster whose watches owners hold, whatever state they
// are in, and adds another one under its name at once.
func TestRemoveCluster(t *testing.T) {
	t.Parallel()
	missing := keyOf(testenv.CRD("remove-cluster-missing"))
	forbidden := faultproxy.Status(apierrors.NewForbidden(configMaps.GVR.GroupResource(), "", nil))
	tests := map[string]struct {
		reason string
		// keys are watched in it.
		keys []watchregistry.Key
		// spoil has the watches come into their state.
		spoil func(proxy *faultproxy.Proxy)
		state watchregistry.State
		// then is their state in the next cluster.
		then watchregistry.State
		// released has the owners leave before.
		released bool
	}{
		"Synced":   {keys: builtIn(4), state: watchregistry.Synced, reason: "Streams are open."},
		"Draining": {keys: builtIn(4), state: watchregistry.Draining, released: true, reason: "They linger for an hour, without an owner."},
		"Starting": {
			keys: builtIn(20), state: watchregistry.Starting, reason: "16 lists are not answered, and 4 watches wait for their places.",
			spoil: func(proxy *faultproxy.Proxy) { proxy.Inject(faultproxy.Match{}, faultproxy.Stall()) },
		},
		"Refused": {
			keys: builtIn(4), state: watchregistry.Degraded, reason: "No server listens, and requests are backed off.",
			spoil: func(proxy *faultproxy.Proxy) { proxy.Down() },
		},
		"Forbidden": {
			keys: builtIn(4), state: watchregistry.Degraded, reason: "The breakers wait for longer.",
			spoil: func(proxy *faultproxy.Proxy) { proxy.Inject(faultproxy.Match{}, forbidden) },
		},
		"Pending": {
			keys: []watchregistry.Key{missing}, state: watchregistry.Pending, then: watchregistry.Pending,
			reason: "There is no informer, and discovery is asked now and then.",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count := goroutines(t)
			l := newLab(t, labOptions{linger: time.Hour})
			one, two := owner("one"), owner("two")
			l.Sync(one, []watchregistry.Key{secrets})
			l.becomes(t, secrets, watchregistry.Synced)
			await(t, func(c *assert.CollectT) {
				assert.Equal(c, 3, l.Streams(faultproxy.Match{}), "that of the watch, and those of kinds")
			})
			before := settled(t, count)

			proxy := l.addBehindProxy(t, elsewhere)
			if tc.spoil != nil {
				tc.spoil(proxy)
			}
			keys := at(elsewhere, tc.keys...)
			l.Ensure(one, keys)
			l.Sync(two, keys)
			l.Await(two, []watchregistry.Kind{{Cluster: elsewhere, GVK: missing.GVR.GroupVersion().WithKind("Thing")}})
			if tc.released {
				l.synced(t, keys)
				l.Sync(one, []watchregistry.Key{secrets})
				l.Sync(two, nil)
			}
			for _, key := range keys {
				l.becomes(t, key, tc.state)
			}
			l.requireRemoved(t, elsewhere, proxy, count, before)
			require.Equal(t, []watchregistry.Owner{one}, l.watch(secrets).Owners, "the other cluster is not disturbed: "+tc.reason)
			require.EqualValues(t, 1, l.watch(secrets).InformerRuns)
			require.Equal(t, watchregistry.Degraded, l.Ensure(two, keys)[keys[0]].State, "its state is forgotten")

			if tc.then == "" {
				tc.then = watchregistry.Synced
			}
			l.addBehindProxy(t, elsewhere)
			l.Ensure(one, keys)
			for _, key := range keys {
				l.becomes(t, key, tc.then)
				require.Equal(t, []watchregistry.Owner{one}, l.watch(key).Owners, "who does not ask again does not need it")
			}
		})
	}
}

// TestRemoveClusterAndAddAnother has a name change hands while its watches run: what
// happens in the old cluster is not told, and everything of the new one is.
func TestRemoveClusterAndAddAnother(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	key := at(elsewhere, configMaps)[0]
	old := l.addBehindProxy(t, elsewhere)
	cm := l.configMap(t, "one")
	l.Sync(owner("one"), []watchregistry.Key{key})
	l.becomes(t, key, watchregistry.Synced)
	require.True(t, l.knows(configMaps, cm))

	old.Down()
	l.becomes(t, key, watchregistry.Degraded)
	l.RemoveCluster(elsewhere)
	next := l.addBehindProxy(t, elsewhere)
	require.Equal(t, watchregistry.Starting, l.Sync(owner("one"), []watchregistry.Key{key})[key].State)
	require.NoError(t, old.Up())
	mark := old.Mark()
	l.becomes(t, key, watchregistry.Synced)
	edit(t, cm)
	await(t, func(c *assert.CollectT) { assert.True(c, l.knows(configMaps, cm)) })
	require.EqualValues(t, 1, l.watch(key).InformerRuns)
	require.Empty(t, old.Requests(mark, faultproxy.Match{}), "the old one is asked for nothing any more")
	require.Positive(t, next.Streams(resource(key, "watch")))
	deleted, _ := l.gone(configMaps, cm)
	require.Zero(t, deleted, "that a cluster is gone does not mean that its objects are deleted")
}

// TestRemoveLocalCluster removes the cluster that every other test begins with.
func TestRemoveLocalCluster(t *testing.T) {
	t.Parallel()
	count := goroutines(t)
	l := newLab(t, labOptions{})
	l.RemoveCluster("")
	before := settled(t, count)
	l.add(t, "", l.Config())
	l.Sync(owner("one"), builtIn(4))
	l.synced(t, builtIn(4))
	l.requireRemoved(t, "", l.Proxy, count, before)
	require.Empty(t, l.Watches())
}

// TestHundredClusterCycles adds a cluster, follows what is there, and removes it,
// again and again. It is not parallel, because it measures this process.
func TestHundredClusterCycles(t *testing.T) {
	const warmUp, cycles = 20, 100
	l := newLab(t, labOptions{direct: true})
	l.Sync(owner("undisturbed"), []watchregistry.Key{configMaps})
	l.becomes(t, configMaps, watchregistry.Synced)
	keys := at(elsewhere, builtIn(4)...)
	cycle := func() {
		l.add(t, elsewhere, env.Config)
		l.Sync(owner("one"), keys)
		l.synced(t, keys)
		l.RemoveCluster(elsewhere)
	}
	for range warmUp {
		cycle()
	}
	before := usageAtRest(t, l)
	for range cycles {
		cycle()
	}
	after := usageAtRest(t, l)
	t.Logf("goroutines %d -> %d, heap %d -> %d KiB", before.goroutines, after.goroutines, before.heap>>10, after.heap>>10)
	require.LessOrEqual(t, after.goroutines, before.goroutines+5)
	require.Less(t, after.heap, before.heap+512<<10, "less than 6 KiB of each cycle")
	require.EqualValues(t, 1, l.watch(configMaps).InformerRuns, "another cluster's watch is not disturbed")
	require.Empty(t, l.Audit())
}
