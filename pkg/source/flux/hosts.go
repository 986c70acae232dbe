package flux

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode"
)

// ServiceHosts are the hosts of the Services of a cluster with the domain cluster.local.
var ServiceHosts = Hosts{"*.*.svc", "*.*.svc.cluster.local"}

// Hosts are the hosts from which artifacts are fetched: names, or names with a port, where * stands for any text without a dot.
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
	return h.names(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
}

// names reports whether the hosts have a name with a port, in any case and with a dot at its end or without one, as the URL of an artifact may
// have it. Letters beyond ASCII are in none: net/http connects to another name then, perhaps with more labels.
func (h Hosts) names(name, port string) bool {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		return false
	}
	address := net.JoinHostPort(name, port)
	return slices.ContainsFunc(h, func(pattern string) bool {
		return pattern == name || pattern == address || matches(pattern, name) || matches(pattern, address)
	})
}

// matches reports whether a name has as many labels as a pattern, and each label matches.
func matches(pattern, name string) bool {
	return slices.EqualFunc(strings.Split(pattern, "."), strings.Split(name, "."), func(want, is string) bool {
		matched, err := path.Match(want, is)
		return err == nil && matched
	})
}

// dial connects to a host. A name must not lead to this machine, or to the link that it is on, such as the metadata service of a cloud: the name
// may be a Service that a user of the cluster created, and its address may change between two lookups. Only hosts that are listed by their
// addresses may have such an address. A proxy, which is no allowed host, may have any.
func (h Hosts) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: answerTimeout}
	name, port, err := net.SplitHostPort(address)
	if err == nil && h.names(name, port) {
		dialer.Control = func(_, to string, _ syscall.RawConn) error { return h.checkAddress(name, to) }
	}
	return dialer.DialContext(ctx, network, address)
}

// checkAddress returns an error if the address that a name has is refused.
func (h Hosts) checkAddress(name, to string) error {
	at, err := netip.ParseAddrPort(to)
	if err != nil {
		return fmt.Errorf("%s has no address: %w", name, err)
	}
	ip := at.Addr().Unmap()
	if (ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified()) && !h.names(ip.String(), fmt.Sprint(at.Port())) {
		return refusal(fmt.Sprintf("%s has the address %s, which is one of the machine that Vidra runs on: the administrators may add the address to --artifact-hosts", name, ip))
	}
	return nil
}
