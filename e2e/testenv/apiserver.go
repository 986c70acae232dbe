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
	if err := e.killAPIServer(); err != nil {
		return fmt.Errorf("restarting kube-apiserver: %w", err)
	}
	if err := e.runAPIServer(); err != nil {
		return fmt.Errorf("restarting kube-apiserver: %w", err)
	}
	return e.waitReady(ctx)
}

// killAPIServer ends kube-apiserver.
func (e *Env) killAPIServer() error {
	e.leash.kill(apiServerName)
	return endedAlready(e.control.ControlPlane.GetAPIServer().Stop())
}

// runAPIServer starts kube-apiserver again.
func (e *Env) runAPIServer() error {
	log, err := os.OpenFile(e.path("kube-apiserver.log"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the process has its own handle
	api := e.control.ControlPlane.GetAPIServer()
	api.Out, api.Err = log, log
	if err := api.Start(); err != nil {
		return fmt.Errorf("%w; %s", err, tailFile(log.Name()))
	}
	return nil
}

// endedAlready drops the error of a signal to a process that has ended.
func endedAlready(err error) error {
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// SaveEtcd keeps a copy of the data of etcd for RestoreEtcd. kube-apiserver is restarted. The rules of
// RestartAPIServer apply.
func (e *Env) SaveEtcd(ctx context.Context) error { return e.exchangeEtcd(ctx, "etcd", "etcd-saved") }

// RestoreEtcd replaces the data of etcd by the copy of SaveEtcd, as after a disaster: every object is as it was then,
// and the resourceVersions are lower.
func (e *Env) RestoreEtcd(ctx context.Context) error {
	return e.exchangeEtcd(ctx, "etcd-saved", "etcd")
}

// exchangeEtcd replaces one folder by a copy of another one while etcd and kube-apiserver do not run.
func (e *Env) exchangeEtcd(ctx context.Context, from, to string) error {
	if e.Connected() {
		return errors.New("exchanging the data of etcd: it is not a process of this machine")
	}
	if err := e.killAPIServer(); err != nil {
		return fmt.Errorf("exchanging the data of etcd: %w", err)
	}
	e.leash.kill(etcdName)
	etcd := e.control.ControlPlane.Etcd
	if err := endedAlready(etcd.Stop()); err != nil {
		return fmt.Errorf("exchanging the data of etcd: %w", err)
	}
	if err := errors.Join(os.RemoveAll(e.path(to)), os.CopyFS(e.path(to), os.DirFS(e.path(from)))); err != nil {
		return fmt.Errorf("exchanging the data of etcd: %w", err)
	}
	log, err := os.OpenFile(e.path("etcd.log"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("exchanging the data of etcd: %w", err)
	}
	defer log.Close() //nolint:errcheck // the process has its own handle
	etcd.Out, etcd.Err = log, log
	if err := etcd.Start(); err != nil {
		return fmt.Errorf("exchanging the data of etcd: %w; %s", err, tailFile(log.Name()))
	}
	if err := e.runAPIServer(); err != nil {
		return fmt.Errorf("exchanging the data of etcd: %w", err)
	}
	return e.waitReady(ctx)
}
