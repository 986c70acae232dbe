package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
)

// yamlBlocks are the blocks of a Markdown file that are marked as YAML.
var yamlBlocks = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestDocsYAMLIsAccepted: the API server accepts each YAML block of README.md and docs/. A
// block without apiVersion is a part of a VidraResource.
func TestDocsYAMLIsAccepted(t *testing.T) {
	t.Parallel()
	root, err := testenv.Root()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	blocks := 0
	for _, file := range append(files, filepath.Join(root, "README.md")) {
		if filepath.Base(file) == "sources.md" {
			continue // e2e/sources applies its examples, and has the kinds of Flux
		}
		text, err := os.ReadFile(file) //nolint:gosec // a file of this repository
		require.NoError(t, err)
		for _, match := range yamlBlocks.FindAllSubmatch(text, -1) {
			blocks++
			documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(match[1]), len(match[1]))
			for {
				obj := &unstructured.Unstructured{}
				err := documents.Decode(&obj.Object)
				if err == io.EOF { //nolint:errorlint // it is not wrapped
					break
				}
				require.NoError(t, err, "%s:\n%s", file, match[1])
				if obj.GetKind() == "Kustomization" {
					requireRenders(t, root, match[1])
					continue
				}
				if obj.GetAPIVersion() == "" {
					obj.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
					obj.SetName("docs")
				}
				require.NoError(t, testenv.Apply(t.Context(), env.Config, []*unstructured.Unstructured{obj}, client.DryRunAll), "%s:\n%s", file, match[1])
				if inner, found, err := unstructured.NestedString(obj.Object, "spec", "manifest"); found {
					require.NoError(t, err)
					_, err = manifest.Parse(inner, manifest.Options{})
					require.NoError(t, err, "%s:\n%s", file, match[1])
				}
			}
		}
	}
	require.NotZero(t, blocks)
}

// requireRenders requires that kustomize renders a kustomization that stands beside those of config.
func requireRenders(t *testing.T, root string, text []byte) {
	t.Helper()
	config := t.TempDir()
	require.NoError(t, os.CopyFS(config, os.DirFS(filepath.Join(root, "config"))))
	folder := filepath.Join(config, "yours")
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), text, 0o600))
	objs, err := testenv.Render(folder)
	require.NoError(t, err, "%s", text)
	require.NotEmpty(t, objs, "%s", text)
}

// TestPrintedColumns: kubectl get shows what is wrong, and with -o wide why.
func TestPrintedColumns(t *testing.T) {
	t.Parallel()
	clients, err := kubernetes.NewForConfig(env.Config)
	require.NoError(t, err)
	body, err := clients.CoreV1().RESTClient().Get().AbsPath("/apis/"+v1alpha1.GroupVersion.String()+"/vidraresources").Param("limit", "1").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
	require.NoError(t, err)
	table := metav1.Table{}
	require.NoError(t, json.Unmarshal(body, &table))
	shown := map[int32][]string{}
	for _, column := range table.ColumnDefinitions {
		shown[column.Priority] = append(shown[column.Priority], column.Name)
	}
	require.Equal(t, map[int32][]string{
		0: {"Name", "Ready", "Status", "Healthy", "Drift", "Objects", "Heals", "Last heal", "Age"}, 1: {"Message"},
	}, shown)
}
