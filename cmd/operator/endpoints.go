package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"

	"github.com/vidra-operator/vidra/pkg/clients"
)

const (
	// readsPerSecond and readBurst bound the requests of one client to the metrics endpoint: an unknown token of each is sent to the API server.
	// readsAtATime bounds the requests of all clients.
	readsPerSecond, readBurst, readsAtATime = 10, 50, 64
	// answerTimeout bounds the time for one answer of an endpoint.
	answerTimeout = 30 * time.Second
)

// addProbes makes the process live while it takes and releases its locks, and ready when its caches are synced.
func (o *options) addProbes(mgr manager.Manager, lock func()) error {
	synced, live := &syncedCheck{manager: mgr}, &liveness{lock: lock}
	mux := http.NewServeMux()
	mux.Handle("/healthz", probe("The liveness probe fails, so that the kubelet restarts the operator: please report it", live.check))
	mux.Handle("/readyz", probe("", synced.check))
	return errors.Join(mgr.Add(synced), addEndpoint(mgr, "health-probe-bind-address", o.probeAddress, mux, nil))
}

// probe returns the handler of a check. Its answer has the error, and the kubelet shows it in an Event. failure is the message for the log; a check that
// fails at each start has none.
func probe(failure string, check healthz.Checker) http.Handler {
	return healthz.CheckHandler{Checker: func(r *http.Request) error {
		err := check(r)
		if err != nil && failure != "" {
			log.Log.WithName("probe").Error(err, failure)
		}
		return err
	}}
}

// addMetrics serves the metrics, and handlers by their paths. With --metrics-secure, the API server authenticates and authorizes clients.
func (o *options) addMetrics(mgr manager.Manager, handlers map[string]http.Handler) error {
	if o.metricsAddress == "0" {
		return nil
	}
	handlers["/metrics"] = promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	limiter := &clients.Limiter{PerSecond: rate.Inf, AtATime: readsAtATime}
	mux := http.NewServeMux()
	if !o.metricsSecure {
		for path, handler := range handlers {
			mux.Handle(path, handler)
		}
		return addEndpoint(mgr, "metrics-bind-address", o.metricsAddress, limiter.Handler(mux), nil)
	}
	limiter.PerSecond, limiter.Burst = readsPerSecond, readBurst
	filter, err := filters.WithAuthenticationAndAuthorization(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("authenticate the clients of the metrics: %w", err)
	}
	for path, handler := range handlers {
		if handler, err = filter(mgr.GetLogger().WithName("metrics").WithValues("path", path), handler); err != nil {
			return fmt.Errorf("authenticate the clients of %s: %w", path, err)
		}
		mux.Handle(path, handler)
	}
	own, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{{127, 0, 0, 1}}, nil)
	if err != nil {
		return fmt.Errorf("make the certificate of the metrics: %w", err)
	}
	pair, err := tls.X509KeyPair(own, key)
	if err != nil {
		return fmt.Errorf("make the certificate of the metrics: %w", err)
	}
	return addEndpoint(mgr, "metrics-bind-address", o.metricsAddress, limiter.Handler(mux),
		&tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}) // HTTP/2 has many requests in a connection
}

// addEndpoint serves a handler at the address of a flag from the start of the process on; 0 disables it. Unlike the endpoints of controller-runtime, it bounds
// connections and headers: a Pod could take all memory with them.
func addEndpoint(mgr manager.Manager, flag, address string, handler http.Handler, secure *tls.Config) error {
	if address == "0" {
		return nil
	}
	inner, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	listener := clients.Listener(inner)
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	stopping := time.Second // longer answers are cut off
	return mgr.Add(&manager.Server{Name: flag, Listener: listener, ShutdownTimeout: &stopping, Server: &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: answerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}})
}
