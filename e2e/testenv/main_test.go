package testenv

import (
	"context"
	"fmt"
	"os"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"
)

// env is the control plane of this test binary.
var env *Env

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	if os.Getenv(pretendEnv) != "" {
		pretendOperator()
	}
	os.Exit(run(m))
}

// run is TestMain with deferred calls that run before the process ends.
func run(m *testing.M) (code int) {
	var err error
	env, err = Start(context.Background(), Options{Out: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	return m.Run()
}

// admin returns a client of the administrator.
func admin() client.Client {
	c, err := client.New(env.Config, client.Options{})
	if err != nil {
		panic(err)
	}
	return c
}
