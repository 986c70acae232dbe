package watchregistry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var configMapsV1 = Key{GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}

// emptyCluster is a cluster whose API server serves nothing, and whose
// discovery says otherwise.
type emptyCluster struct {
	config *rest.Config
	asked  func()
}

func (c *emptyCluster) Dynamic() dynamic.Interface   { return dynamic.NewForConfigOrDie(c.config) }
func (c *emptyCluster) Metadata() metadata.Interface { return metadata.NewForConfigOrDie(c.config) }
func (c *emptyCluster) Invalidate(string)            {}

func (c *emptyCluster) ServesKind(context.Context, schema.GroupVersionKind) (bool, error) {
	c.asked()
	return true, nil
}

func (c *emptyCluster) ServesResource(context.Context, schema.GroupVersionResource) (bool, error) {
	c.asked()
	return true, nil
}

// newTestRegistry makes a registry without a cluster.
func newTestRegistry(t *testing.T, o Options) *Registry {
	t.Helper()
	if o.HandlerFor == nil {
		o.HandlerFor = func(string, schema.GroupVersionResource) cache.ResourceEventHandler {
			return cache.ResourceEventHandlerFuncs{}
		}
	}
	r := New(o)
	t.Cleanup(r.Stop)
	return r
}

// addEmptyCluster adds a cluster that answers 404 to everything. asked is called
// when discovery is asked.
func addEmptyCluster(t *testing.T, r *Registry, wrap func(http.RoundTripper) http.RoundTripper, asked func()) {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, Transport: &http.Transport{DisableKeepAlives: true}, WrapTransport: wrap}
	r.AddCluster("", &emptyCluster{config: config, asked: asked})
}

// TestReleaseWhileDiscoveryAnswers has the last owner of a watch leave at the
// moment at which discovery is asked for its resource.
func TestReleaseWhileDiscoveryAnswers(t *testing.T) {
	owner := Owner{Name: "one"}
	released := make(chan struct{})
	var once sync.Once
	r := newTestRegistry(t, Options{Linger: -1})
	addEmptyCluster(t, r, nil, func() {
		r.Release(owner)
		once.Do(func() { close(released) })
	})
	r.Sync(owner, []Key{configMapsV1})
	<-released
	r.Stop() // waits for the goroutine of the watch
	require.Empty(t, r.Watches())
	require.Empty(t, r.running)
}

// TestEnsureKeepsOneStatus requires that the statuses take no memory for each key of the same watch:
// an owner asks for the watch of each of its objects, and keeps the statuses.
func TestEnsureKeepsOneStatus(t *testing.T) {
	const objects = 100_000
	r := newTestRegistry(t, Options{Linger: -1})
	want := slices.Repeat([]Key{configMapsV1}, objects)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	statuses := r.Ensure(Owner{Name: "one"}, want)
	runtime.ReadMemStats(&after)
	require.Len(t, statuses, 1)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(objects), "in bytes: goroutines of other tests take some, too")
}

// freeMutex fails the test when the registry's mutex cannot be had while a
// request is made.
type freeMutex struct {
	t        *testing.T
	mu       *sync.Mutex
	requests *atomic.Int64
	next     http.RoundTripper
}

func (f freeMutex) RoundTrip(req *http.Request) (*http.Response, error) {
	f.requests.Add(1)
	requireFree(f.t, f.mu, req.Method+" "+req.URL.Path)
	return f.next.RoundTrip(req)
}

// requireFree fails the test if mu cannot be had before what is under way goes
// on: whoever holds it then waits for that.
func requireFree(t *testing.T, mu *sync.Mutex, what string) {
	free := make(chan struct{})
	go func() {
		mu.Lock()
		defer mu.Unlock()
		close(free)
	}()
	select {
	case <-free:
	case <-time.After(10 * time.Second):
		t.Errorf("the mutex is held during: %s", what)
	}
}

