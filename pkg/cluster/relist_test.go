package cluster

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// answering is an http.RoundTripper that answers every request with an empty list, and WATCHes without an event.
type answering struct{ sent []string }

// RoundTrip implements http.RoundTripper.
func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	a.sent = append(a.sent, r.URL.RawQuery)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"metadata":{"resourceVersion":"7"}}`)), Request: r}, nil
}

// TestListAgain has clients send LISTs and WATCHes around the time at which every informer has to list again.
func TestListAgain(t *testing.T) {
	t.Parallel()
	const again = "again" // stands for a call of ListAgain
	tests := map[string]struct {
		reason string
		// requests are the queries in order, and sent those that the API server receives.
		requests, sent []string
		// expired reports that the last one is answered with 410.
		expired bool
	}{
		"informer": {
			"It has listed since.",
			[]string{again, "resourceVersion=0", "watch=true&resourceVersion=7"},
			[]string{"resourceVersion=0", "watch=true&resourceVersion=7"}, false,
		},
		"informer that goes on": {
			"It might miss changes.",
			[]string{"resourceVersion=0", "watch=true&resourceVersion=7", again, "watch=true&resourceVersion=8"},
			[]string{"resourceVersion=0", "watch=true&resourceVersion=7"}, true,
		},
		"informer that lists from a version": {
			"A version of the time before says nothing.",
			[]string{"resourceVersion=0", again, "resourceVersion=8"},
			[]string{"resourceVersion=0", ""}, false,
		},
		"streamed list": {
			"It is a LIST, too.",
			[]string{again, "sendInitialEvents=true&watch=true", "watch=true&resourceVersion=7"},
			[]string{"sendInitialEvents=true&watch=true", "watch=true&resourceVersion=7"}, false,
		},
		"another client": {
			"Its LIST had no version, so it is as new as etcd, and its WATCH begins from there.",
			[]string{"", "watch=true&resourceVersion=7"},
			[]string{"", "watch=true&resourceVersion=7"}, false,
		},
		"another client after an outage": {
			"Its LIST was sent afterwards.",
			[]string{again, again, "", "watch=true&resourceVersion=7"},
			[]string{"", "watch=true&resourceVersion=7"}, false,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, relister := &answering{}, NewRelister()
			transport, code := relister.Wrap(server), 0
			for _, query := range tt.requests {
				if query == again {
					relister.ListAgain()
					continue
				}
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/api/v1/configmaps?"+query, http.NoBody)
				require.NoError(t, err)
				response, err := transport.RoundTrip(request)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				code = response.StatusCode
			}
			require.Equal(t, tt.sent, server.sent, tt.reason)
			require.Equal(t, tt.expired, code == http.StatusGone, tt.reason)
		})
	}
}

// failing is an http.RoundTripper whose requests are answered by a function.
type failing func(*http.Request) (int, string, error)

// RoundTrip implements http.RoundTripper.
func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	code, body, err := f(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// TestRestoredVersions has an API server that was away for a moment, and perhaps was restored meanwhile. The WATCH of an informer
// begins once the version of the API server is known.
func TestRestoredVersions(t *testing.T) {
	t.Parallel()
	list := func(version string) string { return `{"metadata":{"resourceVersion":"` + version + `"}}` }
	tests := map[string]struct {
		reason string
		code   int
		body   string
		want   int
		// again is the answer to a second WATCH, after the API server lists with a lower version.
		again int
	}{
		"newer":    {"Nothing was lost.", http.StatusOK, list("9"), http.StatusOK, http.StatusOK},
		"restored": {"The version of the WATCH does not come.", http.StatusOK, list("3"), http.StatusGone, http.StatusGone},
		"starting": {"The rights are not known yet, so the version is not.", http.StatusForbidden, `{"kind":"Status","metadata":{}}`, http.StatusForbidden, http.StatusGone},
		"busy":     {"It does not say its version.", http.StatusTooManyRequests, "", http.StatusTooManyRequests, http.StatusGone},
		"unready":  {"Neither does this one.", http.StatusServiceUnavailable, "", http.StatusServiceUnavailable, http.StatusGone},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, body, down := http.StatusOK, list("7"), false
			transport := NewRelister().Wrap(failing(func(r *http.Request) (int, string, error) {
				switch {
				case down:
					return 0, "", io.ErrUnexpectedEOF
				case isWatch(r):
					return http.StatusOK, "", nil
				}
				return code, body, nil
			}))
			send := func(path string) int {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/api/v1/"+path, http.NoBody)
				require.NoError(t, err)
				response, err := transport.RoundTrip(request)
				if err != nil {
					return 0
				}
				require.NoError(t, response.Body.Close())
				return response.StatusCode
			}
			require.Equal(t, http.StatusOK, send("configmaps?resourceVersion=0"))
			require.Equal(t, http.StatusOK, send("configmaps?watch=true&resourceVersion=7"))
			down = true
			require.Zero(t, send("secrets/one"), "a request of another client notices it")
			down, code, body = false, tt.code, tt.body
			require.Equal(t, tt.want, send("configmaps?watch=true&resourceVersion=8"), tt.reason)
			if tt.want != http.StatusOK {
				code, body = http.StatusOK, list("3")
			}
			require.Equal(t, tt.again, send("configmaps?watch=true&resourceVersion=8"), tt.reason)
		})
	}
}
