package watchregistry

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// Stopped is a watch that nobody needs any more.
	Stopped State = "Stopped"
)

// Reason says why a watch is Pending or Degraded.
type Reason string

const (
	// ReasonNotFound says that the API server does not serve the resource.
	ReasonNotFound Reason = "NotFound"
	// ReasonForbidden says that the API server does not let this client list or
	// watch.
	ReasonForbidden Reason = "Forbidden"
	// ReasonUnavailable says that the API server cannot be reached, or fails.
	ReasonUnavailable Reason = "Unavailable"
)

// Status is the state of a watch.
type Status struct {
	State State
	// Reason is set while State is Pending or Degraded.
	Reason Reason
	// Message is the API server's last error while Reason is set.
	Message string
	// Since is when the watch entered State.
	Since time.Time
}

// event is what happens to a watch.
type event int

const (
	// started: an informer runs.
	started event = iota
	// synced: the handler has seen every object of the initial list.
	synced
	// answered: a WATCH succeeded.
	answered
	// failed: a LIST or WATCH failed for another reason than notServed.
	failed
	// notServed: the resource is not served; the informer is stopped.
	notServed
	// released: the last owner has been gone for the linger time.
	released
)

// next is the transition function of a watch: from its state, whether its
// present informer has synced before, and what happened, to its next state.
func next(from State, hasSynced bool, what event) State {
	if from == Stopped {
		return Stopped
	}
	switch what {
	case started:
		return Starting
	case synced:
		if from == Pending {
			return Pending
		}
		return Synced
	case answered:
		switch {
		case from != Degraded:
			return from
		case hasSynced:
			return Synced
		default:
			return Starting
		}
	case failed:
		if from == Pending {
			return Pending
		}
		return Degraded
	case notServed:
		return Pending
	case released:
		return Stopped
	}
	return from
}

// classify turns the outcome of a LIST or WATCH into an event. It reports false
// for outcomes that say nothing about the watch: a resourceVersion that expired
// (410) and a request that was throttled (429) are retried by the reflector and
// belong to the normal course, and a cancelled request is our own doing.
func classify(err error) (event, Reason, bool) {
	switch {
	case err == nil:
		return answered, "", true
	case errors.Is(err, context.Canceled),
		apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsTooManyRequests(err):
		return 0, "", false
	case apierrors.IsNotFound(err):
		return notServed, ReasonNotFound, true
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return failed, ReasonForbidden, true
	default:
		return failed, ReasonUnavailable, true
	}
}

// errGone is the error of a watch whose resource discovery no longer serves.
func errGone(key Key) error {
	return apierrors.NewNotFound(key.GVR.GroupResource(), "")
}
