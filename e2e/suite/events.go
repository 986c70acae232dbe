package suite

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EventsAbout lists the Events of Vidra that regard an object, with one of the reasons if
// any are given.
func (c *Cluster) EventsAbout(t require.TestingT, obj client.Object, reasons ...string) []eventsv1.Event {
	gvk, err := c.Admin.GroupVersionKindFor(obj)
	require.NoError(t, err)
	namespace := obj.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where the Events about cluster-scoped objects are
	}
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
	Await(t, func(collect *assert.CollectT) {
		all := c.EventsAbout(collect, obj)
		notes := make([]string, 0, len(all))
		for i, e := range all {
			notes = append(notes, e.Reason+": "+e.Note)
			if e.Reason == reason && ContainsAll(e.Note, parts) {
				found = &all[i]
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

// ContainsAll reports whether a text contains each part.
func ContainsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
