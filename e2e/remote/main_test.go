package remote

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// site is one of the two control planes.
type site struct{ *suite.Cluster }

var (
	// here has the VidraResources, there the objects.
	here, there = site{&suite.Cluster{}}, site{&suite.Cluster{}}
	// operator runs here. Tests that end it, or measure it, are not parallel: they run
	// before those that are.
	operator *testenv.Operator
	// operatorBinary is the operator, built with the race detector if the tests are.
	operatorBinary string
)

func TestMain(m *testing.M) {
	suite.Main(m, setUp, func() error { return errors.Join(here.Stop(), there.Stop()) })
}

// setUp starts what the tests share.
func setUp(ctx context.Context) (err error) {
	if operatorBinary, err = suite.BuildOperator(ctx); err != nil {
		return err
	}
	if _, err := testenv.Assets(ctx, testenv.Options{Out: os.Stderr}); err != nil {
		return err
	}
	var starting errgroup.Group
	for _, s := range []site{here, there} {
		starting.Go(func() error { return s.Start(ctx, testenv.Options{}) })
	}
	if err := starting.Wait(); err != nil {
		return err
	}
	if err := here.Install(ctx); err != nil {
		return err
	}
	return launch(ctx)
}

// launch starts the operator as its Deployment does, with more flags.
func launch(ctx context.Context, args ...string) (err error) {
	operator, err = here.StartOperator(ctx, testenv.OperatorOptions{
		Binary: operatorBinary, Args: append(args, "--kubeconfig-namespace="+testenv.OperatorNamespace),
	})
	return err
}

// killOperator ends the operator as a crash does. When the test ends, one is running
// again.
func killOperator(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if !running() {
			require.NoError(t, launch(context.Background()))
		}
	})
	suite.Kill(t, operator)
}

func running() bool {
	select {
	case <-operator.Done():
		return false
	default:
		return true
	}
}

// operatorLog is what the running operator has printed.
func operatorLog(t *testing.T) string { return suite.LogOf(t, operator) }
