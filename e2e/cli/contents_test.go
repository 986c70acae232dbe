package cli

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestDiffOfMembers: a Namespace that left the manifest waits for an exempt object in it that stays in the manifest. diff shows that, and the
// operator does it.
func TestDiffOfMembers(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "members")
	page := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: members-in}\n"
	cluster.NewVidraResource(t, "members", suite.Manifests("apiVersion: v1\nkind: Namespace\nmetadata: {name: members-in}\n", page))
	cluster.AwaitReady(t, "members")
	ok(t, "skip", "configmap/page", "-n", "members-in", "--for", "1h", "--reason", "test")

	diff := vidra(t, "diff", "members", "-f", writeFile(t, page))
	require.Equal(t, 1, diff.code, diff.stderr)
	require.Contains(t, diff.stdout, "- delete Namespace members-in\n    it is no longer in the manifest. "+
		"It is not deleted before ConfigMap members-in/page, which would be deleted with it")
	require.NoError(t, cluster.MergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "members"}}, `{"spec":{"manifest":%q}}`, page))
	awaitText(t, "is not removed before it is known whether ConfigMap members-in/page, which would be deleted with it, is to be kept", "status", "members")

	// Without its exemption, the object no longer delays the deletion of its Namespace.
	ok(t, "skip", "configmap/page", "-n", "members-in", "--end")
	cluster.AwaitGone(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "members-in"}})
}

// TestDiffOfContainers: the diff of a VidraResource that drops a Namespace and a CustomResourceDefinition names the contents that
// block the deletion, that are deleted with it, and for which it is released instead.
func TestDiffOfContainers(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "boxes")
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: boxes-in\n"
	definition := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: boxes.boxes.example.com\nspec:\n" +
		"  group: boxes.example.com\n  scope: Namespaced\n  names: {plural: boxes, singular: box, kind: Box, listKind: BoxList}\n  versions:\n" +
		"  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}\n"
	in := func(namespace string) func(*v1alpha1.VidraResource) {
		return func(v *v1alpha1.VidraResource) { v.Spec.Destination.Namespace = namespace }
	}
	cluster.NewVidraResource(t, "boxes", suite.Manifests(suite.Greeting("fence", "hello"), namespace, definition), in("boxes"))
	cluster.AwaitReady(t, "boxes")
	box := "apiVersion: boxes.example.com/v1\nkind: Box\nmetadata:\n  name: box\n"
	other := cluster.NewVidraResource(t, "boxes-other", suite.Manifests(suite.Greeting("page", "hello"), box), in("boxes-in"))
	cluster.AwaitReady(t, other.Name)

	dropped := func(spec ...string) string {
		return writeFile(t, documentOf("boxes", "boxes", suite.Greeting("fence", "hello"), spec...))
	}
	diff := vidra(t, "diff", "-f", dropped())
	require.Equal(t, 1, diff.code, diff.stderr)
	require.Contains(t, diff.stdout, "- delete Namespace boxes-in\n    it is no longer in the manifest. It is not deleted while it holds ")
	require.Contains(t, diff.stdout, "ConfigMap boxes-in/page of VidraResource boxes-other")
	require.Contains(t, diff.stdout, "- delete CustomResourceDefinition boxes.boxes.example.com\n    it is no longer in the manifest. "+
		"It is not deleted while it holds Box boxes-in/box of VidraResource boxes-other\n")

	reader := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "boxes", Name: "reader"}
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: reader.Namespace, Name: reader.Name}}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "boxes-reader"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "apiextensions.k8s.io"}, Resources: []string{"namespaces", "customresourcedefinitions", "configmaps"}, Verbs: []string{"get", "patch"}},
	}}))
	for _, role := range []string{"boxes-reader", "vidra-vidraresource-viewer"} {
		require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "boxes-" + role}, Subjects: []rbacv1.Subject{reader},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}))
	}
	user, err := cluster.ServiceAccountKubeconfig(t.Context(), reader.Namespace, reader.Name)
	require.NoError(t, err)
	suite.Await(t, func(c *assert.CollectT) {
		unread := vidraAs(c, user, "diff", "-f", dropped())
		require.Contains(c, unread.stdout, "- delete Namespace boxes-in\n    it is no longer in the manifest. It is not known what it holds: list ", unread.stderr)
	})

	mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "boxes-in", Name: "mine"}}
	require.NoError(t, admin.Create(t.Context(), mine))
	require.NoError(t, cluster.DeleteVidraResource(t.Context(), other.Name))
	cluster.AwaitGone(t, other)
	diff = vidra(t, "diff", "-f", dropped())
	require.Contains(t, diff.stdout, "- delete Namespace boxes-in\n    it is no longer in the manifest. It is deleted with 1 unmanaged objects: ConfigMap boxes-in/mine\n")
	require.Contains(t, diff.stdout, "- delete CustomResourceDefinition boxes.boxes.example.com\n    it is no longer in the manifest\n")
	require.Contains(t, vidra(t, "diff", "-f", dropped("unmanagedContents: Block")).stdout,
		"    it is no longer in the manifest. It is not deleted while it holds 1 unmanaged objects, and spec.unmanagedContents is Block: ConfigMap boxes-in/mine\n")

	require.NoError(t, cluster.MergePatch(mine, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.KeepAnnotation))
	diff = vidra(t, "diff", "-f", dropped())
	require.Contains(t, diff.stdout, "release Namespace boxes-in\n    it is no longer in the manifest, and holds ConfigMap boxes-in/mine with the annotation keep: it stays, unmanaged\n")
	require.NoError(t, admin.Get(context.Background(), client.ObjectKeyFromObject(mine), mine), "nothing is written")
	require.NoError(t, cluster.MergePatch(mine, `{"metadata":{"annotations":null}}`))
}
