package infrahub

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestAt has the forms of targetDate.
func TestAt(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for date, want := range map[string]string{
		"": "", "2025-01-01T00:00:00Z": "2025-01-01T00:00:00Z", "2025-01-01t01:00:00.5+01:00": "2025-01-01T00:00:00.5Z",
		"now-2h": "2026-03-01T10:00:00Z", "-2d": "2026-02-27T12:00:00Z", "now-1w": "2026-02-22T12:00:00Z", "-90m": "2026-03-01T10:30:00Z", "now-30s": "2026-03-01T11:59:30Z",
		"-99999w": "0109-08-25T12:00:00Z",
	} {
		at, err := At(date, now)
		require.NoError(t, err, date)
		require.Equal(t, want, at, date)
	}
	for _, date := range []string{"yesterday", "now+2h", "2025-01-01", "-2y", "-d", "now-2h30m"} {
		_, err := At(date, now)
		require.ErrorContains(t, err, "spec.source.targetDate", date)
	}
}

// TestVerify compares checksums that are hashes.
func TestVerify(t *testing.T) {
	for checksum, valid := range map[string]bool{
		"": true, "etag-1": true, "abcd": true,
		"5d41402abc4b2a76b9719d911017c592":                                 true,
		"5D41402ABC4B2A76B9719D911017C592":                                 true,
		"aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d":                         true,
		"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824": true,
		strings.Repeat("0", 32):                                            false, strings.Repeat("0", 40): false, strings.Repeat("0", 64): false,
	} {
		require.Equal(t, valid, Verify([]byte("hello"), checksum) == nil, checksum)
	}
}

// TestRetryAfter has both forms of the header.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "soon": 0, "99999": time.Hour, "Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second, "Sun, 01 Mar 2026 11:00:00 GMT": 0,
	} {
		require.Equal(t, want, retryAfter(value, now), value)
	}
}

// TestRepeatedCredentials: a server repeats the credentials of a request in its answer, in a place where the message is cut, or with white space in them.
func TestRepeatedCredentials(t *testing.T) {
	for name, tc := range map[string]struct {
		password, answer string
		status           int
	}{
		"Short": {"hunter2hunter2", `{"errors":[{"message":"no hunter2hunter2"}]}`, 200},
		"Cut":   {"hunter2hunter2", `{"errors":[{"message":"` + strings.Repeat("x", maxDetail-len("hunter2")-5) + ` hunter2hunter2 is no password"}]}`, 200},
		"Text":  {"hunter2hunter2", `{"errors":"` + strings.Repeat("x", maxDetail-len("hunter2")-4) + `hunter2hunter2 is no password"}`, 400},
		"Space": {"hunter2  hunter2", `{"errors":[{"message":"no hunter2  hunter2"}]}`, 500},
		"JSON":  {`hunter2"<h`, `{"errors":[{"message":"no {\"username\":\"u\",\"password\":\"hunter2\\\"\\u003ch\"}"}]}`, 400},
		"Basic": {"hunter2hunter2", `{"errors":[{"message":"no Basic ` + base64.StdEncoding.EncodeToString([]byte("u:hunter2hunter2")) + `"}]}`, 400},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/login") {
					_, _ = w.Write([]byte(`{"access_token":"t"}`))
					return
				}
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.answer))
			}))
			defer server.Close()
			c, err := New(Options{URL: server.URL, Credentials: Credentials{Username: "u", Password: tc.password}})
			require.NoError(t, err)
			_, err = c.Artifacts(t.Context(), Query{Name: "q"})
			require.Error(t, err)
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, err.Error(), base64.StdEncoding.EncodeToString([]byte("u:hunter2hunter2"))[:12])
		})
	}
}

// TestRepeatedHeader: net/http quotes the line of a server that repeats the header of the request, with the credentials.
func TestRepeatedHeader(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close() //nolint:errcheck // the test is over
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nX-INFRAHUB-KEY hunter2hunter2\r\n\r\n"))
			_ = conn.Close()
		}
	}()
	c, err := New(Options{URL: "http://" + listener.Addr().String(), Credentials: Credentials{Token: "hunter2hunter2"}})
	require.NoError(t, err)
	_, err = c.Artifacts(t.Context(), Query{Name: "q"})
	require.ErrorContains(t, err, "X-INFRAHUB-KEY ***")
	require.NotContains(t, err.Error(), "hunter2")
}

