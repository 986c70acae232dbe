package faultproxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stream is the body of a watch. It passes on whole events only, so that it can
// end after any of them.
type stream struct {
	request  Request
	encoding encoding
	upstream io.ReadCloser
	events   *bufio.Reader

	// ctx is that of the request to the API server. Its cause says how the
	// stream ends: an *ending is in order, anything else is abrupt.
	ctx context.Context
	end context.CancelCauseFunc

	// muted says that events do not pass.
	muted atomic.Bool
	// hook decides about each event.
	hook *atomic.Pointer[func(Request, []byte) EventFault]
	// view has the events that were passed on.
	view *recording

	// rest of the event that is being read, and what comes after it.
	rest []byte
	err  error
}

// ending is the cause of a stream that ends in order.
type ending struct {
	// status is that of an ERROR event that comes last, when it is not nil.
	status *metav1.Status
}

func (*ending) Error() string { return "the watch ends here" }

// newStream puts itself in the place of the body of an answer.
func (p *Proxy) newStream(ctx context.Context, end context.CancelCauseFunc, q Request, answer *http.Response) (*stream, error) {
	enc, err := encodingOf(answer.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	s := &stream{
		request:  q,
		encoding: enc,
		upstream: answer.Body,
		events:   bufio.NewReader(answer.Body),
		ctx:      ctx,
		end:      end,
		hook:     &p.hook,
		view:     p.record(q, answer),
	}
	answer.Body = s
	return s, nil
}

// Read implements io.Reader.
func (s *stream) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		if s.err == nil {
			s.rest, s.err = s.next()
			if s.err == nil {
				s.view.add(s.rest)
			}
		}
		if len(s.rest) == 0 {
			return 0, s.err
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (s *stream) Close() error {
	return s.upstream.Close()
}

// next returns the next event, or the last one together with an error.
func (s *stream) next() ([]byte, error) {
	err := s.ctx.Err()
	var event []byte
	for err == nil {
		if event, err = s.encoding.read(s.events); err != nil {
			break
		}
		if hook := s.hook.Load(); hook != nil && !s.muted.Load() {
			event, err = s.faulty(event, (*hook)(s.request, event))
		}
		if !s.muted.Load() {
			break
		}
	}
	if err == nil {
		return event, nil
	}
	cause := context.Cause(s.ctx)
	end, is := errors.AsType[*ending](cause)
	switch {
	case cause == nil: // the API server has ended it
		return event, err
	case !is:
		return nil, cause
	case end.status == nil:
		return nil, io.EOF
	}
	if event, err = s.encoding.errorEvent(end.status); err != nil {
		return nil, err
	}
	return event, io.EOF
}

// EventFault is a fault of one event of a watch.
type EventFault int

const (
	// Pass is none.
	Pass EventFault = iota
	// Twice has the event pass twice.
	Twice
	// Withhold ends the watch as expired in place of the event: its client lists anew, and sees the state after it alone.
	Withhold
	// Hold has the event, and those after it, pass half a second later: after later events of other watches.
	Hold
)

// held is how long Hold holds an event.
const held = 500 * time.Millisecond

// OnEvents has decide decide about each event of the watches that begin, and that run, until it is called again. nil is no fault. An event
// is as it is on the wire. decide may be called by several watches at once.
func (p *Proxy) OnEvents(decide func(q Request, event []byte) EventFault) {
	if decide == nil {
		p.hook.Store(nil)
		return
	}
	p.hook.Store(&decide)
}

// faulty returns an event with a fault.
func (s *stream) faulty(event []byte, fault EventFault) ([]byte, error) {
	switch fault {
	case Twice:
		return slices.Concat(event, event), nil
	case Withhold:
		s.end(&ending{status: statusOf(apierrors.NewResourceExpired("too old resource version"))})
		return nil, s.ctx.Err()
	case Hold:
		timer := time.NewTimer(held)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.ctx.Done():
		}
	case Pass:
	}
	return event, nil
}

// Streams returns how many watches that match are running: the API server has
// accepted them, and they have not ended.
func (p *Proxy) Streams(match Match) int { return p.eachStream(match, func(*stream) {}) }

// CutStreams breaks off the running watches that match, in mid-stream, and
// returns how many it were.
func (p *Proxy) CutStreams(match Match) int {
	return p.endStreams(match, errCut)
}

// CloseStreams ends the running watches that match in order, after the last
// whole event, and returns how many it were.
func (p *Proxy) CloseStreams(match Match) int {
	return p.endStreams(match, &ending{})
}

// ErrorStreams ends the running watches that match in order, with an ERROR event
// that carries the Status of the error, and returns how many it were.
func (p *Proxy) ErrorStreams(match Match, err apierrors.APIStatus) int {
	return p.endStreams(match, &ending{status: statusOf(err)})
}

// MuteStreams has the running watches that match, which go on, bring nothing any
// more, and returns how many it were: no API server does that, but one whose events
// were lost looks so.
func (p *Proxy) MuteStreams(match Match) int {
	return p.eachStream(match, func(s *stream) { s.muted.Store(true) })
}

// endStreams ends the streams that match, each once.
func (p *Proxy) endStreams(match Match, cause error) int {
	return p.eachStream(match, func(s *stream) {
		s.end(cause)
		delete(p.streams, s)
	})
}

// eachStream does something to the running watches that match, under the lock, and returns how many they are.
func (p *Proxy) eachStream(match Match, do func(*stream)) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for s := range p.streams {
		if match.matches(s.request) {
			do(s)
			n++
		}
	}
	return n
}

func (p *Proxy) addStream(s *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams[s] = struct{}{}
}

func (p *Proxy) removeStream(s *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.streams, s)
}