// TestMutexIsFree makes every request, every question to discovery and every
// callback check that the mutex can be had.
func TestMutexIsFree(t *testing.T) {
	var r *Registry
	var requests, called atomic.Int64
	callback := func(what string) {
		called.Add(1)
		requireFree(t, &r.mu, what)
	}
	r = newTestRegistry(t, Options{
		Linger: -1,
		HandlerFor: func(string, schema.GroupVersionResource) cache.ResourceEventHandler {
			callback("HandlerFor")
			return cache.ResourceEventHandlerFuncs{}
		},
		TransformFor: func(string, schema.GroupVersionResource) cache.TransformFunc {
			callback("TransformFor")
			return nil
		},
		OnWatch: func(Owner, Key, Status) { callback("OnWatch") },
		OnKind:  func(Owner, Kind) { callback("OnKind") },
	})
	addEmptyCluster(t, r, func(next http.RoundTripper) http.RoundTripper {
		return freeMutex{t: t, mu: &r.mu, requests: &requests, next: next}
	}, func() { callback("discovery") })
	one, two := Owner{Name: "one"}, Owner{Name: "two"}
	secrets := Key{GVR: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}}
	r.Await(one, []Kind{{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}})
	for range 20 {
		r.Sync(one, []Key{configMapsV1, secrets})
		r.Ensure(two, []Key{secrets})
		r.Watches()
		require.Empty(t, r.Audit())
		r.Release(one)
	}
	require.Eventually(t, func() bool { return requests.Load() > 0 && called.Load() > 0 }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool {
		w := r.Watches()
		return len(w) == 1 && w[0].State == Degraded
	}, 10*time.Second, time.Millisecond, "404 although discovery serves it")
	require.Empty(t, r.Audit())
}

func TestUnknownClusterIsDegraded(t *testing.T) {
	r := newTestRegistry(t, Options{})
	key := Key{Cluster: "elsewhere", GVR: configMapsV1.GVR}
	status := r.Sync(Owner{Name: "one"}, []Key{key})[key]
	require.Equal(t, Degraded, status.State)
	require.Contains(t, status.Message, "elsewhere")
	require.Empty(t, r.Watches())
	require.Empty(t, r.Audit())
}

// TestOwnersAreToldInOrder has a callback be slow.
func TestOwnersAreToldInOrder(t *testing.T) {
	n := newNotifier()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.run(ctx)
	}()
	var heard []int
	all := make(chan struct{})
	for i := range 1000 {
		n.add(ctx, func() {
			heard = append(heard, i)
			if i == 999 {
				close(all)
			}
		})
	}
	<-all
	cancel()
	<-done
	for i := range heard {
		require.Equal(t, i, heard[i])
	}
	require.Len(t, heard, 1000)
}

func TestMetricsEndWithTheWatch(t *testing.T) {
	r := newTestRegistry(t, Options{Linger: -1})
	addEmptyCluster(t, r, nil, func() {})
	owner := Owner{Namespace: "team", Name: "web"}
	r.Sync(owner, []Key{configMapsV1})
	require.Eventually(t, func() bool { return r.Watches()[0].State == Degraded }, 10*time.Second, time.Millisecond)
	c := r.Collector("vidra")
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP vidra_watch_owners Owners that need the watch.
# TYPE vidra_watch_owners gauge
vidra_watch_owners{destination="",group="",resource="configmaps",version="v1",watched_namespace=""} 1
# HELP vidra_watch_state 1 for the state of the watch, with its reason.
# TYPE vidra_watch_state gauge
vidra_watch_state{destination="",group="",reason="NotFound",resource="configmaps",state="Degraded",version="v1",watched_namespace=""} 1
# HELP vidra_watch_inconsistencies_total Contradictions that audits found. Anything but 0 is a defect: please report it.
# TYPE vidra_watch_inconsistencies_total counter
vidra_watch_inconsistencies_total 0
`), "vidra_watch_owners", "vidra_watch_state", "vidra_watch_inconsistencies_total"))
	require.Equal(t, 1, testutil.CollectAndCount(c, "vidra_watch_restarts_total"))

	view := httptest.NewRecorder()
	r.ServeHTTP(view, httptest.NewRequest(http.MethodGet, "/watches", nil))
	require.Equal(t, http.StatusOK, view.Code)
	for _, part := range []string{`"watch": "configmaps.v1"`, `"team/web"`, `"state": "Degraded"`, `"reason": "NotFound"`, `"since": "`} {
		require.Contains(t, view.Body.String(), part)
	}
	refused := httptest.NewRecorder()
	r.ServeHTTP(refused, httptest.NewRequest(http.MethodDelete, "/watches", nil))
	require.Equal(t, http.StatusMethodNotAllowed, refused.Code)

	r.Release(owner)
	require.Zero(t, testutil.CollectAndCount(c, "vidra_watch_state", "vidra_watch_owners", "vidra_watch_restarts_total"))
}

