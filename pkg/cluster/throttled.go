package cluster

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// throttledTransport passes the throttling of LIST and WATCH requests to their callers. client-go
// waits for the Retry-After of an answer and retries up to ten times, and its caller mistakes the
// silence for an outage. throttledTransport moves the Retry-After into the Status of the answer,
// where the caller finds it; see apierrors.SuggestsClientDelay.
type throttledTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (f throttledTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := f.next.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusTooManyRequests || !isListOrWatch(r) {
		return response, err
	}
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil {
		return response, nil //nolint:nilerr // the answer has no valid Retry-After
	}
	body, err := readAll(response)
	if err != nil {
		return nil, err
	}
	status := apierrors.NewTooManyRequests(messageOf(body), seconds).Status()
	status.APIVersion, status.Kind = "v1", "Status"
	if body, err = json.Marshal(status); err != nil {
		return nil, err
	}
	response.Header.Del("Retry-After")
	response.Header.Set("Content-Type", "application/json")
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return response, nil
}

// isListOrWatch reports whether a request comes from an informer. A GET of an object has no query.
func isListOrWatch(r *http.Request) bool {
	query := r.URL.Query()
	return r.Method == http.MethodGet && (query.Has("watch") || query.Has("limit") || query.Has("resourceVersion"))
}

// messageOf returns the message of an answer: of its Status, or its text.
func messageOf(body []byte) string {
	status := metav1.Status{}
	if err := json.Unmarshal(body, &status); err == nil && status.Message != "" {
		return status.Message
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(body)), "")
}

// MaxRetryAfter is the longest Retry-After that is heeded. API servers have clients wait for some seconds; a proxy before one, or one of another
// cluster, may have them wait for hours, and the request of a heal has no other end.
const MaxRetryAfter = 30 * time.Second

// LimitRetryAfter returns a transport whose answers have no longer Retry-After than MaxRetryAfter.
func LimitRetryAfter(next http.RoundTripper) http.RoundTripper { return retryAfterTransport{next} }

type retryAfterTransport struct{ next http.RoundTripper }

// WrappedRoundTripper returns the transport below. It implements net.RoundTripperWrapper.
func (t retryAfterTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t retryAfterTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return response, err
	}
	most := int(MaxRetryAfter / time.Second)
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > most {
		response.Header.Set("Retry-After", strconv.Itoa(most))
	}
	return response, nil
}
