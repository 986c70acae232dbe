package policies

import (
	"context"
	"os"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

var (
	// cluster is the control plane, with config/default and the policies warn and stamp in it. TestDeny
	// installs the third one for its time.
	cluster = &suite.Cluster{}
	// env and admin are its parts.
	env   *testenv.Env
	admin client.Client
	// binary is the operator.
	binary string
)

func TestMain(m *testing.M) {
	suite.Main(m, setUp, func() error { return env.Stop() })
}

// setUp starts what the tests share. The operator has the flags of the overlay.
func setUp(ctx context.Context) (err error) {
	if binary, err = suite.BuildOperator(ctx); err != nil {
		return err
	}
	if err := cluster.Start(ctx, testenv.Options{Out: os.Stderr}); err != nil {
		return err
	}
	env, admin = cluster.Env, cluster.Admin
	objs, err := overlay("warn", "stamp")
	if err != nil {
		return err
	}
	if err := testenv.Apply(ctx, env.Config, served(objs)); err != nil {
		return err
	}
	if err := makeKind(ctx); err != nil {
		return err
	}
	args, err := suite.FlagsOf(objs)
	if err != nil {
		return err
	}
	_, err = env.StartOperator(ctx, testenv.OperatorOptions{Binary: binary, Args: args})
	return err
}
