package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// documentOf is a VidraResource for a file, with further lines of its spec.
func documentOf(name, namespace, manifest string, spec ...string) string {
	lines := []string{
		"apiVersion: infrahub.operators.com/v1alpha1", "kind: VidraResource", "metadata:", "  name: " + name, "spec:",
		"  destination:", "    namespace: " + namespace,
	}
	for _, line := range spec {
		lines = append(lines, "  "+line)
	}
	lines = append(lines, "  manifest: |")
	for line := range strings.Lines(manifest) {
		lines = append(lines, "    "+strings.TrimSuffix(line, "\n"))
	}
	return strings.Join(lines, "\n") + "\n"
}

// pair makes the VidraResources NAME-a and NAME-b, of which the former has the ConfigMaps NAME-page and stays.
func pair(t *testing.T, name string, change ...func(*v1alpha1.VidraResource)) (a, b string) {
	t.Helper()
	makeNamespace(t, name)
	a, b = name+"-a", name+"-b"
	for of, manifest := range map[string]string{a: suite.Manifests(page(name, "hello"), suite.Greeting("stays", "hello")), b: suite.Greeting("other", "hello")} {
		cluster.NewVidraResource(t, of, manifest, append([]func(*v1alpha1.VidraResource){
			func(v *v1alpha1.VidraResource) { v.Spec.Destination.Namespace = name },
		}, change...)...)
		cluster.AwaitReady(t, of)
	}
	return a, b
}

// page is the ConfigMap of a test that moves, with a field that only its former manifest has.
func page(test, says string) string {
	if says == "hello" {
		says += "\n  dropped: soon"
	}
	return suite.Greeting(test+"-page", says)
}

// TestDiffOfMoves: an object that one VidraResource drops and another one gets in the same apply moves, in all formats.
func TestDiffOfMoves(t *testing.T) {
	t.Parallel()
	a, b := pair(t, "moves")
	both := writeFile(t, suite.Manifests(
		documentOf(a, "moves", suite.Greeting("stays", "hello")),
		documentOf(b, "moves", suite.Manifests(suite.Greeting("other", "hello"), page("moves", "bye")))))
	diff := vidra(t, "diff", "-f", both)
	require.Equal(t, 1, diff.code, diff.stderr)
	golden(t, "diff-moves", diff.stdout)
	golden(t, "diff-moves-markdown", vidra(t, "diff", "-f", both, "-o", "markdown").stdout)
	require.Equal(t, "move ConfigMap moves/moves-page from moves-a to moves-b\n", vidra(t, "diff", "-f", both, "-o", "name").stdout)
	var found struct {
		VidraResources []struct{ Objects []map[string]any }
	}
	require.NoError(t, json.Unmarshal([]byte(vidra(t, "diff", "-f", both, "-o", "json").stdout), &found))
	moves := 0
	for _, vr := range found.VidraResources {
		for _, o := range vr.Objects {
			if o["action"] == "move" {
				moves++
				require.Equal(t, []any{a, b}, []any{o["from"], o["to"]})
			}
		}
	}
	require.Equal(t, 2, moves, "both VidraResources list it")

	one := vidra(t, "diff", a, "-f", both)
	require.Contains(t, one.stdout, "> move ConfigMap moves/moves-page\n    to VidraResource moves-b, which has it in its manifest\n", "the other VidraResource of the file counts")
	require.NotContains(t, one.stdout, "delete")

	dropped := vidra(t, "diff", "-f", writeFile(t, documentOf(a, "moves", suite.Greeting("stays", "hello"))))
	require.Contains(t, dropped.stdout, "- delete ConfigMap moves/moves-page", "no other VidraResource has it")
	got := vidra(t, "diff", "-f", writeFile(t, documentOf(b, "moves", page("moves", "bye"))))
	require.Equal(t, 2, got.code, "the former owner keeps it")
	require.Contains(t, got.stdout, "VidraResource moves-a wants another value of data.greeting")

	elsewhere := vidra(t, "diff", "-f", writeFile(t, suite.Manifests(
		documentOf(a, "moves", suite.Greeting("stays", "hello")), documentOf(b, "moves-b", page("moves", "bye")))))
	require.Contains(t, elsewhere.stdout, "- delete ConfigMap moves/moves-page", "an object of that name in another namespace is another object")

	rename := vidra(t, "diff", "-f", writeFile(t, suite.Manifests(
		documentOf(a, "moves", suite.Greeting("stays", "hello")), documentOf("moves-new", "moves", page("moves", "bye"), "adopt: Never"))))
	require.Contains(t, rename.stdout, "to VidraResource moves-new")
	require.Contains(t, rename.stdout, "> move ConfigMap moves/moves-page  (spec.manifest of VidraResource moves-new, document 1, line 1)\n    from VidraResource moves-a", "it need not exist yet")
}

