package testenv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConnectOptions say which cluster Connect connects to.
type ConnectOptions struct {
	// Kubeconfig is the path of the kubeconfig of an administrator. Required.
	Kubeconfig string
	// AuditLog is the file in which the API server of the cluster notes its requests by
	// AuditPolicy. Defaults to none.
	AuditLog string
	// NodeShell is the command that runs a command on a node: the name of the node and the
	// command are added, as in `docker exec`. Defaults to none.
	NodeShell []string
}

// connection is a cluster in which Vidra is installed.
type connection struct {
	ConnectOptions
	client client.Client
	// replicas and args are those that the installed Deployment had at first.
	replicas int32
	args     []string
	// metricsToken authenticates at the metrics of the installed operator.
	metricsToken string
}

// Connect returns an Env for a cluster that runs already, and in which Vidra is installed as
// config/default does. StartOperator starts the installed operator there. Stop deletes what
// the Env made, except the objects of tests, and leaves the cluster running.
func Connect(ctx context.Context, o ConnectOptions) (*Env, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", o.Kubeconfig, err)
	}
	if err := rest.LoadTLSFiles(config); err != nil { // kubeconfigs that are made from it hold them
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", o.Kubeconfig, err)
	}
	config.QPS = -1
	given.Store(rand.Int64N(9000) + 1000)
	dir, err := os.MkdirTemp("", "vidra-testenv-")
	if err != nil {
		return nil, err
	}
	e := &Env{
		Config: config, Dir: dir, ownsDir: true, AuditLog: o.AuditLog, KubeconfigPath: o.Kubeconfig,
		cluster: &connection{ConnectOptions: o},
	}
	if err := e.connect(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connecting to the cluster at %s: %w", config.Host, err), e.Stop())
	}
	return e, nil
}

// connect makes the client, and reads what is installed.
func (e *Env) connect(ctx context.Context) (err error) {
	if e.cluster.client, err = Client(e.Config); err != nil {
		return err
	}
	installed, err := e.installedOperator(ctx)
	if err != nil {
		return err
	}
	e.cluster.replicas, e.cluster.args = *installed.Spec.Replicas, installed.Spec.Template.Spec.Containers[0].Args
	if e.cluster.metricsToken, err = e.metricsToken(ctx); err != nil {
		return err
	}
	until, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stopHelpers = stop
	e.helpers.Go(func() { touchForgotten(until, e.cluster.client) })
	return nil
}

// Connected reports whether the Env is connected to a cluster, rather than running a control
// plane of its own.
func (e *Env) Connected() bool { return e.cluster != nil }

// disconnect deletes what the Env made in the cluster, and gives the installed operator the
// replicas and arguments that it had.
func (e *Env) disconnect(ctx context.Context) error {
	if e.cluster.metricsToken == "" { // it did not connect
		return nil
	}
	errs := []error{e.configure(ctx, e.cluster.replicas, e.cluster.args)}
	for _, o := range metricsReader() {
		errs = append(errs, client.IgnoreNotFound(e.cluster.client.Delete(ctx, o)))
	}
	return errors.Join(errs...)
}

// CanReachNodes reports whether NodeExec works.
func (e *Env) CanReachNodes() bool { return e.Connected() && len(e.cluster.NodeShell) > 0 }
