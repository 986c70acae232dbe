package cloudevents

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
)

// sinkToken is part of the URL of each sink, and of nothing that is told.
const sinkToken = "s3cr3t"

// sinkAttempt is a request as a sink saw it.
type sinkAttempt struct {
	id, note string
	after    time.Duration
}

// sinkReply answers one request.
type sinkReply = func(*http.Request) (*http.Response, error)

// fakeSink is a sink without a network. It answers the requests in turn, and the
// last answer goes for all that follow.
type fakeSink struct {
	answers []sinkReply
	started time.Time
	mu      sync.Mutex
	seen    []sinkAttempt
}

func (s *fakeSink) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	ce, err := cehttp.NewEventFromHTTPRequest(r)
	if err != nil {
		return nil, err
	}
	data := Data{}
	if err := ce.DataAs(&data); err != nil {
		return nil, err
	}
	s.seen = append(s.seen, sinkAttempt{ce.ID(), data.Note, time.Since(s.started)})
	reply := s.answers[min(len(s.seen), len(s.answers))-1]
	s.mu.Unlock()
	return reply(r)
}

// sinkStatus answers with a status, and perhaps a header.
func sinkStatus(code int, header ...string) sinkReply {
	h := http.Header{}
	for i := 1; i < len(header); i += 2 {
		h.Set(header[i-1], header[i])
	}
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader("no")), Request: r}, nil
	}
}

// sinkUnreachable answers nothing.
func sinkUnreachable(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

// sinkStalled answers nothing either, and takes its time.
func sinkStalled(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// newSending makes a CloudEvents whose sink answers as given, and what it logs.
func newSending(t *testing.T, answers ...sinkReply) (*Sink, *fakeSink, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var logged []string
	c, err := New(Options{
		URL: "https://sink.example/" + sinkToken, Registerer: prometheus.NewRegistry(),
		Log: funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			logged = append(logged, args)
		}, funcr.Options{}),
	})
	require.NoError(t, err)
	s := &fakeSink{answers: answers, started: time.Now()}
	c.client.Transport = s
	return c, s, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return logged
	}
}

// startSending runs a CloudEvents, and returns how to stop it and wait.
func startSending(t *testing.T, c *Sink) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// sayApplied is an Event with a note.
func sayApplied(note string) []events.Event {
	return []events.Event{{Type: "Normal", Reason: v1alpha1.ReasonApplied, Action: events.ActionApply, Note: note, Regarding: owner}}
}

// outcomesOf is what became of the CloudEvents about an apply.
func outcomesOf(c *Sink) map[string]int {
	found := map[string]int{}
	for _, outcome := range []string{outcomeDelivered, outcomeNotSent, outcomeRejected, outcomeFailed} {
		if n := int(testutil.ToFloat64(c.total.WithLabelValues(v1alpha1.ReasonApplied, outcome))); n > 0 {
			found[outcome] = n
		}
	}
	return found
}

