package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// wantedEvent is an Event that Vidra has to write.
type wantedEvent struct {
	reason string
	// regarding and related are its objects; related may be nil.
	regarding, related *unstructured.Unstructured
	// says is what its note must hold.
	says []string
}

// matches says whether an Event is the wanted one.
func (w wantedEvent) matches(e *eventsv1.Event) bool {
	if e.Reason != w.reason || !refersTo(e.Regarding, w.regarding) {
		return false
	}
	if w.related != nil && (e.Related == nil || !refersTo(*e.Related, w.related)) {
		return false
	}
	for _, part := range w.says {
		if !strings.Contains(e.Note, part) {
			return false
		}
	}
	return true
}

// refersTo says whether a reference is to an object, and to this very one where
// its UID is known: Events of an earlier tour are about others of the same name.
func refersTo(ref corev1.ObjectReference, o *unstructured.Unstructured) bool {
	return ref.Kind == o.GetKind() && ref.Namespace == o.GetNamespace() && ref.Name == o.GetName() &&
		(o.GetUID() == "" || o.GetUID() == ref.UID)
}

// awaitEvent waits for an Event.
func (c *cluster) awaitEvent(ctx context.Context, w wantedEvent) (*eventsv1.Event, error) {
	namespace := cmp.Or(w.regarding.GetNamespace(), metav1.NamespaceDefault) // where the Events about cluster-scoped objects are
	var found *eventsv1.Event
	what := fmt.Sprintf("there was an Event %s on %s that says %q", w.reason, title(w.regarding), w.says)
	err := await(ctx, patience, what, func(ctx context.Context) (bool, error) {
		list := &eventsv1.EventList{}
		if err := c.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return false, fmt.Errorf("list Events: %w", err)
		}
		for i := range list.Items {
			if w.matches(&list.Items[i]) {
				found = &list.Items[i]
				return true, nil
			}
		}
		return false, nil
	})
	return found, err
}
