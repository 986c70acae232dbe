package cloudevents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// sinkTimeout bounds one request.
	sinkTimeout = 10 * time.Second
	// retryFor is how long after the first attempt the last one may begin.
	retryFor = time.Minute
	// maxSinkAnswer is how much of a response is read, so that the connection can be used
	// again.
	maxSinkAnswer = 16 << 10
	// failureQuietTime is how long a kind of failure must not recur to be logged again.
	failureQuietTime = 10 * time.Minute
)

// deliver sends one CloudEvent until the receiver accepts or refuses it, retryFor is over, or
// ctx ends. When stopping is closed, the next attempt is made at once.
func (c *Sink) deliver(ctx context.Context, stopping <-chan struct{}, q queued) {
	backoff := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: sinkTimeout}
	deadline := time.Now().Add(retryFor)
	for ctx.Err() == nil {
		got := c.send(ctx, q.event)
		if got.outcome != "" {
			c.count(q.reason, got.outcome)
			return
		}
		left := time.Until(deadline)
		if left <= 0 {
			c.count(q.reason, outcomeFailed)
			c.failures.log("failed", "A CloudEvent is dropped: the sink did not accept it for a minute")
			return
		}
		pause := time.NewTimer(min(left, max(backoff.Step(), got.retryAfter)))
		select {
		case <-pause.C:
		case <-stopping:
			stopping = nil
		case <-ctx.Done():
		}
		pause.Stop()
		if ctx.Err() == nil {
			c.retries.Inc()
		}
	}
	c.dropAtEnd(q)
}

// attempt is the result of one request.
type attempt struct {
	// outcome of the CloudEvent; empty if it is sent again.
	outcome string
	// retryAfter is the wait that the receiver asked for.
	retryAfter time.Duration
}

// send sends a CloudEvent once.
func (c *Sink) send(ctx context.Context, e event.Event) attempt {
	request, err := cehttp.NewHTTPRequestFromEvent(ctx, c.options.URL, e)
	if err != nil {
		c.failures.log("encode", "Cannot encode a CloudEvent", "error", withoutURL(err))
		return attempt{outcome: outcomeFailed}
	}
	headers, err := readHeaders(c.options.HeadersFile)
	if err != nil { // it may be about to be replaced
		c.failures.log("headers", "CloudEvents wait for the file with headers", "error", err)
		return attempt{}
	}
	maps.Copy(request.Header, headers)
	request.Header.Set("User-Agent", c.options.UserAgent)
	response, err := c.client.Do(request)
	if err != nil {
		c.logNoAnswer(ctx, err)
		return attempt{}
	}
	// The status is all that counts; an error of the body is ignored.
	_, _ = io.CopyN(io.Discard, response.Body, maxSinkAnswer)
	_ = response.Body.Close()
	status := response.StatusCode
	switch {
	case status/100 == 2:
		return attempt{outcome: outcomeDelivered}
	case len(headers) > 0 && (status == http.StatusUnauthorized || status == http.StatusForbidden):
		// The receiver may know a rotated credential before the file has it.
		c.failures.log(fmt.Sprint(status), "The sink refuses the credentials of CloudEvents: check the file with headers", "status", status)
		return attempt{}
	case mayRetry(status):
		c.failures.log(fmt.Sprint(status), "The sink of CloudEvents fails", "status", status)
		return attempt{retryAfter: retryAfter(response.Header)}
	}
	c.failures.log(fmt.Sprint(status), "The sink refuses CloudEvents: check that its URL is that of a receiver of CloudEvents", "status", status)
	return attempt{outcome: outcomeRejected}
}

// logNoAnswer logs a request without an answer, unless ctx ended it.
func (c *Sink) logNoAnswer(ctx context.Context, err error) {
	of, is := errors.AsType[*url.Error](err)
	switch {
	case ctx.Err() != nil:
	case is && of.Timeout():
		c.failures.log("timeout", "The sink of CloudEvents does not answer", "error", withoutURL(err))
	default:
		c.failures.log("connection", "The sink of CloudEvents cannot be reached", "error", withoutURL(err))
	}
}

// mayRetry reports whether the same request may succeed later.
func mayRetry(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status/100 == 5
}

// retryAfter reads the header Retry-After (RFC 9110, 10.2.3): seconds or a date.
func retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return time.Until(date)
	}
	return 0
}

// withoutURL returns an error without the URL of the request.
func withoutURL(err error) string {
	if of, is := errors.AsType[*url.Error](err); is {
		return of.Err.Error()
	}
	return err.Error()
}

// failureLog logs each kind of failure once, and again if it recurs after failureQuietTime.
type failureLog struct {
	logger logr.Logger
	mu     sync.Mutex
	// lastSeen is when each kind of failure occurred last. mu guards it.
	lastSeen map[string]time.Time
}

func (t *failureLog) log(kind, message string, keysAndValues ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, known := t.lastSeen[kind]
	now := time.Now()
	t.lastSeen[kind] = now
	if !known || now.Sub(last) > failureQuietTime {
		t.logger.Info(message, keysAndValues...)
	}
}
