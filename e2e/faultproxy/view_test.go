package faultproxy

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// watchAll begins a watch with all objects of a namespace.
func watchAll(t *testing.T, c dynamic.Interface, ns string) watch.Interface {
	t.Helper()
	w, err := c.Resource(configMaps).Namespace(ns).Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: new(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

// named returns the names of the objects that a watch adds, up to the end of the initial ones.
func named(t *testing.T, w watch.Interface) (names []string) {
	t.Helper()
	for {
		e, open := next(t, w)
		require.True(t, open)
		if e.Type == watch.Bookmark {
			return names
		}
		if name := e.Object.(*unstructured.Unstructured).GetName(); name != "kube-root-ca.crt" {
			names = append(names, name)
		}
	}
}

// TestFreeze has watches that show a former state, while other requests reach the API server.
func TestFreeze(t *testing.T) {
	p, ns := start(t), namespace(t)
	c := through(t, p)
	createDirect(t, ns, "before")
	first := watchAll(t, c, ns)
	require.Equal(t, []string{"before"}, named(t, first))
	createDirect(t, ns, "seen")
	requireAdded(t, first, "seen")
	view := p.View()
	createDirect(t, ns, "unseen")
	requireAdded(t, first, "unseen")

	p.Freeze(view)
	stale := watchAll(t, c, ns)
	require.Equal(t, []string{"before"}, named(t, stale))
	requireAdded(t, stale, "seen")
	_, err := c.Resource(configMaps).Namespace(ns).Get(t.Context(), "unseen", metav1.GetOptions{})
	require.NoError(t, err, "a read is of the latest state")
	silent := watchNew(t, c, ns)
	createDirect(t, ns, "later")
	requireAdded(t, first, "later")
	p.Thaw()
	p.Thaw()
	requireClosed(t, stale)
	requireClosed(t, silent)
	require.ElementsMatch(t, []string{"before", "seen", "unseen", "later"}, named(t, watchAll(t, c, ns)))
}

// TestOnEvents has faults of single events.
func TestOnEvents(t *testing.T) {
	p, ns := start(t), namespace(t)
	w := watchNew(t, through(t, p), ns)
	fault := Twice
	p.OnEvents(func(_ Request, event []byte) EventFault {
		if bytes.Contains(event, []byte("faulty")) {
			return fault
		}
		return Pass
	})
	createDirect(t, ns, "faulty-twice")
	requireAdded(t, w, "faulty-twice")
	requireAdded(t, w, "faulty-twice")
	createDirect(t, ns, "other")
	requireAdded(t, w, "other")

	fault = Hold
	begin := time.Now()
	createDirect(t, ns, "faulty-held")
	requireAdded(t, w, "faulty-held")
	require.GreaterOrEqual(t, time.Since(begin), held)

	fault = Withhold
	createDirect(t, ns, "faulty-withheld")
	e, open := next(t, w)
	require.True(t, open)
	require.Equal(t, watch.Error, e.Type)
	requireClosed(t, w)
	p.OnEvents(nil)
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Zero(c, p.Streams(watchConfigMaps)) }, wait30, poll)
}
