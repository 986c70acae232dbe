package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podTimeout is what the end of a Pod may take, in addition to that of its process.
const podTimeout = 40 * time.Second

// finish waits until the Pod is gone, and ends what belongs to it.
func (d *deployed) finish(ctx context.Context, err error) error {
	defer close(d.done)
	defer close(d.forwarding)
	if err == nil && d.pod != nil {
		err = d.awaitPodGone(ctx)
	}
	if d.own {
		err = errors.Join(err, d.env.cluster.client.Delete(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.key.Namespace, Name: d.key.Name},
		}, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	return err
}

// awaitPodGone waits until the Pod is deleted. It returns an error when the operator ended with
// a code other than 0.
func (d *deployed) awaitPodGone(ctx context.Context) error {
	return d.awaitPodIs(ctx, "gone", func(pod *corev1.Pod) bool {
		for _, status := range pod.Status.ContainerStatuses {
			if ended := status.State.Terminated; ended != nil && ended.ExitCode != 0 && ended.Signal == 0 {
				d.err = fmt.Errorf("the operator ended with code %d (%s)", ended.ExitCode, ended.Reason)
			}
		}
		return false
	})
}

// awaitNoPods waits until a Deployment has no Pods, not even terminating ones.
func (e *Env) awaitNoPods(ctx context.Context, deployment client.ObjectKey) error {
	ctx, cancel := context.WithTimeout(ctx, 2*podTimeout)
	defer cancel()
	d := &appsv1.Deployment{}
	if err := e.cluster.client.Get(ctx, deployment, d); err != nil {
		return err
	}
	for {
		all := &corev1.PodList{}
		err := e.cluster.client.List(ctx, all, client.InNamespace(deployment.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels))
		if err == nil && len(all.Items) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until Deployment %s has no Pods: %w: %d are left", deployment, errors.Join(err, ctx.Err()), len(all.Items))
		case <-time.After(poll):
		}
	}
}

// awaitTerminating waits until the Pod is being deleted, so that its container is not started again.
func (d *deployed) awaitTerminating(ctx context.Context) error {
	return d.awaitPodIs(ctx, "terminating", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// awaitPodIs waits until the Pod is gone or in a state.
func (d *deployed) awaitPodIs(ctx context.Context, state string, is func(*corev1.Pod) bool) error {
	for {
		pod := &corev1.Pod{}
		err := d.env.cluster.client.Get(ctx, client.ObjectKeyFromObject(d.pod), pod)
		if apierrors.IsNotFound(err) || err == nil && (pod.UID != d.pod.UID || is(pod)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until Pod %s is %s: %w", d.pod.Name, state, errors.Join(err, ctx.Err()))
		case <-time.After(poll):
		}
	}
}

// clearLease takes the Lease from an operator that was killed, so that the next one need not
// wait until it has expired.
func (e *Env) clearLease(ctx context.Context, namespace string) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName}}
	err := e.cluster.client.Patch(ctx, lease, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"holderIdentity":""}}`)))
	return client.IgnoreNotFound(err)
}

// leaseName is the name of the Lease of the operator, see cmd/operator.
const leaseName = "vidra-operator.infrahub.operators.com"

// followLog writes what a Pod prints to a file, until done is closed.
func (e *Env) followLog(ctx context.Context, pod *corev1.Pod, path string, done <-chan struct{}, tee io.Writer) error {
	clientset, err := kubernetes.NewForConfig(e.Config)
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { <-done; stop() }()
	stream, err := clientset.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Follow: true}).Stream(following)
	if err != nil {
		stop()
		return fmt.Errorf("following the log of Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	log, err := os.Create(path)
	if err != nil {
		stop()
		return err
	}
	var out io.Writer = log
	if tee != nil {
		out = io.MultiWriter(log, tee)
	}
	go func() {
		_, _ = io.Copy(out, stream) // it ends with the Pod
		_ = log.Close()
	}()
	return nil
}

// metricsReaderName is the name of the account that reads metrics.
const metricsReaderName = "vidra-e2e-metrics"

// metricsReader returns the account that reads metrics, and its rights.
func metricsReader() []client.Object {
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: metricsReaderName}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: metricsReaderName},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "vidra-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: OperatorNamespace, Name: metricsReaderName}},
		},
	}
}

// metricsToken returns a token that may read the metrics of the installed operator.
func (e *Env) metricsToken(ctx context.Context) (string, error) {
	for _, o := range metricsReader() {
		if err := e.cluster.client.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return "", err
		}
	}
	return e.token(ctx, OperatorNamespace, metricsReaderName)
}
