package main

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/vidra-operator/vidra/pkg/events"
)

// lastSeen returns the time of the last occurrence of an Event. Events that were
// written through the core API have the deprecated fields instead.
func lastSeen(e *eventsv1.Event) time.Time {
	if e.Series != nil && !e.Series.LastObservedTime.IsZero() {
		return e.Series.LastObservedTime.Time
	}
	return firstTime(e.EventTime.Time, e.DeprecatedLastTimestamp.Time, e.CreationTimestamp.Time)
}

// firstSeen returns the time of the first occurrence of an Event.
func firstSeen(e *eventsv1.Event) time.Time {
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

// timesSeen returns the number of occurrences of an Event.
func timesSeen(e *eventsv1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return max(1, e.DeprecatedCount)
}

// instance is which of several operators wrote an Event.
func instance(e *eventsv1.Event) string {
	if e.ReportingInstance != "" {
		return e.ReportingInstance
	}
	return e.DeprecatedSource.Host
}

// sortEvents sorts Events by the time of their last occurrence.
func sortEvents(all []*eventsv1.Event) {
	slices.SortStableFunc(all, func(a, b *eventsv1.Event) int {
		return cmp.Or(lastSeen(a).Compare(lastSeen(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// eventColumn is a column of the table of Events.
type eventColumn struct {
	heading string
	// wide columns are those of -o wide only.
	wide bool
	// usual is how wide the column is at least where it is not known what follows.
	usual int
	// cell is what stands in the column; when writes a time.
	cell func(e *eventsv1.Event, when func(time.Time) string) string
	// colour is the ANSI code of the column of an Event. Defaults to none.
	colour func(e *eventsv1.Event) string
}

// eventColumns are the columns of the table, from left to right.
var eventColumns = []eventColumn{
	{heading: "LAST SEEN", cell: func(e *eventsv1.Event, when func(time.Time) string) string { return when(lastSeen(e)) }},
	{heading: "FIRST SEEN", wide: true, cell: func(e *eventsv1.Event, when func(time.Time) string) string { return when(firstSeen(e)) }},
	{heading: "COUNT", cell: func(e *eventsv1.Event, _ func(time.Time) string) string { return strconv.Itoa(int(timesSeen(e))) }},
	{
		heading: "TYPE", usual: len(corev1.EventTypeWarning), colour: typeColour,
		cell: func(e *eventsv1.Event, _ func(time.Time) string) string { return e.Type },
	},
	{
		heading: "REASON", usual: 15, colour: reasonColour,
		cell: func(e *eventsv1.Event, _ func(time.Time) string) string { return e.Reason },
	},
	{heading: "ACTION", wide: true, usual: 7, cell: func(e *eventsv1.Event, _ func(time.Time) string) string { return e.Action }},
	{
		heading: "OBJECT", usual: 30,
		cell: func(e *eventsv1.Event, _ func(time.Time) string) string { return events.Name(e.Regarding) },
	},
	{heading: "RELATED", wide: true, usual: 30, cell: related},
	{heading: "INSTANCE", wide: true, usual: 30, cell: func(e *eventsv1.Event, _ func(time.Time) string) string { return instance(e) }},
	{heading: "NAMESPACE", wide: true, usual: 10, cell: func(e *eventsv1.Event, _ func(time.Time) string) string { return e.Namespace }},
	{heading: "NOTE", cell: func(e *eventsv1.Event, _ func(time.Time) string) string { return e.Note }},
}

func related(e *eventsv1.Event, _ func(time.Time) string) string {
	if e.Related == nil {
		return ""
	}
	return events.Name(*e.Related)
}

func typeColour(e *eventsv1.Event) string {
	if e.Type == corev1.EventTypeWarning {
		return yellow
	}
	return ""
}

func reasonColour(e *eventsv1.Event) string {
	if e.Type == corev1.EventTypeWarning {
		return red
	}
	return green
}
