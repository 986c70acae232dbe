package manifest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPartition cuts manifests into the documents with Secrets and the others, which hold the same objects together.
func TestPartition(t *testing.T) {
	const (
		config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
		secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: hidden}\n"
		list   = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: t}, stringData: {k: hidden}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n"
		json   = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"j"},"stringData":{"k":"hidden"}}`
	)
	cases := map[string]struct {
		reason, text string
		rest         string
		chosen       int
	}{
		"None":       {"a manifest without Secrets stays byte for byte", "# note\n" + config + "---\n", "# note\n" + config + "---\n", 0},
		"Only":       {"all documents are chosen", secret, "", 1},
		"Last":       {"the other document keeps its text", config + "---\n" + secret, config, 1},
		"First":      {"a marker at the begin is no empty document", "---\n" + secret + "---\n" + config, "---\n" + config, 1},
		"Middle":     {"two others are separated", config + "---\n" + secret + "---\n" + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", config + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", 1},
		"List":       {"a list with a Secret is chosen whole", config + "---\n" + list, config, 2},
		"JSON":       {"JSON is a document, too", json + "\n---\n" + config, "---\n" + config, 1},
		"End":        {"documents may end with three dots", secret + "...\n" + config, config, 1},
		"Directive":  {"a directive belongs to its document", "%YAML 1.1\n---\n" + config + "---\n" + secret, "%YAML 1.1\n---\n" + config, 1},
		"NoNewline":  {"the last line may have no end", config + "---\n" + json, config, 1},
		"Windows":    {"lines may end with a carriage return", "---\r\nkind: ConfigMap\r\napiVersion: v1\r\nmetadata: {name: a}\r\n---\r\n" + secret, "---\r\nkind: ConfigMap\r\napiVersion: v1\r\nmetadata: {name: a}\r\n", 1},
		"CR":         {"or with a carriage return alone", config + "---\rapiVersion: v1\rkind: ConfigMap\rmetadata: {name: c}\n---\n" + secret, config + "---\rapiVersion: v1\rkind: ConfigMap\rmetadata: {name: c}\n", 1},
		"TwoSecrets": {"several are separated", secret + "---\n" + config + "---\n" + json, "---\n" + config, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects, err := Parse(tc.text, Options{})
			require.NoError(t, err)
			rest, chosen := Partition(tc.text, objects, func(o Object) bool { return o.GetKind() == "Secret" })
			require.Equal(t, tc.rest, rest, tc.reason)
			require.NotContains(t, rest, "hidden", tc.reason)
			inRest, err := Parse(rest, Options{})
			require.NoError(t, err, tc.reason)
			inChosen, err := Parse(chosen, Options{})
			require.NoError(t, err, tc.reason)
			require.Len(t, inChosen, tc.chosen, tc.reason)
			require.Len(t, inRest, len(objects)-tc.chosen, tc.reason)
		})
	}
}
