package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// operatorPods names the Pods that run the operator, and how often they were
// restarted. It is empty where there are none, or the person may not list them:
// the operator may run outside of the cluster.
func (c *cluster) operatorPods(ctx context.Context) (string, error) {
	pods := &corev1.PodList{}
	if err := c.client.List(ctx, pods, operatorLabel); err != nil {
		return "", nil //nolint:nilerr // who may not list Pods can take the tour all the same
	}
	return describePods(pods.Items), nil
}

// describePods names the Pods that run.
func describePods(pods []corev1.Pod) string {
	var running []string
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}
		restarts := int32(0)
		for _, container := range pod.Status.ContainerStatuses {
			restarts += container.RestartCount
		}
		running = append(running, fmt.Sprintf("Pod %s/%s (%d restarts)", pod.Namespace, pod.Name, restarts))
	}
	slices.Sort(running)
	return strings.Join(running, ", ")
}

// diagnose says why there may be no operator, and what to do.
func (c *cluster) diagnose(ctx context.Context) string {
	deployments := &appsv1.DeploymentList{}
	if err := c.client.List(ctx, deployments, operatorLabel); err != nil {
		return "See whether one runs: " + err.Error()
	}
	if len(deployments.Items) == 0 {
		return "There is no Deployment of it: install it with `kubectl apply -k config/default`"
	}
	d := deployments.Items[0]
	return fmt.Sprintf("%d of %d Pods of Deployment %s/%s are available: see `kubectl --namespace %s describe pods` and the log",
		d.Status.AvailableReplicas, d.Status.Replicas, d.Namespace, d.Name, d.Namespace)
}

// same fails if the operator is another than before.
func (t *tour) same(ctx context.Context, before string) (string, error) {
	now, err := t.operator(ctx)
	if err == nil && now != before {
		err = fmt.Errorf("the operator was %s and is %s: it was restarted", before, now)
	}
	return now, err
}
