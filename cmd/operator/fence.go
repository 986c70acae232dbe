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
// Requests that only ask the API server about rights are allowed. The Lease of the replica and the Events about its work have
// clients without the fence: the elector decides about the Lease, and findings are reported.
type fence struct {
	// renewed is when the last renewal was sent; nil before this replica leads.
	renewed atomic.Pointer[time.Time]
}

// replica is the knowledge of the parts of this process about its leader election.
type replica struct {
	fence fence
	// waits is closed by wait, when another replica leads.
	waits    chan struct{}
	waitOnce sync.Once
}

func newReplica() *replica { return &replica{waits: make(chan struct{})} }

// wait records that another replica leads.
func (r *replica) wait() { r.waitOnce.Do(func() { close(r.waits) }) }

// wrap returns the transport of the clients, a rest.Config's WrapTransport: the fence, below spans.
func (r *replica) wrap(next http.RoundTripper) http.RoundTripper {
	return tracing.Transport(fenced{fence: &r.fence, next: next})
}

// renew records that the Lease was renewed by a request that was sent at a time.
func (f *fence) renew(sent time.Time) { f.renewed.Store(&sent) }

// fenced is a transport that the fence refuses requests of.
type fenced struct {
	fence *fence
	next  http.RoundTripper
}

// reviews are the paths of requests that only ask about rights. They create no object.
var reviews = regexp.MustCompile(`^/apis/(authorization|authentication)\.k8s\.io/`)

// sinceRenewal returns the time from the renewal of the Lease to now; 0 before this replica leads. The monotonic clock stands still
// while a machine is suspended, and the wall clock may be set back: the longer of the two times counts.
func (f *fence) sinceRenewal(now time.Time) time.Duration {
	renewed := f.renewed.Load()
	if renewed == nil {
		return 0
	}
	return max(now.Sub(*renewed), now.Round(0).Sub(renewed.Round(0)))
}

// RoundTrip implements http.RoundTripper.
func (f fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && !reviews.MatchString(request.URL.Path) {
		if since := f.fence.sinceRenewal(time.Now()); since > renewDeadline {
			return nil, fmt.Errorf("not sent, because another replica may lead: this one renewed its Lease %s ago", since.Round(time.Millisecond))
		}
	}
	return f.next.RoundTrip(request)
}

// WrappedRoundTripper implements net.RoundTripperWrapper, through which client-go closes idle connections.
func (f fenced) WrappedRoundTripper() http.RoundTripper { return f.next }
