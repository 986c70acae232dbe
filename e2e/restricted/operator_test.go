package restricted

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestRightsOfVidra asks for what Vidra itself may do: read, and write its own resource and
// Events, and impersonate no user outside of a namespace that grants it.
func TestRightsOfVidra(t *testing.T) {
	t.Parallel()
	set := newTeam(t, "set")
	const mayRead, mayNot = true, false
	tests := map[string]struct {
		verb, group, resource, sub, namespace, name string
		want                                        bool
	}{
		"watch Secrets":                   {verb: "watch", resource: "secrets", want: mayRead},
		"list a kind of tomorrow":         {verb: "list", group: "example.com", resource: "things", want: mayRead},
		"get Secrets":                     {verb: "get", resource: "secrets", namespace: set.namespace, want: mayNot},
		"get nodes/proxy":                 {verb: "get", resource: "nodes", sub: "proxy", want: mayNot},
		"get pods/exec":                   {verb: "get", resource: "pods", sub: "exec", namespace: set.namespace, want: mayNot},
		"create ConfigMaps":               {verb: "create", resource: "configmaps", namespace: set.namespace, want: mayNot},
		"patch Deployments":               {verb: "patch", group: "apps", resource: "deployments", namespace: set.namespace, want: mayNot},
		"delete a kind of tomorrow":       {verb: "delete", group: "example.com", resource: "things", want: mayNot},
		"patch Namespaces":                {verb: "patch", resource: "namespaces", want: mayNot},
		"create tokens":                   {verb: "create", resource: "serviceaccounts", sub: "token", namespace: set.namespace, want: mayNot},
		"bind roles":                      {verb: "bind", group: rbacv1.GroupName, resource: "clusterroles", want: mayNot},
		"escalate roles":                  {verb: "escalate", group: rbacv1.GroupName, resource: "clusterroles", want: mayNot},
		"delete VidraResources":           {verb: "delete", group: v1alpha1.GroupVersion.Group, resource: "vidraresources", want: mayNot},
		"impersonate users":               {verb: "impersonate", resource: "users", want: mayNot},
		"impersonate groups":              {verb: "impersonate", resource: "groups", want: mayNot},
		"impersonate in kube-system":      {verb: "impersonate", resource: "serviceaccounts", namespace: "kube-system", want: mayNot},
		"impersonate everywhere":          {verb: "impersonate", resource: "serviceaccounts", want: mayNot},
		"impersonate where it is set":     {verb: "impersonate", resource: "serviceaccounts", namespace: set.namespace, name: account, want: true},
		"read Secrets of kubeconfigs":     {verb: "get", resource: "secrets", namespace: testenv.OperatorNamespace, want: true},
		"elect a leader":                  {verb: "update", group: "coordination.k8s.io", resource: "leases", namespace: testenv.OperatorNamespace, want: true},
		"no leader elsewhere":             {verb: "update", group: "coordination.k8s.io", resource: "leases", namespace: "kube-system", want: mayNot},
		"write Events":                    {verb: "create", group: "events.k8s.io", resource: "events", namespace: "default", want: true},
		"write Events about its Lease":    {verb: "create", resource: "events", namespace: testenv.OperatorNamespace, want: true},
		"write core Events elsewhere":     {verb: "create", resource: "events", namespace: set.namespace, want: mayNot},
		"replace VidraResources":          {verb: "update", group: v1alpha1.GroupVersion.Group, resource: "vidraresources", want: mayNot},
		"replace statuses":                {verb: "update", group: v1alpha1.GroupVersion.Group, resource: "vidraresources", sub: "status", want: mayNot},
		"read statuses alone":             {verb: "get", group: v1alpha1.GroupVersion.Group, resource: "vidraresources", sub: "status", want: mayNot},
		"write statuses":                  {verb: "patch", group: v1alpha1.GroupVersion.Group, resource: "vidraresources", sub: "status", want: true},
		"use a destination as itself":     {verb: "use", group: v1alpha1.GroupVersion.Group, resource: "destinations", want: mayNot},
		"write admission policies":        {verb: "patch", group: "admissionregistration.k8s.io", resource: "validatingadmissionpolicies", want: mayNot},
		"write CustomResourceDefinitions": {verb: "patch", group: "apiextensions.k8s.io", resource: "customresourcedefinitions", want: mayNot},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			allowed := func(c require.TestingT) bool {
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User:   suite.OperatorUser,
					Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + testenv.OperatorNamespace, "system:authenticated"},
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Verb: tt.verb, Group: tt.group, Resource: tt.resource, Subresource: tt.sub, Namespace: tt.namespace, Name: tt.name,
					},
				}}
				require.NoError(c, admin.Create(context.Background(), review))
				return review.Status.Allowed
			}
			if tt.want { // a binding counts a moment after it is made
				await(t, func(c *assert.CollectT) { require.True(c, allowed(c)) })
			} else {
				require.False(t, allowed(t))
			}
		})
	}
}

