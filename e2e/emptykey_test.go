package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestItemWithAnEmptyKey has a manifest with an item of a list whose key is empty, written or
// left out. The API server stores it without the key, and managedFields name it with one.
// It is reverted as any other item is, and not taken for removed while it is there.
func TestItemWithAnEmptyKey(t *testing.T) {
	t.Parallel()
	for name, item := range map[string]string{"written": `{name: ""}`, "left out": `{}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			manifest := strings.Replace(editedObject("Deployment of many parts", "web", ""), "{name: registry}", item+", {name: registry}", 1)
			newVidraResource(t, ns, manifest)
			awaitReady(t, ns)
			deployment := declaredObject(t, ns, strings.Replace(manifest, `{name: ""}`, "{}", 1), "Deployment", "web")
			pullSecrets := func(t require.TestingT) []any {
				list, _, err := unstructured.NestedSlice(get(t, deployment).Object, "spec", "template", "spec", "imagePullSecrets")
				require.NoError(t, err)
				return list
			}
			before := pullSecrets(t)
			for _, items := range []string{`null`, `[{"name":"registry"}]`, `[{}]`, `[{"name":"other"},{"name":"registry"}]`} {
				require.NoError(t, merge(ns, deployment, `{"spec":{"template":{"spec":{"imagePullSecrets":`+items+`}}}}`))
				await(t, func(c *assert.CollectT) { require.Equal(c, before, pullSecrets(c), items) })
			}
			awaitInOrder(t, ns, deployment)
			// It is not taken for removed: what is added beside it stays.
			require.NoError(t, asJSONPatch(ns, deployment, `[{"op":"add","path":"/spec/template/spec/imagePullSecrets/-","value":{"name":"extra"}},
				{"op":"replace","path":"/spec/template/spec/containers/1/name","value":"other"}]`))
			await(t, func(c *assert.CollectT) { require.Equal(c, []string{"helper", "web"}, containersOf(c, deployment)) })
			require.ElementsMatch(t, append(before, map[string]any{"name": "extra"}), pullSecrets(t))
		})
	}
}
