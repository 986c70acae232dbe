package parts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/vidra-operator/vidra/pkg/manifest"
)

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {text: %q}\n", name, value)
}

const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: hunter2}\n"

// long is a text of a size.
func long(size int) string { return strings.Repeat("x", size) }

// TestCut cuts texts of the shapes of published manifests.
func TestCut(t *testing.T) {
	small := Options{MaxInline: 300, FullPart: 500, MaxPart: 600, MaxTotal: 10_000}
	a, b, c := configMap("a", "1"), configMap("b", "2"), configMap("c", "3")
	list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(a), "\n", "\n  ") + "\n- " + strings.ReplaceAll(strings.TrimSpace(secret), "\n", "\n  ") + "\n"
	tests := map[string]struct {
		reason  string
		options Options
		texts   []string
		// inline is spec.manifest, and parts the beginning of each part; secrets counts the last ones, which are for Secrets.
		inline  string
		parts   []string
		secrets int
		remark  string
		err     string
	}{
		"short":             {"a short manifest is in the spec, as it is in the file", small, []string{"# first\n" + a + "# between\n---\n---\n" + b}, "# first\n" + a + "# between\n---\n---\n" + b, nil, 0, "", ""},
		"several files":     {"they are one manifest", small, []string{a, b}, a + "---\n" + b, nil, 0, "", ""},
		"long":              {"documents stay whole, in their order", small, []string{a + "---\n" + configMap("long", long(300)) + "---\n" + b}, "", []string{a + "---\n" + configMap("long", long(300)), "---\n" + b}, 0, "", ""},
		"Secrets":           {"a Secret is in a Secret, and the rest in the spec", small, []string{a + "---\n" + secret + "---\n" + b}, a + "---\n" + b, []string{"---\n" + secret}, 1, "", ""},
		"Secrets alone":     {"the spec has nothing", small, []string{secret}, "", []string{secret}, 1, "", ""},
		"list with Secrets": {"a list is divided, so that no other object counts as sensitive", small, []string{list}, "apiVersion: v1\ndata:\n  text: \"1\"\nkind: ConfigMap\nmetadata:\n  name: a\n", []string{"apiVersion: v1\nkind: Secret"}, 1, "", ""},
		"long list": {
			"a list that is too long for a part is divided", small, []string{"apiVersion: v1\nkind: ConfigMapList\nitems:\n- {metadata: {name: a}, data: {text: " + long(400) + "}}\n- {metadata: {name: b}, data: {text: " + long(400) + "}}\n"},
			"", []string{"apiVersion: v1\ndata:\n  text: " + long(400), "apiVersion: v1\ndata:\n  text: " + long(400)}, 0, "", "",
		},
		"CRLF":              {"line ends stay", small, []string{strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n")}, strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"), nil, 0, "", ""},
		"CRLF and a Secret": {"also where it is cut", small, []string{strings.ReplaceAll(a+"---\n"+secret+"---\n"+b, "\n", "\r\n")}, strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"), []string{"---\r\napiVersion: v1\r\nkind: Secret"}, 1, "", ""},
		"JSON":              {"several values in a text", small, []string{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}} {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`}, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}} {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`, nil, 0, "", ""},
		"too long as YAML": {
			"an object that fits as JSON is written as JSON", small, []string{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n# " + long(600) + "\ndata: {text: b}\n"},
			`{"apiVersion":"v1","data":{"text":"b"},"kind":"ConfigMap","metadata":{"name":"a"}}` + "\n", nil, 0, "", "",
		},
		"too long":      {"no part has room for it", small, []string{a + "---\n" + configMap("huge", long(700))}, "", nil, 0, "", "f0, document 2, line 6: ConfigMap huge: the object has"},
		"all too long":  {"a VidraResource has no room for it", Options{MaxTotal: 300}, []string{configMap("a", long(200)), configMap("b", long(200))}, "", nil, 0, "", "f1: the manifest has"},
		"twice":         {"the same object counts once", small, []string{a + "---\n" + b + "---\n# again\n" + a}, a + "---\n" + b, nil, 0, "ConfigMap a is also at f0, document 1, line 1", ""},
		"twice, quoted": {"the same content may be written in another way", small, []string{a, `{"kind": "ConfigMap", "apiVersion": "v1", "data": {"text": "1"}, "metadata": {"name": "a"}}`}, a, nil, 0, "it counts once", ""},
		"twice, in a namespace": {
			"one of them names the default namespace", Options{MaxInline: 300, Namespace: "shop"},
			[]string{a, strings.Replace(a, "name: a", "name: a, namespace: shop", 1)}, a, nil, 0, "it counts once", "",
		},
		"in two namespaces": {"these are two", Options{Namespace: "shop"}, []string{a, strings.Replace(a, "name: a", "name: a, namespace: other", 1)}, a + "---\n" + strings.Replace(a, "name: a", "name: a, namespace: other", 1), nil, 0, "", ""},
		"contradiction":     {"the command cannot know which is meant", small, []string{a, configMap("a", "other")}, "", nil, 0, "", "f1, document 1, line 1: ConfigMap a: the manifest holds this object twice with different content, first at f0, document 1, line 1"},
		"template":          {"an error names its place", small, []string{"apiVersion: v1\nkind: Secret\nmetadata: {name: x\nstringData: {password: hunter2}\n"}, "", nil, 0, "", "f0, document 1"},
		"nothing":           {"no object is no part", small, []string{"# nothing\n---\n"}, "# nothing\n---\n", nil, 0, "", ""},
		"VidraResource":     {"one whose manifest has a Secret is sensitive", small, []string{"apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata: {name: a}\nspec: {manifest: '{apiVersion: v1, kind: Secret, metadata: {name: a}}'}\n", c}, c, []string{"apiVersion: infrahub"}, 1, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var texts []Text
			for i, text := range tt.texts {
				texts = append(texts, Text{Name: fmt.Sprintf("f%d", i), Text: text})
			}
			m, err := Cut(texts, tt.options)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err, tt.reason)
				require.NotContains(t, err.Error(), "hunter2")
				return
			}
			require.NoError(t, err, tt.reason)
			require.Equal(t, tt.inline, m.Inline, tt.reason)
			require.Len(t, m.Parts, len(tt.parts), tt.reason)
			for i, part := range m.Parts {
				require.True(t, strings.HasPrefix(part.Text, tt.parts[i]), "%s: %s", tt.reason, part.Text)
				require.Equal(t, i >= len(tt.parts)-tt.secrets, part.Sensitive, tt.reason)
			}
			require.Contains(t, strings.Join(m.Remarks, "\n"), tt.remark, tt.reason)
			require.Equal(t, tt.remark == "", len(m.Remarks) == 0, "%s: %v", tt.reason, m.Remarks)
		})
	}
}

