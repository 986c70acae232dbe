package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// soon is how long Vidra may take to take up a kind that has appeared: mostly it is a
// third of a second, and some seconds where the machine has much else to do.
const soon = 10 * time.Second

// newKind is a CustomResourceDefinition that the API server does not have, and
// the manifest of an object of its kind.
func newKind(t *testing.T) (crd *apiextensionsv1.CustomResourceDefinition, thing string) {
	t.Helper()
	crd = testenv.CRD(unique(t))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), crd.DeepCopy()) }) // the test may have
	return crd, fmt.Sprintf("apiVersion: %s/v1\nkind: Thing\nmetadata:\n  name: thing\nspec:\n  size: 1\n  color: red\n", crd.Spec.Group)
}

// thingIn is the object of a manifest that newKind made. It need not be known to
// the API server.
func thingIn(crd *apiextensionsv1.CustomResourceDefinition, ns string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": crd.Spec.Group + "/v1", "kind": "Thing",
		"metadata": map[string]any{"name": "thing", "namespace": ns},
		"spec":     map[string]any{"size": int64(1), "color": "red"},
	}}
}

// requireWatched edits and deletes an object of a new kind.
func requireWatched(t *testing.T, owner string, thing *unstructured.Unstructured) {
	t.Helper()
	require.NoError(t, mergePatch(thing, `{"spec":{"size":7}}`))
	awaitInOrder(t, owner, thing)
	require.NoError(t, admin.Delete(t.Context(), thing.DeepCopy()))
	awaitInOrder(t, owner, thing)
}

// TestKindThatAppearsLater installs a CRD after the VidraResource that needs it.
func TestKindThatAppearsLater(t *testing.T) {
	t.Parallel()
	process := operator
	ns := newNamespace(t)
	crd, manifest := newKind(t)
	thing := thingIn(crd, ns)
	newVidraResource(t, ns, manifests(configMap("first", "hello"), manifest, configMap("last", "hello")))

	v := awaitNotReady(t, ns, v1alpha1.ReasonKindUnavailable, "Thing", crd.Spec.Group, "CustomResourceDefinition")
	require.Equal(t, v1alpha1.DeployPending, v.Status.DeployState)
	awaitEvent(t, v, corev1.EventTypeWarning, "KindUnavailable", "Apply", "Thing", crd.Spec.Group)
	for _, other := range []string{"first", "last"} {
		requireInOrder(t, ns, declared(t, ns, configMap(other, "hello"))[0])
	}

	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	created := time.Now()
	awaitInOrder(t, ns, thing)
	took := time.Since(created)
	require.Less(t, took, soon)
	t.Logf("applied %s after its kind was created", took.Round(time.Millisecond))
	v = awaitReady(t, ns)
	require.Len(t, v.Status.ManagedResources, 3)
	require.Equal(t, string(get(t, thing).GetUID()), entry(t, v, "Thing", "thing").UID)
	awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", "is not served here")

	requireWatched(t, ns, thing)
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "Thing", "reverted spec.size to 1", person)
	require.Same(t, process, operator, "the operator was not restarted")
	require.NoError(t, operator.Err())
}

// TestKindComesBackWithAnotherScope deletes the CRD of a managed object, and creates it again with another scope: the former object was deleted with the
// former CRD, and the manifest is applied as it is read now.
func TestKindComesBackWithAnotherScope(t *testing.T) {
	t.Parallel()
	for name, scopes := range map[string][2]apiextensionsv1.ResourceScope{
		"ToCluster":   {apiextensionsv1.NamespaceScoped, apiextensionsv1.ClusterScoped},
		"ToNamespace": {apiextensionsv1.ClusterScoped, apiextensionsv1.NamespaceScoped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			crd, manifest := newKind(t)
			thing := func(scope apiextensionsv1.ResourceScope) *unstructured.Unstructured {
				one := thingIn(crd, ns)
				if scope == apiextensionsv1.ClusterScoped {
					unstructured.RemoveNestedField(one.Object, "metadata", "namespace")
				}
				return one
			}
			crd.Spec.Scope = scopes[0]
			require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
			newVidraResource(t, ns, manifest)
			awaitReady(t, ns)
			require.NoError(t, admin.Delete(t.Context(), crd.DeepCopy()))
			awaitGone(t, crd)
			crd.Spec.Scope = scopes[1]
			require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
			awaitInOrder(t, ns, thing(scopes[1]))
			v := awaitReady(t, ns)
			require.Len(t, v.Status.ManagedResources, 1)
			require.NoError(t, deleteVidraResource(t.Context(), ns))
			awaitGone(t, v)
			awaitGone(t, thing(scopes[1]))
		})
	}
}

