package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// SourceControllerVersion is the version of the source-controller of Flux. e2e/sources/controller/go.mod pins it, too, which a test compares.
	SourceControllerVersion = "v1.9.6"
	// SourceControllerVariable is the environment variable that has the tests build the source-controller: ten minutes of processor time, once.
	SourceControllerVariable = "VIDRA_SOURCE_CONTROLLER"
	sourceControllerName     = "source-controller"
	sourceControllerModule   = "github.com/fluxcd/source-controller"
)

// SourceController returns the path of the source-controller of Flux in the user's cache folder; empty if it is missing and
// SourceControllerVariable is not set. It is built from e2e/sources/controller, as the function Assets does it.
func SourceController(ctx context.Context, o Options) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", cacheError("the user's cache folder", err)
	}
	dir := filepath.Join(cache, "vidra", sourceControllerName, fmt.Sprintf("%s-%s-%s", SourceControllerVersion, runtime.GOOS, runtime.GOARCH))
	wanted := []component{{sourceControllerName, SourceControllerVersion, sourceControllerModule}}
	if len(missingFrom(dir, wanted)) > 0 {
		if os.Getenv(SourceControllerVariable) == "" {
			return "", nil
		}
		err = buildInto(ctx, dir, wanted, o.out())
	}
	return filepath.Join(dir, sourceControllerName), err
}

// SourceControllerCRDs returns the folder with the CustomResourceDefinitions of the source-controller.
func SourceControllerCRDs(ctx context.Context) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", sourceControllerModule)
	download.Dir = filepath.Join(root, "e2e", "sources", "controller")
	download.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	text, err := download.Output()
	module := struct{ Dir, Error string }{}
	if decoded := json.Unmarshal(text, &module); decoded != nil || module.Dir == "" {
		return "", fmt.Errorf("downloading %s: %w", sourceControllerModule, errors.Join(err, decoded, errors.New(module.Error)))
	}
	return filepath.Join(module.Dir, "config", "crd", "bases"), nil
}

// SourceControllerOptions are the settings of StartSourceController.
type SourceControllerOptions struct {
	// Binary is the path of the executable, from SourceController.
	Binary string
	// Storage is the folder of the artifacts, and Address is the address of their server. Both stay the same when it is started again.
	Storage, Address string
}

// SourceControllerProcess is a source-controller that runs.
type SourceControllerProcess struct{ process *process }

// sourceControllers counts the started ones.
var sourceControllers atomic.Int64

// StartSourceController starts the source-controller of Flux with the rights of an administrator. It returns when the controller is ready.
func (e *Env) StartSourceController(ctx context.Context, o SourceControllerOptions) (*SourceControllerProcess, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s-%d", sourceControllerName, sourceControllers.Add(1))
	kubeconfig := e.path(name + ".kubeconfig")
	if err := writeKubeconfig(kubeconfig, e.Config); err != nil {
		return nil, err
	}
	health := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := startProcess(e.leash, processOptions{
		name: name, path: o.Binary, log: e.path(name + ".log"),
		env: []string{"KUBECONFIG=" + kubeconfig, "RUNTIME_NAMESPACE=" + OperatorNamespace, "HOME=" + e.path("run")},
		args: []string{
			"--metrics-addr=0", "--health-addr=" + health, "--events-addr=", "--enable-leader-election=false", "--watch-all-namespaces",
			"--storage-path=" + o.Storage, "--storage-addr=" + o.Address, "--storage-adv-addr=" + o.Address,
		},
	})
	if err != nil {
		return nil, err
	}
	started := &SourceControllerProcess{p}
	if err := waitOK(ctx, http.DefaultClient, "http://"+health+"/readyz", 2*time.Minute, p.ended()); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the source-controller: %w; %s", err, p.tail()), started.Kill())
	}
	return started, nil
}

// Kill ends it without warning, as a crash does, and returns when the process is gone.
func (s *SourceControllerProcess) Kill() error { return s.process.kill() }

// Tail returns the last lines of its log.
func (s *SourceControllerProcess) Tail() string { return s.process.tail() }
