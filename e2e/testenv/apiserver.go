package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// RestartAPIServer kills kube-apiserver, starts it again at the same address, on the same etcd and with the
// same certificates, and returns when it is ready. Asked to end, it would wait for its clients. They find their connections
// closed and new ones refused meanwhile. It must not be called at the same time as itself or Stop, and not if
// the Env is connected to a cluster.
func (e *Env) RestartAPIServer(ctx context.Context) error {
	if e.Connected() {
		return errors.New("restarting kube-apiserver: it is not a process of this machine")
	}
	log, err := os.OpenFile(e.path("kube-apiserver.log"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("restarting kube-apiserver: %w", err)
	}
	defer log.Close() //nolint:errcheck // the process has its own handle
	api := e.control.ControlPlane.GetAPIServer()
	api.Out, api.Err = log, log
	e.leash.kill(apiServerName)
	// It signals a process that may be gone by now.
	if err := api.Stop(); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("restarting kube-apiserver: %w", err)
	}
	if err := api.Start(); err != nil {
		return fmt.Errorf("restarting kube-apiserver: %w; %s", err, tailFile(log.Name()))
	}
	return e.waitReady(ctx)
}
