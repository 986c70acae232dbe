package uninstall

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestOwnNamespaceIsDeleted deletes the Namespace of Vidra, whose deletion waits for a finalizer. A VidraResource is deleted meanwhile, an
// object leaves the manifest of another one, and a third one has lost its part: nothing is removed, edits are reverted, and the
// status says why. Vidra that is installed again does both. With --namespaces, Vidra watches no Namespaces, and reads this one.
func TestOwnNamespaceIsDeleted(t *testing.T) {
	for name, limited := range map[string]bool{"cluster": false, "namespaces": true} {
		t.Run(name, func(t *testing.T) { deleteOwnNamespace(t, limited) })
	}
}

func deleteOwnNamespace(t *testing.T, limited bool) {
	t.Helper()
	suite.AwaitFor(t, 2*suite.Patience, func(c *assert.CollectT) { // a test before may have removed it
		require.NoError(c, env.Install(t.Context()))
	})
	// The rights of the ServiceAccount end with it, in the first moments of the deletion.
	config, err := env.UserConfig("operator-of-a-namespace-that-goes", "system:masters")
	require.NoError(t, err)
	deleted, pruned, parted := cluster.NewNamespace(t), cluster.NewNamespace(t), cluster.NewNamespace(t)
	start := func(as *rest.Config) *testenv.Operator {
		var args []string
		if limited && as != nil { // the one that is installed again has the rights of config/default
			args = []string{"--namespaces=" + strings.Join([]string{deleted, pruned, parted}, ",")}
		}
		operator, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary, Config: as, Args: args})
		require.NoError(t, err)
		t.Cleanup(func() { _ = operator.Stop(10 * time.Second) })
		return operator
	}
	operator := start(config)
	manifest := suite.Manifests(suite.Greeting("page", "hello"), suite.Greeting("stays", "hello"))
	part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: parted, Name: "part"}, Data: map[string]string{"m": suite.Greeting("page", "hello")}}
	require.NoError(t, admin.Create(t.Context(), part))
	all := []string{deleted, pruned, parted}
	for _, ns := range all {
		v := vidraResource(ns)
		if v.Spec.Manifest = manifest; ns == parted {
			v.Spec.Manifest = suite.Greeting("stays", "hello")
			v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ConfigMap", Name: "part", Key: "m", Optional: true}}
		}
		require.NoError(t, admin.Create(t.Context(), v))
		cluster.AwaitReady(t, ns)
	}
	uids := map[string]string{}
	for _, ns := range all {
		uids[ns] = string(cluster.Get(t, page(ns)).GetUID())
	}
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testenv.OperatorNamespace}}
	blocker := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: own.Name, Name: "blocker", Finalizers: []string{"example.com/wait"}}}
	require.NoError(t, admin.Create(t.Context(), blocker))
	t.Cleanup(func() { _ = cluster.MergePatch(blocker, `{"metadata":{"finalizers":null}}`) })

	require.NoError(t, admin.Delete(t.Context(), own.DeepCopy()))
	suite.Await(t, func(c *assert.CollectT) { require.NotNil(c, cluster.Get(c, own).GetDeletionTimestamp()) })
	require.NoError(t, cluster.DeleteVidraResource(t.Context(), deleted))
	cluster.SetManifest(t, pruned, suite.Greeting("stays", "hello"))
	require.NoError(t, admin.Delete(t.Context(), part.DeepCopy()))

	why := "Namespace " + own.Name + " of Vidra is being deleted"
	v := cluster.AwaitNotReady(t, deleted, v1alpha1.ReasonDeletionSuspended, why, "install Vidra again", "spec.deletionPolicy to Orphan")
	cluster.AwaitEvent(t, v, corev1.EventTypeWarning, "DeletionSuspended", "Prune", own.Name)
	cluster.AwaitNotReady(t, pruned, v1alpha1.ReasonProgressing, "ConfigMap "+pruned+"/page", why)
	cluster.AwaitNotReady(t, parted, v1alpha1.ReasonProgressing, "ConfigMap "+parted+"/page", why)
	stays := page(pruned)
	stays.SetName("stays")
	require.NoError(t, cluster.MergePatch(stays, `{"data":{"greeting":"mine"}}`))
	suite.Await(t, func(c *assert.CollectT) {
		require.Equal(c, "hello", cluster.Get(c, stays).Object["data"].(map[string]any)["greeting"], "edits are reverted")
	})
	for _, ns := range all {
		live := cluster.Get(t, page(ns))
		require.Equal(t, uids[ns], string(live.GetUID()))
		require.Nil(t, live.GetDeletionTimestamp())
	}

	require.NoError(t, cluster.MergePatch(blocker, `{"metadata":{"finalizers":null}}`))
	cluster.AwaitGone(t, own)
	cluster.SetManifest(t, pruned, suite.Manifests(suite.Greeting("stays", "hello"), suite.Greeting("other", "hello")))
	cluster.AwaitNotReady(t, pruned, v1alpha1.ReasonProgressing, "ConfigMap "+pruned+"/page", why)
	for _, ns := range all {
		require.Equal(t, uids[ns], string(cluster.Get(t, page(ns)).GetUID()), "the Namespace is gone")
	}
	require.NoError(t, operator.Stop(10*time.Second))
	require.NoError(t, env.Install(t.Context()))
	start(nil)
	for _, ns := range all {
		cluster.AwaitGone(t, page(ns))
	}
	cluster.AwaitGone(t, vidraResource(deleted))
	cluster.AwaitReady(t, pruned)
	cluster.AwaitReady(t, parted)
	for _, ns := range []string{pruned, parted} {
		require.NoError(t, cluster.DeleteVidraResource(t.Context(), ns))
		cluster.AwaitGone(t, vidraResource(ns))
	}
}
