package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// namespacesOf lets an account do with Namespaces what Vidra does.
func namespacesOf(t *testing.T, ns, account string) {
	t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-namespaces"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "create", "patch", "delete"}}},
	}
	require.NoError(t, admin.Create(t.Context(), role))
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: account}},
	}
	require.NoError(t, admin.Create(t.Context(), binding))
	t.Cleanup(func() {
		_ = admin.Delete(context.Background(), role)
		_ = admin.Delete(context.Background(), binding)
	})
}

// deployerOf makes the account deployer in a namespace, with rights on Namespaces and on the ConfigMaps of another one.
func deployerOf(t *testing.T) (home, ns string) {
	t.Helper()
	home, ns = newNamespace(t), unique(t)
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	newAccount(t, home, "deployer", "configmaps")
	namespacesOf(t, home, "deployer")
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: home, Name: "deployer"}
	cluster.GrantTo(t, account, ns, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "patch", "delete"}})
	return home, ns
}

// TestFailedMemberKeepsItsContainer removes a Namespace while the requests of the account about an object in it fail: the object stays for another
// reason than the failure, and so does the Namespace.
func TestFailedMemberKeepsItsContainer(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		// before makes the reason for which the object stays.
		before func(t *testing.T, home string, page *unstructured.Unstructured)
	}{
		"BreakGlass": {"Break-glass exempts the object.", func(t *testing.T, home string, page *unstructured.Unstructured) {
			t.Helper()
			annotate(t, page, in(3600e9), "incident 42")
			awaitAnswer(t, home, page, v1alpha1.BreakGlassAccepted, "incident 42")
		}},
		"Move": {"Another VidraResource has it in its manifest.", func(t *testing.T, home string, page *unstructured.Unstructured) {
			t.Helper()
			newVidraResource(t, page.GetNamespace(), configMap("page", "hello"), named(home+"-other"), suspend)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, ns := deployerOf(t)
			fence := configMap("fence", "hello")
			in := pageIn(ns, "page", "hello")
			newVidraResource(t, home, manifests(fence, namespaceOf(ns), in), as("deployer"), adopting(v1alpha1.AdoptAlways))
			awaitReady(t, home)
			page, namespace := declaredObject(t, ns, in, "ConfigMap", "page"), declaredObject(t, home, namespaceOf(ns), "Namespace", ns)
			t.Cleanup(func() { _ = admin.Delete(context.Background(), namespace.DeepCopy()) })
			tc.before(t, home, page)
			uid := get(t, page).GetUID()
			require.NoError(t, admin.DeleteAllOf(t.Context(), &rbacv1.RoleBinding{}, client.InNamespace(ns)))
			await(t, func(c *assert.CollectT) { require.False(c, reviewed(c, "system:serviceaccount:"+home+":deployer", ns)) })
			setManifest(t, home, fence)
			awaitProblem(t, home, "Namespace", "is not removed before it is known whether ConfigMap "+ns+"/page, which would be deleted with it, is to be kept")
			require.Equal(t, uid, get(t, page).GetUID(), tc.reason)
			require.Nil(t, get(t, namespace).GetDeletionTimestamp(), tc.reason)
		})
	}
}

// awaitProblem waits until the status has a problem of an object of a kind.
func awaitProblem(t *testing.T, name, kind, message string) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		var messages []string
		for _, p := range getVidraResource(c, name).Status.Problems {
			if p.Object != nil && p.Object.Kind == kind {
				messages = append(messages, p.Message)
			}
		}
		require.Contains(c, strings.Join(messages, "\n"), message)
	})
}

