package testenv

import (
	"context"
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
	os.Exit(RunTests(m, func(ctx context.Context) (err error) {
		env, err = Start(ctx, Options{Out: os.Stderr})
		return err
	}, func() error { return env.Stop() }))
}

// admin returns a client of the administrator.
func admin() client.Client {
	c, err := client.New(env.Config, client.Options{})
	if err != nil {
		panic(err)
	}
	return c
}
