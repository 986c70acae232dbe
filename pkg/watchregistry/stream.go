package watchregistry

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// causeWatchDecoding is the cause of the error that client-go returns for a WATCH whose
// bytes end within an event, as after a cut connection.
const causeWatchDecoding metav1.CauseType = "ClientWatchDecoding"

// stream passes the events of a WATCH to the reflector.
type stream struct {
	client *retryingClient
	source apiwatch.Interface
	// startedAt is when the reflector began to take the current part of the events: the
	// initial ones, or those that follow.
	startedAt time.Time
	// initial is the slot of the list that the stream begins with; nil if it does not begin
	// with a list, or the list has ended.
	initial *listSlot
	// added counts the objects of that list, and onListed is called with its version.
	added    int64
	onListed func(version string)
	out      chan apiwatch.Event
	// stopped is closed by Stop, done when run has ended.
	stopped, done chan struct{}
}

func newStream(g *retryingClient, source apiwatch.Interface, initial *listSlot, onListed func(string)) *stream {
	s := &stream{
		client: g, source: source, startedAt: time.Now(), initial: initial, onListed: onListed,
		out: make(chan apiwatch.Event), stopped: make(chan struct{}), done: make(chan struct{}),
	}
	go s.run()
	return s
}

// ResultChan implements watch.Interface.
func (s *stream) ResultChan() <-chan apiwatch.Event { return s.out }

// Stop implements watch.Interface. After it returned, the stream has stopped using the
// retryingClient.
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
	defer func() { s.initial.release() }()
	if s.initial == nil {
		s.client.stats.streamSince.Store(s.startedAt.UnixNano())
	}
	defer s.client.stats.streamSince.Store(0)
	deadline := time.NewTimer(streamTimeout)
	defer deadline.Stop()
	for {
		select {
		case <-s.stopped:
			return
		case <-s.client.listAgain:
			s.expire()
			return
		case <-deadline.C:
			if s.initial != nil { // lists in pages cost no memory; one as a whole does, and the API server may have been slow for once
				s.client.lists.plain, s.client.lists.interrupted = s.client.pages != nil, true
				return
			}
		case e, ok := <-s.source.ResultChan():
			if !ok {
				s.closedByServer()
				return
			}
			if e.Type == apiwatch.Added && time.Since(s.startedAt) < streamedListTimeout {
				deadline.Reset(streamTimeout)
			}
			if !s.forward(e) {
				return
			}
		}
	}
}

// expire ends the stream, after which the reflector lists all objects.
func (s *stream) expire() {
	status := apierrors.NewResourceExpired("all objects are listed again").Status()
	s.forward(apiwatch.Event{Type: apiwatch.Error, Object: &status})
}

// forward passes an event on. It reports whether the stream continues.
func (s *stream) forward(e apiwatch.Event) bool {
	s.client.stats.event(e.Type)
	if e.Type == apiwatch.Added {
		if s.initial != nil {
			s.initial.progress()
			s.added++
		}
		if most := s.client.maxObjects; most > 0 && s.objects() > most {
			s.overflow(most)
			return false
		}
	}
	if e.Type == apiwatch.Error && s.hides(apierrors.FromObject(e.Object)) {
		return false
	}
	if e.Type != apiwatch.Error {
		s.client.lists.expired, s.client.lists.undecodable = false, 0
	}
	ends := s.initial != nil && endsInitialEvents(e)
	if m, err := meta.Accessor(e.Object); ends && err == nil {
		s.onListed(m.GetResourceVersion())
	}
	select {
	case s.out <- e:
	case <-s.stopped:
		return false
	}
	if ends {
		s.initial.release()
		s.initial, s.startedAt = nil, time.Now()
		s.client.stats.streamSince.Store(s.startedAt.UnixNano())
		s.client.report(listed, "", nil)
		s.client.report(answered, "", nil)
	}
	return e.Type != apiwatch.Error
}

// objects returns the number of objects of the resource in the cluster with the one that is being added. A list replaces the objects in the store
// of its own watch.
func (s *stream) objects() int64 {
	stored := s.client.stats.storedOfKind()
	if s.initial != nil {
		return stored - s.client.stats.objects.Load() + s.added
	}
	return stored + 1
}

// overflow ends a stream with more objects than are watched. Each attempt lists all of them, so the next one comes late.
func (s *stream) overflow(most int64) {
	if s.initial == nil {
		s.expire()
	}
	s.client.fail(ReasonUnavailable, fmt.Errorf("there are more than %d objects of this kind, which is as many as are watched in another cluster", most))
	s.client.backoff.delay(overflowDelay)
}

// hides records the error of the API server that ended the stream. It reports whether the error is hidden from the reflector,
// which resumes a stream that ends without an error, but lists all objects again after an error.
func (s *stream) hides(err error) bool {
	g := s.client
	what, reason := classify(err, s.initial != nil)
	switch {
	case isExpired(err):
		g.expire(err)
		return false
	case apierrors.HasStatusCause(err, causeWatchDecoding) && g.lists.undecodable < maxUndecodableStreams:
		g.lists.undecodable++
		s.closedByServer()
		return true
	case what == passThrough:
		// The list comes from a watch cache that is too old; without lists.interrupted it would
		// be requested from it again.
		g.lists.interrupted = s.initial != nil
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

// closedByServer records that the API server ended the stream, as it does every few minutes. Within a list, the stream cannot
// know the cause: the next request is a LIST, whose answer may be an error. The reflector treats a stream that ends at once as
// failed: it would list all objects again and wait longer each time. So pause delays the end of a short stream.
func (s *stream) closedByServer() {
	s.client.stats.restarted(restartClosed)
	if s.initial != nil {
		s.client.lists.interrupted = true
		return
	}
	if time.Since(s.startedAt) >= minStreamLife {
		s.client.lists.expired = false
	}
	s.pause()
}

// pause waits if the stream was so short that the reflector would treat it as a failed
// WATCH.
func (s *stream) pause() {
	if s.initial != nil || time.Since(s.startedAt) >= minStreamLife {
		return
	}
	timer := time.NewTimer(minStreamLife)
	defer timer.Stop()
	select {
	case <-s.stopped:
	case <-timer.C:
	}
}

// endsInitialEvents reports whether an event marks the end of a streamed list.
func endsInitialEvents(e apiwatch.Event) bool {
	if e.Type != apiwatch.Bookmark {
		return false
	}
	m, err := meta.Accessor(e.Object)
	return err == nil && m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