// TestRolesOfRestricted: no role of config/restricted has a wildcard verb, and none of Vidra
// a verb that writes what it manages.
func TestRolesOfRestricted(t *testing.T) {
	t.Parallel()
	roles := &rbacv1.ClusterRoleList{}
	require.NoError(t, admin.List(t.Context(), roles, client.MatchingLabels{"app.kubernetes.io/name": "vidra-operator"}))
	require.NotEmpty(t, roles.Items)
	for _, role := range roles.Items {
		for _, rule := range role.Rules {
			require.NotContains(t, rule.Verbs, rbacv1.VerbAll, role.Name)
			if slices.Contains(rule.Resources, rbacv1.ResourceAll) {
				require.Equal(t, []string{"list", "watch"}, rule.Verbs, role.Name)
			}
		}
	}
	bindings := &rbacv1.ClusterRoleBindingList{}
	require.NoError(t, admin.List(t.Context(), bindings))
	for _, b := range bindings.Items {
		require.False(t, b.RoleRef.Name == "vidra-impersonation" && len(b.Subjects) > 0, "it is granted in single namespaces: %s", b.Name)
	}
}

// TestNamespaceNeedsTheLabel: without the label, or the RoleBinding, Vidra acts as no account
// of a namespace; it stops when the label goes, also removals, and goes on when it is back.
func TestNamespaceNeedsTheLabel(t *testing.T) {
	t.Parallel()
	mine := newOutsider(t, "mine")
	v := mine.create(t, mine.resource("page"))
	awaitNotReady(t, v.Name, v1alpha1.ReasonServiceAccountRequired, mine.namespace, allowed)
	vidra := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: testenv.OperatorNamespace, Name: testenv.OperatorServiceAccount}
	mine.label(t, `"allowed"`)
	awaitNotReady(t, v.Name, v1alpha1.ReasonApplyFailed, "grant Vidra the verb impersonate on the ServiceAccount "+account)
	bind(t, mine.namespace, "ClusterRole", "vidra-impersonation", vidra)
	awaitReady(t, v.Name)

	mine.label(t, `"denied"`)
	awaitNotReady(t, v.Name, v1alpha1.ReasonServiceAccountRequired, allowed)
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: mine.namespace, Name: "page"}}
	mark := env.AuditMark()
	require.NoError(t, patch(admin, page, `{"data":{"greeting":"mine"}}`))
	require.NoError(t, patch(mine.person, v, `{"spec":{"manifest":%q}}`, configMap("page", "again")))
	require.NoError(t, mine.person.Delete(t.Context(), v))
	await(t, func(c *assert.CollectT) {
		live := getVidraResource(c, v.Name)
		require.False(c, live.DeletionTimestamp.IsZero())
		require.Contains(c, live.Status.LastError, allowed)
	})
	sent := cluster.ByOperator(t, mark)
	require.Empty(t, sent.Only(func(r suite.Request) bool { return r.As == suite.UserOf(mine.namespace, account) }), "%s", sent)
	require.Equal(t, "mine", mine.says(t, "page"))
	mine.label(t, `"allowed"`)
	await(t, func(c *assert.CollectT) { require.Empty(c, mine.says(c, "page")) }, "it is removed then")
}

