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
	// event as it is to be, with its series.
	event eventsv1.Event
	// exists says that the API server should have it already.
	exists bool
	// occurrences is how many of them the API server does not know of yet.
	occurrences int32
}

// send creates the Event, or writes how often it has recurred. Writing twice does no
// harm: counts are absolute, and the name is the series' own.
func (w *write) send(ctx context.Context, client typedeventsv1.EventsV1Interface) error {
	if w.exists {
		err := w.patch(ctx, client)
		if !apierrors.IsNotFound(err) {
			return err
		}
		// Somebody deleted it, or it is older than Events are kept.
	}
	_, err := client.Events(w.event.Namespace).Create(ctx, &w.event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // the answer to an earlier attempt got lost
		return w.patch(ctx, client)
	}
	return err
}

// patch writes the count of a series. Nothing else of an Event can be changed.
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

// forbiddenTries is how often in a row an Event is tried that is forbidden: an API
// server that starts forbids everything until it has read its roles.
const forbiddenTries = 6

// shouldRetry says whether a series that was not accepted is to be tried again.
func (s *series) shouldRetry(err error) bool {
	if !apierrors.IsForbidden(err) {
		s.forbidden = 0
		return retriable(err)
	}
	s.forbidden++
	return s.forbidden < forbiddenTries && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// retriable says whether the same write may have another answer later.
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
