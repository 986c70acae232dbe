package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestParseErrors(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: ns\n"
	cases := map[string]struct {
		reason string
		text   string
		want   []string // the errors, each in full
	}{
		"NoKind": {"an object needs a kind", "apiVersion: v1\nmetadata: {name: a}\n",
			[]string{`document 1, line 1: a: has no "kind"`}},
		"NoAPIVersion": {"an object needs an apiVersion", "kind: ConfigMap\nmetadata: {name: a}\n",
			[]string{`document 1, line 1: ConfigMap a: has no "apiVersion"`}},
		"NoMetadata": {"an object needs metadata", configMap("a") + "---\n\n# c\napiVersion: v1\nkind: ConfigMap\n",
			[]string{`document 2, line 8: ConfigMap: has no "metadata": give it one with a name`}},
		"NoName": {"an object needs a name", "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: ns}\n",
			[]string{`document 1, line 1: ConfigMap: has no "metadata.name"`}},
		"EmptyName": {"an empty name is none", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ''}\n",
			[]string{`document 1, line 1: ConfigMap: "metadata.name" is empty`}},
		"GenerateName": {"a name that changes each time cannot be applied twice", "apiVersion: v1\nkind: Job\nmetadata: {generateName: a-}\n",
			[]string{`document 1, line 1: Job: has "metadata.generateName" but no "metadata.name": an object that is applied again and again needs a name that stays`}},
		"KindNumber": {"a kind is text", "apiVersion: v1\nkind: 12\nmetadata: {name: a}\n",
			[]string{`document 1, line 1: a: "kind" must be text: put it in quotes`}},
		"APIVersionNumber": {"an apiVersion is text", "apiVersion: 1\nkind: X\nmetadata: {name: a}\n",
			[]string{`document 1, line 1: X a: "apiVersion" must be text: put it in quotes`}},
		"NameNumber": {"a name of digits needs quotes", "apiVersion: v1\nkind: X\nmetadata: {name: 123}\n",
			[]string{`document 1, line 1: X: "metadata.name" must be text: put it in quotes`}},
		"NameMapping": {"a name is no mapping", "apiVersion: v1\nkind: X\nmetadata: {name: {a: b}}\n",
			[]string{`document 1, line 1: X: "metadata.name" must be text, not a mapping or a list`}},
		"NamePath": {"a name is a part of the object's address", "apiVersion: v1\nkind: X\nmetadata: {name: a/b}\n",
			[]string{`document 1, line 1: X a/b: "metadata.name" may not contain '/'`}},
		"MetadataList": {"metadata is a mapping", "apiVersion: v1\nkind: X\nmetadata: [a]\n",
			[]string{`document 1, line 1: X: "metadata" must be a mapping`}},
		"NamespaceBad": {"a namespace is a DNS label", "apiVersion: v1\nkind: X\nmetadata: {name: a, namespace: A_b}\n",
			[]string{`document 1, line 1: X A_b/a: "metadata.namespace" is not a valid name of a namespace: lower case letters, digits and '-', at most 63`}},
		"NamespaceBoolean": {"and text, which n is not in YAML 1.1", "apiVersion: v1\nkind: X\nmetadata: {name: a, namespace: n}\n",
			[]string{`document 1, line 1: X a: "metadata.namespace" must be text: put it in quotes`}},
		"APIVersionBad": {"an apiVersion has one slash at most", "apiVersion: a/b/v1\nkind: X\nmetadata: {name: a}\n",
			[]string{`document 1, line 1: X a: "apiVersion" must be a version such as v1, or a group and a version such as apps/v1`}},
		"APIVersionNoGroup": {"with a slash it has a group", "apiVersion: /v1\nkind: X\nmetadata: {name: a}\n",
			[]string{`document 1, line 1: X a: "apiVersion" must be a version such as v1, or a group and a version such as apps/v1`}},
		"APIVersionNoVersion": {"and a version", "apiVersion: apps/\nkind: X\nmetadata: {name: a}\n",
			[]string{`document 1, line 1: X a: "apiVersion" must be a version such as v1, or a group and a version such as apps/v1`}},
		"Label": {"labels are text: the accessors would take all of them for none", "apiVersion: v1\nkind: X\nmetadata: {name: a, labels: {a: b, on: true}}\n",
			[]string{`document 1, line 1: X a: "metadata.labels" has a value that is not text, of the key "true": put the value in quotes`}},
		"Annotation": {"so are annotations", "apiVersion: v1\nkind: X\nmetadata: {name: a, annotations: [a]}\n",
			[]string{`document 1, line 1: X a: "metadata.annotations" must be a mapping`}},
		"Scalar": {"a document is a mapping", configMap("a") + "---\nhello\n",
			[]string{`document 2, line 6: must be an object, that is a mapping with apiVersion, kind and metadata, not text or a number`}},
		"Sequence": {"a list without a List is no object", "- " + indent(configMap("a")),
			[]string{`document 1, line 1: must be an object, that is a mapping with apiVersion, kind and metadata, not a list`}},
		"Duplicate": {"the same object twice is a mistake, whichever would win", object + "---\n" + object,
			[]string{`document 2, line 7: ConfigMap ns/a: the manifest holds this object twice, first at document 1, line 1: remove one`}},
		"DuplicateVersion": {"another version is the same object", "apiVersion: apps/v1\nkind: X\nmetadata: {name: a}\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: apps/v1beta1, kind: X, metadata: {name: a}}\n",
			[]string{`document 2, line 8, item 1: X a: the manifest holds this object twice, first at document 1, line 1: remove one`}},
		"DuplicateKey": {"of a key given twice one value would be lost", object + "data:\n  k: 1\n  l: 2\n  k: 3\n",
			[]string{`document 1, line 9: ConfigMap ns/a: has the key "k" twice in one mapping: remove one`}},
		"DuplicateKeyTyped": {"keys that are the same text in JSON are the same", object + "data: {1: a, '1': b}\n",
			[]string{`document 1, line 6: ConfigMap ns/a: has the key "1" twice in one mapping: remove one`}},
		"DuplicateKeyJSON": {"in JSON too", "{\"apiVersion\": \"v1\", \"kind\": \"X\",\n \"metadata\": {\"name\": \"a\",\n \"name\": \"b\"}}",
			[]string{`document 1, line 3: X a: has the key "name" twice in one mapping: remove one`}},
		"DuplicateKeyList": {"and in a List itself, where half of the items would be lost", "apiVersion: v1\nkind: List\nitems: []\nitems: []\n",
			[]string{`document 1, line 4: List: has the key "items" twice in one mapping: remove one`}},
		"ListWithoutItems": {"a List without items is a misspelling", "apiVersion: v1\nkind: List\nitem: []\n",
			[]string{`document 1, line 1: List: the list has no "items"`}},
		"ListItemsMapping": {"items are a list", "apiVersion: v1\nkind: List\nitems: {a: b}\n",
			[]string{`document 1, line 3: List: "items" must be a list, not a mapping`}},
		"ListItems": {"each bad item is named", "apiVersion: v1\nkind: List\nitems:\n- " + indent(configMap("a")) + "-\n- kind: X\n  metadata: {name: x}\n",
			[]string{
				`document 1, line 8, item 2: must be an object, that is a mapping with apiVersion, kind and metadata, not nothing (null)`,
				`document 1, line 9, item 3: X x: has no "apiVersion"`}},
		"PlainListType": {"a plain List gives its items no type", "apiVersion: v1\nkind: List\nitems: [{metadata: {name: a}}]\n",
			[]string{`document 1, line 3, item 1: a: has no "apiVersion"`}},
		"Several": {"all unreadable documents are named", "a: b: c\n---\n" + configMap("good") + "---\nkind: X\n---\n[\n",
			[]string{
				`document 1, line 1: cannot be read as YAML: a ':' where none can be: the indentation is wrong, or a value with ': ' in it needs quotes`,
				`document 3, line 8: X: has no "apiVersion"`,
				`document 4, line 11: cannot be read as YAML: a value is missing, or begins with a character that needs quotes`}},
		"UTF8": {"the text must be UTF-8", configMap("a") + "---\n# c\nx: \"\xe9\"\n",
			[]string{"document 2, line 7: is not text in UTF-8: save the manifest in that encoding"}},
		"Control": {"YAML has no control characters", object + "data: {k: a\x01}\n",
			[]string{"document 1, line 6: ConfigMap ns/a: has a control character, which YAML does not allow"}},
		"Cycle": {"an alias inside its own anchor has no end", object + "data: &d\n  k: *d\n",
			[]string{"document 1, line 7: ConfigMap ns/a: has an alias inside of what it stands for: it would never end"}},
		"CycleList": {"not in the items of a list either", "apiVersion: v1\nkind: List\nitems: &i\n- apiVersion: v1\n  kind: List\n  items: *i\n",
			[]string{"document 1, line 6, item 1: List: has an alias inside of what it stands for: it would never end"}},
		"NoAnchor": {"a value that begins with * is an alias", object + "data:\n  k: *text\n",
			[]string{"document 1, line 7: ConfigMap ns/a: cannot be read as YAML: an alias (*name) without its anchor (&name); a value that begins with '*' needs quotes"}},
		"MergeAfter": {"kubectl would overwrite what stands before a merge key, YAML would not", object + "x: &x {k: 1}\ndata:\n  k: 2\n  <<: *x\n",
			[]string{`document 1, line 9: ConfigMap ns/a: has a merge key << that would overwrite "k": move << to the top of its mapping`}},
		"MergeTwice": {"one merge key is allowed", object + "data:\n  <<: {a: 1}\n  <<: {b: 1}\n",
			[]string{"document 1, line 8: ConfigMap ns/a: has the merge key << twice in one mapping: use one with a list (<<: [*a, *b])"}},
		"MergeScalar": {"only mappings can be merged", object + "data: {<<: 1}\n",
			[]string{"document 1, line 6: ConfigMap ns/a: has a merge key << whose value is not a mapping, or a list of mappings"}},
		"KeyMapping": {"a key is text", object + "data:\n  ? {a: b}\n  : c\n",
			[]string{"document 1, line 7: ConfigMap ns/a: has a mapping or a list as a key: keys are text"}},
		"KeyNull": {"a null is no key", object + "data: {~: 1}\n",
			[]string{"document 1, line 6: ConfigMap ns/a: has a key that is null or too large a number: put it in quotes"}},
		"Infinity": {"JSON has no infinity", object + "data:\n  k: .inf\n",
			[]string{"document 1, line 7: ConfigMap ns/a: has a number that is too large, infinite or none at all, which Kubernetes cannot store"}},
		"Tag": {"a tag must fit its value", object + "data:\n  k: !!int x\n",
			[]string{"document 1, line 7: ConfigMap ns/a: has a value with the tag !!int that is none: correct the value or leave out the tag"}},
		"TagBinary": {"bytes that are no text do not survive JSON", object + "data:\n  k: !!binary /w==\n",
			[]string{"document 1, line 7: ConfigMap ns/a: has a !!binary value that is not text in base64: Kubernetes takes base64 as it is (Secret data, ConfigMap binaryData), so leave out the tag"}},
		"JSONNumber": {"a number must fit", `{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},` + "\n" + `"x":1e999}`,
			[]string{"document 1, line 2: X a: has a number that is too large, infinite or none at all, which Kubernetes cannot store"}},
		"JSONEnd": {"JSON that was cut off", "{\"apiVersion\": \"v1\",\n\"kind\": \"X\"",
			[]string{"document 1, line 2: cannot be read as JSON: it ends too early, a brace, bracket or quote is not closed"}},
		"JSONComma": {"JSON that lacks a comma", "{\"apiVersion\": \"v1\",\n\"kind\": \"X\"\n\"metadata\": {}}",
			[]string{"document 1, line 3: cannot be read as JSON: what stands here is not allowed, as when a comma, a colon or a quote is missing or there is one too many"}},
		"UnusualBreak": {"a line break of YAML 1.1 would hide a document", configMap("a") + "\u2028---\u2028b: c\n",
			[]string{"document 1, line 1: ConfigMap a: has a line break other than LF, CR or CRLF before a document marker"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects, err := Parse(tc.text, Options{})
			require.Nil(t, objects, "nothing of a manifest that cannot be read may be applied")
			require.Error(t, err, tc.reason)
			require.Equal(t, strings.Join(tc.want, "; "), err.Error(), tc.reason)
		})
	}
}

