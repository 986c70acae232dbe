package events

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// breakGlassEvents reports the answer to break-glass annotations, for the VidraResource and
// for the object.
func breakGlassEvents(owner corev1.ObjectReference, change Change) []Event {
	answer := change.BreakGlass
	if change.Action != Answered || answer == nil {
		return nil
	}
	e := Event{Type: normal, Action: ActionExempt}
	switch answer.State {
	case v1alpha1.BreakGlassAccepted:
		e.Reason = ReasonBreakGlassAccepted
		until := "its end"
		if answer.Until != nil { // otherwise another client wrote the status
			until = answer.Until.UTC().Format(time.RFC3339)
		}
		e.Note = fmt.Sprintf("break-glass is accepted until %s (%s). Until then VidraResource %s reverts no edit of this object and does not delete it; "+
			"a changed manifest is applied", until, answer.Message, owner.Name)
	case v1alpha1.BreakGlassIgnored:
		e.Type, e.Reason = warning, ReasonBreakGlassIgnored
		e.Note = fmt.Sprintf("break-glass is ignored by VidraResource %s: %s", owner.Name, answer.Message)
	case v1alpha1.BreakGlassEnded:
		e.Reason = ReasonBreakGlassEnded
		e.Note = fmt.Sprintf("break-glass has ended for VidraResource %s: %s", owner.Name, answer.Message)
	}
	e.Note = change.name() + ": " + e.Note
	e.Variant = e.Note
	return change.both(owner, e, e)
}
