package infrahub

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

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