func TestCloudEventsAttempts(t *testing.T) {
	date := func(r *http.Request) (*http.Response, error) {
		return sinkStatus(503, "Retry-After", time.Now().Add(21*time.Second).UTC().Format(http.TimeFormat))(r)
	}
	cases := map[string]struct {
		reason   string
		answers  []sinkReply
		outcome  string
		attempts int // at least
		within   [2]time.Duration
		logs     int
	}{
		"Taken":       {"Any 2xx is enough.", sinkAnswers(sinkStatus(202)), outcomeDelivered, 1, [2]time.Duration{0, 0}, 0},
		"Unreachable": {"It may have been restarting.", sinkAnswers(sinkUnreachable, sinkUnreachable, sinkStatus(204)), outcomeDelivered, 3, [2]time.Duration{500 * time.Millisecond, time.Second}, 1},
		"Failing":     {"An error of the server may pass.", sinkAnswers(sinkStatus(500), sinkStatus(502), sinkStatus(503), sinkStatus(200)), outcomeDelivered, 4, [2]time.Duration{time.Second, 2 * time.Second}, 3},
		"Busy":        {"So may these of the client.", sinkAnswers(sinkStatus(408), sinkStatus(425), sinkStatus(429), sinkStatus(200)), outcomeDelivered, 4, [2]time.Duration{time.Second, 2 * time.Second}, 3},
		"Stalled":     {"A request is given up after ten seconds.", sinkAnswers(sinkStalled, sinkStatus(200)), outcomeDelivered, 2, [2]time.Duration{10 * time.Second, 11 * time.Second}, 1},
		"Seconds":     {"A sink says when.", sinkAnswers(sinkStatus(429, "Retry-After", "20"), sinkStatus(200)), outcomeDelivered, 2, [2]time.Duration{20 * time.Second, 20 * time.Second}, 1},
		"Date":        {"Or until when.", sinkAnswers(date, sinkStatus(200)), outcomeDelivered, 2, [2]time.Duration{20 * time.Second, 21 * time.Second}, 1},
		"Tomorrow":    {"But not beyond the minute that each has.", sinkAnswers(sinkStatus(503, "Retry-After", "86400"), sinkStatus(200)), outcomeDelivered, 2, [2]time.Duration{time.Minute, time.Minute}, 1},
		"Nonsense":    {"What cannot be read is ignored.", sinkAnswers(sinkStatus(503, "Retry-After", "-5"), sinkStatus(200)), outcomeDelivered, 2, [2]time.Duration{0, time.Second}, 1},
		"Refused":     {"What is refused is not sent again.", sinkAnswers(sinkStatus(400)), outcomeRejected, 1, [2]time.Duration{0, 0}, 1},
		"Elsewhere":   {"A redirect leads nowhere.", sinkAnswers(sinkStatus(307, "Location", "https://other.example")), outcomeRejected, 1, [2]time.Duration{0, 0}, 1},
		"Dead":        {"Nothing is tried for ever.", sinkAnswers(sinkUnreachable), outcomeFailed, 8, [2]time.Duration{time.Minute, time.Minute}, 2},
		"Stuck":       {"Nor at any length.", sinkAnswers(sinkStalled), outcomeFailed, 4, [2]time.Duration{time.Minute, 70 * time.Second}, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, sink, logged := newSending(t, tc.answers...)
				stop := startSending(t, c)
				begin := time.Now()
				c.Record(sayApplied("one"))
				for len(outcomesOf(c)) == 0 {
					time.Sleep(50 * time.Millisecond)
				}
				took := time.Since(begin)
				synctest.Wait()
				stop()
				require.Equal(t, map[string]int{tc.outcome: 1}, outcomesOf(c), tc.reason)
				require.GreaterOrEqual(t, len(sink.seen), tc.attempts, tc.reason)
				if tc.outcome != outcomeFailed {
					require.Len(t, sink.seen, tc.attempts, tc.reason)
				}
				require.GreaterOrEqual(t, took, tc.within[0], tc.reason)
				require.LessOrEqual(t, took, tc.within[1]+100*time.Millisecond, tc.reason)
				require.InDelta(t, len(sink.seen)-1, testutil.ToFloat64(c.retries), 0)
				for _, seen := range sink.seen {
					require.Equal(t, sink.seen[0].id, seen.id, "who receives it twice can tell")
				}
				require.Len(t, logged(), tc.logs, "%q", logged())
				require.NotContains(t, strings.Join(logged(), ""), sinkToken)
			})
		})
	}
}

func sinkAnswers(all ...sinkReply) []sinkReply {
	return all
}

// TestCloudEventsOneBlocksOthersForAMinute sends one that fails for ever, and
// others in order.
func TestCloudEventsOneBlocksOthersForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poisoned := func(r *http.Request) (*http.Response, error) {
			body, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			text, err := io.ReadAll(body)
			if err != nil {
				return nil, err
			}
			if strings.Contains(string(text), "poison") {
				return sinkStatus(500)(r)
			}
			return sinkStatus(200)(r)
		}
		c, sink, logged := newSending(t, poisoned)
		stop := startSending(t, c)
		defer stop()
		for _, note := range []string{"first", "poison", "second", "third"} {
			c.Record(sayApplied(note))
		}
		time.Sleep(retryFor + time.Second)
		synctest.Wait()
		require.Equal(t, map[string]int{outcomeDelivered: 3, outcomeFailed: 1}, outcomesOf(c))
		var notes []string
		ids := map[string]bool{}
		for i, seen := range sink.seen {
			ids[seen.id] = true
			if i == 0 || sink.seen[i-1].note != seen.note {
				notes = append(notes, seen.note)
			}
		}
		require.Equal(t, []string{"first", "poison", "second", "third"}, notes)
		require.Len(t, ids, 4)

		// A kind of failure is told again after a quiet time.
		before := len(logged())
		c.Record(sayApplied("poison"))
		time.Sleep(retryFor + time.Second)
		require.Len(t, logged(), before)
		time.Sleep(failureQuietTime)
		c.Record(sayApplied("poison"))
		time.Sleep(retryFor + time.Second)
		require.Len(t, logged(), before+2)
	})
}

// TestCloudEventsAreDroppedWhenTheQueueIsFull records more than there is room for,
// while nobody sends.
func TestCloudEventsAreDroppedWhenTheQueueIsFull(t *testing.T) {
	c, sink, logged := newSending(t, sinkStatus(200))
	for range queueSize + 5 {
		c.Record(sayApplied("one"))
	}
	require.Equal(t, map[string]int{outcomeNotSent: 5}, outcomesOf(c))
	require.Len(t, logged(), 1)
	startSending(t, c)()
	require.Equal(t, map[string]int{outcomeNotSent: 5, outcomeDelivered: queueSize}, outcomesOf(c), "what waits is sent at the end")
	require.Len(t, sink.seen, queueSize)
}