// TestDanglingReferenceThatIsNotWritten deletes the owner of an object, and so the object, where Vidra reverts nothing: that is drift, and no refusal of a
// reference that Vidra would not write.
func TestDanglingReferenceThatIsNotWritten(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1alpha1.VidraResourceSpec){
		"Warn":    func(spec *v1alpha1.VidraResourceSpec) { spec.Drift = &v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn} },
		"Suspend": func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			owner := unmanagedIn(t, ns, "owner", nil)
			manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: owned\n  ownerReferences:\n  - {apiVersion: v1, kind: ConfigMap, name: owner, uid: " + string(owner.UID) + "}\ndata:\n  greeting: hello\n"
			newVidraResource(t, ns, manifests(configMap("fence", "hello"), manifest))
			awaitReady(t, ns)
			changeSpec(t, ns, change)
			await(t, func(c *assert.CollectT) {
				v := getVidraResource(c, ns)
				require.Equal(c, v.Generation, v.Status.ObservedGeneration)
			})
			owned := declaredObject(t, ns, manifest, "ConfigMap", "owned")
			mark := auditMark(t)
			require.NoError(t, admin.Delete(t.Context(), owner, client.PropagationPolicy(metav1.DeletePropagationBackground)))
			awaitGone(t, owned)
			await(t, func(c *assert.CollectT) {
				require.Equal(c, metav1.ConditionTrue, condition(c, getVidraResource(c, ns), v1alpha1.ConditionDrifted).Status)
			})
			text, err := json.Marshal(getVidraResource(t, ns).Status)
			require.NoError(t, err)
			require.NotContains(t, string(text), "garbage collector")
			require.Empty(t, operatorSince(t, mark).On("configmaps", ns, "owned").Writes())
		})
	}
}

// TestMoveToAnInstallationWithOtherRules moves an object from an installation that requires accounts to a VidraResource without one, of an installation
// that requires none: its own rules decide whether it may apply the object.
func TestMoveToAnInstallationWithOtherRules(t *testing.T) {
	startEast(t)
	stopOperator(t)
	strict, err := env.StartOperator(t.Context(), testenv.OperatorOptions{
		Binary: operatorBinary, Args: []string{"--require-service-account"}, Env: []string{"POD_NAMESPACE=" + testenv.OperatorNamespace},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, strict.Stop(stopTimeout)) })
	ns := newNamespace(t)
	newAccount(t, ns, "deployer", "configmaps")
	giver, taker := ns+"-giver", ns+"-taker"
	newVidraResource(t, ns, manifests(configMap("stays", "hello"), configMap("page", "hello")), named(giver), as("deployer"))
	newVidraResource(t, ns, configMap("other", "hello"), named(taker), of(east))
	awaitReady(t, giver)
	awaitReady(t, taker)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	uid := get(t, page).GetUID()
	changeSpec(t, taker, func(spec *v1alpha1.VidraResourceSpec) {
		spec.Suspend, spec.Manifest = true, manifests(configMap("other", "hello"), configMap("page", "goodbye"))
	})
	setManifest(t, giver, configMap("stays", "hello"))
	awaitProblem(t, giver, "ConfigMap", "is in the manifest of VidraResource "+taker)
	changeSpec(t, taker, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = false })
	requireMovedTo(t, east.FieldManager(taker), page, uid)
	awaitReady(t, taker)
	awaitReady(t, giver)
	require.Equal(t, uid, get(t, page).GetUID())
}

// reviewed reports whether a user may get ConfigMaps in a namespace.
func reviewed(t require.TestingT, user, in string) bool {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: in, Verb: "get", Resource: "configmaps", Name: "page"},
	}}
	require.NoError(t, admin.Create(context.Background(), review))
	return review.Status.Allowed
}