// TestKindInTheSameManifest has a CRD and an object of its kind in one manifest,
// in the wrong order. That is no problem to report.
func TestKindInTheSameManifest(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd, manifest := newKind(t)
	definition := crd.DeepCopy()
	definition.APIVersion, definition.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	encoded, err := json.Marshal(definition)
	require.NoError(t, err)
	newVidraResource(t, ns, manifests(manifest, string(encoded)))

	v := awaitReady(t, ns)
	thing := thingIn(crd, ns)
	requireInOrder(t, ns, thing)
	require.Len(t, v.Status.ManagedResources, 2)
	requireWatched(t, ns, thing)
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "Thing") // what came before is there too
	require.Empty(t, withReason(eventsAbout(t, v), "KindUnavailable"))
	require.Empty(t, withReason(eventsAbout(t, v), "Recovered"))

	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	awaitGone(t, crd)
}

// skipWhereKindsStay skips a test that deletes a CRD with an object that is recreated. The API server of
// Kubernetes 1.33 may accept the new object although the CRD is terminating, and then deletes it
// at its next attempt, a minute later.
func skipWhereKindsStay(t *testing.T) {
	t.Helper()
	if !testenv.AtLeast(34) {
		t.Skip("Kubernetes 1.33 may take more than a minute to delete the CRD")
	}
}

// TestKindThatGoesAndComesBack deletes a CRD, and all objects with it, twice.
func TestKindThatGoesAndComesBack(t *testing.T) {
	t.Parallel()
	skipWhereKindsStay(t)
	ns := newNamespace(t)
	crd, manifest := newKind(t)
	thing := thingIn(crd, ns)
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	newVidraResource(t, ns, manifests(configMap("other", "hello"), manifest))
	awaitReady(t, ns)
	requireInOrder(t, ns, thing)

	for range 2 {
		require.NoError(t, admin.Delete(t.Context(), crd.DeepCopy()))
		v := awaitNotReady(t, ns, v1alpha1.ReasonKindUnavailable, "Thing")
		awaitEvent(t, v, corev1.EventTypeWarning, "KindUnavailable", "Apply", "Thing")
		awaitGone(t, crd)
		other := declared(t, ns, configMap("other", "hello"))[0]
		require.NoError(t, mergePatch(other, `{"data":{"greeting":"changed"}}`))
		awaitInOrder(t, ns, other) // another kind is not disturbed

		require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
		created := time.Now()
		awaitInOrder(t, ns, thing)
		took := time.Since(created)
		require.Less(t, took, soon)
		t.Logf("applied %s after its kind came back", took.Round(time.Millisecond))
		v = awaitReady(t, ns)
		require.Equal(t, string(get(t, thing).GetUID()), entry(t, v, "Thing", "thing").UID)
		requireWatched(t, ns, thing)
	}
}

// TestDeletionWithoutItsKind deletes a VidraResource whose objects went with
// their kind. Vidra waits a while before it believes that: an API server that has
// just started does not serve every kind yet.
func TestDeletionWithoutItsKind(t *testing.T) {
	t.Parallel()
	skipWhereKindsStay(t)
	ns := newNamespace(t)
	crd, manifest := newKind(t)
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	newVidraResource(t, ns, manifests(configMap("other", "hello"), manifest))
	v := awaitReady(t, ns)
	require.NoError(t, admin.Delete(t.Context(), crd.DeepCopy()))
	awaitGone(t, crd)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, declared(t, ns, configMap("other", "hello"))[0])
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "Thing", "not served")
	awaitGoneFor(t, 2*patience, v)
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Removed ", "Thing "+ns+"/thing")
}

