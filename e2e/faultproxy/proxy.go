package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// quiet drops what the HTTP server and the reverse proxy log: that connections
// break is the purpose.
var quiet = log.New(io.Discard, "", 0)

// Proxy is a reverse proxy in front of an API server. Its methods are safe for
// concurrent use.
type Proxy struct {
	upstream  *url.URL
	transport http.RoundTripper
	// idle is the transport below that one, which owns the connections.
	idle *http.Transport
	door *door

	// hook is that of OnEvents.
	hook atomic.Pointer[func(Request, []byte) EventFault]

	// mu guards what follows, and Rule.hits. It is never held over I/O.
	mu       sync.Mutex
	rules    []*Rule
	requests []Request
	streams  map[*stream]struct{}
	// recordings are of the latest watch of each kind, frozen is the view of Freeze, and thawed is closed by Thaw.
	recordings View
	frozen     View
	thawed     chan struct{}
}

// Start starts a proxy in front of the API server that upstream reaches, on a
// free port of the loopback address. It does not ask whether that server is
// there; while it is not, clients of the proxy find their connections broken.
func Start(upstream *rest.Config) (*Proxy, error) {
	p := &Proxy{streams: map[*stream]struct{}{}, recordings: View{}}
	if err := p.dialer(upstream); err != nil {
		return nil, fmt.Errorf("starting a proxy to %s: %w", upstream.Host, err)
	}
	var err error
	if p.door, err = newDoor(http.HandlerFunc(p.serve)); err != nil {
		return nil, fmt.Errorf("starting a proxy to %s: %w", upstream.Host, err)
	}
	return p, nil
}

// dialer sets what reaches the API server. It speaks HTTP/1.1: a connection for
// each watch, so that none can hold up another, and none is left after Close.
func (p *Proxy) dialer(upstream *rest.Config) error {
	var err error
	if p.upstream, _, err = rest.DefaultServerUrlFor(upstream); err != nil {
		return err
	}
	tlsConfig, err := rest.TLSConfigFor(upstream)
	if err != nil {
		return err
	}
	p.idle = &http.Transport{
		TLSClientConfig:     tlsConfig,
		DialContext:         upstream.Dial,
		MaxIdleConnsPerHost: 32,
		// What the client accepts is what it gets.
		DisableCompression: true,
		Protocols:          new(http.Protocols),
	}
	p.idle.Protocols.SetHTTP1(true)
	p.transport, err = rest.HTTPWrappersForConfig(upstream, p.idle)
	return err
}

// Config returns a configuration for clients that go through the proxy. They
// need no credentials and are not limited on their side. It stays good over
// Down and Up.
func (p *Proxy) Config() *rest.Config {
	return &rest.Config{
		Host:            "https://" + p.door.address,
		TLSClientConfig: rest.TLSClientConfig{CAData: slices.Clone(p.door.certificate)},
		QPS:             -1,
	}
}

// Down makes the proxy a server that is not there: running requests are cut,
// connections are closed and new ones refused. It returns when that is so. It is
// idempotent; rules and the record stay.
func (p *Proxy) Down() {
	p.door.shut()
}

// Up takes Down back, at the same address. It is idempotent. It fails after
// Close, and where another process has taken the port meanwhile.
func (p *Proxy) Up() error {
	return p.door.open()
}

// Close ends the proxy for good: it is Down, and no request is being served when
// Close returns. The goroutines of the connections that it has closed end right
// after that. It is idempotent.
func (p *Proxy) Close() {
	p.door.shutForGood()
	p.idle.CloseIdleConnections()
}

// serve answers one request.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	q := newRequest(r)
	rule := p.admit(q)
	if rule != nil && rule.fault.instead != nil && rule.fault.instead(w, r, rule) {
		return
	}
	if !p.replay(w, r, q) {
		p.forward(w, r, q, rule)
	}
}

// forward passes a request on, and its answer back. rule is the one that hits it; nil if there is none.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, q Request, rule *Rule) {
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	var watch *stream
	defer func() { p.removeStream(watch) }()
	reverse := &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(p.upstream)
			if q.Verb == "watch" { // a stream passes on whole events, and cannot read compressed ones
				pr.Out.Header.Del("Accept-Encoding")
			}
		},
		Transport:     p.transport,
		FlushInterval: -1,
		ErrorLog:      quiet,
		ErrorHandler:  answerError,
		ModifyResponse: func(answer *http.Response) (err error) {
			if q.Verb == "watch" && answer.StatusCode == http.StatusOK {
				if watch, err = p.newStream(ctx, end, q, answer); err != nil {
					return err
				}
				p.addStream(watch)
			}
			if rule != nil && rule.fault.onAnswer != nil {
				rule.fault.onAnswer(answer, watch)
			}
			if rule != nil && rule.fault.late {
				rule.holding.Add(1)
				defer rule.holding.Add(-1)
				select {
				case <-rule.removed:
				case <-ctx.Done():
				}
			}
			return nil
		},
	}
	reverse.ServeHTTP(w, r.WithContext(ctx))
}

// answerError answers the client what went wrong before there was an answer to
// pass on. A broken connection to the API server is one to the client.
func answerError(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(err, errEncoding) {
		writeStatus(w, statusOf(apierrors.NewInternalError(err)))
		return
	}
	panic(http.ErrAbortHandler)
}
