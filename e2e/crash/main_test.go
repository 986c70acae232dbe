package crash

import (
	"context"
	"os"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

var (
	// env is the control plane, with config/default in it.
	env *testenv.Env
	// admin is a client of its administrator that knows VidraResources.
	admin client.Client
	// operatorBinary is the operator. It is built without the race detector, which
	// cannot report what it found in a process that is killed, and slows the start.
	operatorBinary string
)

func TestMain(m *testing.M) {
	suite.Main(m, setUp, func() error { return env.Stop() })
}

func setUp(ctx context.Context) (err error) {
	if operatorBinary, err = testenv.BuildOperator(ctx, os.Stderr, false); err != nil {
		return err
	}
	control := &suite.Cluster{}
	if err := control.Start(ctx, testenv.Options{Out: os.Stderr, Dir: os.Getenv("VIDRA_E2E_DIR")}); err != nil {
		return err
	}
	env, admin = control.Env, control.Admin
	return env.Install(ctx)
}
