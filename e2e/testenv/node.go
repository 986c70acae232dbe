package testenv

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NodeExec runs a command on a node of the cluster that the Env is connected to, as root, and
// returns what it printed.
func (e *Env) NodeExec(ctx context.Context, node string, command ...string) (string, error) {
	if !e.CanReachNodes() {
		return "", errors.New("running a command on a node: no shell of nodes is known")
	}
	line := slices.Concat(e.cluster.NodeShell, []string{node}, command)
	out, err := exec.CommandContext(ctx, line[0], line[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("running %q: %w: %s", line, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// errNotRunning is why a Pod gets no signal.
var errNotRunning = errors.New("its container does not run")

// SignalPod sends a signal, such as STOP, to the first container of a Pod as it runs now, on its node.
func (e *Env) SignalPod(ctx context.Context, pod *corev1.Pod, signal string) error {
	live := &corev1.Pod{}
	if err := e.cluster.client.Get(ctx, client.ObjectKeyFromObject(pod), live); err != nil {
		return fmt.Errorf("sending SIG%s to Pod %s: %w", signal, pod.Name, err)
	}
	if len(live.Status.ContainerStatuses) == 0 || live.Status.ContainerStatuses[0].State.Running == nil {
		return fmt.Errorf("sending SIG%s to Pod %s: %w: %+v", signal, pod.Name, errNotRunning, live.Status.ContainerStatuses)
	}
	_, id, _ := strings.Cut(live.Status.ContainerStatuses[0].ContainerID, "://")
	pid, err := e.NodeExec(ctx, live.Spec.NodeName, "crictl", "inspect", "--output=go-template", "--template={{.info.pid}}", id)
	if err != nil {
		return err
	}
	if number, err := strconv.Atoi(pid); err != nil || number < 2 { // 0 would be the process that sends it
		return fmt.Errorf("sending SIG%s to Pod %s: its container has no process, but %q", signal, pod.Name, pid)
	}
	_, err = e.NodeExec(ctx, live.Spec.NodeName, "kill", "-"+signal, pid)
	return err
}
