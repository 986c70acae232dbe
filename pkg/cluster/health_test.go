package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patient is a remote whose requests are answered by a function, in a synctest bubble.
func patient(t *testing.T, answer roundTripper) (r *remote, changes *atomic.Int32) {
	t.Helper()
	server, err := parseServer("https://example.com")
	require.NoError(t, err)
	changes = &atomic.Int32{}
	l := defaultLimits
	l.backoff.Jitter = 0
	r = newRemote(t.Context(), server, &l, logr.Discard(), func(string) { changes.Add(1) })
	r.route.Store(&route{access: &access{server: server, secret: "ns/s"}, transport: answer})
	t.Cleanup(r.close)
	return r, changes
}

// send sends a request, and reads the answer.
func send(ctx context.Context, t *testing.T, r *remote, path string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.origin+path, http.NoBody)
	require.NoError(t, err)
	response, err := r.RoundTrip(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// answered is an answer without content.
func answered(code int) *http.Response {
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(""))}
}

// blackHole takes a request and answers nothing.
func blackHole(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestOutages has an API server that fails, in different ways, for some time.
func TestOutages(t *testing.T) {
	t.Parallel()
	failing := func(code int) roundTripper {
		return func(*http.Request) (*http.Response, error) { return answered(code), nil }
	}
	reset := func(*http.Request) (*http.Response, error) { return nil, errors.New("reset") }
	tests := map[string]struct {
		reason string
		fails  roundTripper
		lasts  time.Duration
		// want is what the error says; empty if there is none.
		want string
	}{
		"a single reset":       {"it may be chance", reset, 0, ""},
		"a short outage":       {"less than 3 s", reset, 2900 * time.Millisecond, ""},
		"an outage":            {"more than 3 s", reset, 3100 * time.Millisecond, "reset"},
		"rejected credentials": {"nothing can be applied", failing(http.StatusUnauthorized), time.Minute, "renew the credentials in Secret ns/s"},
		"a proxy: 502":         {"no API server says so", failing(http.StatusBadGateway), time.Minute, "it answers 502"},
		"a proxy: 503":         {"no API server says so", failing(http.StatusServiceUnavailable), time.Minute, "it answers 503"},
		"a proxy: 504":         {"no API server says so", failing(http.StatusGatewayTimeout), time.Minute, "it answers 504"},
		"forbidden":            {"the API server answers", failing(http.StatusForbidden), time.Minute, ""},
		"throttled":            {"the API server answers", failing(http.StatusTooManyRequests), time.Minute, ""},
		"an error":             {"the API server answers", failing(http.StatusInternalServerError), time.Minute, ""},
		"a black hole":         {"it does not answer in time", blackHole, time.Minute, "does not answer in time"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r, changes := patient(t, func(request *http.Request) (*http.Response, error) {
					if time.Since(began) > tc.lasts {
						return answered(http.StatusOK), nil
					}
					return tc.fails(request)
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_ = send(ctx, t, r, "/api") // it may fail
				synctest.Wait()
				require.NoError(t, r.unreachable(), "at first: %s", tc.reason)
				time.Sleep(time.Until(began.Add(max(tc.lasts, time.Nanosecond))))
				synctest.Wait()
				if tc.want == "" {
					require.NoError(t, r.unreachable(), tc.reason)
					require.Zero(t, changes.Load())
				} else {
					require.ErrorContains(t, r.unreachable(), tc.want, tc.reason)
					require.ErrorContains(t, r.unreachable(), "https://example.com")
					require.EqualValues(t, 1, changes.Load())
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				require.NoError(t, r.unreachable(), "afterwards")
				if tc.want != "" {
					require.EqualValues(t, 2, changes.Load())
				}
			})
		})
	}
}

// TestProbes: they begin with a failure, become rare, and end with a success.
func TestProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		up := atomic.Bool{}
		// mu guards probes.
		var mu sync.Mutex
		var probes []time.Duration
		probed := func() []time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(probes)
		}
		r, _ := patient(t, func(request *http.Request) (*http.Response, error) {
			if request.URL.Path == "/version" {
				mu.Lock()
				defer mu.Unlock()
				probes = append(probes, time.Since(began))
			}
			if !up.Load() {
				return nil, errors.New("down")
			}
			return answered(http.StatusOK), nil
		})
		time.Sleep(time.Hour)
		require.Empty(t, probed(), "nothing is wrong")

		began = time.Now()
		require.Error(t, send(t.Context(), t, r, "/api"))
		time.Sleep(time.Minute - time.Nanosecond)
		synctest.Wait()
		seconds := time.Second
		require.Equal(t, []time.Duration{0, seconds, 3 * seconds, 7 * seconds, 15 * seconds, 30 * seconds, 45 * seconds}, probed())
		r.health.retryNow()
		synctest.Wait()
		require.Len(t, probed(), 8, "there are new credentials")

		up.Store(true)
		require.ErrorContains(t, send(t.Context(), t, r, "/api"), "cannot be reached", "nobody waits for a server that is known not to answer")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, probed(), 9, "a probe has succeeded")
		require.NoError(t, send(t.Context(), t, r, "/api"))
	})
}

