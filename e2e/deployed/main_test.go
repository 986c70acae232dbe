package deployed

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

var (
	// cluster is the one that the operator is deployed in.
	cluster = &suite.Cluster{}
	// deployment names the Deployment of the operator, and lease its Lease.
	deployment = client.ObjectKey{Namespace: testenv.OperatorNamespace, Name: testenv.OperatorDeployment}
	lease      = client.ObjectKey{Namespace: testenv.OperatorNamespace, Name: "vidra-operator.infrahub.operators.com"}
)

// page makes a VidraResource with one ConfigMap, which it returns.
func page(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	ns := cluster.NewNamespace(t)
	cluster.NewVidraResource(t, ns, suite.Greeting("page", "hello"))
	cluster.AwaitReady(t, ns)
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}}
}

// editAndAwait edits the ConfigMap, and returns how long the edit stood.
func editAndAwait(t *testing.T, page *corev1.ConfigMap) time.Duration {
	t.Helper()
	start := time.Now()
	require.NoError(t, cluster.MergePatch(page, `{"data":{"greeting":"edited"}}`))
	awaitHealed(t, page)
	return time.Since(start)
}

// awaitHealed waits until the ConfigMap is as its manifest.
func awaitHealed(t *testing.T, page *corev1.ConfigMap) {
	t.Helper()
	cluster.AwaitObject(t, 2*suite.Patience, page, func(c *assert.CollectT) {
		live := &corev1.ConfigMap{}
		require.NoError(c, cluster.Admin.Get(context.Background(), client.ObjectKeyFromObject(page), live))
		require.Equal(c, map[string]string{"greeting": "hello"}, live.Data)
	}, "the edit is reverted")
}

func TestMain(m *testing.M) {
	if !suite.Deployed() {
		fmt.Println("no test runs: no operator is deployed, because " + suite.KubeconfigVariable + " is not set")
		os.Exit(0)
	}
	suite.Main(m, func(ctx context.Context) error { return cluster.Start(ctx, testenv.Options{}) }, cluster.Stop)
}

// replicas has the operator run in n Pods, and returns them when they are ready.
func replicas(t *testing.T, n int32) []corev1.Pod {
	t.Helper()
	require.NoError(t, cluster.MergePatch(installed(), `{"spec":{"replicas":%d}}`, n))
	var ready []corev1.Pod
	suite.AwaitFor(t, 2*suite.Patience, func(c *assert.CollectT) {
		ready = pods(c)
		require.Len(c, ready, int(n))
		for i := range ready {
			require.True(c, isReady(&ready[i]), "Pod %s", ready[i].Name)
		}
	}, "%d Pods are ready", n)
	return ready
}

// installed is the Deployment of the operator.
func installed() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name}}
}

// limitMemory sets the memory limit of the operator, and returns the one from before.
func limitMemory(t *testing.T, limit string) (before string) {
	t.Helper()
	d := installed()
	require.NoError(t, cluster.Admin.Get(context.Background(), deployment, d))
	container := d.Spec.Template.Spec.Containers[0]
	require.NoError(t, cluster.Edit(installed(), types.StrategicMergePatchType, fmt.Sprintf(
		`{"spec":{"template":{"spec":{"containers":[{"name":%q,"resources":{"requests":{"memory":%q},"limits":{"memory":%[2]q}}}]}}}}`,
		container.Name, limit)))
	return container.Resources.Limits.Memory().String()
}

// awaitRollout waits until the Pods of the operator are as its Deployment is now.
func awaitRollout(t *testing.T) {
	t.Helper()
	suite.AwaitFor(t, 2*suite.Patience, func(c *assert.CollectT) {
		d := installed()
		require.NoError(c, cluster.Admin.Get(context.Background(), deployment, d))
		require.Equal(c, d.Generation, d.Status.ObservedGeneration)
		require.Equal(c, *d.Spec.Replicas, d.Status.UpdatedReplicas)
		require.Equal(c, *d.Spec.Replicas, d.Status.AvailableReplicas)
		require.Equal(c, *d.Spec.Replicas, d.Status.Replicas)
		require.Len(c, pods(c), int(*d.Spec.Replicas))
	}, "the new Pods are ready")
}

// pods are the Pods of the operator that do not terminate.
func pods(t require.TestingT) []corev1.Pod {
	found, err := cluster.PodsOf(context.Background(), deployment)
	require.NoError(t, err)
	return found
}

// reread returns a Pod as it is now.
func reread(t require.TestingT, pod *corev1.Pod) *corev1.Pod {
	live := &corev1.Pod{}
	require.NoError(t, cluster.Admin.Get(context.Background(), client.ObjectKeyFromObject(pod), live))
	return live
}

// restarts is how often the kubelet has started the operator again in a Pod.
func restarts(t require.TestingT, pod *corev1.Pod) int {
	return int(reread(t, pod).Status.ContainerStatuses[0].RestartCount)
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// leader waits until one of two Pods leads, and returns it and the other one.
func leader(t *testing.T, pods []corev1.Pod) (leads, next *corev1.Pod) {
	t.Helper()
	require.Len(t, pods, 2)
	suite.Await(t, func(c *assert.CollectT) {
		leads, next = &pods[0], &pods[1]
		if !leadsNow(c, leads) {
			leads, next = next, leads
		}
		require.True(c, leadsNow(c, leads), "the Lease is held by %q", holder(c))
	}, "a Pod leads")
	return leads, next
}

// leadsNow reports whether a Pod holds the Lease.
func leadsNow(t require.TestingT, pod *corev1.Pod) bool {
	return strings.HasPrefix(holder(t), pod.Name+"_")
}

// holder is who holds the Lease.
func holder(t require.TestingT) string {
	l := &coordinationv1.Lease{}
	require.NoError(t, cluster.Admin.Get(context.Background(), lease, l))
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}
