package recorder

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vidra-operator/vidra/pkg/events"
)

// Outcomes in vidra_events_total. The number of emitted Events is the sum of the others and of
// the pending ones.
const (
	outcomeEmitted  = "emitted"
	outcomeRecorded = "recorded"
	outcomeRefused  = "refused"
	outcomeDropped  = "dropped"
)

// logInterval is the least time between two log lines about one kind of failure.
const logInterval = time.Hour

// Causes of dropped Events.
var (
	errTooMany = errors.New("too many series are pending: check that the API server is reachable")
	errEnded   = errors.New("the operator stopped before they were written")
)

// count adds n Events to an outcome.
func (r *Recorder) count(reason, outcome string, n int32) {
	r.total.WithLabelValues(reason, outcome).Add(float64(n))
}

// drop counts and logs Events that are dropped.
func (r *Recorder) drop(reason string, n int32, why error) {
	r.count(reason, outcomeDropped, n)
	r.logLimited("Events are dropped", why, key{reason: reason})
}

// logLimited logs a failure, unless one of its kind was logged within logInterval.
func (r *Recorder) logLimited(message string, err error, k key) {
	kind := message + ": " + kindOf(err)
	r.mu.Lock()
	now := r.options.Clock.Now()
	last, known := r.lastLogged[kind]
	silent := known && now.Sub(last) < logInterval
	if !silent {
		r.lastLogged[kind] = now
	}
	r.mu.Unlock()
	if !silent {
		r.options.Log.Error(err, message, "reason", k.reason, "regarding", events.Name(k.regarding))
	}
}

// kindOf returns the kind of a failure.
func kindOf(err error) string {
	if errors.Is(err, errTooMany) || errors.Is(err, errEnded) {
		return err.Error()
	}
	return string(apierrors.ReasonForError(err)) // empty where there is no answer
}