// TestManyObjectsOfAKindThatIsGone deletes a VidraResource with many objects that went with their kind. Vidra asks about the kind, and not about
// each object.
func TestManyObjectsOfAKindThatIsGone(t *testing.T) {
	t.Parallel()
	skipWhereKindsStay(t)
	const objects, most = 100, 300 // the watches ask until the kind counts as gone, whatever the number of objects
	ns := newNamespace(t)
	crd, manifest := newKind(t)
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	var all []string
	for i := range objects {
		all = append(all, strings.ReplaceAll(manifest, "name: thing\n", fmt.Sprintf("name: thing-%d\n", i)))
	}
	newVidraResource(t, ns, manifests(all...))
	v := awaitReady(t, ns)
	require.NoError(t, admin.Delete(t.Context(), crd.DeepCopy()))
	awaitGone(t, crd)
	mark := auditMark(t)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGoneFor(t, 2*patience, v)
	about := operatorSince(t, mark).Only(func(r request) bool { return strings.Contains(r.RequestURI, crd.Spec.Group) })
	require.Less(t, len(about), most, "requests about the kind")
}

// TestKindThatIsNotServed deletes a VidraResource, and takes an object out of the manifest of another one, while no version of
// the kind is served: the objects exist, and nothing is forgotten.
func TestKindThatIsNotServed(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd, manifest := newKind(t)
	deleted, pruned := ns+"-deleted", ns+"-pruned"
	of := func(name string) string {
		return strings.ReplaceAll(manifest, "name: thing\n", "name: "+name+"\n")
	}
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	newVidraResource(t, ns, of("first"), named(deleted))
	newVidraResource(t, ns, manifests(configMap("other", "hello"), of("second")), named(pruned))
	v := awaitReady(t, deleted)
	awaitReady(t, pruned)
	serve := func(served bool) {
		await(t, func(c *assert.CollectT) {
			live := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(crd), live))
			for i := range live.Spec.Versions {
				live.Spec.Versions[i].Served = served
			}
			require.NoError(c, admin.Update(context.Background(), live))
		})
	}
	serve(false)
	awaitNotReady(t, pruned, v1alpha1.ReasonKindUnavailable, "Thing")
	require.NoError(t, deleteVidraResource(t.Context(), deleted))
	setManifest(t, pruned, configMap("other", "hello"))
	definition := "CustomResourceDefinition " + crd.Name + " exists"
	awaitNotReady(t, pruned, v1alpha1.ReasonProgressing, "Thing "+ns+"/second", definition, "spec.deletionPolicy to Orphan")
	awaitNotReady(t, deleted, v1alpha1.ReasonProgressing, "Thing "+ns+"/first", definition)
	require.Len(t, getVidraResource(t, deleted).Status.ManagedResources, 1)
	require.Len(t, getVidraResource(t, pruned).Status.ManagedResources, 2)
	serve(true)
	awaitGoneFor(t, 2*patience, v)
	awaitReady(t, pruned)
	things := thingIn(crd, ns)
	for _, name := range []string{"first", "second"} {
		things.SetName(name)
		awaitGone(t, things)
	}
}

// TestKindVersionThatIsRemoved takes the version away that the manifest names,
// while another version of the kind stays.
func TestKindVersionThatIsRemoved(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd, manifest := newKind(t)
	thing := thingIn(crd, ns)
	second := crd.Spec.Versions[0]
	second.Name, second.Storage = "v2", false
	crd.Spec.Versions = append(crd.Spec.Versions, second)
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)

	serve := func(served bool) {
		await(t, func(c *assert.CollectT) {
			live := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(crd), live))
			live.Spec.Versions[0].Served = served
			if err := admin.Update(context.Background(), live); !apierrors.IsConflict(err) {
				require.NoError(t, err)
				return
			}
			require.Fail(c, "another client wrote to it")
		})
	}
	serve(false)
	awaitNotReady(t, ns, v1alpha1.ReasonKindUnavailable, "Thing")
	serve(true)
	awaitReady(t, ns)
	requireWatched(t, ns, thing)
}
