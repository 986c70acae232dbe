package watchregistry

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/cluster"
)

// TestRemovedClusterIsForgotten looks at what a removed cluster leaves behind, while
// owners need a watch of it.
func TestRemovedClusterIsForgotten(t *testing.T) {
	r := newTestRegistry(t, Options{Linger: time.Hour})
	one, two, waits := Owner{Name: "one"}, Owner{Name: "two"}, Owner{Name: "waits"}
	// Before there is a cluster, which would be asked, and would have it.
	r.Await(waits, []Kind{{GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}}})
	addEmptyCluster(t, r, nil, func() {})
	secrets := Key{GVR: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}}
	r.Sync(one, []Key{configMapsV1, secrets})
	r.Sync(two, []Key{configMapsV1})
	r.Sync(one, []Key{configMapsV1}) // secrets linger
	c := r.Collector("vidra")
	require.Len(t, slices.Collect(r.awaited.All()), 1)
	require.Equal(t, 2, testutil.CollectAndCount(c, "vidra_watch_state"))

	r.RemoveCluster("elsewhere")
	require.Len(t, r.Watches(), 2, "a name that is not known is ignored")
	r.RemoveCluster("")
	require.Empty(t, r.Watches())
	require.Empty(t, slices.Collect(r.needed.All()))
	require.Empty(t, slices.Collect(r.awaited.All()))
	require.Empty(t, r.Audit())
	require.Zero(t, testutil.CollectAndCount(c, "vidra_watch_state", "vidra_watch_owners", "vidra_watch_restarts_total"))
	require.Equal(t, Degraded, r.Sync(one, []Key{configMapsV1})[configMapsV1].State, "the cluster is not known")
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.running) == 0
	}, 10*time.Second, time.Millisecond, "their goroutines end")
	r.Wake("")
	r.WakeWatch(configMapsV1) // there is nothing to wake
}

// TestRemovedClusterTellsNobody has a cluster be removed while there is something to
// tell of it.
func TestRemovedClusterTellsNobody(t *testing.T) {
	calls := make(chan Key, 100)
	goOn := make(chan struct{})
	r := newTestRegistry(t, Options{OnWatch: func(_ Owner, key Key, _ Status) {
		calls <- key
		<-goOn
	}})
	addEmptyCluster(t, r, nil, func() {})
	for _, name := range []string{"one", "two", "three"} {
		r.Sync(Owner{Name: name}, []Key{configMapsV1})
	}
	require.Equal(t, configMapsV1, <-calls)
	r.RemoveCluster("")
	close(goOn)
	told := make(chan struct{})
	r.notifier.add(t.Context(), func() { close(told) }) // after all that waited
	<-told
	require.Empty(t, calls)
}

// TestRemovedClusterDoesNotSpeakForTheNext has the answers of a cluster come when
// another one has its name.
func TestRemovedClusterDoesNotSpeakForTheNext(t *testing.T) {
	r := newTestRegistry(t, Options{OnKind: func(_ Owner, kind Kind) { t.Errorf("%s was told to have come", kind.GVK) }})
	stall := func() { <-r.ctx.Done() }
	addEmptyCluster(t, r, nil, stall)
	owner, kind := Owner{Name: "one"}, Kind{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}
	r.mu.Lock()
	old := r.clusters[""]
	r.mu.Unlock()
	r.Sync(owner, []Key{configMapsV1})
	var w *watch
	var run *informerRun
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		w = r.watches[configMapsV1]
		run = w.current
		return run != nil
	}, 10*time.Second, time.Millisecond)

	r.RemoveCluster("")
	addEmptyCluster(t, r, nil, stall)
	r.Sync(owner, []Key{configMapsV1})
	r.Await(owner, []Kind{kind})
	require.Empty(t, old.interestIn("").kinds, "it is not asked")
	old.notifyServed(kind)
	for _, what := range []event{started, synced, listed, answered, failed, notServed} {
		w.applyEvent(run, what, ReasonForbidden, errNotServed(configMapsV1))
	}
	told := make(chan struct{})
	r.notifier.add(t.Context(), func() { close(told) })
	<-told
	require.Equal(t, Starting, r.Watches()[0].State)
	require.True(t, r.awaited.Needed(kind))
	require.Empty(t, r.Audit())
}

// TestTooManyKinds: of another cluster that adds CustomResourceDefinitions without end, no more are stored than of another kind.
func TestTooManyKinds(t *testing.T) {
	t.Parallel()
	const more = 2 * maxRemoteObjects
	sent := make(chan int, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		if !strings.HasSuffix(r.URL.Path, "/"+cluster.Definitions.Resource) || len(sent) > 0 {
			<-r.Context().Done()
			return
		}
		write := func(kind, name string) error {
			_, err := fmt.Fprintf(w, `{"type":%q,"object":{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":%q,"resourceVersion":"1","annotations":{%q:"true"}}}}`+"\n",
				kind, name, metav1.InitialEventsAnnotationKey)
			return err
		}
		err := write("BOOKMARK", "")
		n := 0
		for ; n < more && err == nil; n++ {
			err = write("ADDED", fmt.Sprintf("kind-%d.example.com", n))
		}
		sent <- n
	}))
	t.Cleanup(server.Close)
	r := newTestRegistry(t, Options{})
	r.AddCluster("https://there:6443", &emptyCluster{config: &rest.Config{Host: server.URL, Transport: &http.Transport{DisableKeepAlives: true}}, asked: func() {}})
	require.Less(t, <-sent, more, "the stream is ended before")
	r.RemoveCluster("https://there:6443")
}
