package sources

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
)

var (
	// block is an example in a page, with its language.
	block = regexp.MustCompile("(?s)\n```([a-z]*)\n(.*?)```\n")
	// indented is a line of an example without a fence.
	indented = regexp.MustCompile(`(?m)^(\t|    )`)
	// commands are the commands of examples, with the tests that run them or stand for them.
	commands = map[string]string{
		"flux install --components=source-controller": "TestSourceController runs the controller, which it starts itself",
		"kubectl apply -k config/default":             "the set-up of all tests",
	}
)

// TestDocs: each example of docs/sources.md is accepted by the API server and applied, and each of its commands is known to be tested.
func TestDocs(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "sources.md"))
	require.NoError(t, err)
	examples := block.FindAllSubmatch(page, -1)
	require.Len(t, examples, bytes.Count(page, []byte("```"))/2)
	require.False(t, indented.Match(block.ReplaceAll(page, nil)), "an example has a fence and a language")
	for kind := range testenv.FluxPlurals {
		define(t, kind)
	}
	cluster.MakeNamespace(t, "shop")
	cluster.MakeNamespace(t, "flux-system")
	p := newProducer(t)
	for _, example := range examples {
		switch string(example[1]) {
		case "yaml":
		case "sh":
			for line := range strings.Lines(string(example[2])) {
				require.Contains(t, commands, strings.TrimSpace(line), "no test runs this command")
			}
			continue
		default:
			require.Fail(t, "no test runs this example", "%s", example[0])
		}
		objects, err := manifest.Parse(string(example[2]), manifest.Options{})
		require.NoError(t, err)
		for _, o := range objects {
			require.NoError(t, admin.Create(t.Context(), o.Unstructured, client.FieldValidation("Strict")))
			if testenv.FluxPlurals[o.GetKind()] != "" {
				p.publish(t, o.Unstructured, "main@sha1:1", map[string]string{
					"deploy/web.yaml": suite.Greeting("web", "${host:=none}"), "overlays/prod/kustomization.yaml": "resources: [../../deploy]\nnamePrefix: prod-\n", "deploy/kustomization.yaml": "resources: [web.yaml]\n",
				})
			}
		}
		if objects[0].GetKind() == "NetworkPolicy" {
			continue // the API server accepts it
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
