package testenv

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// forwardTimeout bounds one attempt to forward ports: a kubelet may never answer one.
const forwardTimeout = 10 * time.Second

// forwardPod forwards local ports to ports of a Pod, until stop is closed, and returns the local
// addresses. A connection to a port on which the Pod does not listen yet ends the forwarding, which
// is started again then, as is one that is not established within forwardTimeout.
func forwardPod(config *rest.Config, pod *corev1.Pod, stop <-chan struct{}, ports ...int) ([]string, error) {
	local := make([]uint16, len(ports)) // any ones, at first
	ended, err := forwardOnce(config, pod, stop, local, ports)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-ended:
			}
			if again, err := forwardOnce(config, pod, stop, local, ports); err == nil {
				ended = again
				continue
			}
			select {
			case <-stop:
				return
			case <-time.After(poll):
			}
		}
	}()
	addresses := make([]string, 0, len(ports))
	for _, port := range local {
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return addresses, nil
}

// forwardOnce forwards local ports, which it sets where they are 0. The channel is closed when the
// forwarding has ended.
func forwardOnce(config *rest.Config, pod *corev1.Pod, stop <-chan struct{}, local []uint16, ports []int) (<-chan struct{}, error) {
	fail := func(err error) (<-chan struct{}, error) {
		return nil, fmt.Errorf("forwarding ports to Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fail(err)
	}
	target := clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward")
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return fail(err)
	}
	var wanted []string
	for i, port := range ports {
		wanted = append(wanted, fmt.Sprintf("%d:%d", local[i], port))
	}
	ready, ended, failed, end := make(chan struct{}), make(chan struct{}), make(chan error, 1), make(chan struct{})
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target.URL())
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, wanted, end, ready, io.Discard, io.Discard)
	if err != nil {
		return fail(err)
	}
	go func() {
		defer close(ended)
		failed <- forwarder.ForwardPorts()
	}()
	endOnce := sync.OnceFunc(func() { close(end) })
	go func() {
		select {
		case <-stop:
			endOnce()
		case <-ended:
		}
	}()
	select {
	case <-ready:
	case err := <-failed:
		return fail(errors.Join(err, errors.New("it ended")))
	case <-time.After(forwardTimeout):
		endOnce()
		return fail(fmt.Errorf("it was not established within %s", forwardTimeout))
	}
	forwarded, err := forwarder.GetPorts()
	if err != nil {
		return fail(err)
	}
	for i, port := range forwarded {
		local[i] = port.Local
	}
	return ended, nil
}

// serveWithToken serves over HTTP what an address serves over HTTPS to the holder of a token,
// until stop is closed, and returns its own address.
func serveWithToken(address, token string, stop <-chan struct{}) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: address})
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		// The certificate is one that the operator made itself.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // see above
	}
	server := &http.Server{Handler: proxy} //nolint:gosec // it serves this process only
	go func() { _ = server.Serve(listener) }()
	go func() { <-stop; _ = server.Close() }()
	return listener.Addr().String(), nil
}
