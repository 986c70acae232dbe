package insight

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLint checks files without a cluster.
func TestLint(t *testing.T) {
	const head = "apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata:\n  name: shop\nspec:\n"
	const part = "  manifest: |\n    apiVersion: v1\n    kind: ConfigMap\n    metadata:\n      name: settings\n    data:\n      greeting: hello\n"
	const from = head + "  destination: {namespace: shop}\n  manifestFrom: [{kind: %KIND, name: parts, key: a.yaml}]\n" +
		"---\napiVersion: v1\nkind: %KIND\nmetadata: {name: parts, namespace: shop}\n%DATA: {a.yaml: 'kind: x'}\n"
	tests := map[string]struct {
		reason, text, checked string
		problem, remark       string
	}{
		"good":       {reason: "nothing is wrong", text: head + part, checked: "1 VidraResource"},
		"objects":    {reason: "a manifest alone", text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", checked: "1 object"},
		"nothing":    {reason: "it does nothing", text: "# a comment\n", problem: "FILE: no object found"},
		"field":      {reason: "a typing error", text: head + part + "  suspends: true\n", checked: "1 VidraResource", problem: `document 1, line 1: VidraResource shop: unknown field "suspends"`},
		"type":       {reason: "a wrong type", text: head + part + "  suspend: 7\n", checked: "1 VidraResource", problem: "spec.suspend of type bool"},
		"document":   {reason: "with the line in the manifest", text: head + "  manifest: |\n    apiVersion: v1\n    kind: ConfigMap\n", checked: "1 VidraResource", problem: "spec.manifest, document 1, line 1"},
		"empty":      {reason: "it would change nothing", text: head + "  wait: true\n", checked: "1 VidraResource", problem: "the manifest holds no object"},
		"rule":       {reason: "it would be without effect", text: head + part + "  drift: {ignore: [{paths: [/data/colour]}]}\n", checked: "1 VidraResource", problem: "matches nothing in the manifest: spec.drift.ignore[0]"},
		"namespaced": {reason: "the object gets the namespace of the destination", text: head + part + "  destination: {namespace: shop}\n  drift: {ignore: [{target: {namespace: shop}, paths: [/data/greeting]}]}\n", checked: "1 VidraResource"},
		"unreadable": {reason: "no YAML", text: "a: [", problem: "cannot be read as YAML"},
		"expression": {
			reason: "with its line in the file, and the place in it", text: head + part + "  healthChecks:\n  - apiVersion: v1\n    kind: ConfigMap\n    current: \"true\"\n    failed: data.x = 1\n",
			checked: "1 VidraResource", problem: "FILE: document 1, line 17: VidraResource shop: spec.healthChecks[0] (ConfigMap): failed: character 8: Syntax error",
		},
		"expression of lines": {
			reason: "the line of the field, and the line in the expression", text: "# a comment\n---\n" + head + part + "  healthChecks:\n  - apiVersion: v1\n    kind: ConfigMap\n    current: |\n      true &&\n        unknown(data)\n",
			checked: "1 VidraResource", problem: "line 18: VidraResource shop: spec.healthChecks[0] (ConfigMap): current: line 2, character 10: undeclared reference to 'unknown'",
		},
		"check twice": {
			reason: "it has no effect", text: head + part + "  healthChecks:\n  - {apiVersion: v1, kind: ConfigMap, current: 'true'}\n  - {apiVersion: v1, kind: ConfigMap, current: 'true'}\n",
			checked: "1 VidraResource", problem: "line 15: VidraResource shop: spec.healthChecks[1] (ConfigMap): an earlier check",
		},
		"kind of a check": {
			reason: "a typing error, or a kind that comes later", text: head + part + "  healthChecks:\n  - {apiVersion: v1, kind: ConfigMaps, current: 'true'}\n",
			checked: "1 VidraResource", remark: "FILE: document 1, line 1: VidraResource shop: spec.healthChecks[0] has no effect: the manifest has no ConfigMaps",
		},
		"kind elsewhere": {
			reason: "the rest of the manifest is in the cluster", text: head + part + "  manifestFrom: [{kind: ConfigMap, name: more, key: a, optional: true}]\n  healthChecks:\n  - {apiVersion: v1, kind: Pod, current: 'true'}\n",
			checked: "1 VidraResource",
		},
		"elsewhere": {reason: "the source is in the cluster", text: head + "  manifestFrom: [{kind: ConfigMap, name: parts, key: a.yaml}]\n", checked: "1 VidraResource"},
		"source": {
			reason: "of the same file", text: strings.NewReplacer("%KIND", "ConfigMap", "%DATA", "data").Replace(from),
			checked: "1 VidraResource", problem: "ConfigMap parts, key a.yaml, document 1, line 1: x: has no",
		},
		"Secret": {
			reason: "no error quotes it", text: strings.NewReplacer("%KIND", "Secret", "%DATA", "stringData").Replace(from),
			checked: "1 VidraResource", problem: "what is wrong is withheld",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			faults := Lint([]File{{Name: "FILE", Text: tt.text}})
			require.Equal(t, tt.checked, faults.Checked, tt.reason)
			if tt.remark != "" {
				require.Equal(t, []string{tt.remark}, faults.Remarks, tt.reason)
			} else {
				require.Empty(t, faults.Remarks, tt.reason)
			}
			if tt.problem == "" {
				require.Empty(t, faults.Problems, tt.reason)
				return
			}
			require.Len(t, faults.Problems, 1, tt.reason)
			require.Contains(t, faults.Problems[0], tt.problem, tt.reason)
		})
	}
}
