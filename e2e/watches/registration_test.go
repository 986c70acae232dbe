package watches

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// builtIn are the watches of n kinds that every API server has, configMaps first.
func builtIn(n int) []watchregistry.Key {
	resources := map[schema.GroupVersion][]string{
		{Version: "v1"}: {
			"endpoints", "limitranges", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes",
			"pods", "podtemplates", "replicationcontrollers", "resourcequotas", "secrets", "serviceaccounts", "services",
		},
		{Group: "apps", Version: "v1"}:              {"controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"},
		{Group: "batch", Version: "v1"}:             {"cronjobs", "jobs"},
		{Group: "networking.k8s.io", Version: "v1"}: {"ingresses", "networkpolicies"},
	}
	var keys []watchregistry.Key
	for gv, names := range resources {
		for _, name := range names {
			keys = append(keys, watchregistry.Key{GVR: gv.WithResource(name)})
		}
	}
	slices.SortFunc(keys, func(a, b watchregistry.Key) int { return strings.Compare(a.String(), b.String()) })
	return append([]watchregistry.Key{configMaps}, keys...)[:n]
}

// resource matches the requests of a watch.
func resource(key watchregistry.Key, verb string) faultproxy.Match {
	return faultproxy.Match{Verb: verb, Resource: key.GVR}
}

// synced waits until watches are Synced.
func (l *lab) synced(t *testing.T, keys []watchregistry.Key) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		for _, key := range keys {
			w := l.watch(key)
			assert.Equal(c, watchregistry.Synced, w.State, "%s: %s: %s", key, w.Reason, w.Message)
		}
	})
}

// callEverything calls every method that a pass may call, and fails the test if
// one of them waits.
func (l *lab) callEverything(t *testing.T, owner watchregistry.Owner, keys []watchregistry.Key) {
	t.Helper()
	kind := watchregistry.Kind{GVK: keys[0].GVR.GroupVersion().WithKind("Thing")}
	atOnce(t, "Ensure", func() { l.Ensure(owner, keys[:1]) })
	atOnce(t, "Await", func() { l.Await(owner, []watchregistry.Kind{kind}) })
	atOnce(t, "Sync", func() { l.Sync(owner, keys) })
	atOnce(t, "Get", func() { l.Get(keys[0], "default", "any") })
	atOnce(t, "Watches", func() { l.Watches() })
	atOnce(t, "Audit", func() { assert.Empty(t, l.Audit()) })
	atOnce(t, "Release", func() { l.Release(owner) })
}

// TestF03StalledServerBlocksNoCall: a lock was held over discovery, over a LIST
// and over the wait for a sync, and with a semaphore on top an engine stood still
// for 16 hours. Here all three hang, and no call waits for any of them.
func TestF03StalledServerBlocksNoCall(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{linger: time.Millisecond})
	missing := keyOf(testenv.CRD(unique(t)))
	listing, syncing := secrets, services
	l.Inject(resource(listing, "list"), faultproxy.Stall())
	l.notStreamed(listing, 1)
	l.Inject(resource(syncing, "watch"), faultproxy.Stall())
	l.Inject(discoveries(missing), faultproxy.Stall())
	l.Sync(owner("one"), []watchregistry.Key{missing, listing, syncing, configMaps})
	await(t, func(c *assert.CollectT) {
		for _, match := range []faultproxy.Match{resource(listing, "list"), resource(syncing, "watch"), discoveries(missing)} {
			assert.NotEmpty(c, l.Requests(0, match), "it hangs")
		}
	})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 20 {
				l.callEverything(t, owner(fmt.Sprint(i)), []watchregistry.Key{missing, listing, syncing, configMaps})
			}
		})
	}
	all.Wait()
	l.becomes(t, configMaps, watchregistry.Synced)
	require.NotEqual(t, watchregistry.Synced, l.watch(listing).State)
}

// TestF03StalledListsGiveUpTheirPlaces: a semaphore that nothing gave back kept
// every other list from being sent. Here more kinds hang than there are places.
func TestF03StalledListsGiveUpTheirPlaces(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	const places, silence = 16, 10 * time.Second
	keys := builtIn(places + 5)
	good, stalled := keys[0], keys[1:]
	rules := make([]*faultproxy.Rule, 0, len(stalled))
	for i, key := range stalled {
		if i%2 == 0 {
			rules = append(rules, l.Inject(resource(key, "watch"), faultproxy.Stall()))
			continue
		}
		rules = append(rules, l.Inject(resource(key, "list"), faultproxy.Stall()))
		l.notStreamed(key, 1)
	}
	hanging := func() int {
		hits := 0
		for _, rule := range rules {
			hits += rule.Hits()
		}
		return hits
	}
	l.Sync(owner("one"), stalled)
	await(t, func(c *assert.CollectT) { assert.GreaterOrEqual(c, hanging(), places) })
	start := time.Now()
	l.Sync(owner("two"), []watchregistry.Key{good})
	require.Never(t, func() bool { return hanging() > places }, time.Second, 50*time.Millisecond, "no more lists than there are places")
	l.becomes(t, good, watchregistry.Synced)
	require.Less(t, time.Since(start), silence+5*time.Second)
	for _, rule := range rules {
		rule.Remove() // the API server answers late
	}
	l.synced(t, stalled)
}

