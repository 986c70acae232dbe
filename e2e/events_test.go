package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// eventNamespace is where the Events about cluster-scoped objects are.
const eventNamespace = "default"

// eventsAbout lists the Events that regard an object.
func eventsAbout(t require.TestingT, obj client.Object) []eventsv1.Event {
	gvk, err := admin.GroupVersionKindFor(obj)
	require.NoError(t, err)
	namespace := obj.GetNamespace()
	if namespace == "" {
		namespace = eventNamespace
	}
	all := &eventsv1.EventList{}
	require.NoError(t, admin.List(context.Background(), all, client.InNamespace(namespace)))
	var found []eventsv1.Event
	for _, e := range all.Items {
		if e.Regarding.Kind == gvk.Kind && e.Regarding.Name == obj.GetName() && e.ReportingController == "vidra-operator" {
			found = append(found, e)
		}
	}
	return found
}

// withReason are the Events that have a reason.
func withReason(all []eventsv1.Event, reason string) []eventsv1.Event {
	var found []eventsv1.Event
	for _, e := range all {
		if e.Reason == reason {
			found = append(found, e)
		}
	}
	return found
}

// awaitEvent waits for an Event that regards an object, has a type, reason and
// action, and a note that contains each part.
func awaitEvent(t *testing.T, obj client.Object, kind, reason, action string, parts ...string) eventsv1.Event {
	t.Helper()
	var found *eventsv1.Event
	await(t, func(c *assert.CollectT) {
		all := eventsAbout(c, obj)
		notes := make([]string, 0, len(all))
		for i, e := range all {
			notes = append(notes, e.Reason+": "+e.Note)
			if e.Reason == reason && containsAll(e.Note, parts) {
				found = &all[i]
			}
		}
		require.NotNil(c, found, "no Event %s with %q in %q", reason, parts, notes)
	})
	require.Equal(t, kind, found.Type)
	require.Equal(t, action, found.Action)
	return *found
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
