package testenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// OperatorNamespace is the namespace that config/default installs into.
	OperatorNamespace = "vidra-system"
	// OperatorServiceAccount is the ServiceAccount that the operator runs as.
	OperatorServiceAccount = "vidra-operator"

	// startAttempts is the number of starts of an operator, each with other ports: another process may take a free port
	// before the operator listens at it.
	startAttempts = 3
)

// OperatorOptions says which operator StartOperator starts, and how.
type OperatorOptions struct {
	// Binary is the path of the executable, for instance from BuildOperator.
	// Required.
	Binary string
	// Namespace and ServiceAccount that it runs as. Default to
	// OperatorNamespace and OperatorServiceAccount, which Install makes.
	Namespace, ServiceAccount string
	// Config is how it reaches the API server. Defaults to the rights of the
	// ServiceAccount.
	Config *rest.Config
	// Args are added to those that StartOperator passes.
	Args []string
	// Env is added to the environment, as "KEY=value".
	Env []string
	// Out receives what the operator prints, besides its log file. Defaults to
	// nowhere.
	Out io.Writer
	// ReadyTimeout bounds the wait until it is ready. Defaults to one minute.
	ReadyTimeout time.Duration
}

// Operator is an operator that runs: as a process of its own, or in a Pod if the Env is connected
// to a cluster.
type Operator struct {
	// PID is the id of its process; 0 in a Pod.
	PID int
	// Log is the file that holds what it prints.
	Log string
	// MetricsURL is where it serves its metrics, over plain HTTP.
	MetricsURL string
	// HealthURL is where /healthz and /readyz are.
	HealthURL string

	runner runner
}

// runner is what runs an operator.
type runner interface {
	// stop ends it in order, and kill at once; both return when it is gone.
	stop(timeout time.Duration) error
	kill() error
	// ended is closed when it has ended; failure is how, and valid from then on.
	ended() <-chan struct{}
	failure() error
	// tail returns the last lines of its log.
	tail() string
}

// StartOperator starts an operator with the rights of its ServiceAccount and
// returns when /readyz says 200. When it ends before, or takes too long, the
// error holds the end of its log and nothing is left running. An operator whose port another process
// has taken meanwhile is started again with other ports.
//
// If the Env is connected to a cluster, the operator runs there: as the Deployment that is
// installed, or with Args, Env or another account as a Deployment like that one.
//
// ctx bounds the start, not the life of the operator: call Operator.Stop, or
// Env.Stop, which stops it too.
func (e *Env) StartOperator(ctx context.Context, o OperatorOptions) (*Operator, error) {
	o.Namespace, o.ServiceAccount = cmp.Or(o.Namespace, OperatorNamespace), cmp.Or(o.ServiceAccount, OperatorServiceAccount)
	o.ReadyTimeout = cmp.Or(o.ReadyTimeout, time.Minute)
	if e.Connected() {
		return e.deploy(ctx, o)
	}
	kubeconfig, err := e.kubeconfigOf(ctx, o)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		op, err := e.launch(o, kubeconfig)
		if err != nil {
			return nil, err
		}
		if err = waitOK(ctx, http.DefaultClient, op.HealthURL+"/readyz", o.ReadyTimeout, op.Done()); err == nil {
			return op, nil
		}
		if attempt < startAttempts && !op.running() && strings.Contains(op.runner.tail(), syscall.EADDRINUSE.Error()) {
			continue
		}
		return nil, errors.Join(fmt.Errorf("starting %s: %w; %s", o.Binary, err, op.runner.tail()), op.Kill())
	}
}

// kubeconfigOf makes the kubeconfig of an operator.
func (e *Env) kubeconfigOf(ctx context.Context, o OperatorOptions) (string, error) {
	if o.Config == nil {
		return e.ServiceAccountKubeconfig(ctx, o.Namespace, o.ServiceAccount)
	}
	e.mu.Lock()
	name := fmt.Sprintf("operator-%d", len(e.operators)+1)
	e.mu.Unlock()
	return e.WriteKubeconfig(name, o.Config)
}

// launch starts the process and registers it for Env.Stop.
func (e *Env) launch(o OperatorOptions, kubeconfig string) (*Operator, error) {
	metrics, err := FreePort()
	if err != nil {
		return nil, err
	}
	health, err := FreePort()
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	name := fmt.Sprintf("operator-%d", len(e.operators)+1)
	p, err := startProcess(e.leash, processOptions{
		name: name,
		path: o.Binary,
		log:  e.path(name + ".log"),
		tee:  o.Out,
		env:  append([]string{"POD_NAMESPACE=" + o.Namespace}, o.Env...),
		args: append([]string{
			"--kubeconfig=" + kubeconfig,
			fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", metrics),
			"--metrics-secure=false",
			fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", health),
			"--backstop-interval=0", // it comes at any time, and tests count requests
			"--leader-elect=false",
		}, o.Args...),
	})
	if err != nil {
		return nil, err
	}
	op := &Operator{
		PID:        p.cmd.Process.Pid,
		Log:        p.log,
		MetricsURL: fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics),
		HealthURL:  fmt.Sprintf("http://127.0.0.1:%d", health),
		runner:     p,
	}
	e.operators = append(e.operators, op)
	return op, nil
}

// Stop sends SIGTERM and waits. It returns an error when the operator had ended
// before, ends with a code other than 0 (the race detector does that, too), or
// takes longer than the timeout; then it is killed.
func (o *Operator) Stop(timeout time.Duration) error {
	return o.runner.stop(timeout)
}

// Kill ends the operator without warning, as a crash does, and returns when the
// process is gone.
func (o *Operator) Kill() error {
	return o.runner.kill()
}

// Done returns a channel that is closed when the process has ended.
func (o *Operator) Done() <-chan struct{} {
	return o.runner.ended()
}

// Err returns nil while the operator runs and after it ended with code 0, and
// else how it ended.
func (o *Operator) Err() error {
	if o.running() {
		return nil
	}
	return o.runner.failure()
}

func (o *Operator) running() bool {
	return isOpen(o.runner.ended())
}

// isOpen reports whether a channel is not closed: the operator or process, whose end closes it, runs.
func isOpen(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return false
	default:
		return true
	}
}
