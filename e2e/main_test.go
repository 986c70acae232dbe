package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

var (
	// cluster is the control plane that all tests share, with config/default in it.
	cluster = &suite.Cluster{}
	// env and admin are its parts.
	env   *testenv.Env
	admin client.Client
	// operator is what all tests are about: a process of its own, with the
	// rights of its ServiceAccount, or the one that is deployed. Tests that stop it or start another one must
	// not call t.Parallel: the go command runs those first, one by one, while
	// the parallel ones wait at their t.Parallel, which is their first line.
	operator *testenv.Operator
	// operatorBinary is the operator, built with the race detector if the tests are. It is empty
	// where the operator is deployed.
	operatorBinary string
)

const (
	// stopTimeout is how long the operator may take to end after SIGTERM.
	stopTimeout = 10 * time.Second
)

func TestMain(m *testing.M) {
	suite.Main(m, setUp, cluster.Stop)
}

// setUp starts what the tests share, in order. cluster.Stop ends all of it.
func setUp(ctx context.Context) (err error) {
	if operatorBinary, err = suite.BuildOperator(ctx); err != nil {
		return err
	}
	if err := cluster.Start(ctx, testenv.Options{Out: os.Stderr, Dir: os.Getenv("VIDRA_E2E_DIR")}); err != nil {
		return err
	}
	env, admin = cluster.Env, cluster.Admin
	if err := env.Install(ctx); err != nil {
		return err
	}
	operator, err = env.StartOperator(ctx, testenv.OperatorOptions{Binary: operatorBinary})
	return err
}

// startOperator starts the operator after killOperator or stopOperator.
func startOperator(t *testing.T) {
	t.Helper()
	started, err := env.StartOperator(context.Background(), testenv.OperatorOptions{Binary: operatorBinary})
	require.NoError(t, err)
	operator = started
}

// killOperator ends the operator as a crash does. When the test ends, one is
// running again.
func killOperator(t *testing.T) {
	t.Helper()
	cluster.NeedsNodes(t)
	startLater(t)
	suite.Kill(t, operator)
}

// stopOperator ends the operator as Kubernetes does. When the test ends, one
// is running again.
func stopOperator(t *testing.T) {
	t.Helper()
	startLater(t)
	require.NoError(t, operator.Stop(stopTimeout))
}

// startLater has an operator running when the test has ended.
func startLater(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		select {
		case <-operator.Done():
			startOperator(t)
		default:
		}
	})
}

// operatorLog is what the running operator has printed.
func operatorLog(t *testing.T) string { return suite.LogOf(t, operator) }
