package owners

import (
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// Refusal is the refusal to adopt an existing object.
type Refusal struct{ Reason, Text string }

func (r *Refusal) Error() string { return r.Text }

// AsFailure returns the refusal, with the error that wraps it.
func (r *Refusal) AsFailure(whole error, _ ownership.Disclosure) object.Failure {
	return object.Failure{Reason: r.Reason, Message: whole.Error()}
}
