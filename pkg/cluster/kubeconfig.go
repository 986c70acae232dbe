package cluster

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigKeys are the keys of a Secret that may hold its kubeconfig; the first that exists
// counts. Cluster API uses "value".
var kubeconfigKeys = []string{"kubeconfig", "value", "config"}

// Flags of the operator that errors name: see DestinationsOptions.
const (
	AllowInsecureFlag = "allow-insecure-kubeconfigs"
	AllowProxiesFlag  = "allow-kubeconfig-proxies"
)

// access is one context of a kubeconfig: an API server and credentials for it.
type access struct {
	// secret is the namespace/name of the Secret with the kubeconfig.
	secret string
	// context is the name of the context, current whether it is the
	// current-context.
	context string
	current bool
	// server is the normalized URL of cluster.
	server *url.URL
	// names are the names of cluster and user in the kubeconfig.
	names   clientcmdapi.Context
	cluster clientcmdapi.Cluster
	user    clientcmdapi.AuthInfo
	// scope is the set of permitted uses of the kubeconfig.
	scope Scope
}

// policy is the set of permitted features of a kubeconfig: insecure allows an API server with an unverified certificate or
// without TLS, proxies allows a proxy-url.
type policy struct{ insecure, proxies bool }

// kubeconfigOf returns the kubeconfig in the data of a Secret.
func kubeconfigOf(data map[string][]byte) ([]byte, error) {
	for _, key := range kubeconfigKeys {
		if kubeconfig, found := data[key]; found {
			return kubeconfig, nil
		}
	}
	if len(data) == 1 {
		for _, kubeconfig := range data {
			return kubeconfig, nil
		}
	}
	return nil, errors.New(`it has no data key "kubeconfig", "value" or "config", nor one key alone`)
}

// readKubeconfig reads the contexts of the kubeconfig in the data of a Secret. It returns the valid
// contexts together with an error about the invalid ones. Errors quote only names of the
// kubeconfig.
func readKubeconfig(secret string, data map[string][]byte) ([]*access, error) {
	text, err := kubeconfigOf(data)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(text)
	if err != nil { // the error quotes the text
		return nil, errors.New("it holds no kubeconfig: not YAML, or a field of the wrong type")
	}
	if len(config.Contexts) == 0 {
		return nil, errors.New("its kubeconfig has no contexts")
	}
	var all []*access
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(config.Contexts)) {
		a, err := readContext(config, name)
		if err != nil {
			problems = append(problems, fmt.Errorf("context %q: %w", name, err))
			continue
		}
		a.secret = secret
		all = append(all, a)
	}
	return all, errors.Join(problems...)
}

// ServersOf returns the URLs of the API servers in the kubeconfig of a Secret with this data, as NormalizeServer returns them; none without a valid context.
func ServersOf(data map[string][]byte) []string {
	all, _ := readKubeconfig("", data) // the valid contexts
	servers := make([]string, 0, len(all))
	for _, a := range all {
		servers = append(servers, a.server.String())
	}
	slices.Sort(servers)
	return slices.Compact(servers)
}

// readContext reads one context of a kubeconfig.
func readContext(config *clientcmdapi.Config, name string) (*access, error) {
	names := clientcmdapi.Context{Cluster: config.Contexts[name].Cluster, AuthInfo: config.Contexts[name].AuthInfo}
	cluster, user := config.Clusters[names.Cluster], config.AuthInfos[names.AuthInfo]
	if cluster == nil {
		return nil, fmt.Errorf("there is no cluster %q", names.Cluster)
	}
	if user == nil {
		return nil, fmt.Errorf("there is no user %q", names.AuthInfo)
	}
	server, err := parseServer(cluster.Server)
	if err != nil {
		return nil, fmt.Errorf("cluster %q: server: %w", names.Cluster, err)
	}
	a := &access{context: name, current: name == config.CurrentContext, server: server, names: names, cluster: *cluster, user: *user}
	// They are unused, and other tools write times into them.
	a.cluster.Extensions, a.user.Extensions = nil, nil
	return a, nil
}

