package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// newKindInTwoVersions installs a kind that is served as v1 and v1beta1, and returns a manifest with an object of it in v1beta1.
func newKindInTwoVersions(t *testing.T) (crd *apiextensionsv1.CustomResourceDefinition, manifest string) {
	t.Helper()
	crd, manifest = newKind(t)
	old := crd.Spec.Versions[0]
	old.Name, old.Storage = "v1beta1", false
	crd.Spec.Versions = append(crd.Spec.Versions, old)
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	return crd, strings.Replace(manifest, "/v1\n", "/v1beta1\n", 1)
}

// removeFormerVersion ends v1beta1.
func removeFormerVersion(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		live := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(crd), live))
		live.Spec.Versions = live.Spec.Versions[:1]
		require.NoError(c, admin.Update(context.Background(), live))
	})
}

// TestReleaseOfAVersionThatIsGone deletes a VidraResource of an object that stays, once the version is gone in which it and another
// client wrote its fields: the object is released.
func TestReleaseOfAVersionThatIsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		shared bool
	}{
		"Orphan": {"A VidraResource without deletions leaves it.", false},
		"Shared": {"Another VidraResource keeps it.", true},
	} {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			crd, manifest := newKindInTwoVersions(t)
			v := newVidraResource(t, ns, manifest, func(v *v1alpha1.VidraResource) {
				if !tc.shared {
					v.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
				}
			})
			awaitReady(t, ns)
			if tc.shared {
				newVidraResource(t, ns, manifest, named(ns+"-other"))
				awaitReady(t, ns+"-other")
			}
			thing := thingIn(crd, ns)
			thing.SetAPIVersion(crd.Spec.Group + "/v1beta1")
			require.NoError(t, edit(thing, types.MergePatchType, `{"metadata":{"labels":{"mine":"1"}}}`, client.FieldOwner("kubectl-edit")))
			removeFormerVersion(t, crd)
			awaitNotReady(t, ns, v1alpha1.ReasonKindUnavailable, "Thing")
			require.NoError(t, deleteVidraResource(t.Context(), ns))
			awaitGone(t, v)
			live := get(t, thingIn(crd, ns))
			require.NotContains(t, ownership.Managers(live, v1alpha1.FieldManagerPrefix), v1alpha1.FieldManager(ns), tc.reason)
			require.Equal(t, tc.shared, live.GetLabels()[v1alpha1.ManagedByLabel] != "", tc.reason)
			require.Equal(t, "1", live.GetLabels()["mine"], tc.reason)
		})
	}
}

// TestDroppedFieldOfAVersionThatIsGone takes a version of a kind away for good, and then moves the manifest to another version
// without one of its fields: the field leaves the object, also after a restart.
func TestDroppedFieldOfAVersionThatIsGone(t *testing.T) {
	for name, restart := range map[string]bool{"Running": false, "Restarted": true} {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			crd, former := newKindInTwoVersions(t)
			manifest := strings.Replace(former, "/v1beta1\n", "/v1\n", 1)
			newVidraResource(t, ns, former)
			awaitReady(t, ns)
			removeFormerVersion(t, crd)
			awaitNotReady(t, ns, v1alpha1.ReasonKindUnavailable, "Thing")
			if restart {
				stopOperator(t)
			}
			without := strings.Replace(manifest, "  color: red\n", "", 1)
			require.NotEqual(t, manifest, without)
			setManifest(t, ns, without)
			if restart {
				startOperator(t)
			}
			awaitReady(t, ns)
			spec, _, err := unstructured.NestedMap(get(t, thingIn(crd, ns)).Object, "spec")
			require.NoError(t, err)
			require.NotContains(t, spec, "color")
			require.Contains(t, spec, "size")
		})
	}
}
