package watches

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

var (
	// env is the control plane that all tests share.
	env *testenv.Env
	// admin is a client of its administrator.
	admin client.Client
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	testenv.ParseFlags()
	os.Exit(run(m))
}

// run is TestMain with deferred calls that run before the process ends.
func run(m *testing.M) (code int) {
	if err := setUp(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "setting up what the tests share:", err)
		return 1
	}
	before := goleak.IgnoreCurrent() // what the control plane needs
	code = m.Run()
	// The clients of the tests leave idle connections; everything else has ended
	// with the registries.
	leaks := goleak.Find(before,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http/internal/http2.(*ClientConn).readLoop"),
	)
	if err := errors.Join(leaks, env.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, "when all tests had ended:", err)
		return 1
	}
	return code
}

func setUp(ctx context.Context) (err error) {
	control := &suite.Cluster{}
	err = control.Start(ctx, testenv.Options{Out: os.Stderr, Dir: os.Getenv("VIDRA_E2E_DIR")})
	env, admin = control.Env, control.Admin
	return err
}
