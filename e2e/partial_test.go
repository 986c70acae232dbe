package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// dozen is a manifest with twelve objects, the seventh of which is given.
func dozen(greeting, seventh string) string {
	var documents []string
	for i := 1; i <= 12; i++ {
		if i == 7 {
			documents = append(documents, seventh)
			continue
		}
		documents = append(documents, configMap(fmt.Sprintf("page-%02d", i), greeting))
	}
	return manifests(documents...)
}

// service is a manifest with one Service.
func service(port int) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata:\n  name: seventh\nspec:\n  ports:\n  - port: %d\n", port)
}

// requireAllBut requires that a VidraResource says the truth about twelve objects of
// which one was not applied, and that the others are as the manifest says.
func requireAllBut(t *testing.T, v *v1alpha1.VidraResource, manifest, kind, name string) {
	t.Helper()
	require.Len(t, v.Status.ManagedResources, 12)
	require.EqualValues(t, 12, v.Status.Objects)
	require.Equal(t, v1alpha1.DeployFailed, v.Status.DeployState)
	for _, obj := range declared(t, v.Name, manifest) {
		e := entry(t, v, obj.GetKind(), obj.GetName())
		if obj.GetKind() == kind && obj.GetName() == name {
			require.Equal(t, v1alpha1.ObjectFailed, e.State)
			continue
		}
		live := requireInOrder(t, v.Name, obj)
		require.Equal(t, v1alpha1.ObjectApplied, e.State)
		require.Equal(t, string(live.GetUID()), e.UID)
		require.NotEmpty(t, e.Digest)
	}
}

// versions are the versions of objects that exist, by name.
func versions(t *testing.T, objs []*unstructured.Unstructured, but string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, obj := range objs {
		if obj.GetName() != but {
			found[obj.GetName()] = get(t, obj).GetResourceVersion()
		}
	}
	return found
}

// TestF27MendedByTheManifest has an object that is invalid, the seventh of twelve, and
// then fixes it: the other eleven are applied, and not written again.
func TestF27MendedByTheManifest(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	broken, fixed := dozen("hello", service(99999)), dozen("hello", service(80))
	newVidraResource(t, ns, broken)
	v := awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "Service "+ns+"/seventh", "99999")
	requireAllBut(t, v, broken, "Service", "seventh")
	require.Empty(t, entry(t, v, "Service", "seventh").UID, "it does not exist")
	require.Nil(t, v.Status.LastSyncTime)
	objs := declared(t, ns, fixed)
	before := versions(t, objs, "seventh")

	setManifest(t, ns, fixed)
	v = awaitReady(t, ns)
	require.Len(t, v.Status.ManagedResources, 12)
	require.NotNil(t, v.Status.LastSyncTime)
	requireInOrder(t, ns, declaredObject(t, ns, fixed, "Service", "seventh"))
	require.Equal(t, before, versions(t, objs, "seventh"), "the others were not written again")

	// And a change of what was applied before is refused in the same way.
	worse := dozen("hi", service(99999))
	setManifest(t, ns, worse)
	v = awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "Service "+ns+"/seventh", "99999")
	requireAllBut(t, v, worse, "Service", "seventh")
	live := requireInOrder(t, ns, declaredObject(t, ns, fixed, "Service", "seventh"))
	require.Equal(t, string(live.GetUID()), entry(t, v, "Service", "seventh").UID, "it is still ours")

	// It leaves the manifest in the state of failure, and is pruned.
	setManifest(t, ns, dozen("hi", configMap("page-07", "hi")))
	v = awaitReady(t, ns)
	require.Len(t, v.Status.ManagedResources, 12)
	awaitGone(t, declaredObject(t, ns, fixed, "Service", "seventh"))
}

// TestF27TheReasonGoesAway has a webhook refuse the seventh of twelve objects, at first
// and when it changes.
func TestF27TheReasonGoesAway(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	refuse := func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if writesTo(r, "seventh") {
			return refused("seven is too many")
		}
		return nil
	}
	w := startWebhook(t, ns, false, refuse)
	manifest := dozen("hello", configMap("seventh", "hello"))
	newVidraResource(t, ns, manifest)
	v := awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "ConfigMap "+ns+"/seventh", "seven is too many")
	requireAllBut(t, v, manifest, "ConfigMap", "seventh")
	require.Empty(t, entry(t, v, "ConfigMap", "seventh").UID)
	objs := declared(t, ns, manifest)
	before := versions(t, objs, "seventh")
	w.remove(t)
	v = awaitReady(t, ns)
	require.NotNil(t, v.Status.LastSyncTime)
	seventh := requireInOrder(t, ns, declaredObject(t, ns, manifest, "ConfigMap", "seventh"))
	require.Equal(t, before, versions(t, objs, "seventh"), "the others were not written again")

	w = startWebhook(t, ns, false, refuse)
	changed := dozen("hi", configMap("seventh", "hi"))
	setManifest(t, ns, changed)
	v = awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "ConfigMap "+ns+"/seventh", "seven is too many")
	requireAllBut(t, v, changed, "ConfigMap", "seventh")
	require.Equal(t, "hello", greeting(t, declaredObject(t, ns, changed, "ConfigMap", "seventh")))
	w.remove(t)
	v = awaitReady(t, ns)
	live := requireInOrder(t, ns, declaredObject(t, ns, changed, "ConfigMap", "seventh"))
	require.Equal(t, seventh.GetUID(), live.GetUID())
	require.Len(t, v.Status.ManagedResources, 12)
}
