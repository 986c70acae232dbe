package sources

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
)

// block is an example in a page.
var block = regexp.MustCompile("(?s)\n```yaml\n(.*?)```\n")

// TestDocs: each example of docs/sources.md is accepted by the API server and applied.
func TestDocs(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "sources.md"))
	require.NoError(t, err)
	examples := block.FindAllSubmatch(page, -1)
	require.Len(t, examples, 5)
	for kind := range testenv.FluxPlurals {
		define(t, kind)
	}
	cluster.MakeNamespace(t, "shop")
	p := newProducer(t)
	for _, example := range examples {
		objects, err := manifest.Parse(string(example[1]), manifest.Options{})
		require.NoError(t, err)
		for _, o := range objects {
			require.NoError(t, admin.Create(t.Context(), o.Unstructured, client.FieldValidation("Strict")))
			if testenv.FluxPlurals[o.GetKind()] != "" {
				p.publish(t, o.Unstructured, "main@sha1:1", map[string]string{
					"deploy/web.yaml": suite.Greeting("web", "${host:=none}"), "overlays/prod/kustomization.yaml": "resources: [../../deploy]\nnamePrefix: prod-\n", "deploy/kustomization.yaml": "resources: [web.yaml]\n",
				})
			}
		}
		v := cluster.AwaitReadyFor(t, patience, "web")
		require.Len(t, v.Status.ManagedResources, 1)
		require.Len(t, v.Status.Source, 1)
		require.NoError(t, admin.Delete(t.Context(), v))
		cluster.AwaitGoneFor(t, patience, v)
		for _, o := range objects {
			if o.GetKind() != v1alpha1.Kind {
				require.NoError(t, admin.Delete(t.Context(), o.Unstructured))
			}
		}
	}
}