// TestF06SyncWhileTheWatchEnds: a clean-up looked for watches that no owner needs,
// and then stopped one that an owner had asked for in between. Here owners come
// back at the very moment at which the watches end, before it and after it, and
// each ends with watches that are Synced.
func TestF06SyncWhileTheWatchEnds(t *testing.T) {
	t.Parallel()
	const linger, rounds, step = 20 * time.Millisecond, 40, 250 * time.Microsecond
	l := newLab(t, labOptions{linger: linger})
	keys, owners := builtIn(16), []watchregistry.Owner{owner("one"), owner("three"), owner("two")}
	var kept, anew atomic.Int64
	for round := range rounds {
		comeBack := time.Now().Add(linger + time.Duration(round-rounds/2)*step)
		for _, owner := range owners {
			l.Release(owner)
		}
		var all sync.WaitGroup
		for _, owner := range owners {
			all.Go(func() {
				for time.Now().Before(comeBack) {
					l.Watches() // the more there is to wait for, the more orders there are
				}
				for _, status := range l.Sync(owner, keys) {
					if status.State == watchregistry.Synced {
						kept.Add(1)
					} else {
						anew.Add(1)
					}
				}
			})
		}
		all.Wait()
		require.Empty(t, l.Audit(), "round %d", round)
		l.synced(t, keys)
		for _, key := range keys {
			require.Equal(t, owners, l.watch(key).Owners, "round %d", round)
		}
	}
	t.Logf("watches were found running %d times, and started anew %d times", kept.Load(), anew.Load())
	require.NotZero(t, kept.Load())
	require.NotZero(t, anew.Load())
}

// TestF07StopWhileTheServerIsAway: to stop a watch, an engine first fetched its
// informer, and waited for that to sync, which it never did again. Here a watch
// that ran and one that never did are stopped at once.
func TestF07StopWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		fault  func(l *lab)
	}{
		"down": {
			reason: "the server is not there",
			fault:  func(l *lab) { l.Down() },
		},
		"stalls": {
			reason: "requests hang",
			fault: func(l *lab) {
				l.Inject(faultproxy.Match{}, faultproxy.Stall())
				l.CutStreams(faultproxy.Match{})
			},
		},
		"429": {
			reason: "client-go itself waits for what the server asks for",
			fault: func(l *lab) {
				l.Inject(faultproxy.Match{}, faultproxy.Status(apierrors.NewTooManyRequests("later", 30)))
				l.CutStreams(faultproxy.Match{})
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			running := goroutines(t)
			l := newLab(t, labOptions{linger: -1})
			await(t, func(c *assert.CollectT) {
				assert.Equal(c, 2, l.Streams(faultproxy.Match{}), "those of kinds")
			})
			before := settled(t, running)
			l.Sync(owner("one"), []watchregistry.Key{configMaps})
			l.becomes(t, configMaps, watchregistry.Synced)
			tt.fault(l)
			l.Sync(owner("one"), []watchregistry.Key{configMaps, secrets})
			await(t, func(c *assert.CollectT) { assert.Zero(c, l.Streams(faultproxy.Match{})) })
			require.Greater(t, running(), before)

			atOnce(t, "Release", func() { l.Release(owner("one")) })
			require.Empty(t, l.Watches())
			await(t, func(c *assert.CollectT) { assert.LessOrEqual(c, running(), before, tt.reason) })
			l.Sync(owner("one"), []watchregistry.Key{configMaps, secrets})
			atOnce(t, "Stop", l.Stop)
			await(t, func(c *assert.CollectT) { assert.Zero(c, running(), tt.reason) })
		})
	}
}

// TestF11OwnersComeAndGo: whether a watch had no owner left was looked up under
// one lock and the watch was removed under another; an owner that came in between
// was noted for a watch that was not there. Here owners come and go as fast as
// they can, and every time that they pause, owners, watches and streams agree.
func TestF11OwnersComeAndGo(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{linger: -1})
	keys := append(builtIn(4), keyOf(testenv.CRD(unique(t))))
	const owners, rounds, changes = 6, 20, 50
	for round := range rounds {
		var all sync.WaitGroup
		for i := range owners {
			all.Go(func() {
				one := owner(fmt.Sprint(i))
				for range changes {
					some := keys[rand.IntN(len(keys)):]
					switch rand.IntN(3) {
					case 0:
						l.Ensure(one, some)
					case 1:
						l.Sync(one, some)
					default:
						l.Release(one)
					}
				}
				l.Sync(one, keys[i%len(keys):][:1]) // no owner needs the others
			})
		}
		all.Wait()
		require.Empty(t, l.Audit(), "round %d", round)
		require.Len(t, l.Watches(), len(keys))
	}
	l.Release(owner("1")) // the only one that needs keys[1]
	l.synced(t, []watchregistry.Key{keys[0], keys[2], keys[3]})
	l.becomes(t, keys[4], watchregistry.Pending)
	require.Equal(t, []watchregistry.Owner{owner("0"), owner("5")}, l.watch(keys[0]).Owners)
	for i, want := range []int{1, 0, 1, 1, 0} {
		await(t, func(c *assert.CollectT) {
			assert.Equal(c, want, l.Streams(resource(keys[i], "watch")), "%s: none without an owner", keys[i])
		})
	}
}
