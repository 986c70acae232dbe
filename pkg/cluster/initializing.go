package cluster

import (
	"bytes"
	"io"
	"net/http"
	"time"
)

// initializing is what the API server says, with 429 and a Retry-After of at least
// a second, while it reads the objects of a kind for the first time. Of a kind that
// has just come, that takes it some milliseconds. The words are those of the watch
// cache in k8s.io/apiserver, pkg/storage/cacher.
var initializing = []byte("storage is (re)initializing")

// initializingWaits is how long is waited before a request that was answered with
// initializing is sent again. After that many attempts the Retry-After counts.
var initializingWaits = []time.Duration{
	10 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond,
	40 * time.Millisecond, 80 * time.Millisecond, 160 * time.Millisecond, 320 * time.Millisecond,
}

// eager sends reads again before the Retry-After has passed if all that the API
// server has to do first is to set up a kind. What its priority and fairness
// rejects waits for as long as it says.
type eager struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (e eager) RoundTrip(r *http.Request) (*http.Response, error) {
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
