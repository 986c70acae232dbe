package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
)

// write is one write of a series.
type write struct {
	// event is the Event to write, with its series.
	event eventsv1.Event
	// exists is whether the API server should have the Event already.
	exists bool
	// occurrences counts those that the API server is still to receive.
	occurrences int32
}

// send creates the Event, or patches the count of its series. Repeating a write does no harm:
// counts are absolute, and each series has its own name.
func (w *write) send(ctx context.Context, client typedeventsv1.EventsV1Interface) error {
	if w.exists {
		err := w.patch(ctx, client)
		if !apierrors.IsNotFound(err) {
			return err
		}
		// A user deleted the Event, or it has expired.
	}
	_, err := client.Events(w.event.Namespace).Create(ctx, &w.event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // the answer to an earlier attempt was lost
		return w.patch(ctx, client)
	}
	return err
}

// patch writes the count of a series. Other fields of an Event are immutable.
func (w *write) patch(ctx context.Context, client typedeventsv1.EventsV1Interface) error {
	if w.event.Series == nil {
		return nil
	}
	data, err := json.Marshal(map[string]any{"series": w.event.Series})
	if err != nil {
		return fmt.Errorf("encode the series of Event %s/%s: %w", w.event.Namespace, w.event.Name, err)
	}
	_, err = client.Events(w.event.Namespace).Patch(ctx, w.event.Name, types.MergePatchType, data, metav1.PatchOptions{})
	return err
}

// forbiddenTries is how often in a row a forbidden write is tried: an API server that starts
// forbids everything until it has read its roles.
const forbiddenTries = 6

// shouldRetry reports whether a failed write of the series is retried.
func (s *series) shouldRetry(err error) bool {
	if !apierrors.IsForbidden(err) {
		s.forbidden = 0
		return retriable(err)
	}
	s.forbidden++
	return s.forbidden < forbiddenTries && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// retriable reports whether the same write may succeed later.
func retriable(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // no answer
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	default:
		return code < http.StatusBadRequest || code >= http.StatusInternalServerError
	}
}
