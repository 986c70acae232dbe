package render

import (
	"cmp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/insight"
)

// eventColumn is a column of the table of Events.
type eventColumn struct {
	heading string
	// wide columns belong to -o wide alone.
	wide bool
	// usual is the least width of the column while later rows are unknown.
	usual int
	// cell is the text of the column; when writes a time.
	cell func(e *eventsv1.Event, when func(time.Time) string) string
	// colour is the ANSI code of the column of an Event. Defaults to none.
	colour func(e *eventsv1.Event) string
}

// eventColumns are the columns of the table, from left to right.
var eventColumns = []eventColumn{
	{heading: "LAST SEEN", cell: func(e *eventsv1.Event, when func(time.Time) string) string { return when(insight.LastSeen(e)) }},
	{heading: "FIRST SEEN", wide: true, cell: func(e *eventsv1.Event, when func(time.Time) string) string { return when(insight.FirstSeen(e)) }},
	{heading: "COUNT", cell: func(e *eventsv1.Event, _ func(time.Time) string) string {
		return strconv.Itoa(int(insight.TimesSeen(e)))
	}},
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
	{heading: "INSTANCE", wide: true, usual: 30, cell: func(e *eventsv1.Event, _ func(time.Time) string) string {
		return cmp.Or(e.ReportingInstance, e.DeprecatedSource.Host)
	}},
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
