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
	"golang.org/x/time/rate"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"
)

// maxProbeBody is how much of the answer to a probe is read, so that its connection can be used
// again.
const maxProbeBody = 64 << 10

// remote is the http.RoundTripper of a remote cluster. It exists as long as the clients; its
// route and credentials change with the Secret.
type remote struct {
	// server is the normalized URL, origin the same without its path.
	server, origin string
	requests       requestOptions
	// policy is the set of permitted features of a kubeconfig.
	policy policy
	bounds remoteBounds
	log    logr.Logger
	notify remoteListeners
	health *health
	// dialer tracks the open connections.
	dialer *connrotation.Dialer
	// ctx ends every request.
	ctx    context.Context
	cancel context.CancelFunc

	// route is nil until the first setRoute.
	route atomic.Pointer[route]
}

// requestOptions apply to each request to a cluster.
type requestOptions struct {
	// userAgent is the header User-Agent.
	userAgent string
	// wrap wraps the transport; optional.
	wrap transport.WrapperFunc
}

// remoteBounds bound the requests to a cluster, and their answers.
type remoteBounds struct {
	limits  *limits
	answers *answerLimits
	// oversized holds back requests whose answers need too much memory.
	oversized oversized
}

// remoteListeners get the changes of a cluster.
type remoteListeners struct {
	// changed is called when the result of unreachable, or the credentials, may have changed.
	// It must return at once.
	changed func(server string)
	// credentialsChanged is called when the credentials have changed.
	credentialsChanged func()
	// relister has the informers list again after an outage, and after each change of the route.
	relister *Relister
}

