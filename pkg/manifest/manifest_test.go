package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// configMap returns the YAML of a small ConfigMap.
func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n"
}

// jsonConfigMap returns the same as JSON, in one line.
func jsonConfigMap(name string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"}}`
}

// places returns, for each object, "name@document:line", with "/item"
// behind it for an item of a list.
func places(objects []Object) []string {
	out := make([]string, 0, len(objects))
	for _, o := range objects {
		place := fmt.Sprintf("%s@%d:%d", o.GetName(), o.Position.Document, o.Position.Line)
		if o.Position.Item > 0 {
			place += fmt.Sprintf("/%d", o.Position.Item)
		}
		out = append(out, place)
	}
	return out
}

func TestParseFindsObjects(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	two := configMap("a") + "---\n" + configMap("b")
	cases := map[string]struct {
		reason string
		text   string
		want   []string // name@document:line/item
	}{
		"Empty":              {"a manifest without an object is no error", "", []string{}},
		"Spaces":             {"nor is one of white space", " \n\n\t\n", []string{}},
		"Comments":           {"nor one of comments", "# a\n  # b\n", []string{}},
		"EmptyDocuments":     {"nor one of empty documents", "---\n---\n# c\n---\n...\n", []string{}},
		"NullDocument":       {"a null is an empty document, as for kubectl", "---\nnull\n---\n~\n", []string{}},
		"BOMOnly":            {"a byte order mark alone is an empty text", "\uFEFF", []string{}},
		"One":                {"one document needs no marker", configMap("a"), []string{"a@1:1"}},
		"NoFinalBreak":       {"the last line may lack its line break", strings.TrimSpace(configMap("a")), []string{"a@1:1"}},
		"Two":                {"a marker separates documents", two, []string{"a@1:1", "b@2:6"}},
		"LeadingMarker":      {"a marker at the start opens the first document", "---\n" + two, []string{"a@1:2", "b@2:7"}},
		"LeadingComment":     {"comments before the first marker are no document", "# licence\n\n---\n" + two, []string{"a@1:4", "b@2:9"}},
		"EmptyBetween":       {"an empty document counts, as a person counts the markers", configMap("a") + "---\n---\n# none\n---\n" + configMap("b"), []string{"a@1:1", "b@4:9"}},
		"MarkerSpaces":       {"white space may stand behind a marker", configMap("a") + "---  \t\n" + configMap("b"), []string{"a@1:1", "b@2:6"}},
		"MarkerComment":      {"so may a comment", configMap("a") + "--- # Source: chart/b.yaml\n" + configMap("b"), []string{"a@1:1", "b@2:6"}},
		"MarkerContent":      {"so may a flow mapping", configMap("a") + "--- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n", []string{"a@1:1", "b@2:5"}},
		"MarkerAtEnd":        {"a marker at the end opens an empty document", configMap("a") + "---", []string{"a@1:1"}},
		"DocumentEnd":        {"... ends a document", configMap("a") + "...\n---\n" + configMap("b") + "...\n", []string{"a@1:1", "b@2:7"}},
		"DocumentEndOnly":    {"after ... the next document needs no marker", configMap("a") + "... # end\n# c\n" + configMap("b"), []string{"a@1:1", "b@2:7"}},
		"Directives":         {"directives belong to the document behind them", "%YAML 1.1\n# c\n---\n" + configMap("a") + "...\n%YAML 1.1\n---\n" + configMap("b"), []string{"a@1:4", "b@2:11"}},
		"FourDashes":         {"only --- is a marker", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: x\n   ----\n", []string{"a@1:1"}},
		"MarkerInScalar":     {"an indented marker in a block scalar is text", configMap("a") + "data:\n  k: |\n    ---\n    ...\n  l: \"a\n    --- b\"\n---\n" + configMap("b"), []string{"a@1:1", "b@2:12"}},
		"DashesAreText":      {"a line that begins with ---x is no marker", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---x: 1\n", []string{"a@1:1"}},
		"CRLF":               {"lines may end as on Windows", crlf(two), []string{"a@1:1", "b@2:6"}},
		"CR":                 {"or as they did on the Macintosh", strings.ReplaceAll(two, "\n", "\r"), []string{"a@1:1", "b@2:6"}},
		"BOM":                {"a byte order mark may open the text", "\uFEFF" + two, []string{"a@1:1", "b@2:6"}},
		"BOMMarker":          {"also before a marker", "\uFEFF---\n" + two, []string{"a@1:2", "b@2:7"}},
		"BOMComment":         {"and before a comment", "\uFEFF# c\n" + two, []string{"a@1:2", "b@2:7"}},
		"BOMJSON":            {"and before JSON", "\uFEFF" + jsonConfigMap("a"), []string{"a@1:1"}},
		"BOMLater":           {"files that were joined have one in the middle", configMap("a") + "\uFEFF---\n" + configMap("b"), []string{"a@1:1", "b@2:6"}},
		"BOMAfterMarker":     {"or behind the marker", configMap("a") + "---\n\uFEFF" + configMap("b"), []string{"a@1:1", "b@2:6"}},
		"BOMAfterMarkerJSON": {"also with JSON", configMap("a") + "---\n\uFEFF" + jsonConfigMap("b"), []string{"a@1:1", "b@2:6"}},
		"JSON":               {"JSON is a manifest too", jsonConfigMap("a"), []string{"a@1:1"}},
		"JSONPretty":         {"also in many lines, with tabs", "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"ConfigMap\",\n\t\"metadata\": {\n\t\t\"name\": \"a\"\n\t}\n}\n", []string{"a@1:1"}},
		"JSONConcatenated":   {"JSON objects may follow one another", jsonConfigMap("a") + jsonConfigMap("b") + "\n\n" + jsonConfigMap("c"), []string{"a@1:1", "b@1:1", "c@1:3"}},
		"JSONSurrogates":     {"JSON writes an emoji as two escapes, which YAML refuses", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"\ud83d\ude00"}}`, []string{"a@1:1"}},
		"JSONInYAML":         {"YAML and JSON may be mixed", configMap("a") + "---\n# c\n" + jsonConfigMap("b") + "\n# d\n--- \n" + configMap("c"), []string{"a@1:1", "b@2:7", "c@3:10"}},
		"FlowYAML":           {"what begins like JSON may be YAML", `{apiVersion: v1, "kind": ConfigMap, metadata: {name: a},}`, []string{"a@1:1"}},
		"Tabs":               {"tabs may separate, they may not indent", "apiVersion:\tv1\nkind:\tConfigMap\t# c\nmetadata:\n  name:\ta\n", []string{"a@1:1"}},
		"List":               {"a List is its items", "apiVersion: v1\nkind: List\nitems:\n- " + indent(configMap("a")) + "- " + indent(configMap("b")), []string{"a@1:4/1", "b@1:8/2"}},
		"ListEmpty":          {"a List may be empty", "apiVersion: v1\nkind: List\nitems: []\n", []string{}},
		"ListNull":           {"or null, as templates without items leave it", "apiVersion: v1\nkind: List\nitems:\n", []string{}},
		"ListJSON":           {"a List may be JSON", "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n" + jsonConfigMap("a") + ",\n" + jsonConfigMap("b") + "]}", []string{"a@1:2/1", "b@1:3/2"}},
		"ListTyped":          {"items of a typed list may leave out their type", "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n", []string{"a@1:4/1", "b@1:5/2"}},
		"ListNested":         {"lists may be nested", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMapList\n  items:\n  - metadata: {name: a}\n- " + indent(configMap("b")), []string{"a@1:7/1", "b@1:8/2"}},
		"ListAlias":          {"an item may be an alias, and stands where the alias does", "apiVersion: v1\nkind: List\nx: &x {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\nitems:\n- *x\n", []string{"a@1:5/1"}},
		"NoList":             {"a kind that ends in List and has no items is an object", "apiVersion: acme.io/v1\nkind: AllowList\nmetadata: {name: a}\nspec: {items: [1]}\n", []string{"a@1:1"}},
		"ItemsNoList":        {"items alone make no list", "apiVersion: acme.io/v1\nkind: Shop\nmetadata: {name: a}\nitems: [1]\n", []string{"a@1:1"}},
		"SameNameElsewhere":  {"name, namespace, kind and group together are the identity", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: x}\n---\n" + configMap("a") + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---\napiVersion: acme.io/v1\nkind: ConfigMap\nmetadata: {name: a}\n", []string{"a@1:1", "a@2:5", "a@3:10", "a@4:14"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects, err := Parse(tc.text, Options{})
			require.NoError(t, err, tc.reason)
			require.NotNil(t, objects, "an empty result is a slice")
			require.Equal(t, tc.want, places(objects), tc.reason)
			for _, o := range objects {
				require.NotEmpty(t, o.GetKind())
				require.NotEmpty(t, o.GetAPIVersion())
			}
		})
	}
}

// indent indents all lines but the first, as below the dash of a list.
func indent(text string) string {
	return strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

func TestParseContent(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		want   map[string]any
	}{
		"Numbers": {
			reason: "YAML and JSON give the number types of unstructured content",
			text:   `{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},"i":1,"f":0.5,"w":1.0,"e":1e3,"b":18446744073709551615}`,
			want:   map[string]any{"i": int64(1), "f": 0.5, "w": int64(1), "e": int64(1000), "b": 18446744073709551615.0},
		},
		"ItemType": {
			reason: "the items of a typed list have the type of the list",
			text:   "apiVersion: acme.io/v1\nkind: ShopList\nmetadata: {resourceVersion: '1'}\nitems: [{metadata: {name: a}}]",
			want:   map[string]any{"apiVersion": "acme.io/v1", "kind": "Shop"},
		},
		"ItemOwnType": {
			reason: "an item that names its type keeps it",
			text:   "apiVersion: v1\nkind: ConfigMapList\nitems: [{apiVersion: v2, kind: Z, metadata: {name: a}}]",
			want:   map[string]any{"apiVersion": "v2", "kind": "Z"},
		},
		"Status": {
			reason: "a status is the API server's to ignore: without the subresource it is a field like any other",
			text:   "apiVersion: v1\nkind: X\nmetadata: {name: a}\nstatus: {phase: b}",
			want:   map[string]any{"status": map[string]any{"phase": "b"}},
		},
		"ServerFields": {
			reason: "what only the API server writes is taken out, so that the output of kubectl get is a manifest",
			text: `{"apiVersion":"v1","kind":"X","metadata":{"name":"a","labels":{"l":"m"},"managedFields":[{}],
				"resourceVersion":"1","uid":"u","generation":3,"creationTimestamp":null,"selfLink":"/x",
				"deletionTimestamp":"2020-01-01T00:00:00Z","deletionGracePeriodSeconds":30,"ownerReferences":[{"uid":"o"}]},
				"spec":{"template":{"metadata":{"creationTimestamp":null,"uid":"kept"}}}}`,
			want: map[string]any{
				"metadata": map[string]any{"name": "a", "labels": map[string]any{"l": "m"}, "ownerReferences": []any{map[string]any{"uid": "o"}}},
				"spec":     map[string]any{"template": map[string]any{"metadata": map[string]any{"creationTimestamp": nil, "uid": "kept"}}},
			},
		},
		"NullNamespace": {
			reason: "a namespace that a template left empty is none",
			text:   "apiVersion: v1\nkind: X\nmetadata: {name: a, namespace: , labels: }",
			want:   map[string]any{"metadata": map[string]any{"name": "a", "labels": nil}},
		},
		"QuotedTemplate": {
			reason: "braces in a string belong to the program that reads it, as in an alerting rule",
			text:   "apiVersion: v1\nkind: X\nmetadata: {name: a, annotations: {s: '{{ $value }}'}}\nspec: {s: 'on {{ $labels.instance }}', t: \"{{ x }}\"}",
			want:   map[string]any{"spec": map[string]any{"s": "on {{ $labels.instance }}", "t": "{{ x }}"}},
		},
		"BlockScalarMarker": {
			reason: "a manifest in a block scalar keeps its marker",
			text:   "apiVersion: v1\nkind: X\nmetadata: {name: a}\ndata:\n  k: |\n    a: 1\n    ---\n    b: {{ .x }}\n",
			want:   map[string]any{"data": map[string]any{"k": "a: 1\n---\nb: {{ .x }}\n"}},
		},
		"JSONStrings": {
			reason: "JSON's escapes give the characters that they stand for",
			text:   `{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},"s":"\ud83d\ude00\/\u00e9","<<":"no merge","y":"yes"}`,
			want:   map[string]any{"s": "😀/é", "<<": "no merge", "y": "yes"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects, err := Parse(tc.text, Options{})
			require.NoError(t, err, tc.reason)
			require.Len(t, objects, 1, tc.reason)
			for field, want := range tc.want {
				require.Equal(t, want, objects[0].Object[field], tc.reason)
			}
		})
	}
}

func TestParseCopiesAliases(t *testing.T) {
	objects, err := Parse("apiVersion: v1\nkind: List\nitems:\n"+
		"- {apiVersion: v1, kind: X, metadata: {name: a, labels: &l {k: v}}}\n"+
		"- {apiVersion: v1, kind: X, metadata: {name: b, labels: *l}}\n", Options{})
	require.NoError(t, err)
	require.NoError(t, unstructured.SetNestedField(objects[0].Object, "changed", "metadata", "labels", "k"))
	require.Equal(t, map[string]string{"k": "v"}, objects[1].GetLabels(),
		"objects share nothing, so a caller may change one of them")
}
