package uninstall

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	vidracluster "github.com/vidra-operator/vidra/pkg/cluster"
)

// TestDefinitionIsDeletedWithRemoteObjects deletes the CustomResourceDefinition of VidraResources whose objects are at another URL,
// after their inventories were lost: the objects stay, and no VidraResource ends, before the destination and the parts of the manifests
// can be read, and after that, too.
func TestDefinitionIsDeletedWithRemoteObjects(t *testing.T) {
	suite.AwaitFor(t, 2*suite.Patience, func(c *assert.CollectT) { // a test before may have removed it
		require.NoError(c, env.Install(t.Context()))
	})
	start := func() *testenv.Operator {
		operator, err := env.StartOperator(t.Context(), testenv.OperatorOptions{
			Binary: operatorBinary, Env: []string{"POD_NAMESPACE=" + testenv.OperatorNamespace}, Args: []string{"--kubeconfig-namespace=" + testenv.OperatorNamespace},
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = operator.Stop(10 * time.Second) })
		return operator
	}
	operator := start()
	upstream, err := env.UserConfig("vidra-remote", "system:masters")
	require.NoError(t, err)
	proxy, err := faultproxy.Start(upstream)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	text, err := testenv.Kubeconfig(proxy.Config())
	require.NoError(t, err)
	require.NoError(t, admin.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: "remote", Labels: map[string]string{vidracluster.KubeconfigLabel: ""}},
		StringData: map[string]string{"kubeconfig": string(text)},
	}))
	remote, parts := vidraResource(cluster.NewNamespace(t)), vidraResource(cluster.NewNamespace(t))
	remote.Spec.Destination.Server = proxy.Config().Host
	part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: parts.Name, Name: "part"}, Data: map[string]string{"manifest": parts.Spec.Manifest}}
	require.NoError(t, admin.Create(t.Context(), part.DeepCopy()))
	parts.Spec.Manifest, parts.Spec.ManifestFrom = "", []v1alpha1.ManifestSource{{Kind: "ConfigMap", Name: "part", Key: "manifest"}}
	all := []*v1alpha1.VidraResource{remote, parts}
	for _, v := range all {
		require.NoError(t, admin.Create(t.Context(), v))
		cluster.AwaitReady(t, v.Name)
	}
	withoutPolicy(t, "vidra-definition-deletion", definition())
	require.NoError(t, operator.Stop(10*time.Second))
	for _, v := range all {
		require.NoError(t, admin.Status().Patch(t.Context(), cluster.GetVidraResource(t, v.Name),
			client.RawPatch("application/merge-patch+json", []byte(`{"status":{"managedResources":[],"objects":0}}`))))
	}
	require.NoError(t, admin.Delete(t.Context(), part.DeepCopy()))
	proxy.Down()
	require.NoError(t, admin.Delete(t.Context(), definition()))
	start()
	cluster.AwaitNotReady(t, remote.Name, v1alpha1.ReasonDestinationUnreachable, "as the inventory was lost", "spec.deletionPolicy to Orphan")
	cluster.AwaitNotReady(t, parts.Name, v1alpha1.ReasonSourceUnavailable, "its inventory was lost", "spec.deletionPolicy to Orphan")
	for _, v := range all {
		require.NotEmpty(t, cluster.Get(t, page(v.Name)).GetUID())
	}
	require.NoError(t, proxy.Up())
	require.NoError(t, admin.Create(t.Context(), part.DeepCopy()))
	for _, v := range all {
		cluster.AwaitNotReady(t, v.Name, v1alpha1.ReasonDeletionSuspended, "CustomResourceDefinition "+definition().Name+" is being deleted")
		require.Nil(t, cluster.Get(t, page(v.Name)).GetDeletionTimestamp())
		require.NoError(t, cluster.MergePatch(v, `{"spec":{"deletionPolicy":"Orphan"}}`))
	}
	cluster.AwaitGone(t, definition())
	for _, v := range all {
		cluster.AwaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Left in place", "page")
		require.Nil(t, cluster.Get(t, page(v.Name)).GetDeletionTimestamp())
	}
}
