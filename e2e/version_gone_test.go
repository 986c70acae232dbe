package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestDroppedFieldOfAVersionThatIsGone takes a version of a kind away for good, and then moves the manifest to another version
// without one of its fields: the field leaves the object, also after a restart.
func TestDroppedFieldOfAVersionThatIsGone(t *testing.T) {
	for name, restart := range map[string]bool{"Running": false, "Restarted": true} {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			crd, manifest := newKind(t)
			old := crd.Spec.Versions[0]
			old.Name, old.Storage = "v1beta1", false
			crd.Spec.Versions = append(crd.Spec.Versions, old)
			require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
			newVidraResource(t, ns, strings.Replace(manifest, "/v1\n", "/v1beta1\n", 1))
			awaitReady(t, ns)
			await(t, func(c *assert.CollectT) {
				live := &apiextensionsv1.CustomResourceDefinition{}
				require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(crd), live))
				live.Spec.Versions = live.Spec.Versions[:1]
				require.NoError(c, admin.Update(context.Background(), live))
			})
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
