package cluster

import (
	"net/http"
	"net/url"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// route is the transport for requests to the API server, or the error in its place.
type route struct {
	// access is nil if err is not about a Secret. digest is the digest of access.
	access    *access
	digest    string
	transport http.RoundTripper
	err       error
}

// setRoute makes the next request use the route of a, or fail with err. It returns the transport
// whose idle connections may be closed, or nil. Only one goroutine may call it at a time.
func (r *remote) setRoute(a *access, err error) http.RoundTripper {
	old := r.route.Load()
	if old != nil && sameRoute(old, a, err) {
		return nil
	}
	next := &route{access: a, err: err}
	if a != nil {
		next.digest = a.digest()
		next.transport, next.err = r.transportFor(a)
	}
	r.route.Store(next)
	if old == nil {
		return nil
	}
	// No WATCH continues with the former credentials, or at another server.
	r.notify.relister.ListAgain()
	if next.err != nil {
		r.health.clear()
		r.log.Info("Destination cannot be used", "reason", next.err.Error())
	} else {
		r.notify.credentialsChanged()
		r.bounds.oversized.forget()
		r.health.retryNow()
		r.log.Info("Destination has new credentials", "secret", a.secret)
	}
	r.notify.changed(r.server)
	return old.transport
}

// sameRoute reports whether a route was made of a and err.
func sameRoute(old *route, a *access, err error) bool {
	if old.access != nil && a != nil {
		return old.access.same(a)
	}
	return old.access == nil && a == nil && old.err.Error() == err.Error()
}

// transportFor returns a transport with the credentials of a and its own connections.
func (r *remote) transportFor(a *access) (http.RoundTripper, error) {
	config, err := a.restConfig(r.policy)
	if err != nil {
		return nil, err
	}
	config.UserAgent = r.requests.userAgent
	config.Wrap(WithoutCredentials)
	if r.requests.wrap != nil {
		config.Wrap(r.requests.wrap)
	}
	config.Dial = r.dial
	if config.Proxy == nil {
		// This is the default of client-go, but a Proxy that is set keeps client-go from caching
		// the transport, and with it the credentials.
		config.Proxy = http.ProxyFromEnvironment
	}
	transport, err := rest.TransportFor(config)
	if err != nil { // the error may quote the kubeconfig
		return nil, a.errorf("context %q: no TLS connection can be made with it: check that cluster %q has either "+
			"certificate-authority-data or insecure-skip-tls-verify", a.context, a.names.Cluster)
	}
	for inner := transport; ; {
		switch t := inner.(type) {
		case utilnet.RoundTripperWrapper:
			inner = t.WrappedRoundTripper()
			continue
		case *http.Transport:
			t.TLSHandshakeTimeout, t.MaxResponseHeaderBytes = r.bounds.limits.connect, maxHeaderBytes
		}
		return transport, nil
	}
}

// currentRoute returns the route for requests now.
func (r *remote) currentRoute() (*route, error) {
	if r.ctx.Err() != nil {
		return nil, errForgotten
	}
	current := r.route.Load()
	return current, current.err
}

// redirectTo sends a request, which has the origin of a server, to the URL of the server.
func redirectTo(request *http.Request, server *url.URL) *http.Request {
	u := *request.URL
	u.Scheme, u.Host = server.Scheme, server.Host
	u.Path, u.RawPath = server.Path+u.Path, server.EscapedPath()+u.EscapedPath()
	request.URL, request.Host = &u, ""
	return request
}
