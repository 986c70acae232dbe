package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	// startTimeout bounds the start of each part of the control plane.
	startTimeout = time.Minute
	// stopTimeout bounds the end of each process.
	stopTimeout = 10 * time.Second
	// poll is how often something that is about to be ready is asked.
	poll = 50 * time.Millisecond
)

// Options of Start and Assets. The zero value is good.
type Options struct {
	// Assets is the folder that holds the executables of the control plane.
	// Defaults to what the function Assets returns.
	Assets string
	// Dir is the folder for data, logs, certificates and kubeconfigs. It is
	// made when missing, emptied of what an earlier Env left, and kept. Defaults
	// to a new temporary folder, which goes away with the Env.
	Dir string
	// Out receives the progress of what takes long. Defaults to nowhere.
	Out io.Writer
	// AllCPUs lets each process of the control plane use all CPUs, as it does in production. By default each
	// uses one, which saves processor time where other processes need the CPUs.
	AllCPUs bool
}

func (o Options) out() io.Writer {
	if o.Out == nil {
		return io.Discard
	}
	return o.Out
}

// Env is a running control plane. Its fields are not changed after Start; its
// methods are safe for concurrent use.
type Env struct {
	// Config reaches the API server as an administrator (system:masters), with
	// no limit on the side of the client.
	Config *rest.Config
	// Dir holds data, logs, certificates and kubeconfigs.
	Dir string
	// AuditLog is the file in which the API server notes every request, one
	// JSON object a line. AuditSince reads it. It is empty if the Env is connected to a
	// cluster whose audit log cannot be read.
	AuditLog string
	// KubeconfigPath is a kubeconfig of the administrator, for kubectl.
	KubeconfigPath string

	// cluster is what the Env is connected to; nil if the control plane is its own.
	cluster *connection
	audit   auditTail
	control *envtest.Environment
	users   sync.Mutex
	leash   *leash
	manager *process
	// helpers run until stopHelpers is called.
	helpers     sync.WaitGroup
	stopHelpers context.CancelFunc
	ownsDir     bool
	stopOnce    sync.Once
	stopError   error

	// mu guards operators.
	mu        sync.Mutex
	operators []*Operator
}

// Start starts etcd, kube-apiserver and kube-controller-manager and returns
// when they can be used: the API server is ready and the ServiceAccount
// "default" exists in the namespace "default". It takes some seconds, and
// minutes when the executables have to be built first (see Assets).
//
// ctx bounds the start, not the life of the Env: call Stop. What is running
// when this process dies without Stop is killed.
func Start(ctx context.Context, o Options) (*Env, error) {
	if o.Assets == "" {
		assets, err := Assets(ctx, o)
		if err != nil {
			return nil, err
		}
		o.Assets = assets
	}
	e, err := newEnv(o)
	if err != nil {
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	if err := e.start(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the control plane: %w", err), e.Stop())
	}
	return e, nil
}

// newEnv makes the folders and the leash.
func newEnv(o Options) (*Env, error) {
	dir, err := newDir(o.Dir)
	if err != nil {
		return nil, err
	}
	e := &Env{Dir: dir, ownsDir: o.Dir == ""}
	e.AuditLog = e.path("audit.log")
	e.KubeconfigPath = e.path("admin.kubeconfig")
	for _, sub := range []string{"etcd", "apiserver", "run"} {
		if err := os.Mkdir(e.path(sub), 0o700); err != nil {
			return nil, err
		}
	}
	remove := ""
	if e.ownsDir {
		remove = dir
	}
	e.leash, err = newLeash(e.path("run"), remove)
	return e, err
}

// markerFile stands in every folder that newDir has emptied or made.
const markerFile = ".vidra-testenv"

// newDir returns the absolute path of an empty folder: a temporary one, or the
// named one. What an earlier Env left there is removed, anything else is not.
func newDir(name string) (string, error) {
	if name == "" {
		return os.MkdirTemp("", "vidra-testenv-")
	}
	dir, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	marker := filepath.Join(dir, markerFile)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(marker); len(entries) > 0 && err != nil {
		return "", fmt.Errorf("%s holds files that are not ours: name an empty folder or a new one", dir)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return "", err
		}
	}
	return dir, os.WriteFile(marker, nil, 0o600)
}