// TestImpersonationIsGranted: a refused object without a namespace is applied when the namespace of the account allows Vidra to act as it, long
// before the next resync. Its last attempt before that is one of the backoff.
func TestImpersonationIsGranted(t *testing.T) {
	t.Parallel()
	late := newOutsider(t, "late")
	late.label(t, `"allowed"`)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: late.namespace}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, Verbs: []string{"get", "create", "patch", "delete"},
	}}}
	require.NoError(t, admin.Create(t.Context(), role))
	bind(t, "", "ClusterRole", role.Name, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: late.namespace, Name: account})
	v := late.resource("role")
	v.Spec.Manifest = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: " + late.namespace + "-made}\n"
	require.NoError(t, admin.Create(t.Context(), v))
	remove(t, v)
	awaitNotReady(t, v.Name, v1alpha1.ReasonApplyFailed, "cannot impersonate")
	requests := func(mark testenv.AuditMark) int {
		return len(cluster.ByOperator(t, mark).Only(func(r suite.Request) bool { return r.Name == late.namespace+"-made" }))
	}
	mark, since := cluster.AuditMark(t), time.Now()
	require.Eventually(t, func() bool {
		if requests(mark) > 0 {
			mark, since = cluster.AuditMark(t), time.Now()
		}
		return time.Since(since) > 25*time.Second
	}, 2*suite.Patience, time.Second, "refused requests without end")
	bind(t, late.namespace, "ClusterRole", "vidra-impersonation", rbacv1.Subject{
		Kind: rbacv1.ServiceAccountKind, Namespace: testenv.OperatorNamespace, Name: testenv.OperatorServiceAccount,
	})
	awaitReady(t, v.Name)
}

// TestTenantCannotSetTheLabel: the admin of a namespace cannot label it, nor can Vidra, in
// whose name a manifest might try to; a RoleBinding of their own does not replace the label.
func TestTenantCannotSetTheLabel(t *testing.T) {
	t.Parallel()
	mine := newOutsider(t, "mine")
	v := mine.create(t, mine.resource("page"))
	err := patch(mine.person, mine.space(), `{"metadata":{"labels":{%q:"allowed"}}}`, allowed)
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.NoError(t, mine.person.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: mine.namespace, Name: "vidra"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "vidra-impersonation"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: testenv.OperatorNamespace, Name: testenv.OperatorServiceAccount}},
	}), "they may impersonate the accounts of their namespace, and may so let others")
	require.NoError(t, patch(mine.person, v, `{"spec":{"manifest":%q}}`, configMap("page", "again")))
	awaitNotReady(t, v.Name, v1alpha1.ReasonServiceAccountRequired, allowed)

	other := newTeam(t, "other")
	w := other.resource("label")
	w.Spec.Manifest = "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + mine.namespace + ", labels: {" + allowed + ": allowed}}\n"
	w.Spec.Adopt = v1alpha1.AdoptAlways
	other.create(t, w)
	awaitNotReady(t, w.Name, v1alpha1.ReasonApplyFailed, other.namespace+":"+account)
}

// TestAccountBoundsTheManifest: what the account may not write or read, Vidra does not write
// or read for it: objects of other namespaces, rights, and parts of the manifest.
func TestAccountBoundsTheManifest(t *testing.T) {
	t.Parallel()
	mine, theirs := newTeam(t, "mine"), newTeam(t, "theirs")
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: theirs.namespace, Name: "parts"}, Data: map[string]string{"k": configMap("read", "hello")},
	}))
	for name, manifest := range map[string]string{
		"elsewhere": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: " + theirs.namespace + "}\n",
		"kind":      "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n",
		"rights": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: " + mine.namespace + "}\n" +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n",
	} {
		v := mine.resource(name)
		v.Spec.Manifest = manifest
		mine.create(t, v)
		awaitNotReady(t, v.Name, v1alpha1.ReasonApplyFailed, "system:serviceaccount:"+mine.namespace+":"+account)
	}
	v := mine.resource("part")
	v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ConfigMap", Name: "parts", Namespace: theirs.namespace, Key: "k"}}
	mine.create(t, v)
	awaitNotReady(t, v.Name, v1alpha1.ReasonSourceUnavailable, "system:serviceaccount:"+mine.namespace+":"+account)
}