// TestCloudEventsEnd ends while the sink does not take what waits.
func TestCloudEventsEnd(t *testing.T) {
	cases := map[string]struct {
		reason  string
		answers []sinkReply
		want    map[string]int
		within  time.Duration
	}{
		"Stalled": {"The end waits for a dead sink no longer than it must.", sinkAnswers(sinkStalled), map[string]int{outcomeNotSent: 3}, events.FlushTimeout},
		"Failing": {"Nor for one that fails.", sinkAnswers(sinkStatus(500)), map[string]int{outcomeNotSent: 3}, events.FlushTimeout},
		"Back": {
			"A sink that is back is asked at once, not when the pause is over.",
			sinkAnswers(sinkStatus(503, "Retry-After", "50"), sinkStatus(200)), map[string]int{outcomeDelivered: 3}, 0,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _, _ := newSending(t, tc.answers...)
				stop := startSending(t, c)
				for range 3 {
					c.Record(sayApplied("one"))
				}
				time.Sleep(time.Second)
				begin := time.Now()
				stop()
				require.Equal(t, tc.within, time.Since(begin), tc.reason)
				require.Equal(t, tc.want, outcomesOf(c), tc.reason)
			})
		})
	}
}

// TestCloudEventsAfterTheEnd: what is recorded when nobody sends any more is counted.
func TestCloudEventsAfterTheEnd(t *testing.T) {
	c, sink, logged := newSending(t, sinkStatus(200))
	stop := startSending(t, c)
	const many, each = 8, 50
	var recording sync.WaitGroup
	for range many {
		recording.Go(func() {
			for range each {
				c.Record(sayApplied("one"))
			}
		})
	}
	stop()
	recording.Wait()
	c.Record(sayApplied("late"))
	found := outcomesOf(c)
	require.Equal(t, many*each+1, found[outcomeDelivered]+found[outcomeNotSent])
	require.Positive(t, found[outcomeNotSent])
	require.Len(t, sink.seen, found[outcomeDelivered])
	require.Empty(t, c.queue)
	require.Len(t, logged(), 1)
}

// TestCloudEventsOverHTTP sends what a heal tells to a real receiver.
func TestCloudEventsOverHTTP(t *testing.T) {
	received := make(chan Data, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ce, err := cehttp.NewEventFromHTTPRequest(r)
		data := Data{}
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/hook" || ce.DataAs(&data) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		received <- data
	}))
	defer server.Close()
	c, err := New(Options{URL: server.URL + "/hook", Registerer: prometheus.NewRegistry(), Log: logr.Discard()})
	require.NoError(t, err)
	c.Record(events.Transitions(owner, v1alpha1.VidraResourceStatus{}, v1alpha1.VidraResourceStatus{},
		[]events.Change{
			{Action: events.Restored, Object: deployment},
			{Action: events.Restored, Object: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "inner"}},
			{Action: events.Answered, Object: deployment, BreakGlass: &v1alpha1.BreakGlassStatus{State: v1alpha1.BreakGlassIgnored, Message: "no"}},
		}))
	c.Record(sayApplied("next"))
	startSending(t, c)()
	require.Equal(t, events.ReasonDriftCorrected, (<-received).Reason)
	inner := <-received
	require.Equal(t, events.ReasonDriftCorrected, inner.Reason)
	require.Equal(t, "inner", inner.Object.Name)
	answer := <-received
	require.Equal(t, events.ReasonBreakGlassIgnored, answer.Reason)
	require.Equal(t, owner.Name, answer.VidraResource.Name)
	require.Equal(t, "next", (<-received).Note, "what is told on the object is not told again")
	require.Empty(t, received)
}

func TestCloudEventsSink(t *testing.T) {
	cases := map[string]struct {
		sink string
		want string
	}{
		"HTTP":     {"http://sink.example:8080/a?b=" + sinkToken, ""},
		"HTTPS":    {"https://sink.example", ""},
		"Nothing":  {"", "scheme"},
		"NoURL":    {"https://me:" + sinkToken + "/x@sink.example", "not a URL"},
		"Scheme":   {"ftp://sink.example/" + sinkToken, `the scheme "ftp"`},
		"NoScheme": {"sink.example/" + sinkToken, "scheme"},
		"User":     {"https://me:" + sinkToken + "@sink.example", "has a user"},
		"NoHost":   {"https:///" + sinkToken, "no host"},
		"PortOnly": {"https://:443/" + sinkToken, "no host"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := New(Options{URL: tc.sink, Registerer: prometheus.NewRegistry(), Log: logr.Discard()})
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), sinkToken)
		})
	}
}
