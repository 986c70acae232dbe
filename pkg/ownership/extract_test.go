package ownership

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExtract(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, content string
		managed         []string
		want            string // empty: it cannot be said
	}{
		"Fields": {
			"What others own is not in it, and what is ours has its live value.",
			`"spec":{"size":2,"colour":"red","deep":{"a":1,"b":2}}`,
			[]string{ours(`{"f:spec":{"f:size":{},"f:deep":{"f:a":{}}}}`), theirs("kubectl", `{"f:spec":{"f:colour":{},"f:deep":{"f:b":{}}}}`)},
			`{"spec":{"size":2,"deep":{"a":1}}}`,
		},
		"Leaf": {
			"A map or list that is owned as a whole is in it as a whole.", `"spec":{"args":["b","a"],"m":{"x":{"y":1}}}`,
			[]string{ours(`{"f:spec":{"f:args":{},"f:m":{}}}`)}, `{"spec":{"args":["b","a"],"m":{"x":{"y":1}}}}`,
		},
		"AppliedEmpty": {
			"What others put into an empty map is theirs.", `"spec":{"m":{"x":1}}`,
			[]string{ours(`{"f:spec":{"f:m":{}}}`), theirs("kubectl", `{"f:spec":{"f:m":{"f:x":{}}}}`)}, `{"spec":{"m":{}}}`,
		},
		"Present": {
			"That a map is there is ours.", `"spec":{"m":{"x":1}}`,
			[]string{ours(`{"f:spec":{"f:m":{".":{}}}}`), theirs("kubectl", `{"f:spec":{"f:m":{"f:x":{}}}}`)}, `{"spec":{"m":{}}}`,
		},
		"Items": {
			"The items stay in the order of the list, without those of others.", `"spec":{"parts":[{"name":"z","size":1},{"name":"y","size":5,"more":1},{"name":"a","size":3}]}`,
			[]string{ours(`{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:size":{}},"k:{\"name\":\"y\"}":{".":{},"f:name":{},"f:size":{}}}}}`)},
			`{"spec":{"parts":[{"name":"y","size":5},{"name":"a","size":3}]}}`,
		},
		"DefaultedKey": {
			"A key that was not applied is not in it.", `"spec":{"ports":[{"port":80,"protocol":"TCP"}]}`,
			[]string{ours(`{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`)}, `{"spec":{"ports":[{"port":80}]}}`,
		},
		"Set": {
			"The items of a set are values.", `"spec":{"words":["a","b","c"]}`,
			[]string{ours(`{"f:spec":{"f:words":{"v:\"c\"":{},"v:\"a\"":{}}}}`)}, `{"spec":{"words":["a","c"]}}`,
		},
		"Gone":     {"An apply would remove it.", `"spec":{"size":2}`, []string{ours(`{"f:spec":{"f:size":{},"f:gone":{}}}`)}, ""},
		"GoneItem": {"So it would this one.", `"spec":{"parts":[]}`, []string{ours(`{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}}}}`)}, ""},
		"Index":    {"Indexes are not stable.", `"spec":{"parts":[1]}`, []string{ours(`{"f:spec":{"f:parts":{"i:0":{}}}}`)}, ""},
		"KeysOnly": {"Which of its keys were applied is not known.", `"spec":{"parts":[{"name":"a"}]}`, []string{ours(`{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{".":{}}}}}`)}, ""},
		"OtherType": {
			"The field has another type than was applied.", `"spec":{"m":"text"}`, []string{ours(`{"f:spec":{"f:m":{"f:x":{}}}}`)}, "",
		},
		"AppliedEmptyOthers": {
			"An Apply of others, and an Update of our name, put something into it.", `"spec":{"m":{"x":1},"n":{"y":1}}`,
			[]string{
				ours(`{"f:spec":{"f:m":{},"f:n":{}}}`), managed("other", "Apply", "2026-01-02T03:04:05Z", `{"f:spec":{"f:m":{"f:x":{}}}}`),
				theirs(manager, `{"f:spec":{"f:n":{"f:y":{}}}}`),
			},
			`{"spec":{"m":{},"n":{}}}`,
		},
		"AppliedEmptyInItems": {
			"So do others in each item.", `"spec":{"parts":[{"name":"a","m":{"x":1}},{"name":"b","m":{"x":1}}]}`,
			[]string{
				ours(`{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:m":{}},"k:{\"name\":\"b\"}":{".":{},"f:name":{},"f:m":{}}}}}`),
				theirs("kubectl", `{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{"f:m":{"f:x":{}}},"k:{\"name\":\"b\"}":{"f:m":{"f:x":{}}}}}}`),
			},
			`{"spec":{"parts":[{"name":"a","m":{}},{"name":"b","m":{}}]}}`,
		},
		"Itself":     {"The field itself is ours, and has become a scalar.", `"spec":{"m":1}`, []string{ours(`{"f:spec":{"f:m":{".":{}}}}`)}, `{"spec":{"m":1}}`},
		"AtomicItem": {"Which of its fields were applied is not known.", `"spec":{"parts":[{"name":"a"}]}`, []string{ours(`{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{}}}}`)}, ""},
		"TwoKeys": {
			"Two keys of managedFields that a user edited select one item.", `"spec":{"parts":[{"name":"a","size":1}]}`,
			[]string{ours(`{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}},"k:{\"size\":1}":{".":{},"f:size":{}}}}}`)}, "",
		},
		"None": {"We applied nothing.", `"spec":{"size":2}`, []string{theirs("kubectl", `{"f:spec":{"f:size":{}}}`)}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := widget(t, tc.content, tc.managed...)
			got, ok := Extract(obj, manager)
			require.Equal(t, tc.want != "", ok, tc.reason)
			require.Equal(t, widget(t, tc.content, tc.managed...), obj, "the object is not changed")
			if !ok {
				return
			}
			require.Equal(t, "Widget/w/example.com/v1", got.GetKind()+"/"+got.GetName()+"/"+got.GetAPIVersion())
			for _, key := range []string{"apiVersion", "kind", "metadata"} {
				delete(got.Object, key)
			}
			text, err := json.Marshal(got.Object)
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(text), tc.reason)
		})
	}
}
