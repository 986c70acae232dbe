package faultproxy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// watchConfigMaps selects what the tests of watches inject faults for.
var watchConfigMaps = Match{Verb: "watch", Resource: configMaps}

func TestWatchPassesAtOnce(t *testing.T) {
	p, ns := start(t), namespace(t)
	w := watchNew(t, through(t, p), ns)
	require.Equal(t, 1, p.Streams(watchConfigMaps), "a watch without an event is there at once")
	require.Zero(t, p.Streams(Match{Resource: secrets}))
	for i := range 5 {
		name := fmt.Sprintf("event-%d", i)
		createDirect(t, ns, name)
		began := time.Now()
		requireAdded(t, w, name)
		require.Less(t, time.Since(began), 5*time.Second, "an event does not wait for others")
	}
	w.Stop()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.Zero(t, p.Streams(watchConfigMaps))
	}, wait30, poll, "a watch that its client stops is not running")
}

func TestCloseAfter(t *testing.T) {
	const after = 2 * time.Second
	p, ns := start(t), namespace(t)
	p.Inject(Match{Resource: configMaps}, CloseAfter(after).Times(2))
	began := time.Now()
	w := watchNew(t, through(t, p), ns)
	createDirect(t, ns, "before")
	requireAdded(t, w, "before")
	requireClosed(t, w)
	require.GreaterOrEqual(t, time.Since(began), after, "it ends when its time has come")
	require.Zero(t, p.Streams(Match{}))

	w = watchNew(t, through(t, p), ns)
	createDirect(t, ns, "later")
	requireAdded(t, w, "later")
}

// expired is what an API server says to a watch from a version that it no
// longer has.
var expired = apierrors.NewResourceExpired("too old resource version")

func TestErrorEvents(t *testing.T) {
	p := start(t)
	viaJSON := func(ns string) watch.Interface { return watchNew(t, through(t, p), ns) }
	viaProtobuf := func(ns string) watch.Interface {
		cfg := p.Config()
		cfg.ContentType = runtime.ContentTypeProtobuf
		c, err := kubernetes.NewForConfig(cfg)
		require.NoError(t, err)
		list, err := c.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		w, err := c.CoreV1().ConfigMaps(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		require.NoError(t, err)
		t.Cleanup(w.Stop)
		return w
	}
	tests := map[string]struct {
		reason string
		watch  func(ns string) watch.Interface
	}{
		"JSON":     {"dynamic clients read JSON", viaJSON},
		"protobuf": {"typed clients and clients of metadata read protobuf", viaProtobuf},
	}
	requireExpired := func(t *testing.T, w watch.Interface) {
		event, ok := next(t, w)
		require.True(t, ok)
		require.Equal(t, watch.Error, event.Type)
		require.Equal(t, expired.Error(), apierrors.FromObject(event.Object).Error())
		require.True(t, apierrors.IsResourceExpired(apierrors.FromObject(event.Object)), "%v", event.Object)
		requireClosed(t, w)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ns := namespace(t)
			match := Match{Verb: "watch", Namespace: ns}
			w := tt.watch(ns)
			createDirect(t, ns, "first")
			requireAdded(t, w, "first")
			require.Equal(t, 1, p.ErrorStreams(match, expired), tt.reason)
			requireExpired(t, w)

			rule := p.Inject(Match{Namespace: ns}, ErrorEvent(expired))
			requireExpired(t, tt.watch(ns))
			require.Equal(t, 2, rule.Hits(), "the LIST before the WATCH passes unchanged")
			rule.Remove()
			w = tt.watch(ns)
			createDirect(t, ns, "second")
			requireAdded(t, w, "second")
		})
	}
}

func TestErrorEventComesAlone(t *testing.T) {
	p, ns := start(t), namespace(t)
	p.Inject(watchConfigMaps, ErrorEvent(expired))
	c := through(t, p).Resource(configMaps).Namespace(ns)
	for range 20 { // what would come before it may be late
		w, err := c.Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		event, ok := next(t, w)
		require.True(t, ok)
		require.Equal(t, watch.Error, event.Type, "not what is there when the watch begins")
		requireClosed(t, w)
	}
}

func TestRunningStreamsEnd(t *testing.T) {
	tests := map[string]struct {
		reason  string
		end     func(*Proxy, Match) int
		require func(*testing.T, watch.Interface)
	}{
		"cut":   {"a connection breaks", (*Proxy).CutStreams, requireCut},
		"close": {"a server closes a watch early", (*Proxy).CloseStreams, requireClosed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p, ns, other := start(t), namespace(t), namespace(t)
			c := through(t, p)
			w, spared := watchNew(t, c, ns), watchNew(t, c, other)
			createDirect(t, ns, "before")
			requireAdded(t, w, "before")

			require.Equal(t, 1, tt.end(p, Match{Namespace: ns}), tt.reason)
			require.Zero(t, tt.end(p, Match{Namespace: ns}), "a watch ends once")
			require.Equal(t, 1, p.Streams(Match{}), "the other watch is running")
			tt.require(t, w)
			createDirect(t, other, "after")
			requireAdded(t, spared, "after")

			w = watchNew(t, c, ns)
			createDirect(t, ns, "again")
			requireAdded(t, w, "again")
		})
	}
}

func TestWatchIsCutAfterBytes(t *testing.T) {
	p, ns := start(t), namespace(t)
	p.Inject(watchConfigMaps, CutAfter(10))
	w := watchNew(t, through(t, p), ns)
	createDirect(t, ns, "half")
	requireCut(t, w)
}

func TestRefusedWatchIsNoStream(t *testing.T) {
	p, ns := start(t), namespace(t)
	cfg := p.Config()
	cfg.Impersonate.UserName = "powerless"
	c, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	p.Inject(watchConfigMaps, ErrorEvent(expired))
	_, err = c.CoreV1().ConfigMaps(ns).Watch(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "what the server refuses stays refused: %v", err)
}

func TestUnknownEncodingIsRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/cbor-seq")
	}))
	defer server.Close()
	p, err := Start(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	defer p.Close()
	_, err = through(t, p).Resource(configMaps).Watch(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsInternalError(err), "%v", err)
	require.ErrorContains(t, err, `in JSON and protobuf only, not in "application/cbor-seq"`)
}
