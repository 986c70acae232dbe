package cluster

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
