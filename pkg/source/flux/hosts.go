package flux

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"
)

// ServiceHosts are the hosts of the Services of a cluster with the domain cluster.local.
var ServiceHosts = Hosts{"*.*.svc", "*.*.svc.cluster.local"}

// Hosts are the hosts from which artifacts are fetched: names, or names with a port, in which * stands for any text without a dot.
// Without a port, every port is allowed.
type Hosts []string

// ParseHosts parses hosts that are separated by commas.
func ParseHosts(text string) (Hosts, error) {
	var hosts Hosts
	for pattern := range strings.SplitSeq(text, ",") {
		pattern = strings.ToLower(strings.TrimSpace(pattern))
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || strings.ContainsAny(pattern, "/@ ") {
			return nil, fmt.Errorf("%q is no host: give a name or an address, such as source-controller.flux-system.svc or *.example.com:8080", pattern)
		}
		hosts = append(hosts, pattern)
	}
	return hosts, nil
}

// String returns the hosts as ParseHosts reads them.
func (h Hosts) String() string { return strings.Join(h, ",") }

// Allows reports whether an artifact may be fetched from the host of a URL.
func (h Hosts) Allows(u *url.URL) bool {
	name := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	for _, pattern := range h {
		if pattern == name || pattern == net.JoinHostPort(name, port) || matches(pattern, name) || matches(pattern, net.JoinHostPort(name, port)) {
			return true
		}
	}
	return false
}

// matches reports whether a name has as many labels as a pattern, and each label matches.
func matches(pattern, name string) bool {
	want, is := strings.Split(pattern, "."), strings.Split(name, ".")
	if len(want) != len(is) {
		return false
	}
	for i := range want {
		if matched, err := path.Match(want[i], is[i]); err != nil || !matched {
			return false
		}
	}
	return true
}