// same reports whether two are the same API server with the same credentials and scope.
func (a *access) same(b *access) bool {
	return a.secret == b.secret && a.scope.Same(b.scope) && reflect.DeepEqual(a.cluster, b.cluster) && reflect.DeepEqual(a.user, b.user)
}

// digest returns a hash of the API server and the credentials, as same compares them.
func (a *access) digest() string {
	text, err := json.Marshal(struct {
		clientcmdapi.Cluster
		User clientcmdapi.AuthInfo
	}{a.cluster, a.user})
	if err != nil { // neither has a field that cannot be encoded
		return ""
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// errorf returns an error that names the Secret.
func (a *access) errorf(format string, args ...any) error {
	return fmt.Errorf("the kubeconfig in Secret %s cannot be used: %s", a.secret, fmt.Sprintf(format, args...))
}

// refused returns an error if the context would make Vidra run a program or read a file of its own machine, needs a feature
// that policy forbids, or is contradictory.
func (a *access) refused(policy policy) error {
	cluster, user := fmt.Sprintf("cluster %q", a.names.Cluster), fmt.Sprintf("user %q", a.names.AuthInfo)
	for _, field := range []struct {
		isSet                bool
		where, name, instead string
	}{
		{a.cluster.CertificateAuthority != "", cluster, "certificate-authority", "certificate-authority-data"},
		{a.user.ClientCertificate != "", user, "client-certificate", "client-certificate-data"},
		{a.user.ClientKey != "", user, "client-key", "client-key-data"},
		{a.user.TokenFile != "", user, "tokenFile", "token"},
		{a.user.Exec != nil, user, "exec", "token or client-certificate-data"},
		{a.user.AuthProvider != nil, user, "auth-provider", "token or client-certificate-data"},
	} {
		if field.isSet {
			return a.errorf("%s has %s, but Vidra runs no program and reads no file for a kubeconfig: use %s",
				field.where, field.name, field.instead)
		}
	}
	if a.cluster.InsecureSkipTLSVerify && !policy.insecure {
		return a.errorf("%s has insecure-skip-tls-verify, with which anyone on the way can read its credentials: use certificate-authority-data, "+
			"or have the operator run with --%s", cluster, AllowInsecureFlag)
	}
	if a.server.Scheme == "http" && !policy.insecure {
		return a.errorf("%s is reached without TLS, so that anyone on the way can read its credentials: use https, "+
			"or have the operator run with --%s", cluster, AllowInsecureFlag)
	}
	if a.cluster.ProxyURL != "" && !policy.proxies {
		return a.errorf("%s has a proxy-url, through which Vidra can be made to connect to other hosts of its network: remove it, "+
			"or have the operator run with --%s", cluster, AllowProxiesFlag)
	}
	if a.cluster.ProxyURL != "" {
		proxy, err := url.Parse(a.cluster.ProxyURL)
		if err != nil || proxy.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, proxy.Scheme) {
			return a.errorf("the proxy-url of %s must be a URL that begins with http://, https:// or socks5://", cluster)
		}
	}
	if len(a.cluster.CertificateAuthorityData) > 0 && !x509.NewCertPool().AppendCertsFromPEM(a.cluster.CertificateAuthorityData) {
		return a.errorf("certificate-authority-data of %s is no certificate in PEM", cluster)
	}
	if len(a.user.ClientCertificateData) > 0 || len(a.user.ClientKeyData) > 0 {
		if _, err := tls.X509KeyPair(a.user.ClientCertificateData, a.user.ClientKeyData); err != nil {
			return a.errorf("client-certificate-data and client-key-data of %s are no certificate and its key in PEM", user)
		}
	}
	return nil
}

// restConfig returns the configuration of a client that uses the context. It uses no files, flags
// or environment variables.
func (a *access) restConfig(policy policy) (*rest.Config, error) {
	if err := a.refused(policy); err != nil {
		return nil, err
	}
	const name = "destination"
	cluster := a.cluster
	cluster.Server = a.server.String()
	alone := clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{name: &cluster},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: &a.user},
		Contexts:  map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(alone, name, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil { // the error may quote the kubeconfig
		return nil, a.errorf("context %q is contradictory: user %q must have one kind of credentials, "+
			"and act-as if it has another act-as field", a.context, a.names.AuthInfo)
	}
	return config, nil
}
