package insight

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
)

// LastSeen returns the time of the last occurrence of an Event. Events that were
// written through the core API have the deprecated fields instead.
func LastSeen(e *eventsv1.Event) time.Time {
	if e.Series != nil && !e.Series.LastObservedTime.IsZero() {
		return e.Series.LastObservedTime.Time
	}
	return firstTime(e.EventTime.Time, e.DeprecatedLastTimestamp.Time, e.CreationTimestamp.Time)
}

// FirstSeen returns the time of the first occurrence of an Event.
func FirstSeen(e *eventsv1.Event) time.Time {
	return firstTime(e.EventTime.Time, e.DeprecatedFirstTimestamp.Time, e.CreationTimestamp.Time)
}

// firstTime is the first of some times that is known.
func firstTime(times ...time.Time) time.Time {
	for _, t := range times {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// TimesSeen returns the number of occurrences of an Event.
func TimesSeen(e *eventsv1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return max(1, e.DeprecatedCount)
}

// SinceOf returns the time that a duration ago was; zero for an empty text. name names the duration in an error.
func SinceOf(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	ago, err := time.ParseDuration(text)
	if err != nil || ago <= 0 {
		return time.Time{}, fmt.Errorf("%s %q: want a duration above 0, such as 90s, 10m or 2h30m", name, text)
	}
	return now.Add(-ago), nil
}

// sortEvents sorts Events by the time of their last occurrence.
func sortEvents(all []*eventsv1.Event) {
	slices.SortStableFunc(all, func(a, b *eventsv1.Event) int {
		return cmp.Or(LastSeen(a).Compare(LastSeen(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}
