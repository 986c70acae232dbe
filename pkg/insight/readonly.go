package insight

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
)

// ErrWrite is the error of a request that would write: a Client refuses it before it is sent.
var ErrWrite = errors.New("a question writes nothing")

// readOnly refuses requests that would write.
type readOnly struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r readOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	if !readsOnly(request) {
		return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, ErrWrite)
	}
	return r.next.RoundTrip(request)
}

// readsOnly reports whether a request stores nothing: a GET, a dry run, or a question about rights.
func readsOnly(request *http.Request) bool {
	switch request.Method {
	case http.MethodGet:
		return true
	case http.MethodPatch:
		return slices.Equal(request.URL.Query()["dryRun"], []string{"All"})
	case http.MethodPost:
		return slices.Contains([]string{"subjectaccessreviews", "selfsubjectaccessreviews"}, path.Base(request.URL.Path)) &&
			path.Dir(request.URL.Path) == "/apis/authorization.k8s.io/v1"
	}
	return false
}
