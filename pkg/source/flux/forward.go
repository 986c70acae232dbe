package flux

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
)

// NewForwardedClient returns the client that fetches artifacts from outside of the cluster: the API server of config forwards the requests
// for Services if the user has the right to get services/proxy. Other hosts are asked directly.
func NewForwardedClient(hosts Hosts, config *rest.Config) (*http.Client, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	client := NewClient(hosts)
	direct, _ := client.Transport.(allowed)
	client.Transport = allowed{hosts, forwarded{base: base, server: transport, direct: direct.next}}
	return client, nil
}

// forwarded sends requests for Services to the API server.
type forwarded struct {
	base           *url.URL
	server, direct http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f forwarded) RoundTrip(r *http.Request) (*http.Response, error) {
	labels := strings.Split(r.URL.Hostname(), ".")
	if len(labels) < 3 || labels[2] != "svc" {
		return f.direct.RoundTrip(r)
	}
	service := r.URL.Scheme + ":" + labels[0]
	if port := r.URL.Port(); port != "" {
		service += ":" + port
	}
	to := *f.base
	to.Path = strings.TrimSuffix(to.Path, "/") + "/api/v1/namespaces/" + labels[1] + "/services/" + service + "/proxy" + r.URL.Path
	to.RawQuery = r.URL.RawQuery
	clone := r.Clone(r.Context())
	clone.URL, clone.Host = &to, ""
	answer, err := f.server.RoundTrip(clone)
	if err == nil && answer.StatusCode == http.StatusForbidden {
		_ = answer.Body.Close()
		return nil, refusal(fmt.Sprintf("you may not read it through the API server: ask for the right to get services/proxy of %s in namespace %s", labels[0], labels[1]))
	}
	return answer, err
}
