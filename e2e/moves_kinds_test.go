package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestMoveOfKinds moves objects of unlike kinds from one VidraResource to another, which is written last: cluster-scoped ones, ones with finalizers, in
// another version of their kind, and containers whose contents stay with the former owner.
func TestMoveOfKinds(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		// was and is are the manifests of the object that moves, before the move and after it, and stays is what the former owner has in it.
		was, is, stays string
		// kind and name are the object.
		kind, name string
		// before changes the object.
		before string
		// namespaceOfTwo has the second VidraResource in another namespace.
		elsewhere bool
		crd       bool
	}{
		"ClusterRole": {
			reason: "It has no namespace, and the VidraResources have unlike ones.", kind: "ClusterRole", name: "NS", elsewhere: true,
			was: "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: NS\nrules:\n- {apiGroups: [\"\"], resources: [pods], verbs: [get]}\n",
			is:  "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: NS\nrules:\n- {apiGroups: [\"\"], resources: [pods], verbs: [list]}\n",
		},
		"Finalizer": {
			reason: "Its deletion would wait for ever.", kind: "ConfigMap", name: "page", before: `{"metadata":{"finalizers":["example.com/wait"]}}`,
			was: configMap("page", "hello"), is: configMap("page", "goodbye"),
		},
		"Version": {
			reason: "The new manifest has another version of the kind.", kind: "Thing", name: "thing", crd: true,
			was: "apiVersion: GROUP/v1beta1\nkind: Thing\nmetadata:\n  name: thing\nspec: {size: 1, color: red}\n", is: "apiVersion: GROUP/v1\nkind: Thing\nmetadata:\n  name: thing\nspec: {size: 2}\n",
		},
		"Namespace": {
			reason: "The former owner has objects in it.", kind: "Namespace", name: "NS-in",
			was: "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: NS-in\n", is: "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: NS-in\n  labels: {team: two}\n", stays: pageIn("NS-in", "inside", "hello"),
		},
		"Definition": {
			reason: "The former owner has objects of the kind.", kind: "CustomResourceDefinition", name: "things.NS.example.com",
			was:   editedObject("CustomResourceDefinition", "NS", ""),
			is:    strings.Replace(editedObject("CustomResourceDefinition", "NS", ""), "metadata:\n", "metadata:\n  labels: {team: two}\n", 1),
			stays: "apiVersion: NS.example.com/v1\nkind: Thing\nmetadata:\n  name: inside\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, group := newNamespace(t), ""
			if tc.crd {
				crd, _ := newKind(t)
				old := crd.Spec.Versions[0]
				old.Name, old.Storage = "v1beta1", false
				crd.Spec.Versions = append(crd.Spec.Versions, old)
				require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
				group = crd.Spec.Group
			}
			text := strings.NewReplacer("NS", ns, "GROUP", group).Replace
			one, two, second := ns+"-one", ns+"-two", ns
			if tc.elsewhere {
				second = newNamespace(t)
			}
			first := configMap("stays", one)
			if tc.stays != "" {
				first = manifests(first, text(tc.stays))
			}
			newVidraResource(t, ns, manifests(first, text(tc.was)), named(one))
			newVidraResource(t, second, configMap("other", two), named(two))
			cluster.AwaitReadyFor(t, 2*patience, one)
			awaitReady(t, two)
			obj := declaredObject(t, ns, text(tc.is), tc.kind, text(tc.name))
			t.Cleanup(func() {
				_ = mergePatch(obj.DeepCopy(), `{"metadata":{"finalizers":null}}`)
				_ = admin.Delete(context.Background(), obj.DeepCopy())
			})
			uid := get(t, obj).GetUID()
			if tc.before != "" {
				require.NoError(t, mergePatch(obj.DeepCopy(), "%s", tc.before))
			}
			var inside types.UID
			if tc.stays != "" {
				inside = get(t, declared(t, ns, text(tc.stays))[0]).GetUID()
			}
			setManifest(t, one, first)
			setManifest(t, two, manifests(configMap("other", two), text(tc.is)))
			requireMoved(t, two, obj, uid)
			awaitReady(t, two)
			awaitReady(t, one)
			require.Equal(t, uid, get(t, obj).GetUID(), tc.reason)
			requireInOrder(t, two, obj)
			if tc.stays != "" {
				require.Equal(t, inside, get(t, declared(t, ns, text(tc.stays))[0]).GetUID(), tc.reason)
			}
		})
	}
}

// TestRenameWithAccounts renames a VidraResource whose account is another one than that of the new one: the objects keep their UIDs, although the new
// account is granted its rights last.
func TestRenameWithAccounts(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newAccount(t, ns, "former", "configmaps", "persistentvolumeclaims")
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "new"}}))
	one, two := ns+"-one", ns+"-two"
	manifest := manifests(configMap("page", "hello"), claimOf("data", "one"))
	v := newVidraResource(t, ns, manifest, named(one), as("former"))
	awaitReady(t, one)
	page, data := declaredObject(t, ns, manifest, "ConfigMap", "page"), declaredObject(t, ns, manifest, "PersistentVolumeClaim", "data")
	uids := []types.UID{get(t, page).GetUID(), get(t, data).GetUID()}
	grant(t, ns, "new", "configmaps", "persistentvolumeclaims")
	await(t, func(c *assert.CollectT) { require.True(c, reviewed(c, "system:serviceaccount:"+ns+":new", ns)) })
	require.NoError(t, deleteVidraResource(t.Context(), one))
	newVidraResource(t, ns, manifest, named(two), as("new"))
	requireMoved(t, two, page, uids[0])
	requireMoved(t, two, data, uids[1])
	awaitGone(t, v)
	awaitReady(t, two)

	// The account that is left loses its rights: nothing is deleted on its behalf.
	require.NoError(t, admin.DeleteAllOf(t.Context(), &rbacv1.RoleBinding{}, client.InNamespace(ns)))
	await(t, func(c *assert.CollectT) { require.False(c, reviewed(c, "system:serviceaccount:"+ns+":new", ns)) })
	three := ns + "-three"
	require.NoError(t, deleteVidraResource(t.Context(), two))
	newVidraResource(t, ns, manifest, named(three))
	awaitNotReady(t, two, v1alpha1.ReasonPruneFailed, "forbidden")
	require.Equal(t, []types.UID{get(t, page).GetUID(), get(t, data).GetUID()}, uids)
	grant(t, ns, "new", "configmaps", "persistentvolumeclaims")
	requireMoved(t, three, page, uids[0])
	requireMoved(t, three, data, uids[1])
	awaitGone(t, vidraResourceOf(two, ns, ""))
}
