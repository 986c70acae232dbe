package recorder

import (
	"container/list"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record/util"

	"github.com/vidra-operator/vidra/pkg/events"
)

const (
	// seriesQuietTime is how long nothing recurs before a series is over. It is client-go's
	// (k8s.io/client-go/tools/events, finishTime).
	seriesQuietTime = 6 * time.Minute
	// writeInterval is the least time between two writes of a series. What recurs
	// in between is counted, and written with the next.
	writeInterval = 10 * time.Second
	// maxRecurrences is how many writes of recurrences a second are aimed at: with more
	// series than that allows every writeInterval, each is written less often, but at least
	// every longestInterval.
	maxRecurrences  = 20
	longestInterval = time.Minute
	// maxSeries is how many series are kept. With more, the one is forgotten that was
	// written the longest time ago; with so many that wait, new ones are dropped.
	maxSeries = 20_000
	// maxPerObject is how many series of one object and reason are kept apart. What
	// comes beyond is counted in one more.
	maxPerObject = 10
	// foldedSuffix ends the note of that one.
	foldedSuffix = ". More that differs from it is counted here"
)

// key is what Events of one series have in common.
type key struct {
	kind, reason, action, variant string
	regarding, related            corev1.ObjectReference
}

// keyOf returns the key of an Event. References to one object are the same, of
// whatever resourceVersion it was, and so are variants that no note tells apart.
func keyOf(e events.Event) key {
	k := key{kind: e.Type, reason: e.Reason, action: e.Action, variant: events.Truncate(e.Variant, events.MaxNote), regarding: e.Regarding}
	if e.Related != nil {
		k.related = *e.Related
	}
	k.regarding.ResourceVersion, k.related.ResourceVersion = "", ""
	return k
}

// object is the key of all that is told of the same objects for the same reason. An
// object that is created again is the same.
func (k key) object() key {
	k.variant, k.regarding.FieldPath, k.related.FieldPath = "", "", ""
	k.regarding.UID, k.related.UID = "", ""
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
	last, pendingSince time.Time
	// notBefore is the time before which it is not written again.
	notBefore time.Time
	// forbidden is how often in a row the API server forbade it. Only who writes it
	// uses this.
	forbidden int
	// idleElement is where it is among those that are settled; nil while something is pending.
	idleElement *list.Element
}

// aggregator keeps the series. It is not safe for concurrent use.
type aggregator struct {
	reportingInstance string
	series            map[key]*series
	// idle are the series of which nothing is pending, in the order of their last
	// writes.
	idle *list.List
	// perObject counts the series of each object and reason.
	perObject map[key]int
	// stamp is the number in the name of the last Event.
	stamp int64
}

func newAggregator(reportingInstance string) *aggregator {
	return &aggregator{reportingInstance: reportingInstance, series: map[key]*series{}, idle: list.New(), perObject: map[key]int{}}
}

// waiting is how many series have something pending.
func (b *aggregator) waiting() int {
	return len(b.series) - b.idle.Len()
}

// add notes that an Event occurred and returns its series, or nil if too many
// wait for being written.
func (b *aggregator) add(e events.Event, now time.Time) *series {
	k := keyOf(e)
	s := b.active(k, now)
	if s == nil && b.perObject[k.object()] >= maxPerObject {
		k, e = k.object(), fold(e)
		s = b.active(k, now)
	}
	if s == nil && !b.makeRoom() {
		return nil
	}
	switch {
	case s == nil:
		s = &series{key: k, event: b.event(e, now)}
		b.series[k] = s
		b.perObject[k.object()]++
		s.pendingSince = now
	case s.pending == 0:
		b.idle.Remove(s.idleElement)
		s.idleElement, s.pendingSince = nil, now
		if s.written == 0 {
			s.event.EventTime = metav1.NewMicroTime(now)
		}
	}
	s.pending++
	s.last = now
	return s
}

