package events

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record/util"
)

const (
	// quiet is how long nothing recurs before a series is over. It is client-go's
	// (k8s.io/client-go/tools/events, finishTime).
	quiet = 6 * time.Minute
	// writeInterval is the least time between two writes of a series. What recurs
	// in between is counted, and written with the next.
	writeInterval = 10 * time.Second
	// maxSeries is how many series are kept. With more, those that are written are
	// forgotten; with so many that wait, new ones are dropped.
	maxSeries = 20_000
	// maxPerObject is how many series of one object and reason are kept apart. What
	// comes beyond is counted in one more.
	maxPerObject = 10
	// folded ends the note of that one.
	folded = ". More that differs from it is counted here"
)

// key is what Events of one series have in common.
type key struct {
	kind, reason, action, variant string
	regarding, related            corev1.ObjectReference
}

// keyOf returns the key of an Event. References to one object are the same, of
// whatever resourceVersion it was, and so are variants that no note tells apart.
func keyOf(e Event) key {
	k := key{kind: e.Type, reason: e.Reason, action: e.Action, variant: Truncate(e.Variant, maxNote), regarding: e.Regarding}
	if e.Related != nil {
		k.related = *e.Related
	}
	k.regarding.ResourceVersion, k.related.ResourceVersion = "", ""
	return k
}

// object is the key of all that is told of the same objects for the same reason.
func (k key) object() key {
	k.variant, k.regarding.FieldPath, k.related.FieldPath = "", "", ""
	return k
}

// series is an Event and its recurrences.
type series struct {
	key key
	// event is the first one, without a series.
	event eventsv1.Event
	// exists says that the API server has accepted the Event.
	exists bool
	// written is how many occurrences the API server has accepted, pending how many
	// wait for being written.
	written, pending int32
	// last is the time of the last occurrence, waits that of the first that waits.
	last, waits time.Time
	// next is the time before which it is not written again.
	next time.Time
}

// book keeps the series. It is not safe for concurrent use.
type book struct {
	reportingInstance string
	series            map[key]*series
	// perObject counts the series of each object and reason.
	perObject map[key]int
	// waiting is how many series have something pending.
	waiting int
	// stamp is the number in the name of the last Event.
	stamp int64
}

func newBook(reportingInstance string) *book {
	return &book{reportingInstance: reportingInstance, series: map[key]*series{}, perObject: map[key]int{}}
}

// add notes that an Event occurred and returns its series, or nil if too many
// wait for being written.
func (b *book) add(e Event, now time.Time) *series {
	k := keyOf(e)
	s := b.running(k, now)
	if s == nil && b.perObject[k.object()] >= maxPerObject {
		k = k.object()
		e.Note = Truncate(e.Note, maxNote-len(folded)) + folded
		s = b.running(k, now)
	}
	if s == nil && !b.room() {
		return nil
	}
	if s == nil {
		s = &series{key: k, event: b.event(k, e.Note, now)}
		b.series[k] = s
		b.perObject[k.object()]++
	}
	if s.pending == 0 {
		b.waiting++
		s.waits = now
		if s.written == 0 {
			s.event.EventTime = metav1.NewMicroTime(now)
		}
	}
	s.pending++
	s.last = now
	return s
}

// running finds a series that is not over.
func (b *book) running(k key, now time.Time) *series {
	s := b.series[k]
	if s != nil && s.pending == 0 && now.Sub(s.last) >= quiet {
		b.forget(s)
		return nil
	}
	return s
}

// room makes room for a series, if there is any.
func (b *book) room() bool {
	if len(b.series) < maxSeries {
		return true
	}
	if b.waiting >= maxSeries {
		return false
	}
	for _, s := range b.series {
		if s.pending == 0 {
			b.forget(s)
		}
	}
	return true
}

// forget ends a series, unless another one has its place.
func (b *book) forget(s *series) {
	if b.series[s.key] != s {
		return
	}
	delete(b.series, s.key)
	object := s.key.object()
	if b.perObject[object]--; b.perObject[object] == 0 {
		delete(b.perObject, object)
	}
}

// event makes the first Event of a series. One about what has no namespace is in
// the namespace default: the API server wants it so.
func (b *book) event(k key, note string, now time.Time) eventsv1.Event {
	b.stamp = max(b.stamp+1, now.UnixNano())
	e := eventsv1.Event{
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: Controller, ReportingInstance: b.reportingInstance,
		Type: k.kind, Reason: k.reason, Action: k.action, Note: note, Regarding: k.regarding,
	}
	e.Name, e.Namespace = util.GenerateEventName(k.regarding.Name, b.stamp), k.regarding.Namespace
	if e.Namespace == "" {
		e.Namespace = metav1.NamespaceDefault
	}
	if k.related != (corev1.ObjectReference{}) {
		e.Related = &k.related
	}
	return e
}

// due returns what is to be written of a series now. If nothing is, it returns how
// long the series is left alone; 0 says for ever. A hurry ignores the limit.
func (b *book) due(s *series, now time.Time, hurry bool) (*write, time.Duration) {
	switch {
	case s.pending == 0 && now.Sub(s.last) >= quiet:
		b.forget(s)
		return nil, 0
	case s.pending == 0:
		return nil, s.last.Add(quiet).Sub(now)
	case !hurry && now.Before(s.next):
		return nil, s.next.Sub(now)
	}
	w := &write{event: s.event, exists: s.exists, occurrences: s.pending}
	if count := s.written + s.pending; count > 1 {
		w.event.Series = &eventsv1.EventSeries{Count: count, LastObservedTime: metav1.NewMicroTime(s.last)}
	}
	return w, 0
}

// settle notes that a write came to an end: its occurrences wait no longer.
func (b *book) settle(s *series, w *write, accepted bool, now time.Time) {
	s.pending -= w.occurrences
	if s.pending == 0 {
		b.waiting--
	} else {
		s.waits = now
	}
	if accepted {
		s.exists = true
		s.written += w.occurrences
	}
	s.next = now.Add(writeInterval)
}
