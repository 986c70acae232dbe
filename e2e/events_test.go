package e2e

import (
	eventsv1 "k8s.io/api/events/v1"
)

// withReason are the Events that have a reason.
func withReason(all []eventsv1.Event, reason string) []eventsv1.Event {
	var found []eventsv1.Event
	for _, e := range all {
		if e.Reason == reason {
			found = append(found, e)
		}
	}
	return found
}
