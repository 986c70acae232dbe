package events

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
)

// cloudEventsQueue is how many CloudEvents wait at most.
const cloudEventsQueue = 1000

// Outcomes of a CloudEvent.
const (
	cloudEventDelivered = "delivered"
	cloudEventDropped   = "dropped"
	cloudEventRefused   = "refused"
	cloudEventFailed    = "failed"
)

// CloudEventsOptions say where CloudEvents go. All fields are required.
type CloudEventsOptions struct {
	// Sink is the URL to which CloudEvents are sent: http or https, without a user.
	Sink string
	// UserAgent is the header User-Agent of each request.
	UserAgent string
	// Registerer of the metrics.
	Registerer prometheus.Registerer
	// Log gets one line for each kind of failure, and neither the URL nor a
	// CloudEvent.
	Log logr.Logger
}

// CloudEvents sends Events out of the cluster, as CloudEvents 1.0 in the binary
// mode of the HTTP binding. It is safe for concurrent use.
//
// Each Event is sent in the order in which it was recorded, tried again for up to
// deliverFor, and given up then. What waits is bounded and not kept over a
// restart, so whoever records never waits for the sink.
type CloudEvents struct {
	sink     string
	agent    string
	client   *http.Client
	total    *prometheus.CounterVec
	retries  prometheus.Counter
	troubles sinkTroubles

	// queue is what waits.
	queue chan queuedCloudEvent
	// mu guards ended, and that nothing is queued once it is true.
	mu    sync.RWMutex
	ended bool
}

// queuedCloudEvent is a CloudEvent that waits. Its id stays the same however often it is sent.
type queuedCloudEvent struct {
	reason string
	event  event.Event
}

// NewCloudEvents makes a CloudEvents. Start must be called for anything to be
// sent. The error of a bad URL does not repeat it: it may hold a token.
func NewCloudEvents(o CloudEventsOptions) (*CloudEvents, error) {
	host, err := checkSink(o.Sink)
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
	return &CloudEvents{
		sink:  o.Sink,
		agent: o.UserAgent,
		client: &http.Client{
			Timeout:       sinkTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		queue:    make(chan queuedCloudEvent, cloudEventsQueue),
		total:    total,
		retries:  retries,
		troubles: sinkTroubles{log: o.Log.WithValues("sink", host), seen: map[string]time.Time{}},
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
func (c *CloudEvents) Record(all []Event) {
	for _, e := range all {
		if e.Reason == ReasonChangeReverted {
			continue // DriftCorrected tells of the same, with the object as its subject
		}
		ce, err := newCloudEvent(e, string(uuid.NewUUID()), time.Now())
		if err != nil {
			c.end(e.Reason, cloudEventFailed)
			c.troubles.tell("encode", "Cannot encode a CloudEvent", "error", err)
			continue
		}
		c.enqueue(queuedCloudEvent{reason: e.Reason, event: ce})
	}
}

// enqueue has a CloudEvent wait, or drops it.
func (c *CloudEvents) enqueue(q queuedCloudEvent) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.ended {
		c.dropAtEnd(q)
		return
	}
	select {
	case c.queue <- q:
	default:
		c.end(q.reason, cloudEventDropped)
		c.troubles.tell("full", "CloudEvents are dropped: the sink takes them too slowly", "waiting", cap(c.queue))
	}
}

// dropAtEnd counts a CloudEvent that the operator ends too early for.
func (c *CloudEvents) dropAtEnd(q queuedCloudEvent) {
	c.end(q.reason, cloudEventDropped)
	c.troubles.tell("end", "The operator ends before the sink took all CloudEvents")
}

// Start sends CloudEvents until ctx ends, then those that wait, but for no longer
// than FlushTimeout. What is recorded then is dropped, so ctx must outlive whoever
// records. Start returns no error and must be called once.
func (c *CloudEvents) Start(ctx context.Context) error {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(FlushTimeout, cancel) })()
	for ctx.Err() == nil {
		select {
		case q := <-c.queue:
			c.deliver(sending, ctx.Done(), q)
		case <-ctx.Done():
		}
	}
	c.flush(func(q queuedCloudEvent) { c.deliver(sending, nil, q) })
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.flush(c.dropAtEnd) // what came in between
	c.client.CloseIdleConnections()
	return nil
}

// flush takes what waits out of the queue.
func (c *CloudEvents) flush(take func(queuedCloudEvent)) {
	for {
		select {
		case q := <-c.queue:
			take(q)
		default:
			return
		}
	}
}

// end counts what became of a CloudEvent.
func (c *CloudEvents) end(reason, outcome string) {
	c.total.WithLabelValues(reason, outcome).Inc()
}
