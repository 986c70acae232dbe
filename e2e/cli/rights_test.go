package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestWaitRights: a user who may get VidraResources, and neither list nor watch them, gets each answer that this right allows, and otherwise
// the name of the missing right, at once.
func TestWaitRights(t *testing.T) {
	t.Parallel()
	const ns = "wait-rights"
	makeNamespace(t, ns)
	cluster.NewVidraResource(t, ns, settings)
	cluster.AwaitReady(t, ns)
	cluster.NewVidraResource(t, ns, "apiVersion: none.example.com/v1\nkind: None\nmetadata:\n  name: none\n", suite.Named(ns+"-not"))
	meta := metav1.ObjectMeta{Namespace: ns, Name: ns}
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"vidraresources"}, Verbs: []string{"get"}},
	}}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ns},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: ns}},
	}))
	cluster.GrantRule(t, ns, ns, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "patch"}})
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), ns, ns)
	require.NoError(t, err)
	suite.Await(t, func(c *assert.CollectT) { // the authorizer learns of the rights
		require.Equal(c, answer{stdout: "VidraResource wait-rights is ready\n"}, vidraAs(c, kubeconfig, "wait", ns))
		require.Zero(c, vidraAs(c, kubeconfig, "why", "cm/settings", "-n", ns).code)
	})
	began := time.Now()
	waits := vidraAs(t, kubeconfig, "wait", ns+"-not", "--timeout", "10m")
	require.Equal(t, 1, waits.code)
	require.Regexp(t, "^vidra: you may not (list|watch) VidraResources, ", waits.stderr)
	require.Less(t, time.Since(began), 5*time.Minute, "of the ten that it would wait")
	suite.Await(t, func(c *assert.CollectT) {
		skip := vidraAs(c, kubeconfig, "skip", "cm/settings", "-n", ns, "--for", "1h", "--reason", "tests")
		require.Equal(c, 0, skip.code, skip.stderr)
		require.Equal(c, "vidra: you may not watch VidraResources: the answer is in the Events of the object\n", skip.stderr)
	})
}

// TestPreviewRights: a user who may neither read nor write a VidraResource gets an error instead of "1 object is unchanged": the objects that left
// the manifest are unknown. An export that finds no object names each kind that they may not list, once, and
// the answer about an unmanaged object what is known.
func TestPreviewRights(t *testing.T) {
	t.Parallel()
	const ns = "preview-rights"
	makeNamespace(t, ns)
	page := suite.Greeting("page", "hello")
	cluster.NewVidraResource(t, ns, suite.Manifests(page, suite.Greeting("dropped", "hello")))
	cluster.AwaitReady(t, ns)
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: ns}}))
	cluster.GrantRule(t, ns, ns, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "create", "patch"}})
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), ns, ns)
	require.NoError(t, err)
	file := writeFile(t, documentOf(ns, ns, page))
	for _, command := range []string{"diff", "forecast"} {
		suite.Await(t, func(c *assert.CollectT) { // the authorizer learns of the rights
			a := vidraAs(c, kubeconfig, command, "-f", file)
			require.Equal(c, 2, a.code, a.stdout)
			require.Contains(c, a.stderr, "you may not get VidraResources")
		})
	}
	unmanaged := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "unmanaged"}}
	require.NoError(t, admin.Create(t.Context(), unmanaged))
	a := vidraAs(t, kubeconfig, "why", "configmap/unmanaged", "-n", ns)
	require.Equal(t, 1, a.code, a.stdout)
	require.Contains(t, a.stderr, "vidra: ConfigMap preview-rights/unmanaged names no existing VidraResource: you may not list VidraResources")
	a = vidraAs(t, kubeconfig, "export", "-n", ns, "-l", "a=b")
	require.Contains(t, a.stderr, "no object found")
	require.Equal(t, 1, strings.Count(a.stderr, "you may not list secrets"), a.stderr)
}
