package e2e

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestAuthorHasTheRightsOfVidra shows what docs/security.md says of config/default: a person
// whose only right is that of an author reaches what Vidra reaches, and the account of any
// controller. e2e/restricted shows the contrary for config/restricted.
func TestAuthorHasTheRightsOfVidra(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "vidra-vidraresource-editor"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: ns}},
	}))
	cfg, err := env.UserConfig(ns)
	require.NoError(t, err)
	author, err := testenv.Client(cfg)
	require.NoError(t, err)
	create := func(v *v1alpha1.VidraResource) {
		await(t, func(c *assert.CollectT) { require.NoError(c, author.Create(context.Background(), v)) })
		t.Cleanup(func() {
			require.NoError(t, client.IgnoreNotFound(deleteVidraResource(context.Background(), v.Name)))
			awaitGone(t, v)
		})
	}

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: ns}}
	create(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: v1alpha1.VidraResourceSpec{
		Manifest: "apiVersion: v1\nkind: Pod\nmetadata: {namespace: kube-system, name: " + ns + "}\n" +
			"spec: {serviceAccountName: clusterrole-aggregation-controller, containers: [{name: c, image: c}]}\n",
	}})
	awaitReady(t, ns)
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))

	const account = "namespace-controller" // it deletes everything, and creates nothing
	create(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: ns + "-as"}, Spec: v1alpha1.VidraResourceSpec{
		Destination: v1alpha1.Destination{Namespace: metav1.NamespaceSystem}, ServiceAccountName: account, Manifest: configMap(ns, "hello"),
	}})
	awaitNotReady(t, ns+"-as", v1alpha1.ReasonApplyFailed, "system:serviceaccount:kube-system:"+account)

	theirs := newVidraResource(t, ns, configMap("c", "hello"), named(ns+"-theirs"))
	require.NoError(t, author.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs))
	for _, change := range []string{
		`{"metadata":{"annotations":{"a":"b"}}}`, `{"spec":{"manifest":"{}"}}`, `{"metadata":{"finalizers":null}}`,
	} {
		require.NoError(t, author.Patch(t.Context(), theirs, client.RawPatch(types.MergePatchType, []byte(change))))
	}
	require.NoError(t, author.Delete(t.Context(), theirs))
}
