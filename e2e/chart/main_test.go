package chart

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

var (
	// cluster is the control plane. It is empty, and TestLifecycle alone uses it.
	cluster = &suite.Cluster{}
	// operatorBinary is the operator, and helmBinary is helm.
	operatorBinary, helmBinary string
	// config is the folder of the checkout with the chart and the kustomizations.
	config string
)

func TestMain(m *testing.M) {
	suite.Main(m, setUp, cluster.Stop)
}

// setUp starts what the tests share.
func setUp(ctx context.Context) (err error) {
	root, err := testenv.Root()
	if err != nil {
		return err
	}
	config = filepath.Join(root, "config")
	if helmBinary, err = testenv.Helm(ctx, testenv.Options{Out: os.Stderr}); err != nil {
		return err
	}
	if operatorBinary, err = suite.BuildOperator(ctx); err != nil {
		return err
	}
	return cluster.Start(ctx, testenv.Options{Out: os.Stderr})
}

// runHelm runs helm on the cluster and returns what it prints: its output, and the warnings.
func runHelm(t *testing.T, args ...string) (printed string, err error) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), helmBinary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.KubeconfigPath,
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// mustHelm is runHelm of a command that succeeds.
func mustHelm(t *testing.T, args ...string) string {
	t.Helper()
	printed, err := runHelm(t, args...)
	require.NoError(t, err, "helm %q: %s", args, printed)
	return printed
}
