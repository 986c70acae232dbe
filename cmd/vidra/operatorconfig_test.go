package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestKubeconfigsOfTheOperator: the kubeconfigs of other clusters are in the namespace of the operator, unless the flag names another one.
func TestKubeconfigsOfTheOperator(t *testing.T) {
	file := filepath.Join(t.TempDir(), "operator.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: config.infrahub.operators.com/v1alpha1\nkind: OperatorConfiguration\n"+
		"kubeconfigNamespace: platform\nallowInsecureKubeconfigs: true\nallowKubeconfigProxies: true\n"), 0o600))
	for want, args := range map[string][]string{
		"vidra-system": nil, "platform": {"--operator-config", file}, "mine": {"--operator-config", file, "--kubeconfig-namespace", "mine"},
	} {
		cmd, operator := &cobra.Command{}, operatorFlags{}
		operator.add(cmd)
		require.NoError(t, cmd.ParseFlags(args))
		options, err := operator.options()
		require.NoError(t, err)
		require.Equal(t, want, options.KubeconfigNamespace)
		require.Equal(t, len(args) > 0, options.Operator.AllowInsecureKubeconfigs)
		require.Equal(t, len(args) > 0, options.Operator.AllowKubeconfigProxies)
	}
}