// TestRepeatedFormerToken: a server repeats the token of a request after another request has logged in anew.
func TestRepeatedFormerToken(t *testing.T) {
	for name, status := range map[string]int{"Refused": http.StatusInternalServerError, "Answered": http.StatusOK} {
		t.Run(name, func(t *testing.T) {
			var logins atomic.Int32
			slow, proceed := make(chan struct{}), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/login"):
					_, _ = fmt.Fprintf(w, `{"access_token":"token-%d"}`, logins.Add(1))
				case strings.HasSuffix(r.URL.Path, "/slow"):
					close(slow)
					<-proceed
					w.WriteHeader(status)
					_, _ = fmt.Fprintf(w, `{"errors":[{"message":"no %s"}]}`, r.Header.Get("Authorization"))
				case r.Header.Get("Authorization") == "Bearer token-1":
					w.WriteHeader(http.StatusUnauthorized)
				default:
					_, _ = io.WriteString(w, `{"data":{"CoreArtifact":{"edges":[]}}}`)
				}
			}))
			defer server.Close()
			c, err := New(Options{URL: server.URL, Credentials: Credentials{Username: "u", Password: "p"}})
			require.NoError(t, err)
			failed := make(chan error, 1)
			go func() {
				_, err := c.Artifacts(t.Context(), Query{Name: "slow"})
				failed <- err
			}()
			<-slow
			_, err = c.Artifacts(t.Context(), Query{Name: "other"})
			require.NoError(t, err, "logs in again")
			close(proceed)
			require.EqualValues(t, 2, logins.Load())
			err = <-failed
			require.ErrorContains(t, err, "no Bearer ***")
			require.NotContains(t, err.Error(), "token-")
		})
	}
}