// TestDiffOfAMoveThatIsUnderWay compares VidraResources as they are in the cluster, which the operator may not change yet.
func TestDiffOfAMoveThatIsUnderWay(t *testing.T) {
	t.Parallel()
	a, b := pair(t, "underway")
	for _, name := range []string{a, b} {
		require.NoError(t, cluster.MergePatch(cluster.GetVidraResource(t, name), `{"spec":{"suspend":true}}`))
		cluster.AwaitCondition(t, name, metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
	}
	cluster.SetManifest(t, a, suite.Greeting("stays", "hello"))
	cluster.SetManifest(t, b, suite.Manifests(suite.Greeting("other", "hello"), page("underway", "bye")))
	require.Contains(t, vidra(t, "diff", a).stdout,
		"> move ConfigMap underway/underway-page\n    to VidraResource underway-b, which has it in its manifest, and applies it when its spec.suspend is false\n")
	require.Contains(t, vidra(t, "diff", b).stdout,
		"    from VidraResource underway-a, which no longer has it in its manifest and releases it when its spec.suspend is false\n")
	cluster.SetManifest(t, b, suite.Manifests(suite.Greeting("other", "hello"), "kind: [ # the ConfigMap underway-page"))
	require.Contains(t, vidra(t, "diff", a).stdout, "- delete ConfigMap underway/underway-page\n    it is no longer in the manifest. "+
		"It stays if VidraResource underway-b has it in its manifest, which is not known: the manifest is invalid")
}

// TestDiffOfADeletion: what a VidraResource that is being deleted has, moves to the VidraResource that has it in its manifest, as
// in a rename. The rest is deleted.
func TestDiffOfADeletion(t *testing.T) {
	t.Parallel()
	a, _ := pair(t, "renames")
	vr := cluster.GetVidraResource(t, a)
	require.NoError(t, cluster.MergePatch(vr, `{"spec":{"suspend":true}}`))
	cluster.AwaitCondition(t, a, metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
	require.NoError(t, admin.Delete(t.Context(), vr))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(cluster.MergePatch(vr, `{"spec":{"suspend":false}}`)))
	})
	suite.Await(t, func(c *assert.CollectT) {
		require.False(c, cluster.GetVidraResource(c, a).DeletionTimestamp.IsZero())
	})
	deleted := vidra(t, "diff", a)
	require.Equal(t, 1, deleted.code, deleted.stderr)
	require.Contains(t, deleted.stdout, "- delete ConfigMap renames/renames-page\n    the VidraResource is being deleted")
	renamed := vidra(t, "diff", "-f", writeFile(t, documentOf("renames-new", "renames", page("renames", "bye"))))
	require.Equal(t, 1, renamed.code, renamed.stderr)
	require.Contains(t, renamed.stdout, "> move ConfigMap renames/renames-page")
	require.Contains(t, renamed.stdout, "from VidraResource renames-a, which is being deleted and releases it when its spec.suspend is false")
	require.Contains(t, renamed.stdout, "-  dropped: soon", "a field of the former manifest goes")
}

// TestDiffOfAMoveThatIsRefused: an object is deleted if the account of the VidraResource that has it in its manifest may not patch it.
// Where the user may not know that, or may not read the manifests of others, the diff says so.
func TestDiffOfAMoveThatIsRefused(t *testing.T) {
	t.Parallel()
	a, b := pair(t, "weak")
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "weak", Name: "deployer"}}))
	drops := documentOf(a, "weak", suite.Greeting("stays", "hello"))
	both := writeFile(t, suite.Manifests(drops, documentOf(b, "weak", page("weak", "bye"), "serviceAccountName: deployer")))
	diff := vidra(t, "diff", "-f", both)
	require.Contains(t, diff.stdout, "- delete ConfigMap weak/weak-page\n    it is no longer in the manifest. VidraResource weak-b has it in its manifest, and its ServiceAccount weak/deployer may not patch it")
	cluster.GrantRule(t, "weak", "deployer", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "patch"}})
	suite.Await(t, func(c *assert.CollectT) {
		require.Contains(c, vidra(c, "diff", a, "-f", both).stdout, "> move ConfigMap weak/weak-page\n    to VidraResource weak-b")
	})

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "weak", Name: "part"}, Data: map[string][]byte{"manifest": []byte(suite.Greeting("other", "hello"))}}
	require.NoError(t, admin.Create(t.Context(), secret))
	require.NoError(t, admin.Patch(t.Context(), cluster.GetVidraResource(t, b), client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"manifest":null,"manifestFrom":[{"kind":"Secret","name":"part","key":"manifest"}]}}`))))
	reader := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "weak", Name: "reader"}
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: reader.Namespace, Name: reader.Name}}))
	cluster.GrantTo(t, reader, "weak", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "patch", "create"}})
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "weak-reader"}, Subjects: []rbacv1.Subject{reader},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "vidra-vidraresource-viewer"},
	}))
	user, err := cluster.ServiceAccountKubeconfig(t.Context(), "weak", "reader")
	require.NoError(t, err)
	suite.Await(t, func(c *assert.CollectT) {
		unread := vidraAs(c, user, "diff", "-f", writeFile(t, drops))
		require.Contains(c, unread.stdout, "- delete ConfigMap weak/weak-page\n    it is no longer in the manifest. It stays if VidraResource weak-b has it in its manifest, which is not known: ", unread.stderr)
	})
	secret.Data["manifest"] = []byte(suite.Manifests(suite.Greeting("other", "hello"), page("weak", "bye")))
	require.NoError(t, admin.Update(t.Context(), secret))
	require.Contains(t, vidra(t, "diff", "-f", writeFile(t, drops)).stdout, "> move ConfigMap weak/weak-page\n    to VidraResource weak-b", "it is in a part")
	cm := &corev1.ConfigMap{}
	require.NoError(t, admin.Get(context.Background(), types.NamespacedName{Namespace: "weak", Name: "weak-page"}, cm))
	require.Equal(t, "hello", cm.Data["greeting"], "nothing is written")
}