// TestForeignManifestHoldsNothing: an object leaves although another team, which has no right on it, has it in the manifest of a VidraResource whose account
// Vidra may not impersonate, or whose Namespace is gone. Admins of a namespace may delete the RoleBinding for Vidra.
func TestForeignManifestHoldsNothing(t *testing.T) {
	t.Parallel()
	mine, other := newTeam(t, "mine"), newTeam(t, "other")
	of := func(m team, name string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\n", name, m.namespace)
	}
	v := mine.resource("page")
	v.Spec.Manifest = configMap("page", "hello") + "---\n" + configMap("gone", "hello")
	mine.create(t, v)
	awaitReady(t, v.Name)
	bindings := &rbacv1.RoleBindingList{}
	require.NoError(t, other.person.List(t.Context(), bindings, client.InNamespace(other.namespace)))
	for i := range bindings.Items {
		if bindings.Items[i].RoleRef.Name == "vidra-impersonation" {
			require.NoError(t, other.person.Delete(t.Context(), &bindings.Items[i]))
		}
	}
	unbound := other.resource("unbound")
	unbound.Spec.Manifest = of(mine, "page")
	other.create(t, unbound)
	awaitNotReady(t, unbound.Name, v1alpha1.ReasonApplyFailed, "impersonate", account)
	gone := team{namespace: other.namespace + "-gone", person: admin}
	homeless := gone.resource("homeless")
	homeless.Spec.Manifest = of(mine, "gone")
	gone.create(t, homeless)
	awaitNotReady(t, homeless.Name, v1alpha1.ReasonServiceAccountRequired, gone.namespace)

	require.NoError(t, patch(mine.person, v, `{"spec":{"manifest":%q}}`, configMap("rest", "hello")))
	await(t, func(c *assert.CollectT) { require.Empty(c, mine.says(c, "page")) })
	suite.AwaitFor(t, 2*time.Minute, func(c *assert.CollectT) { require.Empty(c, mine.says(c, "gone")) })
	awaitReady(t, v.Name)
}

// TestAccountsOfTheCluster: also a namespace with the label gives no account of kube-system or
// of Vidra's own namespace.
func TestAccountsOfTheCluster(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{metav1.NamespaceSystem, testenv.OperatorNamespace} {
		m := team{namespace: namespace, person: admin}
		m.label(t, `"allowed"`)
		t.Cleanup(func() { m.label(t, "null") })
		v := m.create(t, m.resource("page"))
		awaitNotReady(t, v.Name, v1alpha1.ReasonServiceAccountRequired, namespace)
	}
}

// TestControllersMayDelete: the garbage collector deletes a VidraResource whose owner is gone,
// and Vidra removes its finalizer then.
func TestControllersMayDelete(t *testing.T) {
	t.Parallel()
	mine := newTeam(t, "mine")
	v := mine.resource("page")
	owner := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: mine.namespace + "-owner"}}
	require.NoError(t, admin.Create(t.Context(), owner))
	v.OwnerReferences = []metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: owner.Name, UID: owner.UID}}
	mine.create(t, v)
	awaitReady(t, v.Name)
	require.NoError(t, admin.Delete(t.Context(), owner))
	// The garbage collector looks for new kinds every 30 seconds.
	suite.AwaitFor(t, 3*suite.Patience, func(c *assert.CollectT) {
		err := admin.Get(context.Background(), client.ObjectKeyFromObject(v), &v1alpha1.VidraResource{})
		require.True(c, apierrors.IsNotFound(err), "%v", err)
		require.Empty(c, mine.says(c, "page"))
	})
}
