package cli

import (
	"context"
	"fmt"
	"net/http"
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

// TestDiffOfMembers: a Namespace that left the manifest waits for an object in it that stays in the manifest, and for the decision about it while
// that is exempt. diff shows that, and the operator does it.
func TestDiffOfMembers(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "members")
	page := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: members-in}\n"
	cluster.NewVidraResource(t, "members", suite.Manifests("apiVersion: v1\nkind: Namespace\nmetadata: {name: members-in}\n", page))
	cluster.AwaitReady(t, "members")
	ok(t, "skip", "configmap/page", "-n", "members-in", "--for", "1h", "--reason", "test")

	file := writeFile(t, page)
	suite.Await(t, func(c *assert.CollectT) { // while a VidraResource of another test holds a revision, its objects are unknown
		diff := vidra(c, "diff", "members", "-f", file)
		require.Equal(c, 1, diff.code, diff.stderr)
		require.Contains(c, diff.stdout, "- delete Namespace members-in\n    it is no longer in the manifest. "+
			"It is not deleted before ConfigMap members-in/page, which would be deleted with it. It is not deleted while it holds ConfigMap members-in/page, which stays in the manifest\n")
	})
	require.NoError(t, cluster.MergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "members"}}, `{"spec":{"manifest":%q}}`, page))
	awaitText(t, "is not removed before it is known whether ConfigMap members-in/page, which would be deleted with it, is to be kept", "status", "members")

	// Without its exemption, the object delays the deletion of its Namespace until it leaves the manifest, too.
	ok(t, "skip", "configmap/page", "-n", "members-in", "--end")
	const holds = "it holds ConfigMap members-in/page, which stays in the manifest"
	awaitText(t, "is not removed, because "+holds, "status", "members")
	require.Contains(t, vidra(t, "diff", "members").stdout, "- delete Namespace members-in\n    it is no longer in the manifest. It is not deleted while "+holds+"\n")
	require.NoError(t, cluster.MergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "members"}}, `{"spec":{"manifest":%q}}`, suite.Greeting("fence", "hello")))
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

// TestDiffOfUnreadMembers: the diff of a VidraResource that drops a Namespace says so where a kind in it cannot be listed, whatever the API server
// answers, and where the user may not read an object in it.
func TestDiffOfUnreadMembers(t *testing.T) {
	t.Parallel()
	const home, in = "unread", "unread-in"
	makeNamespace(t, home)
	fence, page := suite.Greeting("fence", "hello"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: "+in+"}\n"
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + in + "\n"
	cluster.NewVidraResource(t, home, suite.Manifests(fence, namespace, page))
	cluster.AwaitReady(t, home)
	dropped, kept := writeFile(t, documentOf(home, home, fence)), writeFile(t, documentOf(home, home, suite.Manifests(fence, page)))
	forward := reverseProxy(t, nil)
	for name, code := range map[string]int{"forbidden": 403, "unsupported": 405, "missing": 404, "busy": 503, "error": 500} {
		kubeconfig := serveKubeconfig(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/namespaces/"+in+"/services" {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"injected","code":%d}`, code)
				return
			}
			forward.ServeHTTP(w, r)
		}), name)
		diff := vidraAs(t, kubeconfig, "diff", "-f", dropped)
		require.Contains(t, diff.stdout, "- delete Namespace "+in+"\n    it is no longer in the manifest. It is not known what it holds: list services", "%s: %s", name, diff.stderr)
	}

	reader := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: home, Name: "reader"}
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: reader.Namespace, Name: reader.Name}}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: home + "-reader"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "patch"}},
	}}))
	for _, role := range []string{home + "-reader", "vidra-vidraresource-viewer"} {
		require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: home + "-" + role}, Subjects: []rbacv1.Subject{reader},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}))
	}
	cluster.GrantTo(t, reader, home, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "patch"}})
	user, err := cluster.ServiceAccountKubeconfig(t.Context(), reader.Namespace, reader.Name)
	require.NoError(t, err)
	suite.Await(t, func(c *assert.CollectT) {
		unread := vidraAs(c, user, "diff", "-f", kept)
		require.Contains(c, unread.stdout, ". You may not read ConfigMap "+in+"/page, which would be deleted with it, so that it is not known whether it is kept", unread.stderr)
		require.Contains(c, unread.stdout, "It is not deleted while it holds ConfigMap "+in+"/page, which stays in the manifest")
	})
}
