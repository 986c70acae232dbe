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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// forwardPod forwards local ports to ports of a Pod, until stop is closed, and returns the local
// addresses.
func forwardPod(config *rest.Config, pod *corev1.Pod, stop <-chan struct{}, ports ...int) ([]string, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	target := clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward")
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	var wanted []string
	for _, port := range ports {
		wanted = append(wanted, fmt.Sprintf("0:%d", port))
	}
	ready, failed := make(chan struct{}), make(chan error, 1)
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target.URL())
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, wanted, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, fmt.Errorf("forwarding ports to Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	go func() { failed <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-failed:
		return nil, fmt.Errorf("forwarding ports to Pod %s/%s: %w", pod.Namespace, pod.Name, errors.Join(err, errors.New("it ended")))
	}
	forwarded, err := forwarder.GetPorts()
	if err != nil {
		return nil, err
	}
	addresses := make([]string, 0, len(ports))
	for _, port := range forwarded {
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", port.Local))
	}
	return addresses, nil
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
