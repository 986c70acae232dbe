package uninstall

import (
	"context"
	"os"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

var (
	// cluster is the control plane, with config/default in it.
	cluster = &suite.Cluster{}
	// env and admin are its parts.
	env   *testenv.Env
	admin client.Client
	// operatorBinary is the operator.
	operatorBinary string
)

func TestMain(m *testing.M) {
	suite.Main(m, setUp, func() error { return env.Stop() })
}

// setUp starts the control plane. Each test installs Vidra, and starts its operator.
func setUp(ctx context.Context) (err error) {
	if operatorBinary, err = suite.BuildOperator(ctx); err != nil {
		return err
	}
	if err := cluster.Start(ctx, testenv.Options{Out: os.Stderr}); err != nil {
		return err
	}
	env, admin = cluster.Env, cluster.Admin
	return nil
}