// TestPatience: a request waits for the header of its answer, and no longer; whoever
// gives up earlier says nothing about the API server.
func TestPatience(t *testing.T) {
	t.Parallel()
	cancelled := func(t *testing.T) context.Context {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		return ctx
	}
	deadline := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	tests := map[string]struct {
		path    string
		ctx     func(*testing.T) context.Context
		took    time.Duration
		wantErr error
		// outage says whether it counts as a failure.
		outage bool
	}{
		"a request":              {"/api", (*testing.T).Context, 15 * time.Second, errNoAnswer, true},
		"a WATCH":                {"/api?watch=true", (*testing.T).Context, 30 * time.Second, errNoAnswer, true},
		"a cancelled request":    {"/api", cancelled, time.Second, context.Canceled, false},
		"a cancelled WATCH":      {"/api?watch=1", cancelled, time.Second, context.Canceled, false},
		"a deadline that passed": {"/api", deadline, time.Second, context.DeadlineExceeded, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, _ := patient(t, blackHole)
				began := time.Now()
				require.ErrorIs(t, send(tc.ctx(t), t, r, tc.path), tc.wantErr)
				require.Equal(t, tc.took, time.Since(began))
				time.Sleep(4 * time.Second)
				synctest.Wait()
				require.Equal(t, tc.outage, r.unreachable() != nil)
			})
		})
	}
}

// TestSlowAnswer has an API server not answer a request for a while. Whether it is told
// depends on the others.
func TestSlowAnswer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		// probed is what it answers to probes.
		probed roundTripper
		wantOK bool
	}{
		"as any":       {"it answers nothing, which is known before the request fails", blackHole, false},
		"as this only": {"what it was asked for takes its time", func(*http.Request) (*http.Response, error) { return answered(http.StatusOK), nil }, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, changes := patient(t, func(request *http.Request) (*http.Response, error) {
					if request.URL.Path == "/version" {
						return tc.probed(request)
					}
					return blackHole(request)
				})
				during := make(chan error, 1)
				time.AfterFunc(9*time.Second, func() { during <- r.unreachable() })
				require.ErrorIs(t, send(t.Context(), t, r, "/api"), errNoAnswer)
				require.Equal(t, tc.wantOK, <-during == nil, tc.reason)
				require.Equal(t, tc.wantOK, changes.Load() == 0)
			})
		})
	}
}

// TestPartialFailure has an API server answer some requests as one does behind which
// nobody serves a group.
func TestPartialFailure(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		code   int
		// probed is what it answers to probes, and takes how long it takes.
		probed int
		takes  time.Duration
		wantOK bool
	}{
		"a group":             {"others are served", http.StatusServiceUnavailable, http.StatusOK, 0, true},
		"a group far away":    {"others are served", http.StatusServiceUnavailable, http.StatusOK, 2 * time.Second, true},
		"a slow kind":         {"others are served", http.StatusGatewayTimeout, http.StatusForbidden, 0, true},
		"nobody":              {"what is in front of it finds no API server", http.StatusServiceUnavailable, http.StatusServiceUnavailable, 0, false},
		"nobody far away":     {"what is in front of it finds no API server", http.StatusBadGateway, http.StatusBadGateway, 2 * time.Second, false},
		"rejected altogether": {"nothing can be applied", http.StatusServiceUnavailable, http.StatusUnauthorized, 0, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const many = 5
				var probes, others atomic.Int32
				r, changes := patient(t, func(request *http.Request) (*http.Response, error) {
					switch request.URL.Path {
					case "/version":
						probes.Add(1)
						time.Sleep(tc.takes)
						return answered(tc.probed), nil
					case "/apis/other":
						others.Add(1)
						return answered(http.StatusForbidden), nil
					}
					return answered(tc.code), nil
				})
				var sending sync.WaitGroup
				for range many {
					sending.Go(func() {
						err := send(t.Context(), t, r, "/apis/down")
						assert.Equal(t, tc.wantOK, err == nil && !r.health.unconfirmed(), "it is known by then: %s", tc.reason)
					})
				}
				time.Sleep(tc.takes / 2)
				if tc.takes > 0 {
					require.False(t, r.health.unconfirmed(), "others do not wait for the probe")
					require.EqualValues(t, 1, probes.Load(), "one for all")
				}
				sending.Wait()
				time.Sleep(defaultLimits.confirm)
				synctest.Wait()
				require.Equal(t, tc.wantOK, r.unreachable() == nil, tc.reason)
				require.Equal(t, tc.wantOK, changes.Load() == 0)
				if tc.wantOK {
					require.LessOrEqual(t, probes.Load(), int32(many), "they end with the answer")
					require.NoError(t, send(t.Context(), t, r, "/apis/other"))
					require.EqualValues(t, 1, others.Load())
				}
			})
		})
	}
}

