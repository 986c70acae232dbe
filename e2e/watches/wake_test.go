package watches

import (
	"slices"
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

// requireSoon waits until a watch is Synced, for which the API server must have been
// asked soon: unwoken, what is tested here would wait for about twice as long.
func (l *lab) requireSoon(t *testing.T, key watchregistry.Key, woken time.Time, proxy *faultproxy.Proxy, match faultproxy.Match) {
	t.Helper()
	l.becomes(t, key, watchregistry.Synced)
	asked := proxy.Requests(0, match)
	first := slices.IndexFunc(asked, func(q faultproxy.Request) bool { return q.Time.After(woken) })
	require.GreaterOrEqual(t, first, 0)
	took := asked[first].Time.Sub(woken)
	t.Logf("asked %s after it was woken, and Synced after %s", took.Round(time.Millisecond), l.watch(key).Since.Sub(woken).Round(time.Millisecond))
	require.Less(t, took, soon)
}

// TestWakeForbidden grants a right that only the caller learns of: the watch
// is Synced at once, and not when its backoff is over.
func TestWakeForbidden(t *testing.T) {
	t.Parallel()
	for name, wake := range map[string]func(l *lab){
		"Cluster": func(l *lab) { l.Wake("") },
		"Watch":   func(l *lab) { l.WakeWatch(configMaps) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			user := unique(t)
			config, err := env.UserConfig(user)
			require.NoError(t, err)
			l := newLab(t, labOptions{config: config})
			l.Sync(owner("one"), []watchregistry.Key{configMaps})
			var asked []faultproxy.Request
			awaitFor(t, 10*time.Second, func(c *assert.CollectT) {
				asked = l.Requests(0, requests("watch", configMaps))
				assert.Len(c, asked, 4, "it waits for 8 seconds or more after the fourth refusal")
			})
			grant(t, user, configMaps.GVR)
			await(t, func(c *assert.CollectT) {
				assert.Greater(c, time.Since(asked[3].Time), 2*time.Second, "it may be asked again")
			})
			require.Equal(t, watchregistry.Degraded, l.watch(configMaps).State)
			woken := time.Now()
			atOnce(t, "Wake", func() { wake(l) })
			l.requireSoon(t, configMaps, woken, l.Proxy, requests("watch", configMaps))
		})
	}
}

// TestWakeUnreachable has a cluster be away for long enough for everything to wait
// long, and back: the watches, and those on its kinds, know it at once.
func TestWakeUnreachable(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	key := at(elsewhere, configMaps)[0]
	proxy := l.addBehindProxy(t, elsewhere)
	l.Sync(owner("one"), []watchregistry.Key{key})
	l.becomes(t, key, watchregistry.Synced)
	crds := faultproxy.Match{Verb: "watch", Resource: schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}}
	await(t, func(c *assert.CollectT) { assert.Equal(c, 1, proxy.Streams(crds)) })
	proxy.Down()
	awaitFor(t, 20*time.Second, func(c *assert.CollectT) {
		assert.GreaterOrEqual(c, l.watch(key).Restarts[string(watchregistry.ReasonUnavailable)], uint64(8), "it waits for 12 seconds or more")
	})
	require.Equal(t, watchregistry.Degraded, l.watch(key).State)
	mark := proxy.Mark()
	require.NoError(t, proxy.Up())
	woken := time.Now()
	atOnce(t, "Wake", func() { l.Wake(elsewhere) })
	await(t, func(c *assert.CollectT) { assert.NotEmpty(c, proxy.Requests(mark, crds)) })
	require.Less(t, proxy.Requests(mark, crds)[0].Time.Sub(woken), soon, "kinds that come are noticed again")
	l.requireSoon(t, key, woken, proxy, requests("watch", key))
}

// TestWakePending has a kind come that the watches on the kinds do not report.
func TestWakePending(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	for _, group := range []string{"apiextensions.k8s.io", "apiregistration.k8s.io"} {
		l.Inject(faultproxy.Match{Resource: schema.GroupVersionResource{Group: group}},
			faultproxy.Status(apierrors.NewForbidden(schema.GroupResource{Group: group}, "", nil)))
	}
	crd := testenv.CRD(unique(t))
	key := keyOf(crd)
	l.Sync(owner("one"), []watchregistry.Key{key})
	l.becomes(t, key, watchregistry.Pending)
	awaitFor(t, 10*time.Second, func(c *assert.CollectT) {
		assert.Len(c, l.Requests(0, discoveries(key)), 4, "it waits for 8 seconds or more after the third probe")
	})
	install(t, crd)
	require.Equal(t, watchregistry.Pending, l.watch(key).State, "no wake-up has come")
	woken := time.Now()
	l.WakeWatch(key)
	l.requireSoon(t, key, woken, l.Proxy, discoveries(key))
}
