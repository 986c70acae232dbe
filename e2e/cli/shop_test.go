package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// settings is a ConfigMap, and web a Deployment.
var settings, web = suite.Settings, suite.Web(1)

// TestShop follows one VidraResource through the commands that read.
func TestShop(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "shop")
	cluster.NewVidraResource(t, "shop", suite.Manifests(settings, web))
	vr := cluster.AwaitReady(t, "shop")
	cluster.AwaitEvent(t, vr, corev1.EventTypeNormal, "Applied", "Apply")
	cluster.AwaitCondition(t, "shop", metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing})

	t.Run("get", testGet)
	t.Run("tree", testTree)
	t.Run("why", testWhy)
}

func testGet(t *testing.T) {
	golden(t, "get", ok(t, "get", "shop"))
	golden(t, "get-wide", ok(t, "get", "-n", "shop", "-o", "wide"))
	require.Equal(t, "vidraresource.infrahub.operators.com/shop\n", ok(t, "get", "--field-selector", "metadata.name=shop", "-o", "name"))
	require.Contains(t, ok(t, "get", "shop", "-o", "yaml"), "\nkind: VidraResource\n")
	require.Contains(t, ok(t, "get", "shop", "-o", "json"), `"kind": "VidraResource"`)
	require.Contains(t, ok(t, "get", "-o", "json"), `"kind": "List"`)
	for _, args := range [][]string{{"get", "-l", "team=none"}, {"get", "-n", "empty"}} {
		none := vidra(t, args...)
		require.Equal(t, answer{stderr: "vidra: no VidraResources found\n"}, none)
	}
	missing := vidra(t, "get", "missing")
	require.Equal(t, 1, missing.code)
	require.Contains(t, missing.stderr, "VidraResource missing does not exist; `vidra get` lists those that do")
}

func testTree(t *testing.T) {
	awaitText(t, "Pod/web-", "tree", "shop") // its controllers create it
	golden(t, "tree", ok(t, "tree", "shop"))
	require.Equal(t, "configmap/settings\ndeployment.apps/web\nreplicaset.apps/web-HASH\npod/web-HASH\n", stable(ok(t, "tree", "shop", "-o", "name")))
	require.NotContains(t, ok(t, "tree", "shop", "-n", "other"), "settings")
}

// testWhy asks about edits that were reverted.
func testWhy(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}}
	kubectlEdit := client.FieldOwner("kubectl-edit")
	require.NoError(t, admin.Patch(t.Context(), cm.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"data":{"greeting":"bye"}}`)), kubectlEdit))
	cluster.AwaitEvent(t, cm, corev1.EventTypeNormal, "ChangeReverted", "Restore", "data.greeting")
	cluster.AwaitEvent(t, cluster.GetVidraResource(t, "shop"), corev1.EventTypeNormal, "DriftCorrected", "Restore", "data.greeting")
	golden(t, "why-configmap", ok(t, "why", "configmap/settings", "-n", "shop"))
	require.Equal(t, "vidraresource.infrahub.operators.com/shop\n", ok(t, "why", "cm", "settings", "-n", "shop", "-o", "name"))
	golden(t, "why-configmap-yaml", ok(t, "why", "cm/settings", "-n", "shop", "-o", "yaml"))

	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	require.NoError(t, admin.SubResource("scale").Patch(t.Context(), deployment.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`)), client.FieldOwner("kubectl")))
	cluster.AwaitEvent(t, cluster.GetVidraResource(t, "shop"), corev1.EventTypeNormal, "DriftCorrected", "Restore", `"kubectl" had set it to 3 through scale`)
	require.NoError(t, cluster.MergePatch(deployment, `{"metadata":{"annotations":{"team":"a"}}}`), "a field of another manager")
	why := ok(t, "why", "deployment/web", "-n", "shop")
	golden(t, "why-deployment", withoutLines(why, "  problem ")) // its health changes
	require.NotContains(t, why, "swordfish")
}
