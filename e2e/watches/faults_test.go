package watches

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

const (
	// silence is how long a request goes on without an answer before its watch is
	// Degraded.
	silence = 10 * time.Second
	// givenUp is how long a streamed list goes on without an event before it is
	// given up.
	givenUp = 30 * time.Second
)

// awaitFor is await for what takes about as long as usual.
func awaitFor(t *testing.T, usual time.Duration, condition func(c *assert.CollectT), msgAndArgs ...any) {
	t.Helper()
	require.EventuallyWithT(t, condition, usual+patience, poll, msgAndArgs...)
}

// TestF24ExpiredWatch: a watch that was told 410 Gone was not started again, or from
// the same resourceVersion. Here it lists anew where it is told so, once, and is
// Synced all the time.
func TestF24ExpiredWatch(t *testing.T) {
	t.Parallel()
	gone := faultproxy.Status(expired())
	tests := map[string]struct {
		reason string
		// expire has the API server say 410.
		expire func(l *lab)
		// expired is how often it does, and lists how often all objects are asked for.
		expired, lists int
		// verb is that of the requests for them.
		verb string
	}{
		"RunningWatch": {"It ends with an ERROR event.", func(l *lab) {
			l.ErrorStreams(requests("watch", configMaps), expired())
		}, 1, 1, "watch"},
		"ResumedWatch": {"It is refused where it goes on from.", func(l *lab) {
			l.Inject(requests("watch", configMaps), gone.Times(1))
			l.CloseStreams(requests("watch", configMaps))
		}, 1, 1, "watch"},
		"StreamedList": {"The list that comes then has expired too, and begins with the newest.", func(l *lab) {
			l.Inject(requests("watch", configMaps), gone.Times(1))
			l.ErrorStreams(requests("watch", configMaps), expired())
		}, 2, 2, "watch"},
		"List": {"So has one that is not streamed.", func(l *lab) {
			l.Inject(requests("list", configMaps), gone.Times(1))
			l.notStreamed(configMaps, 1)
			l.ErrorStreams(requests("watch", configMaps), expired())
		}, 2, 3, "list"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labOptions{})
			cm := l.configMap(t, "one")
			l.Sync(owner("one"), []watchregistry.Key{configMaps})
			l.settles(t, configMaps)
			mark := l.Mark()
			tc.expire(l)
			edit(t, cm)
			l.agrees(t)
			edit(t, cm)
			l.agrees(t)
			l.becomes(t, configMaps, watchregistry.Synced)
			if tc.verb == "watch" && !streams() {
				tc.verb, tc.lists = "list", tc.lists+1 // after the one that the API server refuses
			}
			lists := l.lists(mark, configMaps)
			require.Len(t, lists, tc.lists, tc.reason)
			require.Equal(t, tc.verb, lists[len(lists)-1].Verb)
			w := l.watch(configMaps)
			require.EqualValues(t, tc.expired, w.Restarts["Expired"])
			require.EqualValues(t, 1, w.InformerRuns)
			if tc.expired == 1 {
				require.Equal(t, []watchregistry.State{watchregistry.Synced}, l.states("one", configMaps), "no owner is told of what is usual")
			}
		})
	}
}

// TestF24ExpiredForEver: client-go asks anew at once where a list has expired, which
// is a busy loop where every answer is 410. Here the watch is Degraded, asks about
// once a second, and recovers; another one is not disturbed.
func TestF24ExpiredForEver(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faultproxy.Fault{
		"Code":  faultproxy.Status(expired()),
		"Event": faultproxy.ErrorEvent(expired()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labOptions{})
			cm := l.configMap(t, "one")
			l.Sync(owner("one"), []watchregistry.Key{configMaps})
			l.Sync(owner("two"), []watchregistry.Key{secrets})
			l.settles(t, configMaps, secrets)
			mark, start := l.Mark(), time.Now()
			rule := l.Inject(requests("watch", configMaps), fault)
			l.CloseStreams(requests("watch", configMaps))
			l.becomes(t, configMaps, watchregistry.Degraded)
			require.Equal(t, watchregistry.ReasonUnavailable, l.watch(configMaps).Reason)
			edit(t, cm)
			hit(t, rule, 6)
			l.aboutOnceASecond(t, mark, start, 3)
			rule.Remove()
			l.becomes(t, configMaps, watchregistry.Synced)
			l.agrees(t)
			require.Equal(t, []watchregistry.State{watchregistry.Synced}, l.states("two", secrets))
		})
	}
}

// aboutOnceASecond requires that there were not more requests for ConfigMaps than
// one a second, and some more.
func (l *lab) aboutOnceASecond(t *testing.T, mark faultproxy.Mark, start time.Time, more int) {
	t.Helper()
	n, took := len(l.Requests(mark, requests("", configMaps))), time.Since(start)
	t.Logf("%d requests in %s", n, took.Round(time.Millisecond))
	require.LessOrEqual(t, n, int(took.Seconds())+more)
}

