package cluster

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

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
