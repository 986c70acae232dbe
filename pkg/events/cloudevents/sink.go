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

	"github.com/vidra-operator/vidra/pkg/events"
)

// queueSize is how many CloudEvents wait at most.
const queueSize = 1000

// Outcomes of a CloudEvent.
const (
	outcomeDelivered = "delivered"
	outcomeNotSent   = "dropped"
	outcomeRejected  = "refused"
	outcomeFailed    = "failed"
)

// Options say where CloudEvents go. All fields are required.
type Options struct {
	// URL is the URL to which CloudEvents are sent: http or https, without a user.
	URL string
	// UserAgent is the header User-Agent of each request.
	UserAgent string
	// Registerer of the metrics.
	Registerer prometheus.Registerer
	// Log gets one line for each kind of failure, and neither the URL nor a
	// CloudEvent.
	Log logr.Logger
}

// URL sends Events out of the cluster, as CloudEvents 1.0 in the binary
// mode of the HTTP binding. It is safe for concurrent use.
//
// Each Event is sent in the order in which it was recorded, tried again for up to
// deliverFor, and given up then. What waits is bounded and not kept over a
// restart, so whoever records never waits for the sink.
type Sink struct {
	url      string
	agent    string
	client   *http.Client
	total    *prometheus.CounterVec
	retries  prometheus.Counter
	failures failureLog

	// queue is what waits.
	queue chan queued
	// mu guards ended, and that nothing is queued once it is true.
	mu    sync.RWMutex
	ended bool
}

// queued is a CloudEvent that waits. Its id stays the same however often it is sent.
type queued struct {
	reason string
	event  event.Event
}

// New makes a CloudEvents. Start must be called for anything to be
// sent. The error of a bad URL does not repeat it: it may hold a token.
func New(o Options) (*Sink, error) {
	host, err := checkSink(o.URL)
	if err != nil {
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
		url:   o.URL,
		agent: o.UserAgent,
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

// checkSink returns the host of a URL to which CloudEvents can be sent.
func checkSink(sink string) (string, error) {
	u, err := url.Parse(sink)
	switch {
	case err != nil:
		return "", errors.New("the sink of CloudEvents is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("the sink of CloudEvents has the scheme %q: it must be an http or https URL", u.Scheme)
	case u.User != nil:
		return "", errors.New("the sink of CloudEvents has a user in its URL: leave it out, it would end up in logs")
	case u.Hostname() == "":
		return "", errors.New("the sink of CloudEvents has no host in its URL")
	}
	return u.Host, nil
}

// Record hands Events over to be sent and returns at once. Where there is no room
// for an Event, it is dropped and counted.
func (c *Sink) Record(all []events.Event) {
	for _, e := range all {
		if e.Reason == events.ReasonChangeReverted {
			continue // DriftCorrected tells of the same, with the object as its subject
		}
		ce, err := encode(e, string(uuid.NewUUID()), time.Now())
		if err != nil {
			c.count(e.Reason, outcomeFailed)
			c.failures.log("encode", "Cannot encode a CloudEvent", "error", err)
			continue
		}
		c.enqueue(queued{reason: e.Reason, event: ce})
	}
}

// enqueue has a CloudEvent wait, or drops it.
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
		c.failures.log("full", "CloudEvents are dropped: the sink takes them too slowly", "waiting", cap(c.queue))
	}
}

// dropAtEnd counts a CloudEvent that the operator ends too early for.
func (c *Sink) dropAtEnd(q queued) {
	c.count(q.reason, outcomeNotSent)
	c.failures.log("end", "The operator ends before the sink took all CloudEvents")
}

// Start sends CloudEvents until ctx ends, then those that wait, but for no longer
// than FlushTimeout. What is recorded then is dropped, so ctx must outlive whoever
// records. Start returns no error and must be called once.
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
	c.flush(c.dropAtEnd) // what came in between
	c.client.CloseIdleConnections()
	return nil
}

// flush takes what waits out of the queue.
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

// count counts what became of a CloudEvent.
func (c *Sink) count(reason, outcome string) {
	c.total.WithLabelValues(reason, outcome).Inc()
}
