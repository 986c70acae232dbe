package cluster

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// TestThrottledWatchesAreTold has a server that only throttles: whoever lists or
// watches is told at once, with the time to wait.
func TestThrottledWatchesAreTold(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"text":   "Too many requests, please try again later.\n",
		"status": `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Too many requests, please try again later.","reason":"TooManyRequests","code":429}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests++
				w.Header().Set("Retry-After", "30")
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(w, body)
			}))
			t.Cleanup(server.Close)
			c, err := New(&rest.Config{Host: server.URL})
			require.NoError(t, err)
			resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
			start := time.Now()
			_, err = c.Dynamic().Resource(resource).Watch(t.Context(), metav1.ListOptions{})
			requireThrottled(t, err)
			_, err = c.Dynamic().Resource(resource).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
			requireThrottled(t, err)
			_, err = c.Metadata().Resource(resource).List(t.Context(), metav1.ListOptions{Limit: 500})
			requireThrottled(t, err)
			require.Equal(t, 3, requests)
			require.Less(t, time.Since(start), 10*time.Second)
		})
	}
}

func requireThrottled(t *testing.T, err error) {
	t.Helper()
	require.True(t, apierrors.IsTooManyRequests(err), "%v", err)
	seconds, suggested := apierrors.SuggestsClientDelay(err)
	require.True(t, suggested)
	require.Equal(t, 30, seconds)
	require.ErrorContains(t, err, "Too many requests, please try again later.")
}

// answers is a transport that answers the first request with a status and a Retry-After, and later ones with an object.
type answers struct {
	status, requests int
	retryAfter       string
}

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	if a.requests++; a.requests == 1 {
		answer.StatusCode = a.status
		answer.Header.Set("Retry-After", a.retryAfter)
	}
	answer.Body = io.NopCloser(strings.NewReader(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"page"}}`))
	return answer, nil
}

// TestLongRetryAfter: a proxy that has clients wait for an hour delays an apply for half a minute, and other waits are as the API server has them.
func TestLongRetryAfter(t *testing.T) {
	for name, tc := range map[string]struct {
		status     int
		retryAfter string
		waits      time.Duration
	}{
		"Maintenance": {http.StatusServiceUnavailable, "3600", MaxRetryAfter},
		"Throttled":   {http.StatusTooManyRequests, "3600", MaxRetryAfter},
		"Overflow":    {http.StatusServiceUnavailable, "9223372036854775807", MaxRetryAfter},
		"Usual":       {http.StatusTooManyRequests, "2", 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := New(&rest.Config{Host: "http://here", Transport: &answers{status: tc.status, retryAfter: tc.retryAfter}})
				require.NoError(t, err)
				began := time.Now()
				resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
				_, err = c.Dynamic().Resource(resource).Namespace("shop").Patch(t.Context(), "page", types.ApplyPatchType, []byte("{}"), metav1.PatchOptions{FieldManager: "vidra/shop"})
				require.NoError(t, err)
				require.Equal(t, tc.waits, time.Since(began))
			})
		})
	}
}
