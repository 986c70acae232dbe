package testenv

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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

// SignalPod sends a signal, such as STOP, to the first container of a Pod, on its node.
func (e *Env) SignalPod(ctx context.Context, pod *corev1.Pod, signal string) error {
	if len(pod.Status.ContainerStatuses) == 0 {
		return fmt.Errorf("sending SIG%s to Pod %s: it has no container yet", signal, pod.Name)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	pid, err := e.NodeExec(ctx, pod.Spec.NodeName, "crictl", "inspect", "--output=go-template", "--template={{.info.pid}}", id)
	if err != nil {
		return err
	}
	_, err = e.NodeExec(ctx, pod.Spec.NodeName, "kill", "-"+signal, pid)
	return err
}