func TestParseExplainsSyntax(t *testing.T) {
	const head = "apiVersion: v1\nkind: Secret\nmetadata:\n  namespace: ns\n  name: a\n" // lines 1 to 5
	cases := map[string]struct {
		reason string
		body   string
		line   int
		want   string
	}{
		"Tab":           {"tabs do not indent", "data:\n\tk: v\n", 7, "it is indented with a tab"},
		"Dedent":        {"the line that is out of step is named, not the one where its block begins", "data:\n  k: v\n l: w\n", 8, "indentation"},
		"DedentList":    {"in a list as well", "data:\n  - k: v\n   l: w\n", 8, "indentation"},
		"Colon":         {"a colon and a space need quotes", "data:\n  k: a: b\n", 7, "needs quotes"},
		"Quote":         {"the line where the quote opens is named", "data:\n  k: \"a\n  l: b\n  m: c\n", 7, "quote that begins here"},
		"Bracket":       {"a bracket is missing", "data:\n  k: [a, b\n  l: c\n", 8, "']' is missing"},
		"Brace":         {"a brace is missing", "data: {k: a\nx: b\n", 7, "'}' is missing"},
		"NoColon":       {"a key alone is none", "data:\n  k\n  l: b\n", 8, "a ':' where none can be"},
		"Escape":        {"double quotes know escapes", "data:\n  k: \"C:\\d\"\n", 7, "unknown escape"},
		"At":            {"some characters open no text", "data:\n  k: @a\n", 7, "needs quotes"},
		"Bang":          {"an exclamation mark opens a tag", "data:\n  k: !a!b\n", 7, "needs quotes"},
		"BlockText":     {"a block scalar begins on the next line", "data:\n  k: | text\n", 7, "begin it on the next line"},
		"Template":      {"a template is recognised", "data:\n  k: {{ .Values.k }}-x\n", 7, "template that was not rendered"},
		"TemplateValue": {"also where YAML takes it for a mapping", "data:\n  k: {{ .Values.k }}\n", 7, "template that was not rendered"},
		"TemplateBlock": {"also one that controls the text", "{{- if .Values.k }}\ndata: {}\n{{- end }}\n", 6, "template that was not rendered"},
		"TemplateItem":  {"also in a list", "data:\n  - {{ .a }}\n", 7, "template that was not rendered"},
		"TemplateInBlockScalar": {"one in a block scalar is text, and another mistake is the mistake",
			"data:\n  k: |\n    {{ .a }}\n  l: a: b\n", 9, "needs quotes"},
		"TemplateQuoted": {"so is one in quotes", "data:\n  k: '{{ .a }}'\n  l: a: b\n", 8, "needs quotes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(configMap("first")+"---\n"+head+tc.body, Options{})
			var fault *Error
			require.ErrorAs(t, err, &fault, tc.reason)
			require.Equal(t, Position{Document: 2, Line: tc.line + 5}, fault.Position, "%s: %s", tc.reason, fault)
			require.Equal(t, "Secret ns/a", fault.object(), "the text tells which object it is")
			require.Contains(t, fault.Message, tc.want, tc.reason)
		})
	}
}