// TestAuditFindsContradictions breaks a registry in every way that the audit
// knows of.
func TestAuditFindsContradictions(t *testing.T) {
	one := Owner{Name: "one"}
	cases := map[string]struct {
		reason string
		spoil  func(r *Registry, w *watch)
	}{
		"OwnerWithoutWatch":    {"An index entry without an informer.", func(r *Registry, w *watch) { delete(r.watches, w.key) }},
		"WatchWithoutOwner":    {"It would never be stopped.", func(r *Registry, w *watch) { r.needed.Drop(w.key) }},
		"NoGoroutine":          {"Nobody follows the changes.", func(r *Registry, w *watch) { delete(r.running, w) }},
		"StrayGoroutine":       {"Nobody can stop it.", func(r *Registry, _ *watch) { r.running[newWatch(r, configMapsV1, nil)] = struct{}{} }},
		"SyncedWithoutSync":    {"It would pass for complete.", func(_ *Registry, w *watch) { w.shown.phase = phase{state: Synced} }},
		"PendingWithInformer":  {"It would ask for what is not served.", func(_ *Registry, w *watch) { w.shown.phase.state, w.current = Pending, &informerRun{} }},
		"StoppedAndKept":       {"It would never start again.", func(_ *Registry, w *watch) { w.shown.phase.state = Stopped }},
		"ClusterWasRemoved":    {"Nobody could stop it.", func(r *Registry, _ *watch) { delete(r.clusters, "") }},
		"AbandonedWithAnOwner": {"It would be shown as Draining.", func(_ *Registry, w *watch) { w.shown.phase.unowned = true }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newTestRegistry(t, Options{Linger: -1})
			addEmptyCluster(t, r, nil, func() {})
			r.Sync(one, []Key{configMapsV1})
			require.Eventually(t, func() bool { return r.Watches()[0].State == Degraded }, 10*time.Second, time.Millisecond)
			require.Empty(t, r.Audit())
			r.mu.Lock()
			tc.spoil(r, r.watches[configMapsV1])
			r.mu.Unlock()
			require.NotEmpty(t, r.Audit(), tc.reason)
			require.NotZero(t, r.counts.inconsistencies.Load())
			require.EqualValues(t, 2, r.counts.audits.Load())
		})
	}
}

// TestAuditRunsEveryMinute: vidra_watch_audits_total shows that audits run.
func TestAuditRunsEveryMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRegistry(t, Options{})
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		require.EqualValues(t, 2, r.counts.audits.Load())
	})
}

// TestRepeatedWatchFailures: the message of a watch that fails in the same way stays the same, whatever the local port of the connection was.
func TestRepeatedWatchFailures(t *testing.T) {
	t.Parallel()
	r := newTestRegistry(t, Options{})
	w := &watch{registry: r, key: configMapsV1, ctx: t.Context(), stats: newStats(), shown: shownState{phase: phase{state: Starting}}}
	message := func(port int) string {
		r.mu.Lock()
		defer r.mu.Unlock()
		w.transitionLocked(failed, ReasonUnavailable, fmt.Errorf("read tcp 10.0.0.1:%d->10.0.0.2:443: read: connection reset by peer", port))
		return w.shown.message
	}
	require.Equal(t, message(41000), message(41001))
}

// TestAnswerWithoutAKind: the message of a watch lacks the objects of a list in which the API server names no kind.
func TestAnswerWithoutAKind(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"items":[{"data":{"password":"it's hunter2\n'hunter2'"}}]}`)
	}))
	t.Cleanup(server.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	_, err = client.Resource(configMapsV1.GVR).List(t.Context(), metav1.ListOptions{})
	require.ErrorContains(t, err, "hunter2", "the client quotes it")
	r := newTestRegistry(t, Options{})
	w := &watch{registry: r, key: configMapsV1, ctx: t.Context(), stats: newStats(), shown: shownState{phase: phase{state: Starting}}}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.transitionLocked(failed, ReasonUnavailable, fmt.Errorf("failed to list: %w", err))
	require.Equal(t, "failed to list: Object 'Kind' is missing in an answer of the API server", w.shown.message)
}

// silentCluster is a cluster with a failing discovery.
type silentCluster struct{ emptyCluster }

func (*silentCluster) ServesResource(context.Context, schema.GroupVersionResource) (bool, error) {
	return false, errors.New("unavailable")
}

// TestGroupWithoutAnAnswer: discovery fails for a moment after the end of an APIService, and the watch of its kind stays open, so that only further checks
// notice that the kind is gone.
func TestGroupWithoutAnAnswer(t *testing.T) {
	r := newTestRegistry(t, Options{})
	c := newClusterWatches(r, "", &silentCluster{})
	c.noticing.Store(int32(len(c.backoffs)))
	w := newWatch(r, configMapsV1, c)
	w.current = &informerRun{}
	r.watches[configMapsV1] = w
	c.checkGroup("")
	require.Equal(t, 1, c.groups.NumRequeues(""))
	delete(r.watches, configMapsV1)
}
