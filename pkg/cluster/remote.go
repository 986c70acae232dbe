package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// probeBodyMost is how much is read of the answer to a probe, so that its connection
// can be used again.
const probeBodyMost = 64 << 10

// remote is the http.RoundTripper of a remote cluster. Clients hold it for their life;
// where it sends their requests, and with which credentials, changes with the Secret.
type remote struct {
	// server is the normalized URL, origin the same without its path.
	server, origin string
	// userAgent is the header User-Agent of each request.
	userAgent string
	// policy is what the kubeconfig may ask for.
	policy policy
	limits *limits
	log    logr.Logger
	// changed is called when what unreachable says may have changed, or the
	// credentials have. It must not block.
	changed func(server string)
	// rerouted is called when the credentials have changed.
	rerouted func()
	health   *health
	answers  *answers
	// dialer knows the open connections.
	dialer *connrotation.Dialer
	// ctx ends every request.
	ctx    context.Context
	cancel context.CancelFunc

	// route is nil until follow was called once.
	route atomic.Pointer[route]
}

// route is how requests get to the API server, or why they do not.
type route struct {
	// access is nil if err is not of a Secret.
	access    *access
	transport http.RoundTripper
	err       error
}

// newRemote makes a remote that lives until ctx ends, or close is called.
func newRemote(ctx context.Context, server *url.URL, limits *limits, log logr.Logger, changed func(string)) *remote {
	r := &remote{
		server: server.String(), origin: originOf(server), limits: limits, changed: changed, answers: newAnswers(limits),
		log: log.WithValues("cluster", server.String()),
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.dialer = connrotation.NewDialer((&net.Dialer{Timeout: limits.connect, KeepAlive: 30 * time.Second}).DialContext)
	r.health = &health{ctx: r.ctx, limits: limits, probe: r.probe, changed: r.healthChanged}
	return r
}

// close ends the requests, connections and goroutines.
func (r *remote) close() {
	r.cancel()
	r.health.stop()
	r.dialer.CloseAll()
}

// dial makes a connection. None is left open after close.
func (r *remote) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	conn, err := r.dialer.DialContext(ctx, network, address)
	if err == nil && r.ctx.Err() != nil { // perhaps too late for CloseAll
		return nil, errors.Join(errForgotten, conn.Close())
	}
	return conn, err
}

// follow has the next request take the way of a, or fail with err. It returns the
// transport whose idle connections are of no use any more, nil if there is none. It is
// not safe for concurrent use.
func (r *remote) follow(a *access, err error) http.RoundTripper {
	old := r.route.Load()
	if old != nil && sameWay(old, a, err) {
		return nil
	}
	next := &route{access: a, err: err}
	if a != nil {
		next.transport, next.err = r.transportFor(a)
	}
	r.route.Store(next)
	if old == nil {
		return nil
	}
	if next.err != nil {
		r.health.forget()
		r.log.Info("Destination cannot be used", "reason", next.err.Error())
	} else {
		r.rerouted()
		r.health.hurry()
		r.log.Info("Destination has new credentials", "secret", a.secret)
	}
	r.changed(r.server)
	return old.transport
}

// sameWay says whether a route is made of a and err.
func sameWay(old *route, a *access, err error) bool {
	if old.access != nil && a != nil {
		return old.access.same(a)
	}
	return old.access == nil && a == nil && old.err.Error() == err.Error()
}

// transportFor makes a transport with the credentials of a, and connections of its own.
func (r *remote) transportFor(a *access) (http.RoundTripper, error) {
	config, err := a.restConfig(r.policy)
	if err != nil {
		return nil, err
	}
	config.UserAgent = r.userAgent
	config.Dial = r.dial
	if config.Proxy == nil {
		// What client-go does anyway; but if it is told, it does not keep the transport,
		// and with it the credentials, for others who want the same.
		config.Proxy = http.ProxyFromEnvironment
	}
	transport, err := rest.TransportFor(config)
	if err != nil { // which may quote what is in it
		return nil, a.errorf("context %q: no TLS connection can be made with it: see that cluster %q has either "+
			"certificate-authority-data or insecure-skip-tls-verify", a.context, a.names.Cluster)
	}
	for inner := transport; ; {
		switch t := inner.(type) {
		case utilnet.RoundTripperWrapper:
			inner = t.WrappedRoundTripper()
			continue
		case *http.Transport:
			t.TLSHandshakeTimeout, t.MaxResponseHeaderBytes = r.limits.connect, headerMost
		}
		return transport, nil
	}
}

// RoundTrip implements http.RoundTripper. A request that cannot be sent, or that will
// not be answered, fails at once: what is under way for a server that is known not to
// answer would otherwise wait for each of its requests.
func (r *remote) RoundTrip(request *http.Request) (*http.Response, error) {
	if f := r.health.failure(); f != nil {
		if request.Body != nil {
			_ = request.Body.Close() // it was not read
		}
		return nil, r.saying(f)
	}
	response, f, err := r.roundTrip(request)
	switch {
	case f == nil:
	case f.partial:
		r.health.suspect(request.Context())
	default:
		r.health.failed(f)
	}
	return response, err
}

