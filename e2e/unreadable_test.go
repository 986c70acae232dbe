package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namesOf returns the names of the items of a list.
func namesOf(t require.TestingT, obj *unstructured.Unstructured, path ...string) (names []string) {
	list, _, err := unstructured.NestedSlice(get(t, obj).Object, path...)
	require.NoError(t, err)
	for _, item := range list {
		fields, _ := item.(map[string]any)
		name, _ := fields["name"].(string)
		names = append(names, name)
	}
	return names
}

// TestUnreadableListKeepsItemsOfOthers: an edit leaves items without their key in a list of a ServiceAccount, so that server-side
// apply cannot read it. These items go, those of the manifest return, and the others stay.
func TestUnreadableListKeepsItemsOfOthers(t *testing.T) {
	t.Parallel()
	for name, ops := range map[string]string{
		"key removed":  `[{"op":"replace","path":"/secrets","value":[{},{"name":"b"},{"name":"theirs"}]}]`,
		"items added":  `[{"op":"add","path":"/secrets/0","value":{}},{"op":"add","path":"/secrets/-","value":{"namespace":"x"}}]`,
		"both changed": `[{"op":"replace","path":"/secrets","value":[{"name":"theirs"},{},{}]},{"op":"remove","path":"/metadata/labels"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			manifest := "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web}\nsecrets: [{name: a}, {name: b}]\n"
			newVidraResource(t, ns, manifest)
			awaitReady(t, ns)
			account := declared(t, ns, manifest)[0]
			require.NoError(t, edit(account, types.StrategicMergePatchType,
				`{"secrets":[{"name":"theirs"}],"metadata":{"annotations":{"example.com/injected":"1"}}}`, client.FieldOwner("injector")))
			require.NoError(t, jsonPatch(account, "%s", ops))
			await(t, func(c *assert.CollectT) {
				require.ElementsMatch(c, []string{"a", "b", "theirs"}, namesOf(c, account, "secrets"))
				require.Equal(c, "1", get(c, account).GetAnnotations()["example.com/injected"])
			})
			awaitReady(t, ns)
		})
	}
}

// TestDuplicateKeysKeepItemsOfOthers: an edit adds items with the key of another one, which server-side apply can read. What belongs to
// others in these lists and in other ones stays.
func TestDuplicateKeysKeepItemsOfOthers(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, parts)
	awaitReady(t, ns)
	web := declaredObject(t, ns, parts, "Deployment", "parts")
	require.NoError(t, edit(web, types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"THEIRS","value":"1"}]},
		{"name":"sidecar","image":"registry.invalid/mesh:1","env":[{"name":"MESH","value":"1"}]}]}}}}`, client.FieldOwner("injector")))
	const container = "/spec/template/spec/containers/0"
	require.Equal(t, "web", containerAt(t, web, "web")["name"])
	require.NoError(t, jsonPatch(web, "%s", `[{"op":"test","path":"`+container+`/name","value":"web"},
		{"op":"add","path":"`+container+`/env/-","value":{"name":"LOG","value":"debug"}}]`))
	await(t, func(c *assert.CollectT) {
		env, _ := containerAt(c, web, "web")["env"].([]any)
		require.ElementsMatch(c, []any{map[string]any{"name": "LOG", "value": "info"}, map[string]any{"name": "THEIRS", "value": "1"}}, env)
		require.NotNil(c, containerAt(c, web, "sidecar"))
	})
	awaitReady(t, ns)
}

// containerAt returns a container of a Deployment; nil if there is none.
func containerAt(t require.TestingT, obj *unstructured.Unstructured, name string) map[string]any {
	list, _, err := unstructured.NestedSlice(get(t, obj).Object, "spec", "template", "spec", "containers")
	require.NoError(t, err)
	for _, item := range list {
		if fields, _ := item.(map[string]any); fields["name"] == name {
			return fields
		}
	}
	return nil
}
