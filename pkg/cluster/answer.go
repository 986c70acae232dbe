package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	// maxHeldBytes is how much memory the unfinished answers of one remote cluster may need
	// when they are decoded, as jsonSize estimates it.
	maxHeldBytes = 96 << 20
	// readRate is how much of that is read from one remote cluster each second, and
	// readBurst how much at once.
	readRate, readBurst = 32 << 20, 128 << 20
	// maxObjectBytes is more than an API server stores of one object. Its users can make one that needs more memory than
	// maxHeldBytes; an answer about one object that has more bytes is a fault of the API server itself.
	maxObjectBytes = 4 << 20
	// maxHeaderBytes is how many bytes the header of an answer may have.
	maxHeaderBytes = 256 << 10
)

var (
	errUnfinished = errors.New("it does not finish an answer in time")
	errTooLarge   = fmt.Errorf("it sends answers that need more than %d MiB of memory", maxHeldBytes>>20)
	errTogether   = fmt.Errorf("its answers need more than %d MiB of memory together", maxHeldBytes>>20)
	errPages      = errors.New("it answers with a part of a list that it was asked for as a whole")
	errNotJSON    = errors.New("it does not answer with JSON")
)

// answerLimits bounds the cost of the answers of one remote cluster. It is safe for concurrent use.
type answerLimits struct {
	limits *limits
	// held is the size of all unfinished answers.
	held  atomic.Int64
	speed *rate.Limiter
}

// askForJSON drops every encoding but JSON from the header Accept of a request: the memory
// that others need cannot be estimated without decoding them.
func askForJSON(request *http.Request) {
	var kept []string
	for _, media := range strings.Split(strings.Join(request.Header.Values("Accept"), ","), ",") {
		if strings.HasPrefix(strings.TrimSpace(media), "application/json") {
			kept = append(kept, media)
		}
	}
	request.Header = request.Header.Clone()
	request.Header.Set("Accept", "application/json")
	if len(kept) > 0 {
		request.Header.Set("Accept", strings.Join(kept, ","))
	}
}

// inPages is the key of the value of a context whose LISTs may be answered in parts.
type inPages struct{}

// informerPages is the value for the LIST of an informer.
const informerPages = "informer"

// InPages returns a context for LISTs whose caller handles each page before it asks for the next one. Other LISTs of a remote
// cluster are answered at once or not at all. A page that needs more than maxPageBytes is an ErrPageTooLarge.
func InPages(ctx context.Context) context.Context { return context.WithValue(ctx, inPages{}, true) }

// InformerPages is InPages for the LIST of an informer, whose WATCH begins from the version of the list.
func InformerPages(ctx context.Context) context.Context {
	return context.WithValue(ctx, inPages{}, informerPages)
}

// askForAll has a LIST answered at once: the parts of an answer in parts are kept until the last one, which may be missing. An
// error means that the API server has sent a part nevertheless.
func askForAll(request *http.Request) error {
	query := request.URL.Query()
	if request.Context().Value(inPages{}) != nil {
		return nil
	}
	if request.Method != http.MethodGet || !query.Has("limit") && !query.Has("continue") {
		return nil
	}
	if query.Get("continue") != "" {
		return errPages
	}
	query.Del("limit")
	u := *request.URL
	u.RawQuery = query.Encode()
	request.URL = &u
	return nil
}

// isJSON reports whether client-go decodes an answer as JSON, or not at all.
func isJSON(response *http.Response) bool {
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return err != nil || !strings.Contains(media, "protobuf") && !strings.Contains(media, "cbor")
}

// boundedBody is the body of an answer of a remote API server. It ends with an error when
// the answer, or an event of a watch, is not finished in time, or when the unfinished answers
// of the cluster are too large together.
type boundedBody struct {
	source  io.ReadCloser
	answers *answerLimits
	// ctx is the context of the request. end ends it, with a cause.
	ctx context.Context
	end func(cause error)
	// watch reports that the body has events without end; within is how long one of them, or
	// the whole body, may take.
	watch  bool
	within time.Duration
	// failed is called with the error that a read ends with, except for the end of the body.
	failed func(err error)

	// mu guards the fields below: a watch is closed while its body is being read.
	mu     sync.Mutex
	timer  *time.Timer
	closed bool
	read   bodyRead
}

