package e2e

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestSamples applies each sample as its first lines say, edits an object of it, and
// deletes it.
func TestSamples(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		// edited is an object of the manifest, and patch an edit of it.
		kind, namespace, name string
		patch                 string
		objects               int
	}{
		"web":            {"what users edit most", "ConfigMap", "web", "web-page", `{"data":{"index.html":"defaced"}}`, 4},
		"first-operator": {"as it was written for the first operator", "ConfigMap", "default", "first-operator", `{"data":{"greeting":"changed"}}`, 1},
		"custom-kind":    {"of a kind whose CRD is in another sample", "Vlan", "default", "office", `{"spec":{"id":9}}`, 1},
		"parts":          {"a manifest in a ConfigMap", "ConfigMap", "default", "parts-shapes", `{"data":{"sun":"square"}}`, 2},
		"tenant":         {"written as a ServiceAccount", "ConfigMap", "default", "tenant-settings", `{"data":{"color":"red"}}`, 1},
		"policies":       {"with everything that can be said", "ConfigMap", "default", "policies-counter", `{"data":{"unit":"steps"}}`, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "custom-kind" {
				applySample(t, "crd")
			}
			applySample(t, name)
			v := awaitReady(t, name)
			require.Len(t, v.Status.ManagedResources, tt.objects, tt.reason)
			e := entry(t, v, tt.kind, tt.name)
			edited := &unstructured.Unstructured{}
			edited.SetAPIVersion(e.APIVersion)
			edited.SetKind(e.Kind)
			require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: tt.namespace, Name: tt.name}, edited))
			require.NoError(t, mergePatch(edited, "%s", tt.patch))
			await(t, func(c *assert.CollectT) {
				live := edited.DeepCopy()
				require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(edited), live))
				for _, part := range []string{"data", "spec"} {
					require.Equal(c, edited.Object[part], live.Object[part])
				}
			})
			require.NoError(t, deleteVidraResource(t.Context(), name))
			awaitGoneFor(t, 2*patience, v)
			for _, e := range v.Status.ManagedResources { // one asks to stay
				left := &unstructured.Unstructured{}
				left.SetAPIVersion(e.APIVersion)
				left.SetKind(e.Kind)
				left.SetNamespace(e.Namespace)
				left.SetName(e.Name)
				require.NoError(t, client.IgnoreNotFound(admin.Delete(t.Context(), left)))
			}
		})
	}
	for name := range kustomizations(t) {
		if sample, ok := filepath.Rel(filepath.Join("config", "samples"), name); ok == nil && sample != "." && filepath.Dir(name) == filepath.Join("config", "samples") {
			_, tested := tests[sample]
			require.True(t, tested || sample == "crd" || sample == "remote" || sample == "infrahub", // e2e/infrahub applies the last one
				"sample %s has a test", sample)
		}
	}
}

// applySample does what `kubectl apply -k config/samples/NAME` does, and takes what is
// no VidraResource along when the test ends.
func applySample(t *testing.T, name string) {
	t.Helper()
	objects, err := testenv.Render(kustomizations(t)[filepath.Join("config", "samples", name)])
	require.NoError(t, err)
	require.NoError(t, testenv.Apply(t.Context(), env.Config, objects))
	t.Cleanup(func() {
		for _, object := range objects {
			if object.GetKind() != v1alpha1.Kind {
				require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), object)))
			} else if err := deleteVidraResource(context.Background(), name); !apierrors.IsNotFound(err) {
				require.NoError(t, err)
			}
		}
	})
}
