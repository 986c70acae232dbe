package owners

import (
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// Refusal is the reason for which an existing object is not adopted.
type Refusal struct{ Reason, Text string }

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

// AsFailure returns the refusal, with the error that wraps it.
func (r *Refusal) AsFailure(whole error, _ ownership.Disclosure) object.Failure {
	return object.Failure{Reason: r.Reason, Message: whole.Error()}
}
