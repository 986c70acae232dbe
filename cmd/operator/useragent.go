package main

import (
	"fmt"
	"net/http"
	"runtime"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/cmd/internal/version"
)

// userAgent is the name of the operator in every request: to API servers and to the sink of CloudEvents.
func userAgent() string {
	return fmt.Sprintf("vidra-operator/%s (%s/%s)", version.String(), runtime.GOOS, runtime.GOARCH)
}

// nameRequests has every client that is made of config send userAgent. The field UserAgent alone is insufficient: the client of
// the leader election replaces it by the name of client-go.
func nameRequests(config *rest.Config) {
	config.UserAgent = userAgent()
	agent := config.UserAgent
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return named{next: next, agent: agent} })
}

// named sets the header User-Agent of every request.
type named struct {
	next  http.RoundTripper
	agent string
}

// RoundTrip implements http.RoundTripper.
func (n named) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.UserAgent() != n.agent {
		request = utilnet.CloneRequest(request)
		request.Header.Set("User-Agent", n.agent)
	}
	return n.next.RoundTrip(request)
}

// WrappedRoundTripper implements net.RoundTripperWrapper, through which client-go closes idle connections.
func (n named) WrappedRoundTripper() http.RoundTripper { return n.next }
