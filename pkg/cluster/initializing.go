package cluster

import (
	"bytes"
	"io"
	"net/http"
	"time"
)

// initializing is the message of the API server, with 429 and a Retry-After of at least a second,
// while it reads the objects of a kind for the first time. For a new kind that takes some
// milliseconds. It is the text of the watch cache in k8s.io/apiserver, pkg/storage/cacher.
var initializing = []byte("storage is (re)initializing")

// initializingWaits are the waits before a request that was answered with initializing is sent
// again. After that many attempts the Retry-After counts.
var initializingWaits = []time.Duration{
	10 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond,
	40 * time.Millisecond, 80 * time.Millisecond, 160 * time.Millisecond, 320 * time.Millisecond,
}

// initializingTransport retries reads before the Retry-After has passed if the API server is only
// setting up a kind. A request that priority and fairness rejects waits for its Retry-After.
type initializingTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (e initializingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, wait := range initializingWaits {
		response, err := e.next.RoundTrip(r)
		if err != nil || r.Method != http.MethodGet || response.StatusCode != http.StatusTooManyRequests {
			return response, err
		}
		body, err := readAll(response)
		if err != nil {
			return nil, err
		}
		response.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, initializing) {
			return response, nil
		}
		select {
		case <-r.Context().Done():
			return response, nil
		case <-time.After(wait):
		}
	}
	return e.next.RoundTrip(r)
}

// readAll reads the body of an answer, and closes it.
func readAll(response *http.Response) ([]byte, error) {
	defer response.Body.Close() //nolint:errcheck // it was only read
	return io.ReadAll(response.Body)
}
