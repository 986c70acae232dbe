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

// frank has those who list and watch know that the API server throttles them. A
// client of client-go waits for the Retry-After of an answer and asks again by
// itself, up to ten times, while its caller takes the silence for an outage. Here the
// Retry-After of such an answer moves into its Status, where the caller finds it, see
// apierrors.SuggestsClientDelay.
type frank struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (f frank) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := f.next.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusTooManyRequests || !isListOrWatch(r) {
		return response, err
	}
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil {
		return response, nil //nolint:nilerr // it does not say how long
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

// isListOrWatch says whether a request is one of an informer. A get has no query.
func isListOrWatch(r *http.Request) bool {
	query := r.URL.Query()
	return r.Method == http.MethodGet && (query.Has("watch") || query.Has("limit") || query.Has("resourceVersion"))
}

// messageOf is the message of an answer: of its Status, or the text that it is.
func messageOf(body []byte) string {
	status := metav1.Status{}
	if err := json.Unmarshal(body, &status); err == nil && status.Message != "" {
		return status.Message
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(body)), "")
}
