package deployed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
)

// TestDrain does what `kubectl drain` does with the node of the operator. The PodDisruptionBudget lets
// it, though there is one replica. The Pod moves to another node, and reverts what was edited meanwhile.
func TestDrain(t *testing.T) {
	nodes := &corev1.NodeList{}
	require.NoError(t, cluster.Admin.List(t.Context(), nodes))
	if len(nodes.Items) < 2 {
		suite.Skip(t, "it drains a node, and the cluster has no other one")
	}
	pod := replicas(t, 1)[0]
	p := page(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}}
	require.NoError(t, cluster.MergePatch(node, `{"spec":{"unschedulable":true}}`))
	t.Cleanup(func() { require.NoError(t, cluster.MergePatch(node, `{"spec":{"unschedulable":null}}`)) })
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	require.NoError(t, cluster.Admin.SubResource("eviction").Create(t.Context(), &pod, eviction))
	cluster.AwaitGone(t, &pod)
	t.Logf("an edit stood for %s", editAndAwait(t, p))
	moved := replicas(t, 1)[0]
	require.NotEqual(t, pod.Spec.NodeName, moved.Spec.NodeName)
}

// TestAPIServerRestarts stops the container of the API server, and edits objects as soon as the API
// server is back. Each edit is reverted, and has its Event.
func TestAPIServerRestarts(t *testing.T) {
	cluster.NeedsNodes(t)
	nodes := &corev1.NodeList{}
	require.NoError(t, cluster.Admin.List(t.Context(), nodes, client.HasLabels{"node-role.kubernetes.io/control-plane"}))
	if len(nodes.Items) != 1 {
		suite.Skip(t, "it restarts the API server, and the cluster has several")
	}
	replicas(t, 1)
	var pages []*corev1.ConfigMap
	for range 5 {
		pages = append(pages, page(t))
	}
	const restart = "crictl stop $(crictl ps --name kube-apiserver --quiet)"
	_, err := cluster.NodeExec(t.Context(), nodes.Items[0].Name, "sh", "-c", restart)
	require.NoError(t, err)
	stopped := time.Now()
	for _, p := range pages {
		suite.AwaitFor(t, 3*suite.Patience, func(c *assert.CollectT) {
			require.NoError(c, cluster.MergePatch(p, `{"data":{"greeting":"edited"}}`))
		}, "the API server is back")
	}
	edited := time.Now()
	for _, p := range pages {
		awaitHealed(t, p)
	}
	t.Logf("the API server was away for %s; the last of %d edits stood for %s", edited.Sub(stopped), len(pages), time.Since(edited))
	for _, p := range pages {
		cluster.AwaitEvent(t, cluster.GetVidraResource(t, p.Namespace), corev1.EventTypeNormal, "DriftCorrected", "", "page")
	}
}
