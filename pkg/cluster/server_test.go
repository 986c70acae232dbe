package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNormalizeServer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ server, want string }{
		"as it is":               {"https://example.com:6443", "https://example.com:6443"},
		"case":                   {"HTTPS://Example.COM:6443", "https://example.com:6443"},
		"default port of https":  {"https://example.com:443", "https://example.com"},
		"default port of http":   {"http://example.com:80/", "http://example.com"},
		"the port of the other":  {"http://example.com:443", "http://example.com:443"},
		"slashes at the end":     {"https://example.com//", "https://example.com"},
		"the path keeps case":    {"https://example.com/k8s/clusters/C-1/", "https://example.com/k8s/clusters/C-1"},
		"an escaped path":        {"https://example.com/a%2Fb/", "https://example.com/a%2Fb"},
		"IPv6":                   {"https://[2001:DB8::1]:443", "https://[2001:db8::1]"},
		"IPv6 with a port":       {"https://[2001:db8::1]:6443/", "https://[2001:db8::1]:6443"},
		"no scheme":              {"example.com:6443", ""},
		"only a host":            {"example.com", ""},
		"no host":                {"https://", ""},
		"only a port":            {"https://:6443", ""},
		"empty":                  {"", ""},
		"another scheme":         {"ftp://example.com", ""},
		"a port that is none":    {"https://example.com:s3cr3t", ""},
		"a password":             {"https://me:s3cr3t@example.com", ""},
		"a password, no scheme":  {"me:s3cr3t@example.com", ""},
		"a query":                {"https://example.com?token=s3cr3t", ""},
		"a fragment":             {"https://example.com#s3cr3t", ""},
		"a path that is escaped": {"https://example.com/%zz", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := NormalizeServer(tc.server)
			require.Equal(t, tc.want, got)
			if tc.want == "" {
				require.ErrorContains(t, err, "URL of the API server")
				require.NotContains(t, err.Error(), confidential)
				return
			}
			require.NoError(t, err)
			again, err := NormalizeServer(got)
			require.NoError(t, err)
			require.Equal(t, got, again)
		})
	}
}