// bodyRead is the part of a body that was read.
type bodyRead struct {
	// size estimates the bytes of the present event, or of the body.
	size jsonSize
	// held is the part of size that is counted in answers.
	held int64
	// large reports that the API server sent more bytes than it stores of one object.
	large bool
}

// start begins to wait for the end of the body.
func (b *boundedBody) start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read.size.stream = b.watch
	b.expectLocked(!b.watch)
}

// expectLocked begins or ends to wait for the end of the body, or of an event.
func (b *boundedBody) expectLocked(end bool) {
	switch {
	case end && b.timer == nil:
		b.timer = time.AfterFunc(b.within, func() { b.end(errUnfinished) })
	case !end && b.timer != nil:
		b.timer.Stop()
		b.timer = nil
	}
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.source.Read(p)
	if n > 0 {
		if excess := b.account(p[:n]); excess != nil {
			n, err = 0, excess
			b.end(excess)
		}
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if cause := context.Cause(b.ctx); errors.Is(cause, errUnfinished) {
		err = cause
	}
	b.failed(err)
	return n, err
}

// account counts the bytes that were read, and waits if that is too fast.
func (b *boundedBody) account(read []byte) error {
	cost, own, all := b.hold(read)
	switch most := b.answers.limits.held; {
	case own > most || cost > most:
		return errTooLarge
	case all > most:
		return errTogether
	}
	if err := b.answers.speed.WaitN(b.ctx, int(min(cost, readBurst))); err != nil && b.ctx.Err() == nil {
		return errUnfinished // it would take longer than the request may
	}
	return nil
}

// hold adds the bytes that were read to the present event, or to the body. It returns the sizes of these bytes, of the event
// or body, and of all unfinished answers of the cluster.
func (b *boundedBody) hold(read []byte) (cost, own, all int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, 0, 0
	}
	cost = b.read.size.add(read)
	if b.watch {
		b.expectLocked(b.read.size.depth > 0)
	}
	grown := b.read.size.total - b.read.held
	b.read.held, b.read.large = b.read.size.total, b.read.size.bytes > maxObjectBytes
	return cost, b.read.held, b.answers.held.Add(grown)
}

// release ends the wait and releases the bytes of the body.
func (b *boundedBody) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.expectLocked(false)
	b.answers.held.Add(-b.read.held)
	b.read.held = 0
}

// Close implements io.Closer. It is safe to call during a Read.
func (b *boundedBody) Close() error {
	b.release()
	err := b.source.Close()
	b.end(nil)
	return err
}

// The least memory of an object, an array and one more value in either of them, when they are decoded into maps, slices and
// interfaces.
const (
	objectSize, arraySize, valueSize = 320, 48, 32
)

// jsonSize estimates how much memory JSON needs when it is decoded.
type jsonSize struct {
	// stream reports that values follow each other, as the events of a watch do, and that each
	// is decoded for itself.
	stream bool
	// total is the size of the present value, and bytes the length of its text.
	total, bytes int64
	// depth is how many objects and arrays are open.
	depth            int
	inString, escape bool
}

// add takes the next bytes, and returns their size.
func (s *jsonSize) add(text []byte) (cost int64) {
	cost = int64(len(text))
	s.total, s.bytes = s.total+cost, s.bytes+cost
	for len(text) > 0 {
		switch {
		case s.escape:
			s.escape, text = false, text[1:]
			continue
		case s.inString:
			i := bytes.IndexAny(text, `"\`)
			if i < 0 {
				return cost
			}
			s.escape, s.inString = text[i] == '\\', text[i] == '\\'
			text = text[i+1:]
			continue
		}
		more := int64(0)
		switch text[0] {
		case '"':
			s.inString = true
		case '{':
			more, s.depth = objectSize, s.depth+1
		case '[':
			more, s.depth = arraySize, s.depth+1
		case ',':
			more = valueSize
		case '}', ']':
			if s.depth = max(0, s.depth-1); s.depth == 0 && s.stream {
				s.total, s.bytes = int64(len(text)), int64(len(text)) // what follows is another value
			}
		}
		cost, s.total, text = cost+more, s.total+more, text[1:]
	}
	return cost
}