// FuzzParsePage: no answer ends the program, and a list has as many artifacts as the answer.
func FuzzParsePage(f *testing.F) {
	for _, seed := range []string{
		`{"data":{"CoreArtifact":{"count":1,"edges":[{"node":{"id":"a","storage_id":{"id":"s"},"checksum":{"value":"c"},"definition":{"node":{"id":"d"}}}}]}}}`,
		`{"data":null}`, `[]`, `<html>`, `{"data":{"CoreArtifact":{"edges":[{"node":{"id":1}}]}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := parsePage(body)
		if err != nil {
			require.Empty(t, p.artifacts)
			return
		}
		for _, a := range p.artifacts {
			require.NotEmpty(t, a.ID)
		}
	})
}

// TestParsePage reads the attributes as Infrahub has them.
func TestParsePage(t *testing.T) {
	p, err := parsePage([]byte(`{"data":{"CoreArtifact":{"edges":[{"node":{"id":"a","storage_id":{"id":"s"},"checksum":{"value":"c"},"name":{"value":"n"},` +
		`"status":{"value":"Ready"},"content_type":{"value":"application/json"},"definition":{"node":{"id":"d"}},"more":1}},{"node":{"id":"b","checksum":{"value":null}}}]}}}`))
	require.NoError(t, err)
	require.Equal(t, []Artifact{
		{ID: "a", StorageID: "s", Checksum: "c", Name: "n", Status: "Ready", ContentType: "application/json", Definition: "d"}, {ID: "b"},
	}, p.artifacts)
	require.Equal(t, -1, p.count)
}

// TestArtifacts has a row for each way in which a list is complete, or is not.
func TestArtifacts(t *testing.T) {
	page := func(count string, ids ...string) string {
		nodes := make([]string, 0, len(ids))
		for _, id := range ids {
			nodes = append(nodes, `{"node":{"id":"`+id+`"}}`)
		}
		return `{"data":{"CoreArtifact":{` + count + `"edges":[` + strings.Join(nodes, ",") + `]}}}`
	}
	cases := map[string]struct {
		reason string
		pages  []string
		want   []string
		fault  string
	}{
		"All":         {"the query has no limit", []string{page("", "a", "b")}, []string{"a", "b"}, ""},
		"Count":       {"the list has as many as the count", []string{page(`"count":2,`, "a", "b")}, []string{"a", "b"}, ""},
		"Pages":       {"two pages", []string{page(`"count":3,`, "a", "b"), page(`"count":3,`, "c")}, []string{"a", "b", "c"}, ""},
		"NoOffset":    {"the query ignores the offset", []string{page(`"count":4,`, "a", "b"), page(`"count":4,`, "a", "b")}, nil, "2 of 4 artifacts"},
		"Short":       {"the last page is missing", []string{page(`"count":3,`, "a", "b"), page(`"count":3,`)}, nil, "2 of 3 artifacts"},
		"Twice":       {"a page has one twice, which counts", []string{page(`"count":3,`, "a", "a", "b")}, []string{"a", "b"}, ""},
		"TwicePages":  {"so does another page", []string{page(`"count":4,`, "a", "a"), page(`"count":4,`, "b", "c")}, []string{"a", "b", "c"}, ""},
		"Moved":       {"an artifact moved between the pages", []string{page(`"count":3,`, "a", "b"), page(`"count":3,`, "b")}, nil, "changed between its pages"},
		"Many":        {"the last page has more than the count", []string{page(`"count":3,`, "a", "b"), page(`"count":3,`, "c", "d")}, nil, "changed between its pages"},
		"Errors":      {"errors beside data", []string{`{"errors":[{"message":"no"}],` + page("", "a")[1:]}, nil, "failed: no"},
		"NoMessage":   {"an error without a message", []string{`{"errors":[{}],` + page("", "a")[1:]}, nil, "without a message"},
		"ErrorText":   {"an error that is a text", []string{`{"errors":["no"],` + page("", "a")[1:]}, nil, "failed: no"},
		"ErrorsText":  {"errors that are a text", []string{`{"errors":"no",` + page("", "a")[1:]}, nil, "failed: no"},
		"ErrorsOther": {"errors that are a number", []string{`{"errors":7,` + page("", "a")[1:]}, nil, "without a message"},
		"NoErrors":    {"an empty list of errors", []string{`{"errors":[],` + page("", "a")[1:]}, []string{"a"}, ""},
		"NullErrors":  {"errors that are null", []string{`{"errors":null,` + page("", "a")[1:]}, []string{"a"}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sent := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(tc.pages[sent%len(tc.pages)]))
				sent++
			}))
			defer server.Close()
			c, err := New(Options{URL: server.URL, Credentials: Credentials{Token: "t"}})
			require.NoError(t, err)
			all, err := c.Artifacts(t.Context(), Query{Name: "q"})
			if tc.fault != "" {
				require.ErrorContains(t, err, tc.fault, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			var ids []string
			for _, a := range all {
				require.False(t, a.Ambiguous)
				ids = append(ids, a.ID)
			}
			require.Equal(t, tc.want, ids, tc.reason)
		})
	}
}

// TestChangedBetweenPages: the list changes after a page of it was read. An artifact that exists all the time is in the answer, or there is none.
func TestChangedBetweenPages(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		lists  []string // of one artifact each letter, of one request each; the last one is that of all further requests
		want   string   // empty for none
	}{
		"Same":      {"nothing changes", []string{"abcd"}, "abcd"},
		"Removed":   {"the count is that of a list without c", []string{"abcd", "bcd"}, "bcd"},
		"Exchanged": {"the count stays the same", []string{"abcd", "bcde"}, "bcde"},
		"Added":     {"b is on two pages", []string{"bcde", "abcd"}, "abcd"},
		"OnePage":   {"the second reading has one page", []string{"abc", "bc"}, "bc"},
		"Later":     {"the second reading is of two lists", []string{"abcd", "abcd", "abcd", "bcde"}, "bcde"},
		"Last":      {"a change after the pages were read", []string{"abcd", "abcd", "bcde"}, "bcde"},
		"Always":    {"each page is of another list", []string{"abcd", "bcde", "cdef", "defg", "efgh", "fghi", "ghij", "hijk"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var given struct {
					Variables struct {
						Offset int `json:"offset"`
					} `json:"variables"`
				}
				assert.NoError(t, json.NewDecoder(r.Body).Decode(&given))
				list := tc.lists[min(sent, len(tc.lists)-1)]
				sent++
				from := min(given.Variables.Offset, len(list))
				var nodes []string
				for _, id := range list[from:min(from+2, len(list))] {
					nodes = append(nodes, `{"node":{"id":"`+string(id)+`"}}`)
				}
				_, _ = fmt.Fprintf(w, `{"data":{"CoreArtifact":{"count":%d,"edges":[%s]}}}`, len(list), strings.Join(nodes, ","))
			}))
			defer server.Close()
			c, err := New(Options{URL: server.URL, Credentials: Credentials{Token: "t"}})
			require.NoError(t, err)
			all, err := c.Artifacts(t.Context(), Query{Name: "q"})
			require.LessOrEqual(t, sent, 2*readings)
			if tc.want == "" {
				require.ErrorContains(t, err, "changed between its pages", "%s: %v", tc.reason, all)
				return
			}
			require.NoError(t, err, tc.reason)
			ids := ""
			for _, a := range all {
				ids += a.ID
			}
			require.Equal(t, tc.want, ids, tc.reason)
		})
	}
}

// TestPostRefused: a query that is refused with POST is sent with GET from then on. If GET is refused, too, the error is the first one.
func TestPostRefused(t *testing.T) {
	for post, get := range map[int]int{403: 200, 404: 200, 405: 200, 415: 200, 501: 200, 400: 0, 401: 0, 500: 0, 429: 0} {
		var methods []string
		status := get
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			methods = append(methods, r.Method)
			if r.Method == http.MethodPost {
				w.WriteHeader(post)
				return
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"data":{"CoreArtifact":{"edges":[{"node":{"id":"` + r.URL.Query().Get("artifactname") + `"}}]}}}`))
		}))
		c, err := New(Options{URL: server.URL, Credentials: Credentials{Token: "t"}})
		require.NoError(t, err)
		query := func() ([]Artifact, error) { return c.Artifacts(t.Context(), Query{Name: "q", ArtifactName: "n"}) }
		all, err := query()
		if get == 0 {
			require.Error(t, err)
			require.Equal(t, []string{"POST"}, methods, post)
			server.Close()
			continue
		}
		require.NoError(t, err, post)
		require.Equal(t, "n", all[0].ID)
		_, err = query()
		require.NoError(t, err)
		require.Equal(t, []string{"POST", "GET", "GET"}, methods, post)
		status = http.StatusMethodNotAllowed
		_, err = query()
		require.Error(t, err)
		_, err = query()
		e := (*Error)(nil)
		require.ErrorAs(t, err, &e)
		require.Equal(t, post, e.Status, "the answer to POST")
		server.Close()
	}
}

// TestHalfContent: an answer without a length that ends with the connection may be half of a manifest, which is as valid as the whole.
func TestHalfContent(t *testing.T) {
	const text = "hello"
	for name, tc := range map[string]struct {
		head, checksum string
		fault          string
	}{
		"Length":   {head: "Content-Length: 5\r\n"},
		"Short":    {head: "Content-Length: 6\r\n", fault: "ends early"},
		"Unknown":  {fault: "neither a length nor a checksum"},
		"ETag":     {checksum: "etag-1", fault: "neither a length nor a checksum"},
		"Checksum": {checksum: "5d41402abc4b2a76b9719d911017c592"},
		"Damaged":  {checksum: strings.Repeat("0", 32), fault: "does not have the checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err == nil {
					_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\n" + tc.head + "Connection: close\r\n\r\n" + text))
					_ = conn.Close()
				}
			}))
			defer server.Close()
			c, err := New(Options{URL: server.URL, Credentials: Credentials{Token: "t"}})
			require.NoError(t, err)
			content, _, err := c.Content(t.Context(), Artifact{ID: "a", StorageID: "s", Checksum: tc.checksum}, "main", "")
			if tc.fault != "" {
				require.ErrorContains(t, err, tc.fault)
				return
			}
			require.NoError(t, err)
			require.Equal(t, text, string(content))
		})
	}
}