// TestF24StalledList: a request that the API server never answers held an engine up
// for as long as it was patient. Here the watch says after 10 s that it does not
// know, another one is Synced meanwhile, and when the answer comes, nothing was lost.
func TestF24StalledList(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		verb   string
		plain  bool
		// running is whether the watch has synced before.
		running bool
	}{
		"StreamedList": {"No stream begins.", "watch", false, false},
		"List":         {"A list that is not streamed, after an expired watch.", "list", true, true},
		"ResumedWatch": {"A stream that ended does not go on.", "watch", false, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labOptions{})
			cm := l.configMap(t, "one")
			if tc.running {
				l.Sync(owner("one"), []watchregistry.Key{configMaps})
				l.settles(t, configMaps)
			}
			start := time.Now()
			rule := l.Inject(requests(tc.verb, configMaps), faultproxy.Stall())
			switch {
			case tc.plain:
				l.notStreamed(configMaps, 1)
				l.ErrorStreams(requests("watch", configMaps), expired())
			case tc.running:
				l.CloseStreams(requests("watch", configMaps))
			}
			l.Sync(owner("one"), []watchregistry.Key{configMaps, secrets})
			l.becomes(t, secrets, watchregistry.Synced)
			require.NotEqual(t, watchregistry.Degraded, l.watch(configMaps).State, "not before its time")
			hit(t, rule, 1)
			edit(t, cm)
			l.becomes(t, configMaps, watchregistry.Degraded)
			require.GreaterOrEqual(t, time.Since(start), silence)
			require.Equal(t, watchregistry.ReasonUnavailable, l.watch(configMaps).Reason, tc.reason)
			require.Equal(t, 1, rule.Hits(), "it waits, and sends no other request")
			rule.Remove()
			l.becomes(t, configMaps, watchregistry.Synced)
			l.agrees(t)
		})
	}
}

// TestF24StalledStreamIsGivenUp: a streamed list without an answer is asked for
// again after 30 s, though the API server never lets go of it.
func TestF24StalledStreamIsGivenUp(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	cm := l.configMap(t, "one")
	rule := l.Inject(requests("watch", configMaps), faultproxy.Stall().Times(1))
	start := time.Now()
	l.Sync(owner("one"), []watchregistry.Key{configMaps})
	awaitFor(t, givenUp, func(c *assert.CollectT) { assert.True(c, l.knows(configMaps, cm)) })
	l.becomes(t, configMaps, watchregistry.Synced)
	require.Equal(t, 1, rule.Hits())
	require.GreaterOrEqual(t, time.Since(start), givenUp)
	await(t, func(c *assert.CollectT) {
		told := slices.DeleteFunc(l.states("one", configMaps), func(s watchregistry.State) bool { return s == watchregistry.Starting }) // the list may come before its beginning is seen
		assert.Equal(c, []watchregistry.State{watchregistry.Degraded, watchregistry.Synced}, told)
	})
}

// TestF24ServerIgnoresStreamedLists: a server that does not know sendInitialEvents
// answers with a WATCH that has no end of the list in it, for which client-go waits
// for ever. Here it is asked for a plain list after 30 s, though the objects change all
// the time.
func TestF24ServerIgnoresStreamedLists(t *testing.T) {
	t.Parallel()
	config := rest.CopyConfig(env.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			query := r.URL.Query()
			if query.Has("sendInitialEvents") {
				// Our server sends the initial events to each client that begins a WATCH, but
				// marks their end only for clients that know bookmarks.
				for _, unknown := range []string{"sendInitialEvents", "resourceVersionMatch", "allowWatchBookmarks"} {
					query.Del(unknown)
				}
				r = r.Clone(r.Context())
				r.URL.RawQuery = query.Encode()
			}
			return next.RoundTrip(r)
		})
	})
	l := newLab(t, labOptions{config: config})
	cm := l.configMap(t, "one")
	start := time.Now()
	l.Sync(owner("one"), []watchregistry.Key{configMaps})
	l.becomes(t, configMaps, watchregistry.Degraded)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for l.watch(configMaps).State != watchregistry.Synced {
		edit(t, cm) // a sign of life, but not of a list
		<-tick.C
		require.Less(t, time.Since(start), givenUp+patience)
	}
	require.GreaterOrEqual(t, time.Since(start), givenUp)
	require.Len(t, l.Requests(0, requests("list", configMaps)), 1)
	edit(t, cm)
	l.agrees(t)
}

// TestF24ServerRefusesStreamedLists is the same for one that says so.
func TestF24ServerRefusesStreamedLists(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{})
	cm := l.configMap(t, "one")
	l.notStreamed(configMaps, 1)
	l.Sync(owner("one"), []watchregistry.Key{configMaps})
	l.becomes(t, configMaps, watchregistry.Synced)
	require.True(t, l.knows(configMaps, cm))
	edit(t, cm)
	l.agrees(t)
	require.Len(t, l.lists(0, configMaps), 2, "the streamed one and the other")
	await(t, func(c *assert.CollectT) {
		assert.Equal(c, []watchregistry.State{watchregistry.Synced}, l.states("one", configMaps), "that is no fault")
	})
}
