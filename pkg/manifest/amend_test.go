package manifest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const amended1 = `# the shop
apiVersion: v1
kind: ConfigMap
metadata: {name: page, labels: {"tier": 'front', team: a}} # flow
data:
  # the colour
  colour: blue # not green
  quoted: "a \"b\"" # quoted
  single: 'it''s'
  text: |
    first
      second

    last
  folded: >-
    one
    two
  empty:
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2   # for the night
  template:
    spec:
      containers:
      - name: web # first
        image: web:1
        args: [--a, --b]
      # beside
      - name: proxy
        image: proxy:1
`

// TestAmend changes fields in a text with comments, quotes and blocks.
func TestAmend(t *testing.T) {
	tests := map[string]struct {
		reason, object string
		path           string
		value          string // JSON; empty removes the field
		// old and text are the part of the text that changes; empty where the whole document is written again.
		old, text string
		// contains are parts of the text that is written again.
		contains []string
		err      string
	}{
		"plain":              {"the comment stays in its column", "page", "data/colour", `"red"`, "colour: blue #", "colour: red #", nil, ""},
		"number":             {"so do blanks", "web", "spec/replicas", `5`, "replicas: 2   #", "replicas: 5   #", nil, ""},
		"text like a number": {"it gets quotes", "page", "data/colour", `"5"`, "colour: blue #", `colour: "5" #`, nil, ""},
		"text with a colon":  {"it gets quotes", "page", "data/colour", `"a: b"`, "colour: blue #", `colour: 'a: b' #`, nil, ""},
		"several lines":      {"as JSON has them", "page", "data/colour", `"a\nb"`, "colour: blue #", `colour: "a\nb" #`, nil, ""},
		"double quotes":      {"they stay", "page", "data/quoted", `"c \"d\""`, `quoted: "a \"b\""`, `quoted: "c \"d\""`, nil, ""},
		"single quotes":      {"they stay", "page", "data/single", `"don't"`, "single: 'it''s'", "single: 'don''t'", nil, ""},
		"flow":               {"in a mapping in braces", "page", "metadata/labels/tier", `"back"`, `"tier": 'front'`, `"tier": 'back'`, nil, ""},
		"flow, plain":        {"a comma needs quotes there", "page", "metadata/labels/team", `"b"`, "team: a}", "team: b}", nil, ""},
		"block":              {"its lines change", "page", "data/text", `"first\n  2nd\n\nlast\nmore\n"`, "    first\n      second\n\n    last\n", "    first\n      2nd\n\n    last\n    more\n", nil, ""},
		"item":               {"by its index", "web", "spec/template/spec/containers/1/image", `"proxy:2"`, "image: proxy:1", "image: proxy:2", nil, ""},
		"argument":           {"in brackets", "web", "spec/template/spec/containers/0/args/1", `"--c=1,2"`, "[--a, --b]", `[--a, "--c=1,2"]`, nil, ""},
		"folded":             {"the document is written again", "page", "data/folded", `"three"`, "", "", []string{"# the shop", "colour: blue # not green", "  folded: three\n", "  # the colour\n"}, ""},
		"null":               {"a field without a value", "page", "data/empty", `"full"`, "", "", []string{"  empty: full\n", "colour: blue # not green"}, ""},
		"new field":          {"behind the others", "page", "data/more", `"x"`, "", "", []string{"  more: x\n", "single: 'it''s'"}, ""},
		"removed":            {"with its comment", "page", "data/colour", "", "", "", []string{"data:\n", "  quoted: "}, ""},
		"removed before":     {"it is gone already", "page", "data/gone", "", "", "", []string{"single: 'it''s'", "  folded: >-\n    one\n"}, ""},
		"removed item":       {"the others stay", "web", "spec/template/spec/containers/0", "", "", "", []string{"      - name: proxy\n", "replicas: 2 # for the night"}, ""},
		"list":               {"a list in brackets stays in brackets", "web", "spec/template/spec/containers/0/args", `["--x"]`, "", "", []string{"args: [--x]", "- name: web # first", "      # beside\n"}, ""},
		"map":                {"a map is written in lines", "web", "spec/replicas", `{"b":1,"a":[2]}`, "", "", []string{"  # for the night\n  replicas:\n    a:\n    - 2\n    b: 1\n"}, ""},
		"no parent":          {"nothing is made up", "page", "spec/none/a", `1`, "", "", nil, "the manifest has no field above"},
		"no item":            {"nor an item", "web", "spec/template/spec/containers/7", `1`, "", "", nil, "the list has no item 7"},
	}
	for name, tt := range tests {
		for _, ending := range []string{"\n", "\r\n"} {
			t.Run(name, func(t *testing.T) {
				text := strings.ReplaceAll(amended1, "\n", ending)
				objects, err := Parse(text, Options{})
				require.NoError(t, err)
				for _, object := range objects {
					if object.GetName() != tt.object {
						continue
					}
					a := Amendment{Path: strings.Split(tt.path, "/"), Remove: tt.value == ""}
					if !a.Remove {
						require.NoError(t, json.Unmarshal([]byte(tt.value), &a.Value))
					}
					got, err := Amend(text, object.Position, []Amendment{a}, Options{})
					if tt.err != "" {
						require.ErrorContains(t, err, tt.err, tt.reason)
						return
					}
					require.NoError(t, err, tt.reason)
					if tt.old != "" {
						require.Equal(t, strings.Replace(text, strings.ReplaceAll(tt.old, "\n", ending), strings.ReplaceAll(tt.text, "\n", ending), 1), got, tt.reason)
						return
					}
					for _, part := range tt.contains {
						require.Contains(t, got, strings.ReplaceAll(part, "\n", ending), tt.reason)
					}
					// The other document is as it was.
					other := strings.Split(text, "---"+ending)[map[string]int{"page": 1, "web": 0}[tt.object]]
					require.Contains(t, got, other)
				}
			})
		}
	}
}

// TestAmendShared: a value that other fields share, by an anchor or a merge key, is not amended.
func TestAmendShared(t *testing.T) {
	const text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: &l {x: one}, annotations: *l}\ndata:\n  y: &v two\n  z: *v\n"
	objects, err := Parse(text, Options{})
	require.NoError(t, err)
	for _, path := range [][]string{{"metadata", "labels", "x"}, {"metadata", "annotations", "x"}, {"data", "y"}} {
		_, err := Amend(text, objects[0].Position, []Amendment{{Path: path, Value: "other"}}, Options{})
		require.Error(t, err, path)
	}
	alone, err := Amend(text, objects[0].Position, []Amendment{{Path: []string{"data", "z"}, Value: "other"}}, Options{})
	require.NoError(t, err, "an alias itself can be replaced")
	require.Contains(t, alone, "z: other")
}

// TestAmendLists amends items of lists, and JSON.
func TestAmendLists(t *testing.T) {
	for name, text := range map[string]string{
		"List":      "apiVersion: v1\nkind: List\nitems:\n  - apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: a}\n    data: {k: one} # here\n  - apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: b}\n    data: {k: one}\n",
		"JSON":      `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "one"}}`,
		"directive": "%YAML 1.1\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: one}\n",
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Parse(text, Options{})
			require.NoError(t, err)
			for _, o := range objects {
				got, err := Amend(text, o.Position, []Amendment{{Path: []string{"data", "k"}, Value: "two"}}, Options{})
				require.NoError(t, err)
				require.Equal(t, 1, strings.Count(got, "two"))
				require.Equal(t, strings.Count(text, "one")-1, strings.Count(got, "one"))
				require.Len(t, got, len(text), "the rest is unchanged")
			}
		})
	}
}
