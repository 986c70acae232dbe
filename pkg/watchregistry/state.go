package watchregistry

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is where a watch is in its life.
type State string

const (
	// Pending is a watch whose resource the API server does not serve.
	Pending State = "Pending"
	// Starting is a watch that has not seen every object yet.
	Starting State = "Starting"
	// Synced is a watch that has seen every object and follows the changes.
	Synced State = "Synced"
	// Degraded is a watch that the API server refuses or does not answer. What
	// it knew before is kept, and it is tried again with a backoff.
	Degraded State = "Degraded"
	// Draining is a watch that nobody needs any more. It runs on for the linger
	// time, and is what it was before if an owner comes back.
	Draining State = "Draining"
	// Stopped is a watch that has ended.
	Stopped State = "Stopped"
)

// Reason says why a watch is Pending or Degraded.
type Reason string

const (
	// ReasonNotFound says that the API server does not know the resource. While
	// discovery still serves it, the watch is Degraded, otherwise Pending.
	ReasonNotFound Reason = "NotFound"
	// ReasonForbidden says that the API server does not let this client list or
	// watch, or that the resource cannot be watched by anybody.
	ReasonForbidden Reason = "Forbidden"
	// ReasonUnavailable says that the API server cannot be reached, fails, does
	// not answer, throttles for long or does not know this client (401).
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
}

// event is what happens to a watch.
type event int

const (
	// started: an informer runs.
	started event = iota
	// synced: the handler has seen every object of the initial list.
	synced
	// listed: a list of all objects succeeded.
	listed
	// answered: a WATCH succeeded.
	answered
	// failed: a LIST or WATCH failed, and the resource is served.
	failed
	// notServed: the resource is not served; the informer is stopped.
	notServed
	// abandoned: the last owner has left.
	abandoned
	// needed: an owner has come.
	needed
	// released: the last owner has been gone for the linger time.
	released
)

// phase is what the transitions of a watch depend on.
type phase struct {
	// state is the state for an owner: never Draining.
	state  State
	reason Reason
	// hasSynced is whether the present informer has synced.
	hasSynced bool
	// abandoned is whether there is no owner.
	abandoned bool
}

// shown is the state for those who look on.
func (p phase) shown() State {
	if p.abandoned && p.state != Stopped {
		return Draining
	}
	return p.state
}

// next is the transition function of a watch: from its phase and what happened
// to its next phase. reason is why, for failed and notServed.
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
			p.state = Synced // what is Degraded has to be answered first
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
	case listed: // only what the handler was told of it counts: see synced
	case notServed:
		p.state, p.hasSynced = Pending, false
	case abandoned:
		p.abandoned = true
	case needed:
		p.abandoned = false
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

// verdict is what the outcome of a request means.
type verdict int

const (
	// success: the API server did what it was asked for.
	success verdict = iota
	// retry: it is to be asked again after a while.
	retry
	// missing: it does not know the resource.
	missing
	// pass: the reflector knows what to do; it is no failure of the watch.
	pass
)

// classify says what the outcome of a LIST or WATCH means, and the reason for
// which a watch is Degraded by it. What passes to the reflector is a
// resourceVersion that has expired (410) or that the server does not know yet, a
// cancelled request, which is our own doing, and a request for a streamed list
// that the server does not understand.
func classify(err error, streamedList bool) (verdict, Reason) {
	switch {
	case err == nil:
		return success, ""
	case errors.Is(err, context.Canceled),
		apierrors.IsResourceExpired(err), apierrors.IsGone(err),
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge),
		streamedList && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)):
		return pass, ""
	case apierrors.IsNotFound(err):
		return missing, ReasonNotFound
	case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
		return retry, ReasonForbidden
	default:
		return retry, ReasonUnavailable
	}
}
