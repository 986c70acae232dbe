package restricted

import (
	"context"
	"os"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

var (
	// cluster is the control plane, with config/restricted in it.
	cluster = &suite.Cluster{}
	// env and admin are its parts.
	env   *testenv.Env
	admin client.Client
	// operator is the process of Vidra.
	operator *testenv.Operator
)

func TestMain(m *testing.M) {
	suite.Main(m, setUp, func() error { return env.Stop() })
}

// setUp starts what the tests share.
func setUp(ctx context.Context) error {
	binary, err := suite.BuildOperator(ctx)
	if err != nil {
		return err
	}
	if err := cluster.Start(ctx, testenv.Options{Out: os.Stderr}); err != nil {
		return err
	}
	env, admin = cluster.Env, cluster.Admin
	// config/restricted also takes the rights back that config/default gave.
	if err := env.Install(ctx); err != nil {
		return err
	}
	objs, err := env.InstallFrom(ctx, "restricted")
	if err != nil {
		return err
	}
	args, err := suite.FlagsOf(objs)
	if err != nil {
		return err
	}
	operator, err = env.StartOperator(ctx, testenv.OperatorOptions{
		Binary: binary, Args: args, Env: []string{"POD_NAMESPACE=" + testenv.OperatorNamespace},
	})
	return err
}
