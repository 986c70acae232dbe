package e2e

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/events/cloudevents"
)

// What a cloudEventSink does.
const (
	sinkTakes  = "takes"
	sinkFails  = "fails"
	sinkStalls = "stalls"
	sinkAway   = "is-away"

	sinkRefuses = "refuses"
)

// sinkPath is a path that cannot be guessed, as that of a webhook.
const sinkPath = "/hooks/9f6e2c"

// cloudEventSink is a receiver of CloudEvents that can be told to misbehave.
type cloudEventSink struct {
	address string
	server  *http.Server

	// mu guards what follows.
	mu       sync.Mutex
	state    string
	required [2]string // a header and its value; none if empty
	received []cloudEventReceived
	raw      strings.Builder
}

// cloudEventReceived is an attempt to deliver a CloudEvent.
type cloudEventReceived struct {
	event event.Event
	data  cloudevents.Data
	// header has all headers.
	header http.Header
	// taken says that the answer was 204.
	taken bool
}

// newCloudEventSink starts a receiver that takes what comes.
func newCloudEventSink(t *testing.T) *cloudEventSink {
	t.Helper()
	s := &cloudEventSink{address: net.JoinHostPort(suite.ListenAddress(t), "0"), state: sinkTakes}
	s.listen(t)
	t.Cleanup(func() { require.NoError(t, s.server.Close()) })
	return s
}

// url is where it receives.
func (s *cloudEventSink) url() string { return "http://" + s.address + sinkPath }

// listen serves on the address that it has, or gets.
func (s *cloudEventSink) listen(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", s.address)
	require.NoError(t, err)
	s.address = listener.Addr().String()
	s.server = &http.Server{Handler: s} //nolint:gosec // the clients are ours
	go func() { _ = s.server.Serve(listener) }()
}

// require has it refuse what has not a header with a value.
func (s *cloudEventSink) require(t *testing.T, name, value string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.required = [2]string{name, value}
}

// set has it do something else from now on. What it has left unanswered is cut off, as
// by a restart.
func (s *cloudEventSink) set(t *testing.T, state string) {
	t.Helper()
	s.mu.Lock()
	before := s.state
	s.state = state
	s.mu.Unlock()
	if before == sinkStalls || state == sinkAway {
		require.NoError(t, s.server.Close())
	}
	if state != sinkAway && (before == sinkStalls || before == sinkAway) {
		s.listen(t)
	}
}

// ServeHTTP takes what is a CloudEvent, if it takes anything.
func (s *cloudEventSink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	ce, err := cehttp.NewEventFromHTTPRequest(r)
	got := cloudEventReceived{header: r.Header}
	if err != nil || r.Method != http.MethodPost || r.URL.Path != sinkPath || ce.Validate() != nil || ce.DataAs(&got.data) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	state := s.state
	if name := s.required[0]; name != "" && r.Header.Get(name) != s.required[1] {
		state = sinkRefuses
	}
	got.event, got.taken = *ce, state == sinkTakes
	s.received = append(s.received, got)
	s.raw.Write(body)
	s.mu.Unlock()
	switch state {
	case sinkRefuses:
		w.WriteHeader(http.StatusUnauthorized)
	case sinkFails:
		w.WriteHeader(http.StatusInternalServerError)
	case sinkStalls:
		<-r.Context().Done()
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// attempts are those with a reason and with a note that contains each part.
func (s *cloudEventSink) attempts(reason string, parts ...string) []cloudEventReceived {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []cloudEventReceived
	for _, got := range s.received {
		if got.data.Reason == reason && containsAll(got.data.Note, parts) {
			found = append(found, got)
		}
	}
	return found
}

// taken are the attempts that succeeded.
func (s *cloudEventSink) taken(reason string, parts ...string) []cloudEventReceived {
	var found []cloudEventReceived
	for _, got := range s.attempts(reason, parts...) {
		if got.taken {
			found = append(found, got)
		}
	}
	return found
}

// await waits until a CloudEvent was taken, and returns all attempts to deliver it.
func (s *cloudEventSink) await(t *testing.T, reason string, parts ...string) []cloudEventReceived {
	t.Helper()
	await(t, func(c *assert.CollectT) { require.NotEmpty(c, s.taken(reason, parts...)) }, "%s: %q", reason, parts)
	return s.attempts(reason, parts...)
}

// ids are the ids of what was taken.
func (s *cloudEventSink) ids(reason string) map[string]bool {
	ids := map[string]bool{}
	for _, got := range s.taken(reason) {
		ids[got.event.ID()] = true
	}
	return ids
}

// everything is all data that it ever received.
func (s *cloudEventSink) everything() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw.String()
}
