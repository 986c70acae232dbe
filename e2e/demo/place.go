package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// errPlace is what a place fails with while the tour is given on it.
var errPlace = errors.New("the operator ended during the tour")

// place is a cluster that the tour is given on.
type place struct {
	config *rest.Config
	// kubeconfig is the file that kubectl needs to reach it.
	kubeconfig string
	// operator says which process the operator is; nil to ask the cluster.
	operator func(context.Context) (string, error)

	// env and process are set on a control plane of our own.
	env     *testenv.Env
	process *testenv.Operator
}

// theirPlace is the cluster of a kubeconfig.
func theirPlace(kubeconfig string) (*place, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", kubeconfig, err)
	}
	absolute, err := filepath.Abs(kubeconfig)
	return &place{config: config, kubeconfig: absolute}, err
}

// ownPlace starts a control plane, and on it Vidra as a cluster would run it: as
// a process of its own with the rights of its ServiceAccount.
func ownPlace(ctx context.Context, out *printer) (_ *place, err error) {
	out.Heading("A Kubernetes control plane starts on this machine")
	progress := &progress{out: out}
	env, err := testenv.Start(ctx, testenv.Options{Out: progress})
	if err != nil {
		return nil, err
	}
	p := &place{config: env.Config, kubeconfig: env.KubeconfigPath, env: env}
	p.operator = func(context.Context) (string, error) { return fmt.Sprintf("process %d", p.process.PID), nil }
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	kubernetes, err := serverVersion(env.Config)
	if err != nil {
		return nil, err
	}
	out.Line("etcd, kube-apiserver and kube-controller-manager of Kubernetes %s, at %s", kubernetes, env.Config.Host)
	if err := env.Install(ctx); err != nil {
		return nil, err
	}
	out.Line("Vidra is installed: the CustomResourceDefinition and the roles of config/default")
	binary, err := testenv.BuildOperator(ctx, progress, false)
	if err != nil {
		return nil, err
	}
	if p.process, err = env.StartOperator(ctx, testenv.OperatorOptions{Binary: binary}); err != nil {
		return nil, err
	}
	out.Line("The operator is process %d, with the rights of ServiceAccount %s/%s",
		p.process.PID, testenv.OperatorNamespace, testenv.OperatorServiceAccount)
	return p, nil
}

// serverVersion asks an API server for its version.
func serverVersion(config *rest.Config) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", config.Host, err)
	}
	return version.GitVersion, nil
}

// progress prints what testenv says of builds.
type progress struct{ out *printer }

func (p *progress) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		p.out.Line("%s", strings.TrimSpace(line))
	}
	return len(b), nil
}

// watch cancels the tour when the operator ends.
func (p *place) watch(cancel context.CancelCauseFunc) {
	if p.process == nil {
		return
	}
	go func() {
		<-p.process.Done()
		cancel(fmt.Errorf("%w: %w", errPlace, p.process.Stop(0)))
	}()
}

// explain says why a tour failed: because the operator ended, or else with what
// the operator said last.
func (p *place) explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errPlace) {
		return cause
	}
	if p.process == nil {
		return err
	}
	return fmt.Errorf("%w\nthe end of the operator's log:\n%s", err, tail(p.process.Log))
}

// tail is the end of a log.
func tail(path string) string {
	const most = 20
	log, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(log), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// leave removes what the tour made. On a control plane of our own there is no
// need to: all of it goes.
func (p *place) leave(ctx context.Context, t *tour, out *printer) error {
	if p.env != nil {
		return nil
	}
	if ctx.Err() != nil {
		out.Heading("Removing what the tour made; ctrl-C once more leaves it")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := t.Leave(ctx); err != nil {
		return fmt.Errorf("could not leave the cluster as it was: %w", err)
	}
	return nil
}

// close ends what was started.
func (p *place) close() error {
	if p.env == nil {
		return nil
	}
	return p.env.Stop()
}