// TestMemberOfTheManifestKeepsItsContainer drops a Namespace or CustomResourceDefinition from the manifest, and no object in it: the container stays
// with the object, applied or not, and the condition names both. It goes with the object.
func TestMemberOfTheManifestKeepsItsContainer(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		// before breaks the object, and object is the manifest of it then; nil if it stays the same.
		before func(t *testing.T, home, ns string)
		object func(ns string) string
		// says are parts of the message about the container.
		says []string
	}{
		"Applied": {reason: "It would be deleted, and could not be applied again.", says: []string{"it holds ConfigMap NS/page, which stays in the manifest", "put the Namespace back"}},
		"Unreadable": {reason: "The account lost its rights.", before: func(t *testing.T, home, ns string) {
			t.Helper()
			require.NoError(t, admin.DeleteAllOf(t.Context(), &rbacv1.RoleBinding{}, client.InNamespace(ns)))
			await(t, func(c *assert.CollectT) { require.False(c, reviewed(c, "system:serviceaccount:"+home+":deployer", ns)) })
		}, says: []string{"ConfigMap NS/page"}},
		"Refused": {reason: "The API server refuses its change.", before: func(t *testing.T, _, ns string) {
			t.Helper()
			page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}}
			require.NoError(t, mergePatch(page, `{"immutable":true}`))
		}, object: func(ns string) string { return pageIn(ns, "page", "goodbye") }, says: []string{"is removed when all that is in it is applied", "it holds ConfigMap NS/page"}},
		"Foreign": {reason: "An unmanaged object has its name.", before: func(t *testing.T, _, ns string) {
			t.Helper()
			unmanagedIn(t, ns, "mine", nil)
		}, object: func(ns string) string { return manifests(pageIn(ns, "page", "hello"), pageIn(ns, "mine", "hello")) }, says: []string{"it holds ConfigMap NS/mine, which stays in the manifest"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, ns := deployerOf(t)
			fence, in := configMap("fence", "hello"), pageIn(ns, "page", "hello")
			newVidraResource(t, home, manifests(fence, namespaceOf(ns), in), as("deployer"), adopting(v1alpha1.AdoptIfIdentical))
			awaitReady(t, home)
			page, namespace := declaredObject(t, ns, in, "ConfigMap", "page"), declaredObject(t, home, namespaceOf(ns), "Namespace", ns)
			t.Cleanup(func() { _ = admin.Delete(context.Background(), namespace.DeepCopy()) })
			uid := get(t, page).GetUID()
			if tc.before != nil {
				tc.before(t, home, ns)
			}
			if tc.object != nil {
				in = tc.object(ns)
			}
			setManifest(t, home, manifests(fence, in))
			for i := range tc.says {
				awaitProblem(t, home, "Namespace", strings.ReplaceAll(tc.says[i], "NS", ns))
			}
			require.Nil(t, get(t, namespace).GetDeletionTimestamp(), tc.reason)
			require.Equal(t, uid, get(t, page).GetUID(), tc.reason)
			if name == "Applied" { // the Namespace is back, and then it leaves with its contents
				setManifest(t, home, manifests(fence, namespaceOf(ns), in))
				awaitReady(t, home)
				setManifest(t, home, manifests(fence, in))
				awaitProblem(t, home, "Namespace", "which stays in the manifest")
			}
			if name == "Applied" || name == "Foreign" {
				setManifest(t, home, fence)
				awaitGoneFor(t, 2*patience, namespace)
				cluster.AwaitReadyFor(t, 2*patience, home)
			}
		})
	}
	t.Run("Definition", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		definition, group := editedObject("CustomResourceDefinition", ns, ""), ns+".example.com"
		thing := "apiVersion: " + group + "/v1\nkind: Thing\nmetadata:\n  name: thing\n"
		crd := declaredObject(t, ns, definition, "CustomResourceDefinition", "things."+group)
		t.Cleanup(func() { _ = admin.Delete(context.Background(), crd.DeepCopy()) })
		newVidraResource(t, ns, manifests(configMap("fence", "hello"), definition, thing))
		awaitReady(t, ns)
		live := get(t, declaredObject(t, ns, thing, "Thing", "thing"))
		setManifest(t, ns, manifests(configMap("fence", "hello"), thing))
		awaitNotReady(t, ns, v1alpha1.ReasonDeletionBlocked, "CustomResourceDefinition "+crd.GetName(), "it holds Thing "+ns+"/thing, which stays in the manifest")
		require.Equal(t, live.GetUID(), get(t, live).GetUID())
		setManifest(t, ns, configMap("fence", "hello"))
		awaitGoneFor(t, 2*patience, crd)
		cluster.AwaitReadyFor(t, 2*patience, ns)
	})
}

// pageIn is the manifest of a ConfigMap in a namespace.
func pageIn(ns, name, greeting string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n  namespace: " + ns + "\ndata:\n  greeting: " + greeting + "\n"
}
