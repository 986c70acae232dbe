package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKubeconfigNamespace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, flag, own, want string
		known                   bool
	}{
		"default":            {"an author of Secrets elsewhere provides no kubeconfig", "", "vidra-system", "vidra-system", true},
		"default, no Pod":    {"all namespaces must be asked for", "", "", "", false},
		"all":                {"it is asked for", "*", "vidra-system", "", true},
		"another":            {"it is asked for", "clusters", "vidra-system", "clusters", true},
		"another, no Pod":    {"it is asked for", "clusters", "", "clusters", true},
		"all, without a Pod": {"it is asked for", "*", "", "", true},
	}
	for name, tt := range tests {
		namespace, known := kubeconfigNamespace(tt.flag, tt.own)
		require.Equal(t, tt.want, namespace, "%s: %s", name, tt.reason)
		require.Equal(t, tt.known, known, "%s: %s", name, tt.reason)
	}
}

// TestCredentialsNamespace: the limits of the operator hold for the credentials of Infrahub servers, too, and an unknown namespace is not all of
// them.
func TestCredentialsNamespace(t *testing.T) {
	cases := map[string]struct {
		reason, pod string
		args        []string
		want        string
		known       bool
	}{
		"Default":   {"all namespaces", "vidra-system", nil, "", true},
		"Named":     {"as given", "", []string{"--require-service-account", "--infrahub-credentials-namespace=a"}, "a", true},
		"All":       {"the user asked for it", "", []string{"--require-service-account", "--infrahub-credentials-namespace=*"}, "", true},
		"Accounts":  {"its own", "vidra-system", []string{"--require-service-account"}, "vidra-system", true},
		"Limited":   {"its own", "vidra-system", []string{"--namespaces=a"}, "vidra-system", true},
		"Lease":     {"its own, outside of a Pod", "", []string{"--namespaces=a", "--leader-election-namespace=b"}, "b", true},
		"OutOfAPod": {"it has none", "", []string{"--require-service-account"}, "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("POD_NAMESPACE", tc.pod)
			o := &options{}
			require.NoError(t, everyFlag(o).Parse(tc.args))
			got, known := o.credentialsNamespace()
			require.Equal(t, tc.want, got, tc.reason)
			require.Equal(t, tc.known, known, tc.reason)
			if err := o.validate(); known {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "--infrahub-credentials-namespace")
			}
		})
	}
}