// roundTrip sends a request, whether the API server answered those before or not. It
// notes a success, and returns what else that says of the API server.
func (r *remote) roundTrip(request *http.Request) (*http.Response, *failure, error) {
	way, err := r.way()
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // it was not read
		}
		return nil, nil, err
	}
	response, err := r.send(request, way)
	if errors.Is(request.Context().Err(), context.Canceled) || r.ctx.Err() != nil {
		return response, nil, err // who wants no answer knows nothing of who gives none
	}
	f := failureOf(response, err, way.access.secret)
	if f == nil {
		r.health.succeeded()
	}
	return response, f, err
}

// way is how requests get to the API server now.
func (r *remote) way() (*route, error) {
	if r.ctx.Err() != nil {
		return nil, errForgotten
	}
	way := r.route.Load()
	return way, way.err
}

// send sends a request, and waits for the header of the answer as long as limits say.
func (r *remote) send(request *http.Request, way *route) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	stop := context.AfterFunc(r.ctx, func() { cancel(errForgotten) })
	release := func() {
		stop()
		cancel(nil)
	}
	timer := time.AfterFunc(r.limits.answerTo(request), func() { cancel(errNoAnswer) })
	// Long before that it is asked whether it answers at all.
	suspicion := time.AfterFunc(r.limits.suspect, func() { r.health.failed(&failure{reason: errNoAnswer.Error(), advice: adviseNetwork}) })
	defer suspicion.Stop()
	sent := address(request.WithContext(ctx), way.access.server)
	askForJSON(sent)
	var response *http.Response
	err := askForAll(sent)
	if err == nil {
		response, err = way.transport.RoundTrip(sent)
	} else {
		r.health.violated(&failure{reason: err.Error(), advice: adviseOperators})
	}
	if !timer.Stop() && err == nil { // the answer came, but its body ends with ctx
		_ = response.Body.Close() // nobody reads it
		err = errNoAnswer
	}
	if err == nil && !isJSON(response) {
		_ = response.Body.Close() // nobody reads it
		err = errNotJSON
		r.health.violated(&failure{reason: err.Error(), advice: adviseOperators})
	}
	if err == nil {
		response.Body = r.bound(ctx, request, response.Body, func(cause error) {
			stop()
			cancel(cause)
		})
		return response, nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, errNoAnswer) || errors.Is(cause, errForgotten) {
		err = cause
	}
	release()
	return nil, err
}

// address has a request, which is to an origin, go to the URL of an API server.
func address(request *http.Request, server *url.URL) *http.Request {
	u := *request.URL
	u.Scheme, u.Host = server.Scheme, server.Host
	u.Path, u.RawPath = server.Path+u.Path, server.EscapedPath()+u.EscapedPath()
	request.URL, request.Host = &u, ""
	return request
}

// answerTo is how long is waited for the header of the answer to a request.
func (l *limits) answerTo(request *http.Request) time.Duration {
	if watches(request) {
		return l.watchAnswer
	}
	return l.answer
}

// watches says whether a request is that of a watch, whose answer ends at any time.
func watches(request *http.Request) bool {
	watch := request.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// bound bounds the body of the answer to a request. end ends the request.
func (r *remote) bound(ctx context.Context, request *http.Request, source io.ReadCloser, end func(cause error)) io.ReadCloser {
	b := &boundedBody{
		source: source, answers: r.answers, ctx: ctx, end: end, watch: watches(request), within: r.limits.finish,
		failed: func(err error) {
			switch {
			case request.Context().Err() != nil || r.ctx.Err() != nil: // nobody wants it any more
			case errors.Is(err, errUnfinished), errors.Is(err, errTooLarge):
				r.health.violated(&failure{reason: err.Error(), advice: adviseOperators})
			case !watches(request):
				r.health.failed(&failure{reason: reasonOf(err), advice: adviseNetwork})
			}
		},
	}
	b.start()
	return b
}

// probe asks the API server for its version. A connection on which that is not answered
// is closed: it may have died unseen, and other requests would wait for it too.
func (r *remote) probe(ctx context.Context) {
	var conn atomic.Pointer[net.Conn]
	ctx, cancel := context.WithTimeout(ctx, r.limits.probe)
	defer cancel()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { conn.Store(&got.Conn) },
	})
	request, err := http.NewRequestWithContext(traced, http.MethodGet, r.origin+"/version", http.NoBody)
	if err != nil { // the URL is one
		r.log.Error(err, "Cannot make the request of a probe")
		return
	}
	response, f, err := r.roundTrip(request)
	if f != nil {
		r.health.failed(f)
	}
	if err == nil {
		_, _ = io.CopyN(io.Discard, response.Body, probeBodyMost)
		_ = response.Body.Close() // it was only read
		return
	}
	if dead := conn.Load(); dead != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		_ = (*dead).Close() // that it is dead is known
	}
}

// healthChanged tells that the API server has become unreachable, or that it can be
// reached again.
func (r *remote) healthChanged(f *failure) {
	if f != nil {
		r.log.Info("Destination is unreachable", "reason", f.reason)
	} else {
		r.log.Info("Destination is reachable again")
	}
	r.changed(r.server)
}

// unreachable says why the API server cannot be used now.
func (r *remote) unreachable() error {
	if _, err := r.way(); err != nil {
		return err
	}
	if f := r.health.failure(); f != nil {
		return r.saying(f)
	}
	return nil
}

// saying is a failure for people.
func (r *remote) saying(f *failure) error {
	return fmt.Errorf("the API server %s cannot be reached: %s: %s", r.server, f.reason, f.advice)
}