// TestCutKeepsEverything: whatever the documents are, each object is in one part, the sensitive ones in parts of their own.
func TestCutKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "objects")
		o := Options{MaxInline: rapid.IntRange(1, 2000).Draw(t, "inline"), FullPart: rapid.IntRange(1, 1500).Draw(t, "full"), MaxPart: 4000}
		var documents []string
		want := map[string]bool{}
		for i := range n {
			name := fmt.Sprintf("o%d", i)
			kind := rapid.SampledFrom([]string{"ConfigMap", "Secret"}).Draw(t, "kind")
			object := fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata:\n  name: %s\n  annotations: {a: %q}\n", kind, name, long(rapid.IntRange(0, 900).Draw(t, "size")))
			if rapid.Bool().Draw(t, "list") {
				object = "kind: List\napiVersion: v1\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(object), "\n", "\n  ") + "\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: beside-" + name + "}}\n"
				want["beside-"+name] = false
			}
			want[name] = kind == "Secret"
			documents = append(documents, object)
		}
		m, err := Cut([]Text{{Text: strings.Join(documents, rapid.SampledFrom([]string{"---\n", "\n---\n# comment\n---\n", "...\n%YAML 1.1\n---\n"}).Draw(t, "separator"))}}, o)
		require.NoError(t, err)
		have := map[string]bool{}
		for _, part := range append([]Part{{Text: m.Inline}}, m.Parts...) {
			objects, err := manifest.Parse(part.Text, manifest.Options{})
			require.NoError(t, err)
			require.LessOrEqual(t, len(part.Text), max(o.MaxInline, o.MaxPart))
			for _, object := range objects {
				_, twice := have[object.GetName()]
				require.False(t, twice, object.GetName())
				have[object.GetName()] = part.Sensitive
			}
		}
		require.Equal(t, want, have)
	})
}

// TestVerify: parts that have other objects than the texts are refused.
func TestVerify(t *testing.T) {
	m, err := Cut([]Text{{Text: configMap("a", "1") + "---\n" + secret}}, Options{})
	require.NoError(t, err)
	require.NoError(t, m.verify(Options{}.withDefaults()))
	for name, change := range map[string]func(m *Manifest){
		"missing": func(m *Manifest) { m.Parts = nil },
		"other":   func(m *Manifest) { m.Inline = configMap("a", "2") },
		"moved":   func(m *Manifest) { m.Inline, m.Parts = m.Inline+"---\n"+secret, nil; m.Objects = m.Objects[:1] },
	} {
		t.Run(name, func(t *testing.T) {
			changed := *m
			change(&changed)
			err := changed.verify(Options{}.withDefaults())
			require.Error(t, err)
			require.NotErrorAs(t, err, new(manifest.Errors))
		})
	}
}
