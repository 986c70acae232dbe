package ownership

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMerge merges a configuration into an object, as an apply does before defaults are set.
func TestMerge(t *testing.T) {
	t.Parallel()
	const (
		keyed = `{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:size":{}},"k:{\"name\":\"b\"}":{".":{},"f:name":{}}}}}`
		tags  = `{"f:spec":{"f:tags":{"v:\"a\"":{},"v:\"b\"":{}}}}`
	)
	cases := map[string]struct {
		reason              string
		live, configuration string
		managed             []string
		want                string
	}{
		"Value":                       {"A value of the configuration wins.", `"spec":{"a":1}`, `"spec":{"a":2}`, nil, `{"a":2}`},
		"Foreign":                     {"A field of others stays.", `"spec":{"a":1,"b":2}`, `"spec":{"a":1}`, []string{ours(`{"f:spec":{"f:a":{}}}`)}, `{"a":1,"b":2}`},
		"Dropped":                     {"An applied field that the configuration drops is removed.", `"spec":{"a":1,"b":2}`, `"spec":{"a":1}`, []string{ours(`{"f:spec":{"f:a":{},"f:b":{}}}`)}, `{"a":1}`},
		"UpdateOfOurs":                {"An Update entry of the same name removes nothing.", `"spec":{"a":1,"b":2}`, `"spec":{"a":1}`, []string{theirs(manager, `{"f:spec":{"f:b":{}}}`)}, `{"a":1,"b":2}`},
		"Subresource":                 {"An entry of a subresource removes nothing.", `"spec":{"a":1,"b":2}`, `"spec":{"a":1}`, []string{`{"manager":"` + manager + `","operation":"Apply","subresource":"scale","fieldsV1":{"f:spec":{"f:b":{}}}}`}, `{"a":1,"b":2}`},
		"DroppedAll":                  {"A map without fields is left.", `"spec":{"a":1}`, `"spec":{}`, []string{ours(`{"f:spec":{"f:a":{}}}`)}, `{}`},
		"DroppedBelow":                {"A map of others keeps their fields.", `"spec":{"m":{"a":1,"b":2}}`, `"spec":{}`, []string{ours(`{"f:spec":{"f:m":{"f:a":{}}}}`)}, `{"m":{"b":2}}`},
		"DroppedBelowAll":             {"A map goes with its last field.", `"spec":{"m":{"a":1},"z":1}`, `"spec":{}`, []string{ours(`{"f:spec":{"f:m":{"f:a":{}}}}`)}, `{"z":1}`},
		"DroppedWhole":                {"A map that is owned as a whole goes with its contents.", `"spec":{"m":{"a":1},"z":1}`, `"spec":{}`, []string{ours(`{"f:spec":{"f:m":{}}}`)}, `{"z":1}`},
		"DroppedItself":               {"A map that is owned itself goes with the fields of others.", `"spec":{"m":{"a":1,"b":2},"z":1}`, `"spec":{}`, []string{ours(`{"f:spec":{"f:m":{".":{},"f:a":{}}}}`), theirs("kubectl", `{"f:spec":{"f:m":{"f:b":{}}}}`)}, `{"z":1}`},
		"DroppedAbsent":               {"An absent field is no removal.", `"spec":{"z":1}`, `"spec":{}`, []string{ours(`{"f:spec":{"f:a":{}}}`)}, `{"z":1}`},
		"Atomic":                      {"A map that is owned as a whole is replaced.", `"spec":{"m":{"a":1,"b":2}}`, `"spec":{"m":{"a":3}}`, []string{theirs("kubectl", `{"f:spec":{"f:m":{}}}`)}, `{"m":{"a":3}}`},
		"Type":                        {"A map takes the place of a scalar.", `"spec":{"m":1}`, `"spec":{"m":{"a":3}}`, nil, `{"m":{"a":3}}`},
		"ListUnknown":                 {"A list without an owned item is replaced.", `"spec":{"parts":[{"name":"a"}]}`, `"spec":{"parts":[{"name":"b"}]}`, nil, `{"parts":[{"name":"b"}]}`},
		"ListKeyed":                   {"Items are merged by their keys, in their order, and new ones follow.", `"spec":{"parts":[{"name":"b","x":1},{"name":"a","y":1}]}`, `"spec":{"parts":[{"name":"c"},{"name":"a","size":2}]}`, []string{theirs("kubectl", keyed)}, `{"parts":[{"name":"b","x":1},{"name":"a","size":2,"y":1},{"name":"c"}]}`},
		"ListDropped":                 {"An applied item that the configuration drops is removed.", `"spec":{"parts":[{"name":"a"},{"name":"b"}]}`, `"spec":{"parts":[{"name":"b"}]}`, []string{ours(keyed)}, `{"parts":[{"name":"b"}]}`},
		"ListDroppedField":            {"An item of others loses the fields of the applier.", `"spec":{"parts":[{"name":"a","size":1,"x":1},{"name":"b"}]}`, `"spec":{"parts":[{"name":"b"}]}`, []string{theirs("kubectl", keyed), ours(`{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{"f:size":{}}}}}`)}, `{"parts":[{"name":"a","x":1},{"name":"b"}]}`},
		"ListOfOthers":                {"An item without an owner stays.", `"spec":{"parts":[{"name":"z"},{"name":"b"}]}`, `"spec":{"parts":[{"name":"b"}]}`, []string{ours(keyed)}, `{"parts":[{"name":"z"},{"name":"b"}]}`},
		"ListDefaultKey":              {"An item of the configuration may leave out a key with a default.", `"spec":{"ports":[{"port":1,"protocol":"TCP","x":1}]}`, `"spec":{"ports":[{"port":1,"y":1}]}`, []string{theirs("kubectl", `{"f:spec":{"f:ports":{"k:{\"port\":1,\"protocol\":\"TCP\"}":{".":{}}}}}`)}, `{"ports":[{"port":1,"protocol":"TCP","x":1,"y":1}]}`},
		"ListDuplicate":               {"Each item of the configuration is merged once.", `"spec":{"ports":[{"port":1,"protocol":"TCP"},{"port":1,"protocol":"UDP"}]}`, `"spec":{"ports":[{"port":1,"y":1}]}`, []string{theirs("kubectl", `{"f:spec":{"f:ports":{"k:{\"port\":1,\"protocol\":\"TCP\"}":{".":{}},"k:{\"port\":1,\"protocol\":\"UDP\"}":{".":{}}}}}`)}, `{"ports":[{"port":1,"protocol":"TCP","y":1},{"port":1,"protocol":"UDP"}]}`},
		"ListDefaultKeyBesideAnother": {"An item with all its keys is not the one that leaves out a key.", `"spec":{"ports":[{"port":1,"protocol":"UDP"},{"port":1,"protocol":"TCP"}]}`, `"spec":{"ports":[{"port":1,"y":1},{"port":1,"protocol":"UDP","y":2}]}`, []string{theirs("kubectl", `{"f:spec":{"f:ports":{"k:{\"port\":1,\"protocol\":\"TCP\"}":{".":{}},"k:{\"port\":1,\"protocol\":\"UDP\"}":{".":{}}}}}`)}, `{"ports":[{"port":1,"protocol":"UDP","y":2},{"port":1,"protocol":"TCP","y":1}]}`},
		"ListDefaultKeyOfOurs":        {"The applied item is the one that leaves out a key, and one of others stays.", `"spec":{"ports":[{"port":1,"protocol":"UDP"},{"port":1,"protocol":"TCP"}]}`, `"spec":{"ports":[{"port":1,"y":1}]}`, []string{theirs("kubectl", `{"f:spec":{"f:ports":{"k:{\"port\":1,\"protocol\":\"UDP\"}":{".":{}}}}}`), ours(`{"f:spec":{"f:ports":{"k:{\"port\":1,\"protocol\":\"TCP\"}":{".":{}}}}}`)}, `{"ports":[{"port":1,"protocol":"UDP"},{"port":1,"protocol":"TCP","y":1}]}`},
		"ListZeroKey":                 {"An item without its key stays as it is.", `"spec":{"secrets":[{},{"name":"a"}]}`, `"spec":{"secrets":[{"name":"b"}]}`, []string{theirs("node-fetch", `{"f:spec":{"f:secrets":{"k:{\"name\":\"\"}":{}}}}`)}, `{"secrets":[{},{"name":"a"},{"name":"b"}]}`},
		"ListGone":                    {"A list that the configuration drops keeps the items of others.", `"spec":{"parts":[{"name":"a"},{"name":"z"}]}`, `"spec":{}`, []string{ours(keyed)}, `{"parts":[{"name":"z"}]}`},
		"ListGoneWhole":               {"A list goes with its last item.", `"spec":{"parts":[{"name":"a"},{"name":"b"}],"z":1}`, `"spec":{}`, []string{ours(keyed)}, `{"z":1}`},
		"Set":                         {"Items of a set.", `"spec":{"tags":["x","a","b"]}`, `"spec":{"tags":["b","c"]}`, []string{ours(tags)}, `{"tags":["x","b","c"]}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := widget(t, tc.live, tc.managed...)
			before := live.DeepCopy()
			got := Merge(live, undoOf(t, tc.configuration).Configuration, func(applier, operation string) bool {
				return applier == manager && operation == string(metav1.ManagedFieldsOperationApply)
			})
			text, err := json.Marshal(got.Object["spec"])
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(text), tc.reason)
			require.Equal(t, before, live, "the argument is not modified")
		})
	}
}

// TestAdditionApply gives the patch of a dry run that removes additions and applies a configuration.
func TestAdditionApply(t *testing.T) {
	t.Parallel()
	const labelled = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","labels":{"a":"1"},"annotations":{"n":"1"}},`
	cases := map[string]struct {
		reason               string
		live, configuration  string
		managed              []string
		metadata, want       string
		configurationOfWhole string
	}{
		"Nothing": {reason: "An equal object needs no patch.", live: `"spec":{"volumes":[{"name":"a","emptyDir":{}}]}`, configuration: `"spec":{"volumes":[{"name":"a","emptyDir":{}}]}`, managed: []string{ours(`{"f:spec":{"f:volumes":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:emptyDir":{}}}}}`)}, want: `null`},
		"Union": {
			reason: "The member that was added goes, and the other one comes.", live: `"spec":{"volumes":[{"name":"a","hostPath":{"path":"/"}}]}`, configuration: `"spec":{"volumes":[{"name":"a","emptyDir":{}}]}`,
			managed: []string{ours(`{"f:spec":{"f:volumes":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}}}}`), theirs("kubectl-edit", `{"f:spec":{"f:volumes":{"k:{\"name\":\"a\"}":{"f:hostPath":{".":{},"f:path":{}}}}}}`)},
			want:    `[{"op":"add","path":"/spec","value":{"volumes":[{"name":"a","emptyDir":{}}]}}]`,
		},
		"Field": {
			reason: "A field that only the object has goes, and the status is left alone.", live: `"a/b":{"x":1},"status":{"x":1}`, configuration: `"data":{"a":"1"}`,
			managed: []string{ours(`{"f:a/b":{"f:x":{}}}`)},
			want:    `[{"op":"remove","path":"/a~1b"},{"op":"add","path":"/data","value":{"a":"1"}}]`,
		},
		"OfOthers": {
			reason: "Fields that another manager applied, or that a client wrote under our name, stay.", live: `"data":{"a":"1","b":"2","c":"3","d":"4"}`, configuration: `"data":{"a":"1"}`,
			managed: []string{ours(`{"f:data":{"f:a":{},"f:b":{}}}`), managed("other", "Apply", "2026-01-02T03:04:00Z", `{"f:data":{"f:c":{}}}`), managed(manager, "Update", "2026-01-02T03:04:00Z", `{"f:data":{"f:d":{}}}`)},
			want:    `[{"op":"add","path":"/data","value":{"a":"1","c":"3","d":"4"}}]`,
		},
		"Labels": {
			reason: "Labels and annotations are replaced apart.", live: `"data":{"a":"1"}`, managed: []string{ours(`{"f:data":{"f:a":{}}}`)}, configurationOfWhole: labelled + `"data":{"a":"1"}}`,
			want: `[{"op":"add","path":"/metadata/labels","value":{"a":"1"}},{"op":"add","path":"/metadata/annotations","value":{"n":"1"}}]`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := widget(t, tc.live, tc.managed...)
			var undo Undo
			if tc.configurationOfWhole != "" {
				undo = undoOf(t, `"x":1`)
				undo.Configuration = object(t, tc.configurationOfWhole).Object
			} else {
				undo = undoOf(t, tc.configuration)
			}
			got, err := json.Marshal(undo.Added(live, live).Apply(live, undo.Configuration, manager))
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(got), tc.reason)
		})
	}
}
