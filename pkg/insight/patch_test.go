package insight

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestPatchHidesValues: the lines around a change have no value of a Secret, of a sensitive object or of an environment variable.
func TestPatchHidesValues(t *testing.T) {
	const settings = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: settings}\ndata: {color: blue}\n"
	tests := map[string]struct {
		reason, text string
		// whole reports that no line is masked, and shown are lines of the patch.
		whole bool
		shown []string
	}{
		"None":    {"All lines are shown.", settings, true, []string{" apiVersion: v1\n"}},
		"Beside":  {"The value is out of the way of a patch with fewer lines.", "kind: A\nspec:\n  color: blue\n  env:\n  - name: PASSWORD\n    value: hunter2\n", true, []string{"+  color: red\n   env:\n"}},
		"Next":    {"The value is on the next line.", "kind: A\nspec:\n  color: blue\n  env: {PASSWORD: hunter2}\n", false, []string{"+  color: red\n ***\n"}},
		"Same":    {"The value is on the line that changes.", "kind: A\nspec: {color: blue, env: {PASSWORD: hunter2}}\n", false, []string{"-***\n+***\n"}},
		"Secret":  {"A Secret is the next object.", settings + "---\n{apiVersion: v1, kind: Secret, stringData: {password: hunter2}}\n", true, []string{"+data: {color: red}\n ---\n"}},
		"Block":   {"Each line of a text has a part of the value.", "apiVersion: v1\nkind: Secret\nstringData:\n  password: |\n    a\n    hunter2\n---\n{kind: ConfigMap, data: {color: blue}}\n", true, []string{" ---\n"}},
		"Marked":  {"The annotation marks the object.", "metadata: {annotations: {infrahub.operators.com/sensitive: 'true'}}\nspec: hunter2\n---\n{kind: ConfigMap, data: {color: blue}}\n", true, []string{" ---\n"}},
		"Known":   {"The inventory has the object as sensitive.", "kind: Known\nmetadata: {name: known}\nspec: hunter2\n---\n{kind: ConfigMap, data: {color: blue}}\n", true, []string{" ---\n"}},
		"List":    {"The items of a list are objects.", "kind: List\nitems:\n- {kind: ConfigMap, data: {color: blue}}\n- {apiVersion: v1, kind: Secret, data: {a: hunter2}}\n", false, []string{" ***\n"}},
		"Alias":   {"The value is at an anchor.", "kind: A\nx: &x hunter2\nspec:\n  color: blue\n  env: {PASSWORD: *x}\n", false, []string{" ***\n"}},
		"Within":  {"The object is in a VidraResource.", "apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nspec:\n  manifest: |\n    kind: A\n    spec:\n      color: blue\n      env: {PASSWORD: hunter2}\n", false, []string{"+      color: red\n ***\n"}},
		"Unknown": {"A text that is no YAML may have any value.", "{{ if }}\ncolor: blue\npassword: [hunter2\n", false, []string{" ***\n"}},
	}
	vr := &v1alpha1.VidraResource{}
	vr.Status.ManagedResources = []v1alpha1.ManagedResourceStatus{{Kind: "Known", Name: "known", Sensitive: true}}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			patch, whole := patchOf(vr, "a.yaml", tt.text, strings.Replace(tt.text, "blue", "red", 1))
			require.NotContains(t, patch, "hunter2", tt.reason)
			require.Equal(t, tt.whole, whole, patch)
			for _, line := range tt.shown {
				require.Contains(t, patch, line, tt.reason)
			}
		})
	}
	patch, whole := patchOf(vr, "a.yaml", settings, settings)
	require.Empty(t, patch, "the text has the values")
	require.True(t, whole)
}
