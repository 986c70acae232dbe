package testenv

import (
	"cmp"
	"context"

	"k8s.io/client-go/rest"
)

// LaunchOperator starts an operator as StartOperator does, and returns as soon as the
// process runs, ready or not: for tests that kill it while it starts. ReadyTimeout is
// not used.
func (e *Env) LaunchOperator(ctx context.Context, o OperatorOptions) (*Operator, error) {
	kubeconfig, err := e.ServiceAccountKubeconfig(ctx,
		cmp.Or(o.Namespace, OperatorNamespace), cmp.Or(o.ServiceAccount, OperatorServiceAccount))
	if err != nil {
		return nil, err
	}
	return e.launch(o, kubeconfig)
}

// WriteKubeconfig writes a kubeconfig that reaches an API server as cfg does, for
// instance through a proxy, and returns its path. The name distinguishes it from others of the
// Env; only its owner can read the file.
func (e *Env) WriteKubeconfig(name string, cfg *rest.Config) (string, error) {
	path := e.path(name + ".kubeconfig")
	return path, writeKubeconfig(path, cfg)
}