// start brings up the parts, one after the other.
func (e *Env) start(ctx context.Context, o Options) error {
	if err := e.startAPIServer(o); err != nil {
		return err
	}
	if err := writeKubeconfig(e.KubeconfigPath, e.Config); err != nil {
		return err
	}
	if err := e.waitReady(ctx); err != nil {
		return err
	}
	if err := e.startControllerManager(o); err != nil {
		return err
	}
	c, err := newClient(e.Config)
	if err != nil {
		return err
	}
	until, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stopHelpers = stop
	e.helpers.Go(func() { touchForgotten(until, c) })
	return e.waitDefaultServiceAccount(ctx)
}

// waitReady waits until the API server calls itself ready.
func (e *Env) waitReady(ctx context.Context) error {
	c, err := rest.HTTPClientFor(e.Config)
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()
	if err := waitOK(ctx, c, e.Config.Host+"readyz", startTimeout, nil); err != nil {
		return fmt.Errorf("kube-apiserver: %w; %s", err, tailFile(e.path("kube-apiserver.log")))
	}
	return nil
}

// waitDefaultServiceAccount waits for the first thing that only a working
// kube-controller-manager makes.
func (e *Env) waitDefaultServiceAccount(ctx context.Context) error {
	c, err := client.New(e.Config, client.Options{})
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, poll, startTimeout, true, func(ctx context.Context) (bool, error) {
		if !e.manager.running() {
			return false, fmt.Errorf("kube-controller-manager ended: %s", exitString(e.manager.err))
		}
		last = c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "default"}, &corev1.ServiceAccount{})
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the ServiceAccount default/default: %w (%w); %s", err, last, e.manager.tail())
	}
	return nil
}

// Stop ends every process of the Env, operators first, and removes its folder
// unless Options named one. It is idempotent; later calls return what the
// first did. An error names a process that did not end well; none is left
// running. That of a nil Env, which did not start, does nothing.
func (e *Env) Stop() error {
	if e == nil {
		return nil
	}
	e.stopOnce.Do(func() { e.stopError = e.stop() })
	return e.stopError
}

func (e *Env) stop() error {
	var errs []error
	e.mu.Lock()
	operators := e.operators
	e.mu.Unlock()
	for _, op := range operators {
		if op.running() {
			errs = append(errs, op.Stop(stopTimeout))
		}
	}
	if e.stopHelpers != nil {
		e.stopHelpers()
		e.helpers.Wait()
	}
	if e.Connected() {
		errs = append(errs, e.disconnect(context.Background()))
	}
	// What follows keeps nothing that is worth a clean end.
	if e.manager != nil {
		errs = append(errs, e.manager.kill())
	}
	if e.control != nil {
		e.leash.kill(apiServerName)
		e.leash.kill(etcdName)
		// It signals processes that may be gone by now.
		if err := e.control.Stop(); !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	if e.leash != nil {
		e.leash.letGo()
	}
	if e.ownsDir {
		errs = append(errs, os.RemoveAll(e.Dir))
	}
	return errors.Join(errs...)
}

// path returns the path of a file in the folder of the Env.
func (e *Env) path(name string) string {
	return filepath.Join(e.Dir, name)
}

const (
	// firstPort and ports are the range of FreePort. It is below the ranges of which Linux and macOS take a port for a connection, or for a listener that
	// names none.
	firstPort, ports = 10_000, 20_000
)

// givenPorts are the ports that FreePort returned: it may find one again before a process listens on it.
var givenPorts sync.Map

// FreePort returns a TCP port on the loopback address that no process listened on
// a moment ago, that no connection takes, and that it did not return before.
func FreePort() (int, error) {
	for {
		port := firstPort + rand.IntN(ports) //nolint:gosec // no secret
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("finding a free port: %w", err)
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("finding a free port: %w", err)
		}
		if _, given := givenPorts.LoadOrStore(port, true); !given {
			return port, nil
		}
	}
}