// TestOneLogin: many requests at a time log in once, and no error has the password or the token.
func TestOneLogin(t *testing.T) {
	var mu sync.Mutex
	logins := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/base/api/auth/login" {
			mu.Lock()
			logins++
			mu.Unlock()
			_, _ = w.Write([]byte(`{"access_token":"secret-token"}`))
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"errors":[{"message":"no: ` + r.Header.Get("Authorization") + ` sesame"}]}`))
	}))
	defer server.Close()
	c, err := New(Options{URL: server.URL + "/base/", Credentials: Credentials{Username: "admin", Password: "sesame"}})
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := c.Artifacts(t.Context(), Query{Name: "../../x", Branch: "main"})
			var e *Error
			if !errors.As(err, &e) || e.Reason != v1alpha1.SyncReasonServerError || strings.Contains(e.Message, "sesame") || strings.Contains(e.Message, "secret-token") {
				t.Errorf("unexpected error: %v", err)
			}
		})
	}
	all.Wait()
	require.Equal(t, 1, logins)
	_, err = New(Options{URL: "ftp://x"})
	require.Error(t, err)
	_, err = New(Options{URL: "https://user:pass@x"})
	require.Error(t, err)
	linkLocal, err := New(Options{URL: "http://169.254.169.254", Credentials: Credentials{Token: "t"}})
	require.NoError(t, err)
	_, err = linkLocal.Artifacts(t.Context(), Query{Name: "q"})
	require.ErrorContains(t, err, "link-local")
}

// TestRepeatedTransportErrors: requests that fail in the same way have the same message, whatever the local port of the connection was.
func TestRepeatedTransportErrors(t *testing.T) {
	t.Parallel()
	failure := func(port int) string {
		local, remote := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 443}
		err := &net.OpError{Op: "read", Net: "tcp", Source: local, Addr: remote, Err: syscall.ECONNRESET}
		return transportError("query", &url.URL{Scheme: "https", Host: "infrahub"}, &url.Error{Op: "Post", URL: "https://infrahub", Err: err}, strings.TrimSpace).Message
	}
	require.Equal(t, failure(41000), failure(41001))
}

// TestRepeatedStreamErrors: a server that ends the streams of one HTTP/2 connection has the same message for each of them.
func TestRepeatedStreamErrors(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c, err := New(Options{URL: server.URL, Credentials: Credentials{Token: "t"}, CA: ca})
	require.NoError(t, err)
	failure := func() string {
		_, err := c.Artifacts(t.Context(), Query{Name: "q"})
		require.ErrorContains(t, err, "INTERNAL_ERROR")
		return err.Error()
	}
	first := failure()
	require.Equal(t, first, failure())
}
