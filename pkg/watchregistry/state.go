package watchregistry

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is the state of a watch.
type State string

const (
	// Pending is a watch whose resource is unserved.
	Pending State = "Pending"
	// Starting is a watch that is still to list every object.
	Starting State = "Starting"
	// Synced is a watch that has listed every object and receives the changes.
	Synced State = "Synced"
	// Degraded is a watch whose requests the API server refuses or leaves unanswered. Its
	// store is kept, and the requests are retried with a backoff.
	Degraded State = "Degraded"
	// Draining is an unowned watch during the linger time. It returns to its previous
	// state when an owner needs it again.
	Draining State = "Draining"
	// Stopped is a watch that has ended.
	Stopped State = "Stopped"
)

// Reason is the cause of Pending or Degraded.
type Reason string

const (
	// ReasonNotFound means that the resource is unknown to the API server. The watch is
	// Degraded while discovery still serves it, otherwise Pending.
	ReasonNotFound Reason = "NotFound"
	// ReasonForbidden means that this client may not list or watch the resource, or that
	// the resource does not support it.
	ReasonForbidden Reason = "Forbidden"
	// ReasonUnavailable means that the API server is unreachable, fails, leaves requests
	// unanswered, throttles for long or refuses the credentials (401).
	ReasonUnavailable Reason = "Unavailable"
)

// Status is the state of a watch.
type Status struct {
	State State `json:"state"`
	// Reason is set while State is Pending or Degraded.
	Reason Reason `json:"reason,omitempty"`
	// Message is the API server's last error while Reason is set.
	Message string `json:"message,omitempty"`
	// Since is when the watch entered State.
	Since time.Time `json:"since"`
	// StreamSince is when the open WATCH began to report changes; zero while none is open. A Synced watch has
	// none for some seconds when the API server ended one and the next request is still unanswered.
	StreamSince time.Time `json:"streamSince,omitzero"`
}

// event is an input of the state machine of a watch.
type event int

const (
	// started: an informer runs.
	started event = iota
	// synced: the handler has handled every object of the initial list.
	synced
	// listed: a list of all objects succeeded.
	listed
	// answered: a WATCH succeeded.
	answered
	// failed: a request failed.
	failed
	// notServed: the resource is unserved; the informer is stopped.
	notServed
	// unowned: the last owner released the watch.
	unowned
	// needed: an owner needs the watch again.
	needed
	// released: the linger time without an owner is over.
	released
)

// phase is the state of a watch, with the values that its transitions depend on.
type phase struct {
	// state is the state for an owner: never Draining.
	state  State
	reason Reason
	// hasSynced is whether the current informer has synced.
	hasSynced bool
	// unowned is whether the watch has no owner.
	unowned bool
}

// displayState returns the state that the status and the metrics show.
func (p phase) displayState() State {
	if p.unowned && p.state != Stopped {
		return Draining
	}
	return p.state
}

// next is the transition function of a watch. It returns the phase after an event. reason is
// used for failed and notServed.
func next(p phase, what event, reason Reason) phase {
	if p.state == Stopped {
		return p
	}
	switch what {
	case started:
		p.state, p.hasSynced = Starting, false
	case synced:
		p.hasSynced = p.state != Pending
		if p.state == Starting {
			p.state = Synced // a Degraded watch needs an answered WATCH first
		}
	case answered:
		if p.state == Degraded && p.hasSynced {
			p.state = Synced
		} else if p.state == Degraded {
			p.state = Starting
		}
	case failed:
		if p.state != Pending {
			p.state = Degraded
		}
	case listed: // the state changes when the handler has handled the list: see synced
	case notServed:
		p.state, p.hasSynced = Pending, false
	case unowned:
		p.unowned = true
	case needed:
		p.unowned = false
	case released:
		p.state, p.hasSynced = Stopped, false
	}
	switch {
	case p.state != Pending && p.state != Degraded:
		p.reason = ""
	case reason != "" && (what == notServed || what == failed && p.state == Degraded):
		p.reason = reason
	}
	return p
}

// outcome classifies the result of a request.
type outcome int

const (
	// success: the request succeeded.
	success outcome = iota
	// retry: the request is sent again after a backoff.
	retry
	// notFound: the resource is unknown to the API server.
	notFound
	// passThrough: the reflector handles the error; the watch has not failed.
	passThrough
)

// classify returns the outcome of a LIST or WATCH, and the reason if it makes the watch
// Degraded. These errors pass through to the reflector: a resourceVersion that has expired
// (410) or that is still unknown to the server, a request that was canceled by this process,
// and an unsupported streamed list.
func classify(err error, streamedList bool) (outcome, Reason) {
	switch {
	case err == nil:
		return success, ""
	case errors.Is(err, context.Canceled),
		apierrors.IsResourceExpired(err), apierrors.IsGone(err),
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge),
		streamedList && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)):
		return passThrough, ""
	case apierrors.IsNotFound(err):
		return notFound, ReasonNotFound
	case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
		return retry, ReasonForbidden
	default:
		return retry, ReasonUnavailable
	}
}
