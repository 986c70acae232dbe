package restricted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

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
	log.SetLogger(logr.Discard())
	testenv.ParseFlags()
	os.Exit(testenv.RunTests(m, setUp, func() error { return env.Stop() }))
}

// setUp starts what the tests share.
func setUp(ctx context.Context) error {
	binary, err := testenv.BuildOperator(ctx, os.Stderr, suite.Race)
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
	args, err := flagsOf(objs)
	if err != nil {
		return err
	}
	operator, err = env.StartOperator(ctx, testenv.OperatorOptions{
		Binary: binary, Args: args, Env: []string{"POD_NAMESPACE=" + testenv.OperatorNamespace},
	})
	return err
}

// elsewhere are the flags that name what only a Pod has: its addresses, and its Lease.
var elsewhere = []string{"--metrics-bind-address", "--health-probe-bind-address", "--leader-elect"}

// flagsOf are the flags of the Deployment of the operator.
func flagsOf(objs []*unstructured.Unstructured) ([]string, error) {
	for _, o := range objs {
		if o.GetKind() != "Deployment" {
			continue
		}
		d := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
			return nil, fmt.Errorf("read the Deployment of the operator: %w", err)
		}
		var flags []string
	next:
		for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
			for _, not := range elsewhere {
				if strings.HasPrefix(arg, not+"=") {
					continue next
				}
			}
			flags = append(flags, strings.ReplaceAll(arg, "$(POD_NAMESPACE)", testenv.OperatorNamespace))
		}
		return flags, nil
	}
	return nil, errors.New("there is no Deployment of the operator")
}
