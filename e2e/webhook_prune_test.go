package e2e

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestF26FailedPruneForgetsNothing has a webhook that refuses the deletion of an
// object that left the manifest. It stays in the inventory, whatever else happens to
// the VidraResource, until it can be deleted.
func TestF26FailedPruneForgetsNothing(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	all := manifests(configMap("old", "hello"), configMap("free", "hello"), configMap("page", "hello"))
	newVidraResource(t, ns, all)
	awaitReady(t, ns)
	old := declaredObject(t, ns, all, "ConfigMap", "old")
	uid := get(t, old).GetUID()
	w := startWebhook(t, ns, false, func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if r.Operation == admissionv1.Delete && r.Name == "old" {
			return refused("old pages are kept")
		}
		return nil
	})

	mark := auditMark(t)
	setManifest(t, ns, configMap("page", "hello"))
	v := requirePruneFailed(t, ns, w.name, "old pages are kept")
	awaitEvent(t, v, corev1.EventTypeWarning, "PruneFailed", "Prune", "ConfigMap "+ns+"/old", w.name)
	awaitGone(t, declaredObject(t, ns, all, "ConfigMap", "free"))
	requireRetriesGetFewer(t, func() requests { return operatorSince(t, mark).On("configmaps", ns, "old").Only(verbIs("delete")) })

	// Nor is it forgotten when the manifest changes again, and it is not healed.
	setManifest(t, ns, configMap("page", "hi"))
	awaitInOrder(t, ns, declared(t, ns, configMap("page", "hi"))...)
	requirePruneFailed(t, ns, w.name)
	require.NoError(t, mergePatch(old, `{"data":{"greeting":"mine"}}`))
	require.NoError(t, mergePatch(declaredObject(t, ns, all, "ConfigMap", "page"), `{"data":{"greeting":"mine"}}`))
	awaitInOrder(t, ns, declared(t, ns, configMap("page", "hi"))...)
	require.Equal(t, "mine", greeting(t, old))
	require.Equal(t, uid, get(t, old).GetUID())

	w.remove(t)
	v = awaitReady(t, ns)
	awaitGone(t, old)
	require.Len(t, v.Status.ManagedResources, 1)
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "ConfigMap "+ns+"/old")
}

// TestF26ManifestTakesBackWhatCannotBePruned brings an object back into the manifest
// whose deletion was refused.
func TestF26ManifestTakesBackWhatCannotBePruned(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	all := manifests(configMap("old", "hello"), configMap("page", "hello"))
	newVidraResource(t, ns, all)
	awaitReady(t, ns)
	old := declaredObject(t, ns, all, "ConfigMap", "old")
	uid := get(t, old).GetUID()
	w := startWebhook(t, ns, false, func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if r.Operation == admissionv1.Delete {
			return refused("pages are kept")
		}
		return nil
	})
	setManifest(t, ns, configMap("page", "hello"))
	requirePruneFailed(t, ns, w.name)
	setManifest(t, ns, all)
	v := awaitReady(t, ns)
	require.Equal(t, v1alpha1.ObjectApplied, entry(t, v, "ConfigMap", "old").State)
	require.Equal(t, uid, get(t, old).GetUID())
	require.NoError(t, mergePatch(old, `{"data":{"greeting":"mine"}}`))
	awaitInOrder(t, ns, old)
	w.remove(t) // so that the VidraResource can go
}

// TestF26DeletionThatIsRefused deletes a VidraResource whose object may not be deleted.
func TestF26DeletionThatIsRefused(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	all := manifests(configMap("old", "hello"), configMap("page", "hello"))
	newVidraResource(t, ns, all)
	awaitReady(t, ns)
	w := startWebhook(t, ns, false, func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if r.Operation == admissionv1.Delete && r.Name == "old" {
			return refused("old pages are kept")
		}
		return nil
	})
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, declaredObject(t, ns, all, "ConfigMap", "page"))
	v := requirePruneFailed(t, ns, w.name)
	require.Contains(t, v.Finalizers, v1alpha1.Finalizer)
	w.remove(t)
	awaitGone(t, v)
	awaitGone(t, declaredObject(t, ns, all, "ConfigMap", "old"))
}

// TestF26PruneWithoutPermission takes the right to delete away from the operator, and
// restarts it in between. It is not parallel: it changes what all tests share.
func TestF26PruneWithoutPermission(t *testing.T) {
	ns := newNamespace(t)
	all := manifests(configMap("old", "hello"), configMap("page", "hello"))
	newVidraResource(t, ns, all)
	awaitReady(t, ns)
	mayDelete(t, false)
	setManifest(t, ns, configMap("page", "hello"))
	requirePruneFailed(t, ns, "cannot delete", operatorUser)

	killOperator(t)
	startOperator(t)
	requirePruneFailed(t, ns, "cannot delete", operatorUser)
	require.Equal(t, "hello", greeting(t, declaredObject(t, ns, all, "ConfigMap", "old")))

	mayDelete(t, true)
	v := awaitReady(t, ns)
	require.Len(t, v.Status.ManagedResources, 1)
	awaitGone(t, declaredObject(t, ns, all, "ConfigMap", "old"))
}

// mayDelete says whether the operator may delete the objects that it manages, and
// returns when the API server knows. When the test ends, it may.
func mayDelete(t *testing.T, allowed bool) {
	t.Helper()
	set := func(ctx context.Context, allowed bool) error {
		role := &rbacv1.ClusterRole{}
		if err := admin.Get(ctx, client.ObjectKey{Name: "vidra-managed-kinds"}, role); err != nil {
			return err
		}
		base := role.DeepCopy()
		role.Rules[0].Verbs = []string{"get", "list", "watch", "create", "patch"}
		if allowed {
			role.Rules[0].Verbs = append(role.Rules[0].Verbs, "delete")
		}
		return admin.Patch(ctx, role, client.MergeFrom(base))
	}
	t.Cleanup(func() { require.NoError(t, set(context.Background(), true)) })
	require.NoError(t, set(t.Context(), allowed))
	awaitAllowed(t, allowed, operatorUser, "delete", "default")
}

// awaitAllowed waits until the API server knows whether a user may do something with the
// ConfigMaps of a namespace: it learns of roles and bindings from a watch.
func awaitAllowed(t *testing.T, allowed bool, user, verb, namespace string) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		ask := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: "configmaps", Namespace: namespace},
		}}
		require.NoError(c, admin.Create(context.Background(), ask))
		require.Equal(c, allowed, ask.Status.Allowed)
	})
}

// requirePruneFailed waits until a VidraResource says that its object old cannot be
// removed, with each part, and requires that it is not forgotten.
func requirePruneFailed(t *testing.T, name string, parts ...string) *v1alpha1.VidraResource {
	t.Helper()
	v := awaitNotReady(t, name, v1alpha1.ReasonPruneFailed, append(parts, "/old", "cannot be removed")...)
	require.Equal(t, v1alpha1.ObjectFailed, entry(t, v, "ConfigMap", "old").State)
	require.NotEmpty(t, entry(t, v, "ConfigMap", "old").UID)
	require.Equal(t, v1alpha1.DeployStale, v.Status.DeployState)
	return v
}
