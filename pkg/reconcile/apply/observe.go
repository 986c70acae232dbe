package apply

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// compared follows the dry run of an object that is not reverted.
func (r request) compared(got answer) request {
	found := r.Cause.Found
	added := r.undoOf().Added(found, found)
	switch {
	case apierrors.IsInvalid(got.err) && len(added.Lost) > 0:
		// What was added is in the way of the dry run, but not of the apply.
		r.fields = added.With(added.Lost)
	case got.err != nil:
		r.unknown = object.Message(got.err, r.disclosureWith())
	default:
		// Whose a field is does not matter while Vidra does not revert it.
		r.fields = added.With(slices.DeleteFunc(ownership.Drift(found, got.live, r.settings.Manager, r.disclosureWith()), func(c ownership.Change) bool {
			return c.Kind == ownership.Taken
		}))
	}
	return r.observedAs(r.fields)
}

// observedAs ends the task of an object that is not reverted.
func (r request) observedAs(fields []ownership.Change) request {
	r.kind, r.fields = observed, slices.Concat(fields, r.byTools(r.Cause.Found).Changes)
	return r
}
