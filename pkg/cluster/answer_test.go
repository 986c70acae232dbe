package cluster

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testHeldMost is how large the unfinished answers of a cluster may be in a test.
const testHeldMost = 1 << 20

// endless is a body that repeats a text for ever, or stalls after it.
type endless struct {
	text   string
	at     int
	stalls bool
	ctx    context.Context
}

func (e *endless) Read(p []byte) (int, error) {
	if e.at >= len(e.text) && e.stalls {
		<-e.ctx.Done()
		return 0, e.ctx.Err()
	}
	n := 0
	for n < len(p) && (!e.stalls || e.at < len(e.text)) {
		c := copy(p[n:], e.text[e.at%len(e.text):])
		n, e.at = n+c, e.at+c
	}
	return n, nil
}

func (e *endless) Close() error { return nil }

// TestHostileAnswers has an API server send answers that never end, in every way that costs
// something: each ends with an error after a bounded time and size, and the API server is
// left alone for a while.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	const event = `{"type":"ADDED","object":{"metadata":{"name":"x"}}}` + "\n"
	tests := map[string]struct {
		reason, path, text, media string
		stalls                    bool
		want                      string
	}{
		"stall":               {reason: "an answer takes a minute at most", path: "/api", text: "{", stalls: true, want: errUnfinished.Error()},
		"stall of an event":   {reason: "an event does, too", path: "/api?watch=1", text: event + "{", stalls: true, want: errUnfinished.Error()},
		"text without end":    {reason: "all of it is kept", path: "/api", text: "abc", want: errTooLarge.Error()},
		"values without end":  {reason: "all of them are kept", path: "/api", text: "{}", want: errTooLarge.Error()},
		"objects without end": {reason: "they need more memory than bytes", path: "/api", text: "{},", want: errTooLarge.Error()},
		"event without end":   {reason: "it is decoded as a whole", path: "/api?watch=1", text: `{"a`, want: errTooLarge.Error()},
		"string without end":  {reason: "a string is no event", path: "/api?watch=1", text: `"a`, want: errTooLarge.Error()},
		"space without end":   {reason: "it is between two events", path: "/api?watch=1", text: "\n", want: errTooLarge.Error()},
		"another encoding":    {reason: "what it needs is not known", path: "/api", text: "x", media: "application/vnd.kubernetes.protobuf;stream=watch", want: errNotJSON.Error()},
		"a list in parts":     {reason: "the parts are kept until the last one", path: "/api?continue=x&limit=500", text: "{}", want: errPages.Error()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var hostile atomic.Bool
				hostile.Store(true)
				r, changes := patient(t, func(request *http.Request) (*http.Response, error) {
					answer := answered(http.StatusOK)
					if hostile.Load() && request.URL.Path == "/api" {
						answer.Header = http.Header{"Content-Type": {tt.media}}
						answer.Body = &endless{text: tt.text, stalls: tt.stalls, ctx: request.Context()}
					}
					return answer, nil
				})
				r.bounds.limits.finish, r.bounds.limits.hold, r.bounds.limits.maxHold, r.bounds.limits.held = defaultLimits.finish, defaultLimits.hold, defaultLimits.maxHold, testHeldMost
				ask := func() (time.Duration, error) {
					began := time.Now()
					request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.server+tt.path, http.NoBody)
					require.NoError(t, err)
					response, err := r.RoundTrip(request)
					if err != nil {
						return time.Since(began), err
					}
					_, err = io.Copy(io.Discard, response.Body)
					require.NoError(t, response.Body.Close())
					return time.Since(began), err
				}
				took, err := ask()
				require.ErrorContains(t, err, tt.want, tt.reason)
				require.LessOrEqual(t, took, defaultLimits.finish)
				require.Zero(t, r.bounds.answers.held.Load(), "what was read is not held any more")
				require.ErrorContains(t, r.unreachable(), tt.want)
				require.EqualValues(t, 1, changes.Load())

				_, err = ask()
				require.ErrorContains(t, err, tt.want, "it is not asked")
				r.health.succeeded()
				require.Error(t, r.unreachable(), "an answer that was under way ends nothing")
				time.Sleep(defaultLimits.hold - time.Second)
				require.Error(t, r.unreachable())
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.NoError(t, r.unreachable(), "it is asked again")
				_, err = ask()
				require.ErrorContains(t, err, tt.want)
				time.Sleep(defaultLimits.hold + time.Second)
				require.Error(t, r.unreachable(), "it is left alone for longer")
				hostile.Store(false)
				time.Sleep(defaultLimits.hold)
				synctest.Wait()
				require.NoError(t, r.unreachable())
			})
		})
	}
}

