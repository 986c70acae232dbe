package watchregistry

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// causeWatchDecoding is the cause of the error that client-go makes of a WATCH
// whose bytes end in the middle, as those of a cut connection do.
const causeWatchDecoding metav1.CauseType = "ClientWatchDecoding"

// stream is the answer to a WATCH, on its way to the reflector.
type stream struct {
	gate   *gate
	source apiwatch.Interface
	// began is when the reflector began to take the present events of it: the
	// initial ones, or those that follow.
	began time.Time
	// initial is the place for the list that the stream begins with; nil if it
	// does not, or no longer.
	initial *place
	// added counts the objects of that list.
	added int64
	out   chan apiwatch.Event
	// stopped is closed by Stop, done when run has ended.
	stopped, done chan struct{}
}

func newStream(g *gate, source apiwatch.Interface, initial *place) *stream {
	s := &stream{
		gate: g, source: source, began: time.Now(), initial: initial,
		out: make(chan apiwatch.Event), stopped: make(chan struct{}), done: make(chan struct{}),
	}
	go s.run()
	return s
}

// ResultChan implements watch.Interface.
func (s *stream) ResultChan() <-chan apiwatch.Event { return s.out }

// Stop implements watch.Interface. When it returns, the stream touches the gate
// no more.
func (s *stream) Stop() {
	select {
	case <-s.stopped:
	default: // only the reflector stops a stream, from one goroutine
		close(s.stopped)
	}
	<-s.done
}

func (s *stream) run() {
	defer close(s.done)
	defer close(s.out)
	defer s.source.Stop()
	defer func() { s.initial.leave() }()
	deadline := time.NewTimer(streamTimeout)
	defer deadline.Stop()
	for {
		select {
		case <-s.stopped:
			return
		case <-deadline.C:
			if s.initial != nil {
				s.gate.plain = true
				return
			}
		case e, ok := <-s.source.ResultChan():
			if !ok {
				s.ended()
				return
			}
			if e.Type == apiwatch.Added && time.Since(s.began) < streamMost {
				deadline.Reset(streamTimeout)
			}
			if !s.forward(e) {
				return
			}
		}
	}
}

// forward hands an event on. It reports whether the stream goes on.
func (s *stream) forward(e apiwatch.Event) bool {
	s.gate.stats.event(e.Type)
	if s.initial != nil && e.Type == apiwatch.Added {
		s.initial.sign()
		s.added++
	}
	if most := s.gate.most; most > 0 && max(s.added, s.gate.stats.objects.Load()) > most {
		s.gate.fail(ReasonUnavailable, fmt.Errorf("there are more than %d objects of this kind, which is as many as are watched in another cluster", most))
		return false
	}
	if e.Type == apiwatch.Error && s.swallows(apierrors.FromObject(e.Object)) {
		return false
	}
	if e.Type != apiwatch.Error {
		s.gate.expired, s.gate.unread = false, 0
	}
	select {
	case s.out <- e:
	case <-s.stopped:
		return false
	}
	if s.initial != nil && endsInitialEvents(e) {
		s.initial.leave()
		s.initial, s.began = nil, time.Now()
		s.gate.tell(listed, "", nil)
		s.gate.tell(answered, "", nil)
	}
	return e.Type != apiwatch.Error
}

// swallows notes an error that the API server ended the stream with. It reports
// whether the reflector is better off not to know: it resumes a stream that just
// ends where it was, but lists everything anew after an error.
func (s *stream) swallows(err error) bool {
	g := s.gate
	what, reason := classify(err, s.initial != nil)
	switch {
	case isExpired(err):
		g.expire(err)
		return false
	case apierrors.HasStatusCause(err, causeWatchDecoding) && g.unread < unreadMost:
		g.unread++
		s.ended()
		return true
	case what == pass:
		// A list that comes from too old a cache, for ever if that is stuck.
		g.brokeOff = s.initial != nil
		return false
	default:
		g.fail(reason, err)
		if !apierrors.IsTooManyRequests(err) {
			return false
		}
		s.pause()
		return true
	}
}

// ended notes that the API server ended the stream, as it does every few
// minutes. If that was in the middle of a list, it could not tell why: a LIST is
// asked for next, whose answer may be an error. The reflector takes a stream that
// ends at once for one that failed: it would list everything anew, and wait longer
// each time. So a short one ends for the reflector some time later, and is resumed
// then.
func (s *stream) ended() {
	s.gate.stats.restarted(restartClosed)
	if s.initial != nil {
		s.gate.brokeOff = true
		return
	}
	if time.Since(s.began) >= shortLived {
		s.gate.expired = false
	}
	s.pause()
}

// pause waits if the stream was so short that the reflector would take it for a
// WATCH that failed.
func (s *stream) pause() {
	if s.initial != nil || time.Since(s.began) >= shortLived {
		return
	}
	timer := time.NewTimer(shortLived)
	defer timer.Stop()
	select {
	case <-s.stopped:
	case <-timer.C:
	}
}

// endsInitialEvents says whether an event marks the end of a streamed list.
func endsInitialEvents(e apiwatch.Event) bool {
	if e.Type != apiwatch.Bookmark {
		return false
	}
	m, err := meta.Accessor(e.Object)
	return err == nil && m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
