package events

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	// sinkTimeout is how long a sink may take to answer one request.
	sinkTimeout = 10 * time.Second
	// deliverFor is how long after the first attempt the last one may begin.
	deliverFor = time.Minute
	// maxSinkAnswer is how much of an answer is read, so that the connection can be used
	// again.
	maxSinkAnswer = 16 << 10
	// sinkQuiet is how long a kind of failure must not have been seen to be told again.
	sinkQuiet = 10 * time.Minute
)

// deliver sends one CloudEvent until the sink takes or refuses it, deliverFor is
// over, or ctx ends. Once hurry is closed, it does not wait for the next attempt.
func (c *CloudEvents) deliver(ctx context.Context, hurry <-chan struct{}, q queuedCloudEvent) {
	backoff := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: sinkTimeout}
	deadline := time.Now().Add(deliverFor)
	for ctx.Err() == nil {
		got := c.send(ctx, q.event)
		if got.outcome != "" {
			c.end(q.reason, got.outcome)
			return
		}
		left := time.Until(deadline)
		if left <= 0 {
			c.end(q.reason, cloudEventFailed)
			c.troubles.tell("failed", "A CloudEvent is given up: the sink did not take it for a minute")
			return
		}
		pause := time.NewTimer(min(left, max(backoff.Step(), got.retryAfter)))
		select {
		case <-pause.C:
		case <-hurry:
			hurry = nil
		case <-ctx.Done():
		}
		pause.Stop()
		if ctx.Err() == nil {
			c.retries.Inc()
		}
	}
	c.dropAtEnd(q)
}

// sinkAnswer is what came of one request.
type sinkAnswer struct {
	// outcome of the CloudEvent; empty if it is to be sent again.
	outcome string
	// retryAfter is how long the sink wants to be left alone.
	retryAfter time.Duration
}

// send sends a CloudEvent once.
func (c *CloudEvents) send(ctx context.Context, e event.Event) sinkAnswer {
	request, err := cehttp.NewHTTPRequestFromEvent(ctx, c.sink, e)
	if err != nil {
		c.troubles.tell("encode", "Cannot encode a CloudEvent", "error", withoutURL(err))
		return sinkAnswer{outcome: cloudEventFailed}
	}
	request.Header.Set("User-Agent", c.agent)
	response, err := c.client.Do(request)
	if err != nil {
		c.unanswered(ctx, err)
		return sinkAnswer{}
	}
	// What the sink says beyond its status is of no use, nor is an error of it.
	_, _ = io.CopyN(io.Discard, response.Body, maxSinkAnswer)
	_ = response.Body.Close()
	status := response.StatusCode
	switch {
	case status/100 == 2:
		return sinkAnswer{outcome: cloudEventDelivered}
	case mayPass(status):
		c.troubles.tell(fmt.Sprint(status), "The sink of CloudEvents fails", "status", status)
		return sinkAnswer{retryAfter: retryAfter(response.Header)}
	}
	c.troubles.tell(fmt.Sprint(status), "The sink refuses CloudEvents: see that its URL is that of a receiver of CloudEvents", "status", status)
	return sinkAnswer{outcome: cloudEventRefused}
}

// unanswered tells of a request without an answer, unless ctx ended it.
func (c *CloudEvents) unanswered(ctx context.Context, err error) {
	var of *url.Error
	switch {
	case ctx.Err() != nil:
	case errors.As(err, &of) && of.Timeout():
		c.troubles.tell("timeout", "The sink of CloudEvents does not answer", "error", withoutURL(err))
	default:
		c.troubles.tell("connection", "The sink of CloudEvents cannot be reached", "error", withoutURL(err))
	}
}

// mayPass says whether the same request may have another answer later.
func mayPass(status int) bool {
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

// withoutURL drops the URL of the request from an error.
func withoutURL(err error) string {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err.Error()
	}
	return err.Error()
}

// sinkTroubles tells of each kind of failure once, and again when it comes back after
// a quiet time.
type sinkTroubles struct {
	log logr.Logger
	mu  sync.Mutex
	// seen is when each kind of failure was last seen. mu guards it.
	seen map[string]time.Time
}

func (t *sinkTroubles) tell(kind, message string, keysAndValues ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, known := t.seen[kind]
	now := time.Now()
	t.seen[kind] = now
	if !known || now.Sub(last) > sinkQuiet {
		t.log.Info(message, keysAndValues...)
	}
}
