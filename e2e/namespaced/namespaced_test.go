package namespaced

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// web is the manifest of a Deployment in team-b.
const web = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: team-b}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: example.com/web:1}
      volumes:
      - {name: data, emptyDir: {}}
`

// TestNamespaces has objects of two namespaces created, healed and pruned, also after edits of their
// structure, with a kind that comes at run time, and writes nothing after a restart. No right is missing.
func TestNamespaces(t *testing.T) {
	mark := cluster.AuditMark(t)
	crd := testenv.CRD(suite.Unique(t))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), crd.DeepCopy()) })
	thing := fmt.Sprintf("apiVersion: %s/v1\nkind: Thing\nmetadata: {name: thing, namespace: team-a}\nspec: {size: 1}\n", crd.Spec.Group)
	pages := suite.Manifests(configMapIn(teamA, "page", "hello"), configMapIn(teamB, "page", "hello"))
	v := cluster.NewVidraResource(t, teamA, suite.Manifests(pages, configMapIn(teamB, "old", "hello"), web))
	cluster.AwaitReady(t, v.Name)

	for _, namespace := range []string{teamA, teamB} {
		require.NoError(t, cluster.MergePatch(page(namespace, "page"), `{"data":{"greeting":"edited"}}`))
		suite.Await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, namespace, "page")) })
		require.NoError(t, admin.Delete(t.Context(), page(namespace, "page")))
		suite.Await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, namespace, "page")) })
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: teamB, Name: "web"}}
	require.NoError(t, cluster.JSONPatch(deployment, `[{"op":"replace","path":"/spec/template/spec/containers/0/name","value":"other"},
		{"op":"replace","path":"/spec/template/spec/volumes/0","value":{"name":"data","hostPath":{"path":"/"}}}]`))
	suite.Await(t, func(c *assert.CollectT) {
		require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(deployment), deployment))
		pod := deployment.Spec.Template.Spec
		require.Len(c, pod.Containers, 1)
		require.Equal(c, "web", pod.Containers[0].Name)
		require.Nil(c, pod.Volumes[0].HostPath)
	})
	cluster.AwaitEvent(t, page(teamA, "page"), corev1.EventTypeNormal, "ChangeReverted", "")

	cluster.SetManifest(t, v.Name, suite.Manifests(pages, web))
	cluster.AwaitGone(t, page(teamB, "old"))
	cluster.SetManifest(t, v.Name, suite.Manifests(pages, web, thing))
	cluster.AwaitNotReady(t, v.Name, v1alpha1.ReasonKindUnavailable, "Thing")
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	v = cluster.AwaitReady(t, v.Name)
	live := &unstructured.Unstructured{Object: map[string]any{"apiVersion": crd.Spec.Group + "/v1", "kind": "Thing"}}
	live.SetName("thing")
	live.SetNamespace(teamA)
	require.NoError(t, cluster.MergePatch(live, `{"spec":{"size":7}}`))
	suite.Await(t, func(c *assert.CollectT) {
		require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(live), live))
		size, _, err := unstructured.NestedInt64(live.Object, "spec", "size")
		require.NoError(c, err)
		require.EqualValues(c, 1, size)
	})

	require.Contains(t, suite.Condition(t, v, v1alpha1.ConditionWatching).Message, "(4)") // ConfigMaps twice
	require.Empty(t, cluster.EventsAbout(t, v, "WatchFailed"))
	require.Zero(t, suite.Metric(t, operator, "vidra_watch_inconsistencies_total"))
	require.Empty(t, requireInScope(t, mark), "a right is missing")

	cluster.AwaitReady(t, v.Name)
	quiet := cluster.AuditMark(t)
	restart(t, func() {
		require.NoError(t, cluster.MergePatch(page(teamB, "page"), `{"data":{"greeting":"edited"}}`))
	}, flags...)
	suite.Await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, teamB, "page")) })
	suite.Await(t, func(c *assert.CollectT) {
		require.Equal(c, 4, suite.Metric(c, operator, `vidra_watch_state{destination="",group=`)) // one of each watch
	})
	require.Len(t, cluster.ByOperator(t, quiet).Writes().Only(func(r suite.Request) bool {
		return r.Resource != "events" && r.Resource != "vidraresources"
	}), 1, "only the edit is reverted")
	require.Empty(t, requireInScope(t, quiet))
}

// TestBackstopOfNamespaces loses the events of a watch in one namespace: the backstop finds what was edited and what
// was deleted there.
func TestBackstopOfNamespaces(t *testing.T) {
	account, err := cluster.UserConfig(suite.OperatorUser)
	require.NoError(t, err)
	proxy, err := faultproxy.Start(account)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	mark := cluster.AuditMark(t)
	require.NoError(t, operator.Stop(30*time.Second))
	operator, err = cluster.StartOperator(t.Context(), testenv.OperatorOptions{
		Binary: binary, Config: proxy.Config(), Args: append([]string{"--backstop-interval=2s"}, flags...),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, operator.Stop(30*time.Second))
		operator, err = start(context.Background(), flags...)
		require.NoError(t, err)
	})
	v := cluster.NewVidraResource(t, teamA, suite.Manifests(configMapIn(teamA, "here", "hello"), configMapIn(teamB, "edited", "hello"), configMapIn(teamB, "deleted", "hello")))
	cluster.AwaitReady(t, v.Name)
	require.NotZero(t, proxy.MuteStreams(faultproxy.Match{
		Verb: "watch", Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: teamB,
	}))
	require.NoError(t, cluster.MergePatch(page(teamB, "edited"), `{"data":{"greeting":"changed"}}`))
	require.NoError(t, admin.Delete(t.Context(), page(teamB, "deleted")))
	for _, name := range []string{"edited", "deleted"} {
		suite.Await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, teamB, name)) })
	}
	require.Empty(t, requireInScope(t, mark), "a right is missing")
}

// TestOutOfScope has objects that the operator may not manage refused one by one, without a request
// about them, while the others are managed.
func TestOutOfScope(t *testing.T) {
	mark := cluster.AuditMark(t)
	role := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: out-of-scope}\n"
	v := cluster.NewVidraResource(t, teamA, suite.Manifests(configMapIn(teamA, "page", "hello"), configMapIn(teamA, "old", "hello")))
	cluster.AwaitReady(t, v.Name)
	cluster.SetManifest(t, v.Name, suite.Manifests(configMapIn(teamA, "page", "hello"), configMapIn(other, "page", "hello"), role))
	v = cluster.AwaitNotReady(t, v.Name, v1alpha1.ReasonOutOfScope,
		"ConfigMap team-c/page: document 2", "--namespaces=team-a,team-b", "ClusterRole out-of-scope: document 3", "objects without a namespace")
	require.Len(t, v.Status.Problems, 3)
	require.True(t, cluster.Exists(t, page(teamA, "old")), "what left the manifest may be what is replaced")
	cluster.AwaitEvent(t, v, corev1.EventTypeWarning, "OutOfScope", "Apply", "team-c")
	require.NoError(t, cluster.MergePatch(page(teamA, "page"), `{"data":{"greeting":"edited"}}`))
	suite.Await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, teamA, "page")) }, "the other object is healed")

	w := cluster.NewVidraResource(t, other, suite.Greeting("page", "hello"))
	cluster.AwaitNotReady(t, w.Name, v1alpha1.ReasonOutOfScope, "spec.destination.namespace", "team-c")
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "parts"}, Data: map[string]string{"k": suite.Greeting("part", "hello")},
	}))
	x := cluster.NewVidraResource(t, teamB, "", func(v *v1alpha1.VidraResource) {
		v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ConfigMap", Namespace: other, Name: "parts", Key: "k"}}
	})
	cluster.AwaitNotReady(t, x.Name, v1alpha1.ReasonSourceUnavailable, "ConfigMap team-c/parts", "--namespaces=team-a,team-b")

	cluster.SetManifest(t, v.Name, configMapIn(teamA, "page", "hello"))
	cluster.AwaitReady(t, v.Name)
	cluster.AwaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", "team-c")
	cluster.AwaitGone(t, page(teamA, "old"))
	require.Empty(t, requireInScope(t, mark), "no request is sent to be refused")
	require.False(t, cluster.Exists(t, page(other, "page")))
}

// TestNamespaceIsNoLongerListed takes a namespace from --namespaces: what was applied there is neither
// changed nor deleted nor forgotten, and removed when the namespace is listed again.
func TestNamespaceIsNoLongerListed(t *testing.T) {
	v := cluster.NewVidraResource(t, teamA, suite.Manifests(configMapIn(teamA, "page", "hello"), configMapIn(teamB, "page", "hello"), configMapIn(teamB, "more", "hello")))
	cluster.AwaitReady(t, v.Name)
	restart(t, func() {}, "--namespaces="+teamA)
	cluster.AwaitNotReady(t, v.Name, v1alpha1.ReasonOutOfScope, "ConfigMap team-b/page: document 2", "ConfigMap team-b/more: document 3")
	mark := cluster.AuditMark(t)
	cluster.SetManifest(t, v.Name, suite.Manifests(configMapIn(teamA, "page", "again"), configMapIn(teamB, "page", "again")))
	v = cluster.AwaitNotReady(t, v.Name, v1alpha1.ReasonOutOfScope, "ConfigMap team-b/page: document 2")
	require.Equal(t, "again", greeting(t, teamA, "page"))
	require.Len(t, v.Status.ManagedResources, 3)
	require.NoError(t, cluster.DeleteVidraResource(t.Context(), v.Name))
	suite.Await(t, func(c *assert.CollectT) {
		v = cluster.GetVidraResource(c, v.Name)
		ready := suite.Condition(c, v, v1alpha1.ConditionReady)
		require.Equal(c, v1alpha1.ReasonOutOfScope, ready.Reason)
		for _, part := range []string{"ConfigMap team-b/page: is to be removed, and is not", "ConfigMap team-b/more: is to be removed, and is not"} {
			require.Contains(c, ready.Message, part)
		}
	})
	cluster.AwaitGone(t, page(teamA, "page"))
	require.Equal(t, "hello", greeting(t, teamB, "page"))
	require.Empty(t, cluster.ByOperator(t, mark).ObjectsIn(teamB), "no request is sent about them")
	restart(t, func() {}, flags...)
	cluster.AwaitGone(t, v)
	require.False(t, cluster.Exists(t, page(teamB, "page")))

	// An orphaned VidraResource does not wait.
	v = cluster.NewVidraResource(t, teamA, configMapIn(teamB, "orphan", "hello"), suite.Orphaning)
	cluster.AwaitReady(t, v.Name)
	restart(t, func() {}, "--namespaces="+teamA)
	require.NoError(t, cluster.DeleteVidraResource(t.Context(), v.Name))
	cluster.AwaitGone(t, v)
	require.True(t, cluster.Exists(t, page(teamB, "orphan")))
	restart(t, func() {}, flags...)
}

// TestRoleIsMissing starts without the rights in one namespace: what is missing is said, objects in the
// other one are healed, and those of the first one again when the rights are granted.
func TestRoleIsMissing(t *testing.T) {
	v := cluster.NewVidraResource(t, teamA, suite.Manifests(configMapIn(teamA, "page", "hello"), configMapIn(teamB, "page", "hello")))
	cluster.AwaitReady(t, v.Name)
	restart(t, func() {
		require.NoError(t, admin.Delete(t.Context(), bindingIn(teamB)))
		cluster.SetManifest(t, v.Name, suite.Manifests(configMapIn(teamA, "page", "hello"), configMapIn(teamB, "page", "again")))
	}, flags...)
	cluster.AwaitNotReady(t, v.Name, v1alpha1.ReasonApplyFailed, "ConfigMap team-b/page", `in the namespace "team-b"`)
	suite.Await(t, func(c *assert.CollectT) {
		watching := suite.Condition(c, cluster.GetVidraResource(c, v.Name), v1alpha1.ConditionWatching)
		require.Equal(c, v1alpha1.ReasonWatchFailed, watching.Reason)
		require.Contains(c, watching.Message, "configmaps.v1 in namespace team-b: Forbidden")
		require.NotContains(c, watching.Message, teamA)
	})
	cluster.AwaitEvent(t, v, corev1.EventTypeWarning, "WatchFailed", "", "team-b")
	start := time.Now()
	require.NoError(t, cluster.MergePatch(page(teamA, "page"), `{"data":{"greeting":"edited"}}`))
	suite.Await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, teamA, "page")) })
	t.Logf("healed in the other namespace after %s", time.Since(start).Round(time.Millisecond))

	grant(t, teamB)
	start = time.Now()
	suite.Await(t, func(c *assert.CollectT) { require.Equal(c, "again", greeting(c, teamB, "page")) })
	t.Logf("applied %s after the right was granted", time.Since(start).Round(time.Millisecond))
	cluster.AwaitReady(t, v.Name)
	require.Zero(t, suite.Metric(t, operator, "vidra_watch_inconsistencies_total"))
}

// TestNamespaceGoesAndComesBack deletes a namespace, and with it the rights there. A VidraResource that
// is deleted meanwhile goes; the objects of another one come back with the namespace and the rights.
func TestNamespaceGoesAndComesBack(t *testing.T) {
	v := cluster.NewVidraResource(t, teamA, suite.Manifests(configMapIn(teamA, "page", "hello"), configMapIn(teamB, "page", "hello")))
	gone := cluster.NewVidraResource(t, teamB, suite.Greeting("gone", "hello"))
	cluster.AwaitReady(t, v.Name)
	cluster.AwaitReady(t, gone.Name)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: teamB}}
	require.NoError(t, admin.Delete(t.Context(), namespace.DeepCopy()))
	cluster.AwaitGone(t, namespace)
	suite.Await(t, func(c *assert.CollectT) {
		require.NotEqual(c, metav1.ConditionTrue, suite.Condition(c, cluster.GetVidraResource(c, v.Name), v1alpha1.ConditionReady).Status)
	})
	require.NoError(t, cluster.DeleteVidraResource(t.Context(), gone.Name))
	cluster.AwaitGone(t, gone)
	require.NoError(t, cluster.MergePatch(page(teamA, "page"), `{"data":{"greeting":"edited"}}`))
	suite.Await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, teamA, "page")) })

	err := admin.Create(t.Context(), namespace.DeepCopy())
	require.True(t, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
	grant(t, teamB)
	start := time.Now()
	suite.AwaitFor(t, 3*suite.Patience, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, teamB, "page")) })
	t.Logf("created again %s after the rights were granted", time.Since(start).Round(time.Millisecond))
	suite.AwaitFor(t, 3*suite.Patience, func(c *assert.CollectT) {
		require.Equal(c, metav1.ConditionTrue, suite.Condition(c, cluster.GetVidraResource(c, v.Name), v1alpha1.ConditionReady).Status)
	})
	require.NoError(t, cluster.MergePatch(page(teamB, "page"), `{"data":{"greeting":"edited"}}`))
	suite.Await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, teamB, "page")) })
}

// TestOptionalPartGoesWithItsNamespace deletes a Namespace that holds an optional part: the objects of the part in another namespace stay, although
// Vidra watches no Namespaces.
func TestOptionalPartGoesWithItsNamespace(t *testing.T) {
	part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: teamB, Name: "part"}, Data: map[string]string{"m": configMapIn(teamA, "parted", "hello")}}
	require.NoError(t, admin.Create(t.Context(), part))
	v := cluster.NewVidraResource(t, teamA, configMapIn(teamA, "fence", "hello"), suite.Named("parts"), func(v *v1alpha1.VidraResource) {
		v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ConfigMap", Namespace: teamB, Name: "part", Key: "m", Optional: true}}
	})
	cluster.AwaitReady(t, v.Name)
	uid := cluster.Get(t, page(teamA, "parted")).GetUID()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: teamB}}
	require.NoError(t, admin.Delete(t.Context(), part))
	require.NoError(t, admin.Delete(t.Context(), namespace.DeepCopy()))
	defer func() { // the context of the test ends before its cleanups
		suite.AwaitFor(t, 2*suite.Patience, func(c *assert.CollectT) {
			require.NoError(c, client.IgnoreAlreadyExists(admin.Create(context.Background(), namespace.DeepCopy())))
		})
		grant(t, teamB)
	}()
	cluster.AwaitGoneFor(t, 2*suite.Patience, namespace)
	require.Never(t, func() bool { return cluster.Get(t, page(teamA, "parted")).GetUID() != uid }, 20*time.Second, 500*time.Millisecond, "longer than the grace of an optional part")
	require.NotEqual(t, metav1.ConditionTrue, suite.Condition(t, cluster.GetVidraResource(t, v.Name), v1alpha1.ConditionReady).Status)
	require.NoError(t, cluster.MergePatch(cluster.GetVidraResource(t, v.Name), `{"spec":{"manifestFrom":null}}`))
	cluster.AwaitGone(t, page(teamA, "parted"))
}

// TestAccountOfANamespace applies as a ServiceAccount of a namespace, where a RoleBinding lets Vidra
// impersonate it.
func TestAccountOfANamespace(t *testing.T) {
	const account = "deployer"
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: teamA, Name: account}}))
	cluster.GrantRule(t, teamA, account, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "patch", "delete"}})
	v := cluster.NewVidraResource(t, teamA, suite.Greeting("page", "hello"), func(v *v1alpha1.VidraResource) { v.Spec.ServiceAccountName = account })
	cluster.AwaitNotReady(t, v.Name, v1alpha1.ReasonApplyFailed, "impersonate")
	require.NoError(t, admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: teamA, Name: "vidra-impersonation"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "vidra-impersonation"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: testenv.OperatorNamespace, Name: testenv.OperatorServiceAccount}},
	}))
	cluster.AwaitReady(t, v.Name)
	require.NoError(t, cluster.MergePatch(page(teamA, "page"), `{"data":{"greeting":"edited"}}`))
	suite.Await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, teamA, "page")) })
}
