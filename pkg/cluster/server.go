package cluster

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

// defaultPorts are the ports that a URL of a scheme may leave out.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

var errServer = errors.New("the URL of the API server is invalid: write it like https://host:port")

// NormalizeServer returns the URL of an API server in the form for comparisons: scheme and host in lower case, without
// default port and trailing slash. The path is kept. The error describes an invalid URL without quoting parts that may be
// secret.
func NormalizeServer(server string) (string, error) {
	u, err := parseServer(server)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// MayResolveTo reports whether Destinations.Resolve may return name for a URL.
func MayResolveTo(server, name string) bool {
	u, err := parseServer(server)
	if err != nil {
		return false
	}
	return u.String() == name || originOf(u) == name || u.Path == "" && strings.HasPrefix(name, u.String()+"/")
}

// parseServer is NormalizeServer for callers that need the parts of the URL.
func parseServer(server string) (*url.URL, error) {
	u, err := url.Parse(server)
	if err != nil { // the error quotes the URL, which may hold a password
		return nil, errServer
	}
	port, isHTTP := defaultPorts[u.Scheme]
	switch {
	case !isHTTP || u.Hostname() == "":
		return nil, errServer
	case u.User != nil:
		return nil, errors.New("the URL of the API server must not hold a user or a password: credentials are in a kubeconfig")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the URL of the API server must not have a query or a fragment")
	}
	escaped := strings.TrimRight(u.EscapedPath(), "/")
	path, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, errors.New("the path in the URL of the API server cannot be read")
	}
	host := strings.ToLower(u.Hostname())
	switch {
	case u.Port() != "" && u.Port() != port:
		host = net.JoinHostPort(host, u.Port())
	case strings.Contains(host, ":"): // IPv6
		host = "[" + host + "]"
	}
	return &url.URL{Scheme: u.Scheme, Host: host, Path: path, RawPath: escaped}, nil
}

// originOf returns the URL of an API server without its path.
func originOf(server *url.URL) string { return server.Scheme + "://" + server.Host }