// TestAnswersOfWatches has a watch bring far more than one answer may have, in events that
// are small: it goes on.
func TestAnswersOfWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := patient(t, func(request *http.Request) (*http.Response, error) {
			answer := answered(http.StatusOK)
			event := `{"type":"ADDED","object":{"a\"{":"` + strings.Repeat(`{[\"`, 1000) + `"}}` + "\n"
			answer.Body = &endless{text: event, ctx: request.Context()}
			return answer, nil
		})
		r.bounds.limits.finish, r.bounds.limits.held = defaultLimits.finish, testHeldMost
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.server+"/api?watch=true", http.NoBody)
		require.NoError(t, err)
		began := time.Now()
		response, err := r.RoundTrip(request)
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, response.Body, readBurst+readRate)
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(began), time.Second-time.Millisecond, "no faster than it may")
		require.Less(t, r.bounds.answers.held.Load(), int64(testHeldMost))
		require.NoError(t, response.Body.Close())
		require.Zero(t, r.bounds.answers.held.Load())
	})
}

// TestCompressedAnswer bounds what comes out of an answer that is small while it is
// compressed, on a real connection.
func TestCompressedAnswer(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	compressing := gzip.NewWriter(&bomb)
	_, err := compressing.Write(make([]byte, 2*testHeldMost))
	require.NoError(t, err)
	require.Less(t, bomb.Len(), testHeldMost/100)
	require.NoError(t, compressing.Close())
	asked := atomic.Int32{}
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			answer(w)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/other") {
			answer(w)
			return
		}
		asked.Add(1)
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	})
	secrets := &secretsOf{}
	secrets.put("s", kubeconfigFor(t, server, "", confidential))
	d, _ := newDestinations(t, secrets)
	d.limits.held = testHeldMost
	c, err := d.Get(server.URL)
	require.NoError(t, err)
	awaitReachable(t, c)
	require.ErrorContains(t, get(t, c.Dynamic()), errTooLarge.Error())
	for range 2 {
		require.ErrorContains(t, get(t, c.Dynamic()), "the answer to a request for /api/v1/")
	}
	require.NoError(t, c.Unreachable(), "users of the cluster can make such an object")
	require.EqualValues(t, 1, asked.Load(), "it is not asked for again for a while")
	_, err = c.Dynamic().Resource(configMaps).Namespace("default").Get(t.Context(), "other", metav1.GetOptions{})
	require.NoError(t, err, "other objects are not affected")
}

// TestHeaderWithoutEnd gives up a header that goes on.
func TestHeaderWithoutEnd(t *testing.T) {
	t.Parallel()
	server := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 64 {
			w.Header().Add("X-More", strings.Repeat("x", maxHeaderBytes/32)+string(rune('a'+i%26)))
		}
		answer(w)
	})
	secrets := &secretsOf{}
	secrets.put("s", kubeconfigFor(t, server, "", confidential))
	d, _ := newDestinations(t, secrets)
	c, err := d.Get(server.URL)
	require.NoError(t, err)
	awaitReachable(t, c)
	require.Error(t, get(t, c.Dynamic()))
}

func TestJSONSize(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		stream bool
		text   string
		want   int64
	}{
		"values":    {reason: "each needs room", text: `[1,2,3]`, want: 7 + arraySize + 2*valueSize},
		"objects":   {reason: "a map is large", text: `{"a":{}}`, want: 8 + 2*objectSize},
		"in string": {reason: "text is text", text: `"{[,\"{"`, want: 8},
		"stream":    {reason: "the last event is over", stream: true, text: `{"a":[1,2]}` + "\n", want: 2},
		"next":      {reason: "the next event has begun", stream: true, text: `{}` + "\n{", want: 3 + objectSize},
	}
	for name, tt := range tests {
		whole, bytewise := jsonSize{stream: tt.stream}, jsonSize{stream: tt.stream}
		whole.add([]byte(tt.text))
		require.Equal(t, tt.want, whole.total, "%s: %s", name, tt.reason)
		for _, c := range []byte(tt.text) {
			bytewise.add([]byte{c})
		}
		require.InDelta(t, tt.want, bytewise.total, 1, "%s, byte by byte", name)
	}
}

// TestInPages asks for parts of lists: a caller that keeps all of them may not.
func TestInPages(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"limit=500", "continue=x&limit=500"} {
		request, err := http.NewRequestWithContext(InPages(t.Context()), http.MethodGet, "https://example.com/api?"+query, http.NoBody)
		require.NoError(t, err)
		require.NoError(t, askForAll(request))
		require.Equal(t, query, request.URL.RawQuery)
	}
}