// fold makes an Event that begins the series of what else is told of its objects.
func fold(e events.Event) events.Event {
	e.Note = events.Truncate(e.Note, events.MaxNote-len(foldedSuffix)) + foldedSuffix
	e.Regarding.FieldPath = ""
	if e.Related != nil {
		related := *e.Related
		related.FieldPath = ""
		e.Related = &related
	}
	return e
}

// over says whether nothing recurred for so long that a settled series has ended.
func (s *series) over(now time.Time) bool {
	return now.Sub(s.last) >= seriesQuietTime
}

// active finds a series that is not over.
func (b *aggregator) active(k key, now time.Time) *series {
	s := b.series[k]
	if s != nil && s.idleElement != nil && s.over(now) {
		b.forget(s)
		return nil
	}
	return s
}

// makeRoom makes room for a series, if there is any.
func (b *aggregator) makeRoom() bool {
	if len(b.series) < maxSeries {
		return true
	}
	oldest := b.oldest()
	if oldest == nil {
		return false
	}
	b.forget(oldest)
	return true
}

// expire forgets the series that are over.
func (b *aggregator) expire(now time.Time) {
	for s := b.oldest(); s != nil && s.over(now); s = b.oldest() {
		b.forget(s)
	}
}

// oldest is the settled series that was written the longest time ago, or nil.
func (b *aggregator) oldest() *series {
	front := b.idle.Front()
	if front == nil {
		return nil
	}
	return front.Value.(*series)
}

// forget ends a settled series.
func (b *aggregator) forget(s *series) {
	b.idle.Remove(s.idleElement)
	delete(b.series, s.key)
	object := s.key.object()
	if b.perObject[object]--; b.perObject[object] == 0 {
		delete(b.perObject, object)
	}
}

// event makes the first Event of a series. One about what has no namespace is in
// the namespace default: the API server wants it so.
func (b *aggregator) event(e events.Event, now time.Time) eventsv1.Event {
	b.stamp = max(b.stamp+1, now.UnixNano())
	first := eventsv1.Event{
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: events.Controller, ReportingInstance: b.reportingInstance,
		Type: e.Type, Reason: e.Reason, Action: e.Action, Note: e.Note, Regarding: e.Regarding,
	}
	first.Name, first.Namespace = util.GenerateEventName(e.Regarding.Name, b.stamp), e.Regarding.Namespace
	if first.Namespace == "" {
		first.Namespace = metav1.NamespaceDefault
	}
	first.Regarding.ResourceVersion = ""
	if e.Related != nil && *e.Related != (corev1.ObjectReference{}) {
		related := *e.Related
		related.ResourceVersion = ""
		first.Related = &related
	}
	return first
}

// due returns what is to be written of a series now. If nothing is, it returns how
// long the series is left alone; 0 says until something recurs. A hurry ignores the
// limit.
func (b *aggregator) due(s *series, now time.Time, hurry bool) (*write, time.Duration) {
	switch {
	case s.pending == 0:
		return nil, 0
	case !hurry && now.Before(s.notBefore):
		return nil, s.notBefore.Sub(now)
	}
	w := &write{event: s.event, exists: s.exists, occurrences: s.pending}
	if count := s.written + s.pending; count > 1 {
		w.event.Series = &eventsv1.EventSeries{Count: count, LastObservedTime: metav1.NewMicroTime(s.last)}
	}
	return w, 0
}

// finishWrite notes that a write came to an end: its occurrences wait no longer.
func (b *aggregator) finishWrite(s *series, w *write, accepted bool, now time.Time) {
	s.pending -= w.occurrences
	if s.pending == 0 {
		s.idleElement = b.idle.PushBack(s)
	} else {
		s.pendingSince = now
	}
	if accepted {
		s.exists = true
		s.written += w.occurrences
	}
	s.forbidden = 0
	s.notBefore = now.Add(min(max(writeInterval, time.Duration(b.waiting())*time.Second/maxRecurrences), longestInterval))
}
