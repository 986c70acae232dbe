package e2e

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestPruneWaitsForADefinition moves a manifest from a ConfigMap to an object of a kind
// whose CustomResourceDefinition, in the same manifest, is not established because its
// names are taken. The ConfigMap stays until the object exists.
func TestPruneWaitsForADefinition(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd, thing := newKind(t)
	taken := testenv.CRD("unused")
	taken.Name, taken.Spec.Group = "others."+crd.Spec.Group, crd.Spec.Group
	taken.Spec.Names.Plural, taken.Spec.Names.Kind, taken.Spec.Names.ListKind = "others", "Other", "OtherList"
	require.NoError(t, admin.Create(t.Context(), taken))
	t.Cleanup(func() { _ = admin.Delete(t.Context(), taken) }) // the test deletes it
	newVidraResource(t, ns, configMap("old", "hello"))
	awaitReady(t, ns)
	old := declared(t, ns, configMap("old", "hello"))[0]
	uid := get(t, old).GetUID()

	crd.APIVersion, crd.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	definition, err := json.Marshal(crd)
	require.NoError(t, err)
	setManifest(t, ns, manifests(string(definition), thing))
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "waits until its CustomResourceDefinition is established",
		"ConfigMap "+ns+"/old: left the manifest, and is removed when all that is in it is applied")
	require.Equal(t, uid, get(t, old).GetUID())

	require.NoError(t, admin.Delete(t.Context(), taken.DeepCopy()))
	awaitReady(t, ns)
	requireInOrder(t, ns, thingIn(crd, ns))
	awaitGone(t, old)
}

// TestPruneDoesNotWaitForOtherOwners has an object in the manifest that another owner
// keeps as it is. That may stay so for good, and keeps nothing that left the manifest.
func TestPruneDoesNotWaitForOtherOwners(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	rival := ns + "-rival"
	newVidraResource(t, ns, configMap("shared", "theirs"), named(rival))
	awaitReady(t, rival)
	newVidraResource(t, ns, configMap("old", "hello"))
	awaitReady(t, ns)
	setManifest(t, ns, configMap("shared", "ours"))
	awaitNotReady(t, ns, v1alpha1.ReasonOwnershipConflict, "shared")
	awaitGone(t, declared(t, ns, configMap("old", "hello"))[0])
	require.Equal(t, "theirs", greeting(t, declared(t, ns, configMap("shared", ""))[0]))
}
