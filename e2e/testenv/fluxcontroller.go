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
	"slices"
	"sync/atomic"
	"time"
)

// FluxVariable is the environment variable that has the tests build the controllers of Flux: 16 minutes of processor time, once.
const FluxVariable = "VIDRA_SOURCE_CONTROLLER"

// FluxController is a controller of Flux that tests run.
type FluxController struct {
	// name of the program, and Version. The go.mod in folder, below e2e, pins the version, too, which a test compares.
	name, Version, folder string
	// flags are its own flags, beside those that all controllers have.
	flags []string
}

// The controllers of Flux.
var (
	SourceController    = FluxController{name: "source-controller", Version: "v1.9.6", folder: "sources/controller"}
	KustomizeController = FluxController{name: "kustomize-controller", Version: "v1.9.6", folder: "sources/kustomizecontroller", flags: []string{"--no-remote-bases"}}
	fluxControllers     = []FluxController{SourceController, KustomizeController}
)

func (f FluxController) module() string { return "github.com/fluxcd/" + f.name }

func (f FluxController) String() string { return f.name + " of Flux" }

// Path returns the path of the program in the user's cache folder; empty if it is missing and FluxVariable is not set. It is
// built from its folder, as the function Assets does it.
func (f FluxController) Path(ctx context.Context, o Options) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", cacheError("the user's cache folder", err)
	}
	dir := filepath.Join(cache, "vidra", f.name, fmt.Sprintf("%s-%s-%s", f.Version, runtime.GOOS, runtime.GOARCH))
	wanted := []component{{f.name, f.Version, f.module()}}
	if len(missingFrom(dir, wanted)) > 0 {
		if os.Getenv(FluxVariable) == "" {
			return "", nil
		}
		err = buildInto(ctx, dir, wanted, o.out())
	}
	return filepath.Join(dir, f.name), err
}

// CRDs returns the folder with the CustomResourceDefinitions of the controller.
func (f FluxController) CRDs(ctx context.Context) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", f.module())
	download.Dir = filepath.Join(root, "e2e", f.folder)
	download.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	text, err := download.Output()
	module := struct{ Dir, Error string }{}
	if decoded := json.Unmarshal(text, &module); decoded != nil || module.Dir == "" {
		return "", fmt.Errorf("downloading %s: %w", f.module(), errors.Join(err, decoded, errors.New(module.Error)))
	}
	return filepath.Join(module.Dir, "config", "crd", "bases"), nil
}

// FluxProcess is a controller of Flux that runs.
type FluxProcess struct{ process *process }

// fluxProcesses counts the started ones.
var fluxProcesses atomic.Int64

// StartFlux starts a controller of Flux, whose program is binary, with the rights of an administrator. It returns when the controller is ready.
func (e *Env) StartFlux(ctx context.Context, f FluxController, binary string, flags ...string) (*FluxProcess, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s-%d", f.name, fluxProcesses.Add(1))
	kubeconfig := e.path(name + ".kubeconfig")
	if err := writeKubeconfig(kubeconfig, e.Config); err != nil {
		return nil, err
	}
	health := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := startProcess(e.leash, processOptions{
		name: name, path: binary, log: e.path(name + ".log"),
		env: []string{"KUBECONFIG=" + kubeconfig, "RUNTIME_NAMESPACE=" + OperatorNamespace, "HOME=" + e.path("run")},
		args: slices.Concat([]string{
			"--metrics-addr=0", "--health-addr=" + health, "--events-addr=", "--enable-leader-election=false", "--watch-all-namespaces",
		}, f.flags, flags),
	})
	if err != nil {
		return nil, err
	}
	started := &FluxProcess{p}
	if err := waitOK(ctx, http.DefaultClient, "http://"+health+"/readyz", 2*time.Minute, p.ended()); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the %s: %w; %s", f, err, p.tail()), started.Kill())
	}
	return started, nil
}

// Kill ends it without warning, as a crash does, and returns when the process is gone.
func (f *FluxProcess) Kill() error { return f.process.kill() }

// Tail returns the last lines of its log.
func (f *FluxProcess) Tail() string { return f.process.tail() }
