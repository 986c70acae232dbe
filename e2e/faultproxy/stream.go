package faultproxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

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
func newStream(ctx context.Context, end context.CancelCauseFunc, q Request, answer *http.Response) (*stream, error) {
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
	}
	answer.Body = s
	return s, nil
}

// Read implements io.Reader.
func (s *stream) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		if s.err == nil {
			s.rest, s.err = s.next()
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
		if event, err = s.encoding.read(s.events); !s.muted.Load() {
			break
		}
	}
	if err == nil {
		return event, nil
	}
	cause := context.Cause(s.ctx)
	var end *ending
	switch {
	case cause == nil: // the API server has ended it
		return event, err
	case !errors.As(cause, &end):
		return nil, cause
	case end.status == nil:
		return nil, io.EOF
	}
	if event, err = s.encoding.errorEvent(end.status); err != nil {
		return nil, err
	}
	return event, io.EOF
}

// Streams returns how many watches that match are running: the API server has
// accepted them, and they have not ended.
func (p *Proxy) Streams(match Match) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for s := range p.streams {
		if match.matches(s.request) {
			n++
		}
	}
	return n
}

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
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for s := range p.streams {
		if match.matches(s.request) {
			s.muted.Store(true)
			n++
		}
	}
	return n
}

// endStreams ends the streams that match, each once.
func (p *Proxy) endStreams(match Match, cause error) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for s := range p.streams {
		if match.matches(s.request) {
			s.end(cause)
			delete(p.streams, s)
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
