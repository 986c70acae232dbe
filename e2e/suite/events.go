package suite

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	informers "k8s.io/client-go/informers/events/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EventsAbout lists the Events of Vidra that regard an object, with one of the reasons if
// any are given.
func (c *Cluster) EventsAbout(t require.TestingT, obj client.Object, reasons ...string) []eventsv1.Event {
	gvk, err := c.Admin.GroupVersionKindFor(obj)
	require.NoError(t, err)
	namespace := cmp.Or(obj.GetNamespace(), metav1.NamespaceDefault) // where the Events about cluster-scoped objects are
	all := &eventsv1.EventList{}
	about := client.MatchingFields{
		"reportingController": "vidra-operator", "regarding.kind": gvk.Kind, "regarding.name": obj.GetName(),
	}
	require.NoError(t, c.Admin.List(context.Background(), all, client.InNamespace(namespace), about))
	return slices.DeleteFunc(all.Items, func(e eventsv1.Event) bool {
		return len(reasons) > 0 && !slices.Contains(reasons, e.Reason)
	})
}

// AwaitEvent waits for an Event that regards an object, has a type, reason and action, and
// a note that contains each part. An empty action is any.
func (c *Cluster) AwaitEvent(t *testing.T, obj client.Object, kind, reason, action string, parts ...string) eventsv1.Event {
	t.Helper()
	var found *eventsv1.Event
	gvk, err := c.Admin.GroupVersionKindFor(obj)
	require.NoError(t, err)
	about := regardedBy(cmp.Or(obj.GetNamespace(), metav1.NamespaceDefault), gvk.Kind, obj.GetName())
	watched := c.watchedEvents(t)
	Await(t, func(collect *assert.CollectT) {
		all, err := watched.ByIndex(regardedIndex, about)
		require.NoError(collect, err)
		notes := make([]string, 0, len(all))
		for _, obj := range all {
			e := obj.(*eventsv1.Event)
			notes = append(notes, e.Reason+": "+e.Note)
			if e.Reason == reason && ContainsAll(e.Note, parts) {
				found = e
			}
		}
		require.NotNil(collect, found, "no Event %s with %q in %q", reason, parts, notes)
	})
	require.Equal(t, kind, found.Type)
	if action != "" {
		require.Equal(t, action, found.Action)
	}
	return *found
}

// regardedIndex is the index of the Events of Vidra by what they regard.
const regardedIndex = "regarded"

// regardedBy is the key of what an Event of a namespace regards.
func regardedBy(namespace, kind, name string) string { return namespace + "/" + kind + "/" + name }

// watchedEvents returns the Events of the cluster as one watch reports them until the process
// ends. To list those about one object, the API server reads all Events of a namespace from etcd,
// because it caches none.
func (c *Cluster) watchedEvents(t *testing.T) cache.Indexer {
	t.Helper()
	c.watchEvents.Do(func() {
		clients, err := kubernetes.NewForConfig(c.Config)
		require.NoError(t, err)
		c.events = informers.NewEventInformer(clients, metav1.NamespaceAll, 0, cache.Indexers{regardedIndex: func(obj any) ([]string, error) {
			e, ok := obj.(*eventsv1.Event)
			if !ok || e.ReportingController != "vidra-operator" {
				return nil, nil
			}
			return []string{regardedBy(e.Namespace, e.Regarding.Kind, e.Regarding.Name)}, nil
		}})
		go c.events.RunWithContext(context.Background())
		cache.WaitForCacheSync(nil, c.events.HasSynced)
	})
	return c.events.GetIndexer()
}

// ContainsAll reports whether a text contains each part.
func ContainsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
