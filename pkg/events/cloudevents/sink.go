package cloudevents

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
)

// queueSize is the maximum number of pending CloudEvents.
const queueSize = 1000

// Outcomes of a CloudEvent.
const (
	outcomeDelivered = "delivered"
	outcomeNotSent   = "dropped"
	outcomeRejected  = "refused"
	outcomeFailed    = "failed"
)

// Options configure a Sink. All fields but HeadersFile are required.
type Options struct {
	// URL is the receiver of the CloudEvents: http or https, without a user.
	URL string
	// HeadersFile is a file with headers of each request, one "Name: value" a line. It is read for each request,
	// so that a value that is rotated is used at once. Optional.
	HeadersFile string
	// UserAgent is the header User-Agent of each request.
	UserAgent string
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
	// Log receives one line for each kind of failure, without the URL and without data of a
	// CloudEvent.
	Log logr.Logger
}

// Sink sends Events out of the cluster, as CloudEvents 1.0 in the binary mode of the HTTP
// binding. It is safe for concurrent use.
//
// Events are sent one at a time, in the order of their records. A failed request is retried for up to retryFor. The queue is
// bounded and is lost on a restart, so recording never waits for the receiver.
type Sink struct {
	options  Options
	client   *http.Client
	total    *prometheus.CounterVec
	retries  prometheus.Counter
	failures failureLog

	// queue holds the pending CloudEvents.
	queue chan queued
	// mu guards ended. Nothing is enqueued once ended is true.
	mu    sync.RWMutex
	ended bool
}

// queued is a pending CloudEvent. Its id is the same in each attempt.
type queued struct {
	reason string
	event  event.Event
}

// New returns a Sink, which sends nothing before Start. The error about an invalid URL does not repeat the URL, which may hold
// a token, and the error about a file with headers repeats no value.
func New(o Options) (*Sink, error) {
	host, err := checkSink(o.URL)
	if err != nil {
		return nil, err
	}
	if _, err := readHeaders(o.HeadersFile); err != nil {
		return nil, err
	}
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vidra_cloudevents_total",
		Help: "CloudEvents by reason and outcome: delivered, dropped (no room in the queue, or not sent before the operator ended), refused (by an answer that is final) or failed (given up after retries).",
	}, []string{"reason", "outcome"})
	retries := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "vidra_cloudevents_retries_total",
		Help: "Attempts to deliver a CloudEvent that followed a failed one.",
	})
	if err := errors.Join(o.Registerer.Register(total), o.Registerer.Register(retries)); err != nil {
		return nil, err
	}
	return &Sink{
		options: o,
		client: &http.Client{
			Timeout:       sinkTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		queue:    make(chan queued, queueSize),
		total:    total,
		retries:  retries,
		failures: failureLog{logger: o.Log.WithValues("sink", host), lastSeen: map[string]time.Time{}},
	}, nil
}

// checkSink returns the host of a URL that can receive CloudEvents.
func checkSink(sink string) (string, error) {
	u, err := url.Parse(sink)
	switch {
	case err != nil:
		return "", errors.New("the sink of CloudEvents is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("the sink of CloudEvents has the scheme %q: it must be an http or https URL", u.Scheme)
	case u.User != nil:
		return "", errors.New("the sink of CloudEvents has a user in its URL: remove it, because URLs are logged")
	case u.Hostname() == "":
		return "", errors.New("the sink of CloudEvents has no host in its URL")
	}
	return u.Host, nil
}

// Record enqueues Events to be sent. It returns at once: if the queue is full, the Event is
// dropped and counted.
func (c *Sink) Record(all []events.Event) {
	for _, e := range all {
		// An Event on an object repeats its twin on the VidraResource, whose subject is the object. Events of other kinds are about syncs.
		if e.OnObject || e.Regarding.Kind != v1alpha1.Kind {
			continue
		}
		for _, part := range split(e) {
			c.recordPart(part)
		}
	}
}

// recordPart enqueues an Event whose objects fit into one CloudEvent.
func (c *Sink) recordPart(e events.Event) {
	ce, err := encode(e, string(uuid.NewUUID()), time.Now())
	if err != nil {
		c.count(e.Reason, outcomeFailed)
		c.failures.log("encode", "Cannot encode a CloudEvent", "error", err)
		return
	}
	c.enqueue(queued{reason: e.Reason, event: ce})
}

// enqueue adds a CloudEvent to the queue, or drops it.
func (c *Sink) enqueue(q queued) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.ended {
		c.dropAtEnd(q)
		return
	}
	select {
	case c.queue <- q:
	default:
		c.count(q.reason, outcomeNotSent)
		c.failures.log("full", "CloudEvents are dropped: the sink is too slow", "waiting", cap(c.queue))
	}
}

// dropAtEnd counts a CloudEvent that stays unsent because the operator ends.
func (c *Sink) dropAtEnd(q queued) {
	c.count(q.reason, outcomeNotSent)
	c.failures.log("end", "CloudEvents are dropped: the operator stops before the sink accepted them")
}

// Start sends CloudEvents until ctx ends, then the pending ones, for at most FlushTimeout.
// Events that are recorded after that are dropped, so ctx must outlive the controllers that
// record. Start returns no error and must be called once.
func (c *Sink) Start(ctx context.Context) error {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(events.FlushTimeout, cancel) })()
	for ctx.Err() == nil {
		select {
		case q := <-c.queue:
			c.deliver(sending, ctx.Done(), q)
		case <-ctx.Done():
		}
	}
	c.flush(func(q queued) { c.deliver(sending, nil, q) })
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.flush(c.dropAtEnd) // recorded during the last delivery
	c.client.CloseIdleConnections()
	return nil
}

// flush passes the pending CloudEvents to take.
func (c *Sink) flush(take func(queued)) {
	for {
		select {
		case q := <-c.queue:
			take(q)
		default:
			return
		}
	}
}

// count counts the outcome of a CloudEvent.
func (c *Sink) count(reason, outcome string) {
	c.total.WithLabelValues(reason, outcome).Inc()
}
