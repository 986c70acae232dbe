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
