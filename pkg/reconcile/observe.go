package reconcile

import (
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// skipReason returns why the object of a task is not reverted; nil if it is. The break-glass
// annotations of the object count, too, but they hold no new configuration back.
func (s *settings) skipReason(t task) (*skipReason, glassAnswer) {
	if t.why == whyNew || t.why == whyChanged || t.cause.Found == nil {
		return t.skip, glassAnswer{}
	}
	glass := s.answerTo(t.entry(), t.desired, t.cause.Found)
	switch {
	case t.skip != nil && t.skip.until.IsZero():
		return t.skip, glass
	case exempts(glass.answer, time.Now()):
		l := exemption(glass.answer)
		return &l, glass
	}
	return nil, glass
}

// compared follows the dry run of an object that is not reverted.
func (r request) compared(got answer) request {
	found := r.cause.Found
	added := r.undoOf().Added(found, found)
	switch {
	case apierrors.IsInvalid(got.err) && len(added.Lost) > 0:
		// What was added is in the way of the dry run, but not of the apply.
		r.fields = added.With(added.Lost)
	case got.err != nil:
		r.unknown = message(got.err, r.sensitive || ownership.Sensitive(found))
	default:
		// Whose a field is does not matter while Vidra does not revert it.
		r.fields = added.With(slices.DeleteFunc(ownership.Drift(found, got.live, r.settings.manager), func(c ownership.Change) bool {
			return c.Kind == ownership.Taken
		}))
	}
	return r.observedAs(r.fields)
}

// observedAs ends the task of an object that is not reverted.
func (r request) observedAs(fields []ownership.Change) request {
	r.kind, r.fields = observed, slices.Concat(fields, r.byTools(r.cause.Found).Changes)
	return r
}
