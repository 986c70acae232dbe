package events

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// driftEvents reports unreverted drift, for the VidraResource and for the object, contention and
// its end, and replacement.
func driftEvents(owner corev1.ObjectReference, change Change) []Event {
	means := meanings[change.Action]
	if means.topic != ofDrift {
		return nil
	}
	e := means.event()
	e.Note = change.name() + ": " + change.Note
	if change.Action == Settled {
		e.Note = change.name() + ": no longer contended: no other writer has changed it for a minute"
	}
	e.Variant = e.Note
	atObject := e
	atObject.Note = fmt.Sprintf("VidraResource %s manages this object: %s", owner.Name, change.Note)
	all := change.both(owner, e, atObject)
	if change.Action != Detected {
		return all[:1]
	}
	return all
}

// Differences describes which fields differ, their values found and wanted, and who
// changed them.
func Differences(changes []ownership.Change) string {
	return describe(changes, "; ", maxDescribed, func(_ int, c ownership.Change) string {
		part := c.Path
		switch {
		case c.Kind == ownership.Added && c.Withheld:
			part += " (values withheld) was added and should not be there"
		case c.Kind == ownership.Added:
			part += fmt.Sprintf(" was added as %s and should not be there", c.Found)
		case c.Withheld:
			part += " (values withheld) was " + strings.ToLower(string(c.Kind))
		case c.Kind == ownership.Removed:
			part += fmt.Sprintf(" was removed and should be %s", c.Restored)
		case c.Restored == "":
			part += fmt.Sprintf(" is %s and should be nothing", c.Found)
		default:
			part += fmt.Sprintf(" is %s and should be %s", c.Found, c.Restored)
		}
		switch by := c.By(); {
		case by == "":
		case c.Kind == ownership.Removed:
			part += ", removed by " + by
		case c.Kind == ownership.Added:
			part += ", added by " + by
		default:
			part += ", set by " + by
		}
		return part
	})
}
