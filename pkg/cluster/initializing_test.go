package cluster

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEager speaks to a server that only answers what the API server would: a
// Status is opaque to what is tested.
func TestEager(t *testing.T) {
	t.Parallel()
	const setsUp = `{"kind":"Status","message":"storage is (re)initializing","reason":"TooManyRequests","code":429}`
	const throttles = `{"kind":"Status","message":"too many requests, please try again later","reason":"TooManyRequests","code":429}`
	all := len(initializingWaits) + 1
	tests := map[string]struct {
		method string
		code   int
		body   string
		// times is how often the server answers that.
		times int
		// sent is how many requests it gets.
		sent     int
		wantCode int
	}{
		"a kind is set up":      {http.MethodGet, http.StatusTooManyRequests, setsUp, 2, 3, http.StatusOK},
		"that takes long":       {http.MethodGet, http.StatusTooManyRequests, setsUp, all, all, http.StatusTooManyRequests},
		"it throttles":          {http.MethodGet, http.StatusTooManyRequests, throttles, 1, 1, http.StatusTooManyRequests},
		"it fails":              {http.MethodGet, http.StatusInternalServerError, setsUp, 1, 1, http.StatusInternalServerError},
		"a write is not a read": {http.MethodPost, http.StatusTooManyRequests, setsUp, 1, 1, http.StatusTooManyRequests},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if sent++; sent <= tc.times {
					w.Header().Set("Retry-After", "1")
					w.WriteHeader(tc.code)
					_, _ = io.WriteString(w, tc.body)
				}
			}))
			t.Cleanup(server.Close)
			request, err := http.NewRequestWithContext(t.Context(), tc.method, server.URL, http.NoBody)
			require.NoError(t, err)
			response, err := initializingTransport{http.DefaultTransport}.RoundTrip(request)
			require.NoError(t, err)
			defer response.Body.Close() //nolint:errcheck // it was only read
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.Equal(t, tc.sent, sent)
			require.Equal(t, tc.wantCode, response.StatusCode)
			if tc.wantCode != http.StatusOK {
				require.Equal(t, tc.body, string(body), "who asked gets the answer whole")
				require.Equal(t, "1", response.Header.Get("Retry-After"))
			}
		})
	}
}

// TestEagerEndsWithItsRequest: nobody waits for an answer that nobody wants.
func TestEagerEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sent := 0
	busy := roundTripper(func(*http.Request) (*http.Response, error) {
		sent++
		cancel()
		return &http.Response{
			StatusCode: http.StatusTooManyRequests, Body: io.NopCloser(strings.NewReader(string(initializing))),
		}, nil
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://example.com", http.NoBody)
	require.NoError(t, err)
	response, err := initializingTransport{busy}.RoundTrip(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 1, sent)
}

// roundTripper is a function that answers requests.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
