package ui

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestForms posts the forms of the pages as a browser does without JavaScript: its Origin follows from the Referrer-Policy of the page, by
// https://fetch.spec.whatwg.org/#append-a-request-origin-header.
func TestForms(t *testing.T) {
	const host = "127.0.0.1:8090"
	s := &Server{at: address{token: "TOKEN", host: host}}
	var reached int
	guarded := s.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	request := func(method, path, origin string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://"+host+s.base()+path, http.NoBody)
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		answer := httptest.NewRecorder()
		guarded.ServeHTTP(answer, r)
		return answer
	}
	origins := map[string]string{"no-referrer": "null", "same-origin": "http://" + host}
	policy := request(http.MethodGet, "/vr/shop", "").Header().Get("Referrer-Policy")
	require.Contains(t, origins, policy, "no other origin gets the address, which has the token")
	reached = 0
	for _, path := range []string{"/act", "/forecast"} {
		require.Equal(t, http.StatusOK, request(http.MethodPost, path, origins[policy]).Code, "the form of %s", path)
		require.Equal(t, http.StatusForbidden, request(http.MethodPost, path, "null").Code, "a page in a sandbox")
	}
	require.Equal(t, 2, reached)
}