func TestParseErrorType(t *testing.T) {
	_, err := Parse(configMap("a")+"---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b, namespace: ns, labels: 1}\n", Options{})
	var all Errors
	require.ErrorAs(t, err, &all)
	require.Equal(t, Errors{{
		Position:  Position{Document: 2, Line: 6},
		GVK:       schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Namespace: "ns",
		Name:      "b",
		Message:   `"metadata.labels" must be a mapping`,
	}}, all, "a caller can ask an error for its object")
}

func TestParseStopsAfterTheTenthError(t *testing.T) {
	_, err := Parse(strings.Repeat("---\na: b: c\n", 25), Options{})
	var all Errors
	require.ErrorAs(t, err, &all)
	require.Len(t, all, maxErrors, "more errors help nobody")
	require.Equal(t, 10, all[9].Position.Document, "the first ones are kept")
}

func TestErrorsCountsWhatItDoesNotPrint(t *testing.T) {
	var errs Errors
	for i := range 12 {
		errs = append(errs, &Error{Message: fmt.Sprintf("m%d", i)})
	}
	require.Equal(t, "m0; m1; m2; m3; m4; m5; m6; m7; m8; m9; and 2 more", errs.Error(),
		"an error must fit a status")
	require.ErrorIs(t, errs, errs[11], "each one can be found")
	require.NotErrorIs(t, errs, &Error{Message: "m0"}, "and nothing else")
}

// TestErrorsNeverQuoteValues breaks a Secret in every way that one key stroke
// can, and looks for its value in the errors.
func TestErrorsNeverQuoteValues(t *testing.T) {
	const secret = "hunter2swordfish"
	texts := []string{
		"apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n  labels: {l: m}\nstringData:\n  k: " + secret + "\n  l: \"" + secret + "\"\n",
		"{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"metadata\": {\"name\": \"a\"},\n \"stringData\": {\"k\": \"" + secret + "\"}}",
	}
	check := func(text string) {
		_, err := Parse(text, Options{})
		if err == nil {
			return
		}
		for _, part := range []string{secret[:4], secret[4:8], secret[len(secret)-4:]} {
			require.NotContains(t, err.Error(), part, text)
		}
	}
	for _, text := range texts {
		for i := range text {
			check(text[:i])
			check(text[:i] + text[i+1:])
			for _, insert := range []string{"*", "&", "!", "!!int ", "%", "@", "`", "\"", "'", "{", "}", "[", "]", ": ", "- ", "? ", "#", "|", ">", "\n", "\t", "\x01", "{{", "<<: ", "\n---\n"} {
				check(text[:i] + insert + text[i:])
			}
		}
	}
}