// TestUnrouted: the 404 of a proxy that finds no API server is no absence of anything, whatever its form, and a 404 of the API server is one.
func TestUnrouted(t *testing.T) {
	t.Parallel()
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	tests := map[string]struct {
		reason string
		// answer is the body of the answer with 404, which all paths have but those of served.
		answer string
		served []string
		wantOK bool
		probes int
	}{
		"a text":              {"the proxy has no route", "404 page not found", nil, false, 2},
		"nothing":             {"the proxy has no route", "", nil, false, 2},
		"JSON":                {"the proxy has no route", `{"message":"no Route matched with those values"}`, nil, false, 2},
		"a group":             {"the API server does not serve it", "404 page not found", []string{"/version"}, true, 1},
		"a part of the paths": {"the proxy forwards the others", "404 page not found", []string{"/api"}, true, 2},
		"a Status":            {"the API server answers", status, nil, true, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var probes atomic.Int32
				r, changes := patient(t, func(request *http.Request) (*http.Response, error) {
					if path := request.URL.Path; path == "/version" || path == "/api" {
						probes.Add(1)
					}
					if slices.Contains(tc.served, request.URL.Path) {
						return answered(http.StatusOK), nil
					}
					return &http.Response{StatusCode: http.StatusNotFound, Body: io.NopCloser(strings.NewReader(tc.answer))}, nil
				})
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.origin+"/apis/other", http.NoBody)
				require.NoError(t, err)
				response, err := r.RoundTrip(request)
				if tc.wantOK {
					require.EqualValues(t, tc.probes, probes.Load())
					require.NoError(t, err, tc.reason)
					body, err := io.ReadAll(response.Body)
					require.NoError(t, err)
					require.Equal(t, tc.answer, string(body), "it is whole")
					require.NoError(t, response.Body.Close())
				} else {
					require.GreaterOrEqual(t, probes.Load(), int32(tc.probes), "later ones find out the end of the outage")
					require.ErrorContains(t, err, "it answers 404: a proxy in front of it finds no API server", tc.reason)
				}
				time.Sleep(defaultLimits.confirm)
				synctest.Wait()
				require.Equal(t, tc.wantOK, r.unreachable() == nil, tc.reason)
				require.Equal(t, tc.wantOK, changes.Load() == 0)
			})
		})
	}
}

// TestImpatienceWithAPartialFailure has a request end while a probe is under way that it
// has begun: it is not kept.
func TestImpatienceWithAPartialFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, changes := patient(t, func(request *http.Request) (*http.Response, error) {
			if request.URL.Path == "/version" {
				return blackHole(request)
			}
			return answered(http.StatusServiceUnavailable), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.NoError(t, send(ctx, t, r, "/apis/down"))
		require.Equal(t, time.Second, time.Since(began))
		require.False(t, r.health.unconfirmed())
		time.Sleep(defaultLimits.probe + defaultLimits.confirm)
		synctest.Wait()
		require.ErrorContains(t, r.unreachable(), "does not answer in time")
		require.EqualValues(t, 1, changes.Load())
	})
}

// TestForgetEndsRequests: who waits for an answer is told that there will be none.
func TestForgetEndsRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, changes := patient(t, blackHole)
		began := time.Now()
		time.AfterFunc(time.Second, r.close)
		require.ErrorIs(t, send(t.Context(), t, r, "/api"), errForgotten)
		require.Equal(t, time.Second, time.Since(began))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, changes.Load())
	})
}

// TestBodiesTakeTheirTime: after the header nothing is bounded, and a body that breaks
// off is no failure: that is how a WATCH ends.
func TestBodiesTakeTheirTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, changes := patient(t, func(request *http.Request) (*http.Response, error) {
			reader, writer := io.Pipe()
			time.AfterFunc(time.Hour, func() {
				_ = writer.CloseWithError(errors.Join(io.ErrUnexpectedEOF, request.Context().Err()))
			})
			return &http.Response{StatusCode: http.StatusOK, Body: reader}, nil
		})
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.origin+"/api?watch=true", http.NoBody)
		require.NoError(t, err)
		response, err := r.RoundTrip(request)
		require.NoError(t, err)
		_, err = io.ReadAll(response.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NotErrorIs(t, err, context.Canceled, "the request has lived as long as its body")
		require.NoError(t, response.Body.Close())
		time.Sleep(time.Minute)
		require.NoError(t, r.unreachable())
		require.Zero(t, changes.Load())
	})
}