// newRemote returns a remote that works until ctx ends or close is called.
func newRemote(ctx context.Context, server *url.URL, limits *limits, log logr.Logger, changed func(string)) *remote {
	r := &remote{
		server: server.String(), origin: originOf(server), log: log.WithValues("cluster", server.String()),
		bounds: remoteBounds{limits: limits, answers: &answerLimits{limits: limits, speed: rate.NewLimiter(readRate, readBurst)}},
		notify: remoteListeners{changed: changed, relister: NewRelister()},
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

// dial makes a connection. After close, no connection stays open.
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

// RoundTrip implements http.RoundTripper. A request fails at once if the API server is known to
// be unreachable, which saves a reconcile the timeout of each of its requests.
func (r *remote) RoundTrip(request *http.Request) (*http.Response, error) {
	if f := r.health.failure(); f != nil {
		return nil, unsent(request, r.unreachableError(f))
	}
	if err := r.bounds.oversized.of(request.URL.Path); err != nil {
		return nil, unsent(request, err)
	}
	response, f, err := r.roundTrip(request)
	switch {
	case f == nil:
	case f.partial:
		r.health.awaitProbe(request.Context())
		if unknown := r.unanswered(request.Context()); unknown != nil && f.unrouted { // it would look like an absence
			_ = response.Body.Close() // it is not read
			return nil, unknown
		}
	default:
		r.health.failed(f)
	}
	return response, err
}

// unanswered returns the error in place of an answer that may not be from the API server: requests fail, or the request ended before a probe.
func (r *remote) unanswered(ctx context.Context) error {
	if f := r.health.present(); f != nil {
		return r.unreachableError(f)
	}
	return ctx.Err()
}

// unsent closes the body of a request that is not sent, and returns the error of the request.
func unsent(request *http.Request, err error) error {
	if request.Body != nil {
		_ = request.Body.Close() // it was not read
	}
	return err
}

// roundTrip sends a request, also to an API server that is unreachable. It records a success, and
// returns a failure of the API server.
func (r *remote) roundTrip(request *http.Request) (*http.Response, *failure, error) {
	current, err := r.currentRoute()
	if err != nil {
		return nil, nil, unsent(request, err)
	}
	response, err := r.send(request, current)
	if errors.Is(request.Context().Err(), context.Canceled) || r.ctx.Err() != nil {
		return response, nil, err // a canceled request proves nothing about the API server
	}
	f := failureOf(response, err, current.access.secret)
	switch former := r.isFormer(current); {
	case f == nil && !former:
		r.health.succeeded()
	case f != nil && !f.partial && former: // the caller has the error
		f = nil
	}
	return response, f, err
}

// send sends a request and waits for the header of the answer, within the limits.
func (r *remote) send(request *http.Request, current *route) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	stop := context.AfterFunc(r.ctx, func() { cancel(errForgotten) })
	end := func(cause error) {
		stop()
		cancel(cause)
	}
	timer := time.AfterFunc(r.bounds.limits.answerTo(request), func() { cancel(errNoAnswer) })
	// An earlier probe finds out whether the API server answers at all.
	suspicion := time.AfterFunc(r.bounds.limits.suspect, func() { r.health.failed(&failure{reason: errNoAnswer.Error(), advice: adviceNetwork}) })
	defer suspicion.Stop()
	sent := redirectTo(request.WithContext(ctx), current.access.server)
	askForJSON(sent)
	var response *http.Response
	err := askForAll(sent)
	if err == nil {
		response, err = current.transport.RoundTrip(sent)
	} else {
		r.limitExceeded(current, err)
	}
	if !timer.Stop() && err == nil { // the answer came, but its body ends with ctx
		_ = response.Body.Close() // the body is not read
		err = errNoAnswer
	}
	if err == nil && !isJSON(response) {
		_ = response.Body.Close() // the body is not read
		err = errNotJSON
		r.limitExceeded(current, err)
	}
	if err == nil {
		response.Body = r.bound(ctx, request, current, response.Body, end)
		return response, nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, errNoAnswer) || errors.Is(cause, errForgotten) {
		err = cause
	}
	end(nil)
	return nil, err
}

// answerTo returns the timeout for the header of the answer to a request.
func (l *limits) answerTo(request *http.Request) time.Duration {
	switch {
	case isWatch(request):
		return l.watchAnswer
	case request.Method != http.MethodGet && request.Method != http.MethodHead:
		return l.writeAnswer
	}
	return l.answer
}

// isWatch reports whether a request is a WATCH, whose answer may end at any time.
func isWatch(request *http.Request) bool {
	watch := request.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// isFormer reports whether a route is a former one, which may lead to another server: its answers prove nothing about the present one.
func (r *remote) isFormer(over *route) bool { return r.route.Load() != over }

// limitExceeded records an answer over a route that exceeded a limit.
func (r *remote) limitExceeded(over *route, err error) {
	if !r.isFormer(over) {
		r.health.limitExceeded(&failure{reason: err.Error(), advice: adviceOperators})
	}
}

// bound limits the body of the answer to a request over a route. end ends the request.
func (r *remote) bound(ctx context.Context, request *http.Request, over *route, source io.ReadCloser, end func(cause error)) io.ReadCloser {
	b := &boundedBody{source: source, answers: r.bounds.answers, ctx: ctx, end: end, watch: isWatch(request), within: r.bounds.limits.finish}
	b.failed = func(err error) {
		switch {
		case request.Context().Err() != nil || r.ctx.Err() != nil: // the request was canceled
		case r.isFormer(over), errors.Is(err, errTogether): // another server, or other answers may be the cause
		case errors.Is(err, errTooLarge) && isAboutObjects(request) && (!b.read.large || isListOrWatch(request) && !b.watch):
			r.bounds.oversized.add(request.URL.Path, r.bounds.limits)
		case errors.Is(err, errUnfinished), errors.Is(err, errTooLarge):
			r.health.limitExceeded(&failure{reason: err.Error(), advice: adviceOperators})
		case !isWatch(request):
			r.health.failed(&failure{reason: reasonOf(err), advice: adviceNetwork})
		}
	}
	b.start()
	return b
}

// probe asks the API server for its version, or where a proxy forwards other paths alone, for the versions of its core group. It closes a
// connection without an answer: the connection may be dead, and other requests would wait for it too.
func (r *remote) probe(ctx context.Context) {
	var conn atomic.Pointer[net.Conn]
	ctx, cancel := context.WithTimeout(ctx, r.bounds.limits.probe)
	defer cancel()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { conn.Store(&got.Conn) },
	})
	f, err := r.ask(traced, "/version")
	if f != nil && f.unrouted {
		f, err = r.ask(traced, "/api")
	}
	if f != nil {
		r.health.failed(f)
	}
	if dead := conn.Load(); err != nil && dead != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		_ = (*dead).Close() // that it is dead is known
	}
}

// ask sends a GET request whose answer is dropped, also to an API server that is unreachable.
func (r *remote) ask(ctx context.Context, path string) (*failure, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.origin+path, http.NoBody)
	if err != nil { // the URL is one
		r.log.Error(err, "Cannot make the request of a probe")
		return nil, err
	}
	response, f, err := r.roundTrip(request)
	if err == nil {
		_, _ = io.CopyN(io.Discard, response.Body, maxProbeBody)
		_ = response.Body.Close() // it was only read
	}
	return f, err
}

// healthChanged reports that the API server has become unreachable or reachable.
func (r *remote) healthChanged(f *failure) {
	if f != nil {
		r.notify.relister.ListAgain() // no list is answered before it is reachable again
		r.log.Info("Destination is unreachable", "reason", f.reason)
	} else {
		r.log.Info("Destination is reachable again")
	}
	r.notify.changed(r.server)
}

// unreachable returns the fault that keeps the API server from use; nil if it is usable.
func (r *remote) unreachable() error {
	if _, err := r.currentRoute(); err != nil {
		return err
	}
	if f := r.health.failure(); f != nil {
		return r.unreachableError(f)
	}
	return nil
}

// unreachableError returns a failure as an error for the user.
func (r *remote) unreachableError(f *failure) error {
	return fmt.Errorf("the API server %s cannot be reached: %s: %s", r.server, f.reason, f.advice)
}
