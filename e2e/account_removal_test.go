package e2e

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// ownWrites are the requests about objects of a namespace that may change something, and
// that the operator sent with its own rights.
func ownWrites(t *testing.T, mark testenv.AuditMark, namespace string) requests {
	t.Helper()
	return operatorSince(t, mark).ObjectsIn(namespace).Only(func(r request) bool {
		return r.As == "" && !slices.Contains([]string{"get", "list", "watch"}, r.Verb)
	})
}

// TestRemovalNeedsTheAccount takes the account away from a VidraResource, or names one that
// is refused, and has it pruned, healed and deleted: an operator that runs with
// --require-service-account writes nothing with its own rights.
func TestRemovalNeedsTheAccount(t *testing.T) {
	stopOperator(t)
	strict, err := env.StartOperator(t.Context(), testenv.OperatorOptions{
		Binary: operatorBinary, Args: []string{"--require-service-account"}, Env: []string{"POD_NAMESPACE=" + testenv.OperatorNamespace},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, strict.Stop(stopTimeout)) })
	tests := map[string]struct {
		// spoil is the change of the VidraResource, and says what its condition then says.
		spoil, says string
		// orphan lets the VidraResource go without its objects.
		orphan bool
	}{
		"cleared":              {spoil: `{"spec":{"serviceAccountName":null,"manifest":%q}}`, says: "set spec.serviceAccountName"},
		"cleared and orphaned": {spoil: `{"spec":{"serviceAccountName":null,"manifest":%q}}`, says: "set spec.serviceAccountName", orphan: true},
		"of kube-system": {
			spoil: `{"spec":{"serviceAccountName":"namespace-controller","destination":{"namespace":"kube-system"},"manifest":%q}}`, says: "namespace kube-system",
		},
		"of Vidra": {
			spoil: `{"spec":{"serviceAccountName":"vidra-operator","destination":{"namespace":"vidra-system"},"manifest":%q}}`, says: "namespace vidra-system",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			newAccount(t, ns, "deployer", "configmaps")
			at := "\n  namespace: " + ns
			document := func(name, says string) string {
				return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + at + "\ndata:\n  greeting: " + says + "\n"
			}
			manifest := manifests(document("kept", "hello"), document("left", "hello"))
			v := newVidraResource(t, ns, manifest, as("deployer"))
			awaitReady(t, ns)
			kept, left := declaredObject(t, ns, manifest, "ConfigMap", "kept"), declaredObject(t, ns, manifest, "ConfigMap", "left")

			mark := auditMark(t)
			require.NoError(t, mergePatch(v, tt.spoil, document("kept", "changed")))
			awaitNotReady(t, ns, v1alpha1.ReasonServiceAccountRequired, tt.says)
			require.NoError(t, mergePatch(kept, `{"data":{"greeting":"edited"}}`))
			require.NoError(t, deleteVidraResource(t.Context(), ns))
			waiting := awaitNotReady(t, ns, v1alpha1.ReasonServiceAccountRequired, tt.says, "Vidra removes its objects (2)", "set spec.deletionPolicy to Orphan")
			require.Len(t, waiting.Status.ManagedResources, 2)
			awaitEvent(t, waiting, corev1.EventTypeWarning, v1alpha1.ReasonServiceAccountRequired, "Apply", "spec.deletionPolicy")
			require.Empty(t, ownWrites(t, mark, ns))
			get(t, left)

			if tt.orphan {
				require.NoError(t, mergePatch(v, `{"spec":{"deletionPolicy":"Orphan"}}`))
				awaitGone(t, v)
				get(t, left)
			} else {
				require.NoError(t, mergePatch(v, `{"spec":{"serviceAccountName":"deployer","destination":{"namespace":%q}}}`, ns))
				await(t, func(c *assert.CollectT) {
					gone := operatorSince(t, mark).ObjectsIn(ns).Only(verbIs("delete"))
					require.Len(c, gone, 2)
				})
				awaitGone(t, v)
				awaitGone(t, left)
				awaitGone(t, kept)
			}
			require.Empty(t, ownWrites(t, mark, ns))
		})
	}
}

// TestRemovalWithoutRights deletes a VidraResource whose account may no longer read its object. What does
// not exist, or is another object, is not waited for; what is ours is.
func TestRemovalWithoutRights(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// happens is what happens to the object meanwhile.
		happens func(t *testing.T, page *unstructured.Unstructured)
		waits   bool
	}{
		"absent": {happens: func(t *testing.T, page *unstructured.Unstructured) {
			require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
		}},
		"another object": {happens: func(t *testing.T, page *unstructured.Unstructured) {
			require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
			require.NoError(t, admin.Create(t.Context(), page.DeepCopy()))
		}},
		"ours": {happens: func(*testing.T, *unstructured.Unstructured) {}, waits: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newAccount(t, ns, "deployer", "configmaps")
			v := newVidraResource(t, ns, configMap("page", "hello"), as("deployer"))
			awaitReady(t, ns)
			page := declared(t, ns, configMap("page", "hello"))[0]
			require.NoError(t, admin.DeleteAllOf(t.Context(), &rbacv1.RoleBinding{}, client.InNamespace(ns)))
			await(t, func(c *assert.CollectT) { require.False(c, mayGet(c, ns, "deployer", "configmaps")) })
			tt.happens(t, page)

			require.NoError(t, deleteVidraResource(t.Context(), ns))
			if tt.waits {
				awaitNotReady(t, ns, v1alpha1.ReasonPruneFailed, "ConfigMap "+ns+"/page", "forbidden")
				grant(t, ns, "deployer", "configmaps")
				awaitGone(t, v)
				awaitGone(t, page)
				return
			}
			awaitGone(t, v)
			require.Equal(t, name != "absent", cluster.Exists(t, page))
		})
	}
}

// mayGet reports whether a ServiceAccount may read objects of a resource in its namespace.
func mayGet(t require.TestingT, namespace, account, resource string) bool {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + namespace + ":" + account,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Resource: resource, Name: "page"},
	}}
	require.NoError(t, admin.Create(context.Background(), review))
	return review.Status.Allowed
}
