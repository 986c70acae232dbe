package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

var (
	// env is the control plane that all tests share, with config/default in it.
	env *testenv.Env
	// admin is a client of its administrator that knows VidraResources.
	admin client.Client
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

// run is TestMain with deferred calls that run before the process ends.
func run(m *testing.M) (code int) {
	defer func() {
		if env == nil {
			return
		}
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping what the tests share:", err)
			code = 1
		}
	}()
	if err := setUp(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "setting up what the tests share:", err)
		return 1
	}
	return m.Run()
}

// setUp starts what the tests share, in order. env.Stop ends all of it.
func setUp(ctx context.Context) (err error) {
	env, err = testenv.Start(ctx, testenv.Options{Out: os.Stderr, Dir: os.Getenv("VIDRA_E2E_DIR")})
	if err != nil {
		return err
	}
	if err := env.Install(ctx); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	admin, err = client.New(env.Config, client.Options{Scheme: scheme})
	return err
}
