package ui

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
)

// policy is the Content-Security-Policy of all answers.
const policy = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard refuses requests without the token, for another Host and from other origins. A page of another origin that resolves its
// name to 127.0.0.1 has another Host (DNS rebinding). The token is in the path and not in a cookie, as the browser sends the cookies of
// 127.0.0.1 to the servers of all ports.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		// With no-referrer, browsers send forms with the Origin null (https://fetch.spec.whatwg.org/#append-a-request-origin-header).
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		_, port, _ := strings.Cut(s.at.host, ":")
		switch origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site"); {
		case r.Host != s.at.host && r.Host != "localhost:"+port:
			refuse(w, http.StatusMisdirectedRequest, fmt.Sprintf("the page is served for the host %s alone", s.at.host))
		case origin != "" && origin != "http://"+r.Host:
			refuse(w, http.StatusForbidden, "the request comes from a page of another origin")
		case (site == "cross-site" || site == "same-site") && (r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Mode") != "navigate"):
			refuse(w, http.StatusForbidden, "the request comes from a page of another origin")
		case !s.authorized(r.URL.Path):
			refuse(w, http.StatusForbidden, fmt.Sprintf("the address has not the token of this page. Open the address in the first line "+
				"that `%s` has printed; each start of it has another one", s.options.Program.Hint("ui")))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// authorized reports whether a path begins with the token.
func (s *Server) authorized(path string) bool {
	token, _, found := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return found && subtle.ConstantTimeCompare([]byte(token), []byte(s.at.token)) == 1
}

// refuse answers in plain text, without anything of the cluster.
func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, "vidra: %s.\n", text) // the client may have gone
}
