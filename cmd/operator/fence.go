package main

import (
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vidra-operator/vidra/pkg/reconcile/tracing"
)

// fence refuses the writes of a replica that has led and has not renewed its Lease for
// renewDeadline: another replica may lead. The elector ends such a replica, but one whose process
// or machine was paused first continues where it was.
//
// Leases and Events are written even so, and what only asks the API server about rights.
type fence struct {
	// renewed is when the last renewal was sent; nil before this replica leads.
	renewed atomic.Pointer[time.Time]
}

// replica is what the parts of this process know of its leader election.
type replica struct {
	fence fence
	// waits is closed by wait, when another replica leads.
	waits    chan struct{}
	waitOnce sync.Once
}

func newReplica() *replica { return &replica{waits: make(chan struct{})} }

// wait records that another replica leads.
func (r *replica) wait() { r.waitOnce.Do(func() { close(r.waits) }) }

// wrap returns the transport of all clients, a rest.Config's WrapTransport: the fence, below spans.
func (r *replica) wrap(next http.RoundTripper) http.RoundTripper {
	return tracing.Transport(r.fence.wrap(next))
}

// renew records that the Lease was renewed by a request that was sent at a time.
func (f *fence) renew(sent time.Time) { f.renewed.Store(&sent) }

// wrap returns a transport that the fence refuses requests of.
func (f *fence) wrap(next http.RoundTripper) http.RoundTripper {
	return fenced{fence: f, next: next}
}

type fenced struct {
	*fence
	next http.RoundTripper
}

// unfenced are the paths of requests that any replica may send.
var unfenced = regexp.MustCompile(`^/(api/v1|apis/[^/]+/[^/]+)/namespaces/[^/]+/(leases|events)(/[^/]+)?$|^/apis/(authorization|authentication)\.k8s\.io/`)

// RoundTrip implements http.RoundTripper.
func (f fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	if renewed := f.renewed.Load(); renewed != nil && request.Method != http.MethodGet && !unfenced.MatchString(request.URL.Path) {
		if since := time.Since(*renewed); since > renewDeadline {
			return nil, fmt.Errorf("not sent, because another replica may lead: this one renewed its Lease %s ago", since.Round(time.Millisecond))
		}
	}
	return f.next.RoundTrip(request)
}

// WrappedRoundTripper implements net.RoundTripperWrapper, by which client-go closes idle
// connections.
func (f fenced) WrappedRoundTripper() http.RoundTripper { return f.next }
