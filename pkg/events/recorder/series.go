package recorder

import (
	"container/list"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record/util"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

const (
	// seriesQuietTime is the time without an occurrence after which a series ends, as in client-go
	// (k8s.io/client-go/tools/events, finishTime).
	seriesQuietTime = 6 * time.Minute
	// writeInterval is the least time between two writes of a series. Recurrences in
	// between are counted and written with the next write.
	writeInterval = 10 * time.Second
	// maxRecurrences is the target of writes of recurrences a second. With more series than
	// that allows every writeInterval, each is written less often, but at least every
	// longestInterval.
	maxRecurrences  = 20
	longestInterval = time.Minute
	// maxSeries is the maximum number of series. Beyond it, the idle series that was
	// written first is removed; without an idle series, new Events are dropped.
	maxSeries = 20_000
	// maxPerObject is the maximum number of series of one object and reason. Further Events
	// are counted in one additional series.
	maxPerObject = 10
	// foldedSuffix ends the note of the additional series.
	foldedSuffix = ". Further Events that differ from it are counted here"
)

// key identifies a series.
type key struct {
	kind, reason, action, variant string
	regarding, related            corev1.ObjectReference
}

// keyOf returns the key of an Event. It ignores the resourceVersions of references, and
// differences of variants beyond MaxNote.
func keyOf(e events.Event) key {
	k := key{kind: e.Type, reason: e.Reason, action: e.Action, variant: display.Truncate(e.Variant, events.MaxNote), regarding: e.Regarding}
	if e.Related != nil {
		k.related = *e.Related
	}
	k.regarding.ResourceVersion, k.related.ResourceVersion = "", ""
	return k
}

// object returns the key of all series about the same objects with the same reason. An object
// that was created again is the same object.
func (k key) object() key {
	k.variant, k.regarding.FieldPath, k.related.FieldPath = "", "", ""
	k.regarding.UID, k.related.UID = "", ""
	return k
}

// series is an Event and its recurrences.
type series struct {
	key key
	// event is the first Event, without a series.
	event eventsv1.Event
	// exists is whether the API server has accepted the Event.
	exists bool
	// written counts the occurrences that the API server has accepted, pending those that are
	// still to be written.
	written, pending int32
	// last is the time of the last occurrence, pendingSince the time of the first pending one.
	last, pendingSince time.Time
	// notBefore is the earliest time of the next write.
	notBefore time.Time
	// forbidden counts how often in a row the API server forbade the write. Only the worker
	// that writes the series uses it.
	forbidden int
	// idleElement is its element of aggregator.idle; nil while occurrences are pending.
	idleElement *list.Element
}

// aggregator holds the series. It is not safe for concurrent use.
type aggregator struct {
	reportingInstance string
	series            map[key]*series
	// idle holds the series without pending occurrences, in the order of their last writes.
	idle *list.List
	// perObject counts the series of each object and reason.
	perObject map[key]int
	// stamp is the number in the name of the last Event.
	stamp int64
}

func newAggregator(reportingInstance string) *aggregator {
	return &aggregator{reportingInstance: reportingInstance, series: map[key]*series{}, idle: list.New(), perObject: map[key]int{}}
}

// waiting returns the number of series with pending occurrences.
func (b *aggregator) waiting() int {
	return len(b.series) - b.idle.Len()
}

// add records an occurrence of an Event and returns its series; nil if too many series are
// pending.
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

// fold returns an Event that begins the additional series of its objects; see maxPerObject.
func fold(e events.Event) events.Event {
	e.Note = display.Truncate(e.Note, events.MaxNote-len(foldedSuffix)) + foldedSuffix
	e.Regarding.FieldPath = ""
	if e.Related != nil {
		related := *e.Related
		related.FieldPath = ""
		e.Related = &related
	}
	return e
}

// over reports whether an idle series has ended.
func (s *series) over(now time.Time) bool {
	return now.Sub(s.last) >= seriesQuietTime
}

// active returns the series with a key; nil if there is none, or it has ended.
func (b *aggregator) active(k key, now time.Time) *series {
	s := b.series[k]
	if s != nil && s.idleElement != nil && s.over(now) {
		b.forget(s)
		return nil
	}
	return s
}

// makeRoom reports whether there is room for a new series. It may remove an idle one.
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

// expire removes the series that have ended.
func (b *aggregator) expire(now time.Time) {
	for s := b.oldest(); s != nil && s.over(now); s = b.oldest() {
		b.forget(s)
	}
}

// oldest returns the idle series that was written first, or nil.
func (b *aggregator) oldest() *series {
	front := b.idle.Front()
	if front == nil {
		return nil
	}
	return front.Value.(*series)
}

// forget removes an idle series.
func (b *aggregator) forget(s *series) {
	b.idle.Remove(s.idleElement)
	delete(b.series, s.key)
	object := s.key.object()
	if b.perObject[object]--; b.perObject[object] == 0 {
		delete(b.perObject, object)
	}
}

// event returns the first Event of a series. The Event of an object without a namespace is in
// the namespace default, as the API server requires.
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
	first.Annotations = e.Annotations()
	first.Regarding.ResourceVersion = ""
	if e.Related != nil && *e.Related != (corev1.ObjectReference{}) {
		related := *e.Related
		related.ResourceVersion = ""
		first.Related = &related
	}
	return first
}

// due returns the write of a series that is due now. If none is, it returns the wait until the
// next one; 0 means until the next recurrence. With immediately, the wait is ignored.
func (b *aggregator) due(s *series, now time.Time, immediately bool) (*write, time.Duration) {
	switch {
	case s.pending == 0:
		return nil, 0
	case !immediately && now.Before(s.notBefore):
		return nil, s.notBefore.Sub(now)
	}
	w := &write{event: s.event, exists: s.exists, occurrences: s.pending}
	if count := s.written + s.pending; count > 1 {
		w.event.Series = &eventsv1.EventSeries{Count: count, LastObservedTime: metav1.NewMicroTime(s.last)}
	}
	return w, 0
}

// finishWrite records the result of a write, after which its occurrences have stopped being pending.
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
