package ownership

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestReleaseFields gives up what one configuration has and the next has not.
func TestReleaseFields(t *testing.T) {
	t.Parallel()
	const before = `{"metadata":{"labels":{"app.kubernetes.io/name":"web"}},"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"web","image":"web:1","args":["-v","2"]}]}}}}`
	cases := map[string]struct {
		reason, after, fields string
	}{
		"Nothing": {"What is applied all the same stays ours.", before, ""},
		"Field": {
			"A field is given up.",
			`{"metadata":{"labels":{"app.kubernetes.io/name":"web"}},"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:1","args":["-v","2"]}]}}}}`,
			`{"f:metadata":{"f:labels":{"f:app.kubernetes.io/name":{}}},"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:args":{},"f:image":{},"f:name":{}}}}}}}`,
		},
		"FieldOfAnItem": {
			"An item of a list stays ours without it.",
			`{"metadata":{"labels":{"app.kubernetes.io/name":"web"}},"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"web","args":["-v","2"]}]}}}}`,
			`{"f:metadata":{"f:labels":{"f:app.kubernetes.io/name":{}}},"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:args":{},"f:name":{}}}}}}}`,
		},
		"Item": {
			"An item is given up whole, and a path that would end in nothing is none of ours.",
			`{"metadata":{"labels":{"app.kubernetes.io/name":"web"}},"spec":{"replicas":2,"template":{"spec":{"containers":[]}}}}`,
			`{"f:metadata":{"f:labels":{"f:app.kubernetes.io/name":{}}},"f:spec":{"f:replicas":{}}}`,
		},
		"All": {"Who owns nothing has no entry.", `{}`, "none"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var was, is map[string]any
			require.NoError(t, json.Unmarshal([]byte(before), &was))
			require.NoError(t, json.Unmarshal([]byte(tc.after), &is))
			obj := object(t, deployment)
			managedFields, ceded := ReleaseFields(obj, manager, was, is)
			require.Equal(t, tc.fields != "", ceded, tc.reason)
			require.Equal(t, object(t, deployment), obj, "the object is not changed")
			if tc.fields == "" {
				return
			}
			if tc.fields == "none" {
				require.Len(t, managedFields, 1)
				require.NotEqual(t, manager, managedFields[0].(map[string]any)["manager"])
				return
			}
			require.Len(t, managedFields, 2, "the entry of the other manager stays")
			fields, err := json.Marshal(managedFields[0].(map[string]any)["fieldsV1"])
			require.NoError(t, err)
			require.JSONEq(t, tc.fields, string(fields), tc.reason)
		})
	}
}

// TestReleaseFieldsOfOthers: the entries of others, and an Update under the name of the manager, keep the fields.
func TestReleaseFieldsOfOthers(t *testing.T) {
	t.Parallel()
	const both, one = `{"f:data":{"f:a":{},"f:b":{}}}`, `{"f:data":{"f:b":{}}}`
	others := []string{managed("other", "Apply", "2026-01-02T03:04:05Z", both), theirs(manager, both)}
	managedFields, released := ReleaseFields(widget(t, `"data":{}`, append(others, ours(both))...), manager,
		map[string]any{"data": map[string]any{"a": "1", "b": "1"}}, map[string]any{"data": map[string]any{"b": "1"}})
	require.True(t, released)
	text, err := json.Marshal(managedFields)
	require.NoError(t, err)
	require.JSONEq(t, "["+strings.Join(append(others, ours(one)), ",")+"]", string(text))
}

// setBy returns the paths of all fields of a configuration that managers own in obj.
func setBy(obj *unstructured.Unstructured, managers []string, configuration map[string]any, whole *unstructured.Unstructured) [][]string {
	all, within := &Selection{}, map[string][]*Selection{}
	for _, name := range managers {
		within[name] = []*Selection{{whole: true}}
	}
	all.SetBy(obj, within, configuration, whole, manager)
	return all.paths(nil)
}

// paths returns the paths of the selected parts, in their order, below a path.
func (s *Selection) paths(at []string) (all [][]string) {
	if s.whole {
		return [][]string{at}
	}
	for _, token := range slices.Sorted(maps.Keys(s.parts)) {
		all = append(all, s.parts[token].paths(append(slices.Clone(at), token))...)
	}
	return all
}

// TestSetBy lists the fields of a configuration that other managers own.
func TestSetBy(t *testing.T) {
	t.Parallel()
	const both = `{"f:spec":{"f:replicas":{},"f:paused":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:name":{},"f:image":{}},"k:{\"name\":\"other\"}":{".":{},"f:name":{}}}}}}}`
	var configuration map[string]any
	require.NoError(t, json.Unmarshal([]byte(`{"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"side"},{"name":"web","image":"web:1"}]}}}}`), &configuration))
	obj := widget(t, `"spec":{}`, ours(both), theirs("kubectl-edit", both), theirs("other", `{"f:spec":{"f:replicas":{}}}`))
	want := [][]string{{"spec", "replicas"}, {"spec", "template", "spec", "containers", "1", "image"}}
	require.Equal(t, want, setBy(obj, []string{"kubectl-edit"}, configuration, obj), "the key of an item is left out, and so is a field that only the object has")
	require.Equal(t, want, setBy(obj, []string{"kubectl-edit", "other"}, configuration, obj))
	require.Empty(t, setBy(obj, []string{"none"}, configuration, obj))
	require.Equal(t, [][]string{{"spec", "list", "0"}}, setBy(widget(t, `"spec":{}`, theirs("old", `{"f:spec":{"f:list":{"i:0":{},"i:1":{},"i:-1":{}}}}`)), []string{"old"},
		map[string]any{"spec": map[string]any{"list": []any{"a"}}}, obj), "an item by its index")
	parts := map[string]any{"spec": map[string]any{"parts": []any{map[string]any{"size": int64(1)}}}}
	require.Empty(t, setBy(widget(t, `"spec":{}`, theirs("old", `{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{"f:size":{}}}}}`)), []string{"old"}, parts, obj), "an item without any of the keys")
	require.Empty(t, setBy(widget(t, `"spec":{}`, theirs("old", `{"f:spec":{"f:parts":{"v:\"a\"":{}}}}`)), []string{"old"}, parts, obj), "an item of a set")
}

// TestSetByWithin has the fields of a manager in the parts that are given for it alone.
func TestSetByWithin(t *testing.T) {
	t.Parallel()
	const fields = `{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:name":{},"f:image":{}}}}}}}`
	configuration := object(t, `{"apiVersion":"v1","kind":"Widget","spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"side"},{"name":"web","image":"web:1"}]}}}}`).Object
	obj := widget(t, `"spec":{}`, ours(fields), theirs("one", fields), theirs("two", `{"f:spec":{"f:replicas":{}}}`))
	for name, tt := range map[string]struct {
		within [][]string
		want   [][]string
	}{
		"Above":         {[][]string{{"spec", "template"}}, [][]string{{"spec", "template", "spec", "containers", "1", "image"}}},
		"Field":         {[][]string{{"spec", "template", "spec", "containers", "1", "image"}}, [][]string{{"spec", "template", "spec", "containers", "1", "image"}}},
		"Below":         {[][]string{{"spec", "replicas", "x"}}, nil},
		"Other":         {[][]string{{"spec", "template", "spec", "containers", "0"}}, nil},
		"BelowAndField": {[][]string{{"spec", "replicas", "x"}, {"spec", "replicas"}, {"spec", "template", "none"}}, [][]string{{"spec", "replicas"}}},
		"TwoParts":      {[][]string{{"spec", "template", "none"}, {"spec", "template", "spec"}, {"spec", "replicas"}}, [][]string{{"spec", "replicas"}, {"spec", "template", "spec", "containers", "1", "image"}}},
		"All":           {[][]string{{"spec", "none"}, nil}, [][]string{{"spec", "replicas"}, {"spec", "template", "spec", "containers", "1", "image"}}},
	} {
		all, within := &Selection{}, map[string][]*Selection{}
		for _, path := range tt.within {
			one := &Selection{}
			one.Add(path...)
			within["one"] = append(within["one"], one)
		}
		all.SetBy(obj, within, configuration, obj, manager)
		require.Equal(t, tt.want, all.paths(nil), name)
	}
}

// TestRemove removes the items of a list that were meant.
func TestRemove(t *testing.T) {
	t.Parallel()
	from := object(t, `{"apiVersion":"v1","kind":"Widget","spec":{"list":["a","b",{"c":"d","e":"f"},"g"],"only":["x"],"text":"y"}}`)
	var s Selection
	for _, path := range [][]string{{"spec", "list", "0"}, {"spec", "list", "2", "c"}, {"spec", "list", "3"}, {"spec", "list", "9"}, {"spec", "only", "0"}, {"spec", "text", "z"}, {"none"}} {
		s.Add(path...)
	}
	s.Remove(from.Object)
	require.Equal(t, object(t, `{"apiVersion":"v1","kind":"Widget","spec":{"list":["b",{"e":"f"}],"only":[],"text":"y"}}`).Object, from.Object)
}

// TestWholes cuts a path at the first part that the manager owns as a whole.
func TestWholes(t *testing.T) {
	t.Parallel()
	var configuration map[string]any
	require.NoError(t, json.Unmarshal([]byte(`{"spec":{"selector":{"matchLabels":{"app":"web"}},"parts":[{"name":"x"},{"name":"a","size":{"x":1}}]}}`), &configuration))
	obj := widget(t, `"spec":{}`, ours(`{"f:spec":{"f:selector":{},"f:parts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:size":{}},
	  "k:{\"name\":\"x\"}":{".":{},"f:name":{}},"k:{\"name\":\"x\",\"zone\":\"\"}":{}}}}`))
	tests := map[string]struct {
		reason     string
		path, want []string
	}{
		"Map":     {"An atomic map.", []string{"spec", "selector", "matchLabels", "app"}, []string{"spec", "selector"}},
		"Item":    {"A field of an item.", []string{"spec", "parts", "1", "size", "x"}, []string{"spec", "parts", "1", "size"}},
		"Leaf":    {"A field that is no map.", []string{"spec", "parts", "1", "name"}, []string{"spec", "parts", "1", "name"}},
		"Unowned": {"A field of another manager.", []string{"spec", "other", "x"}, []string{"spec", "other", "x"}},
		"TwoKeys": {"The last key of an item that two keys select.", []string{"spec", "parts", "0", "name"}, []string{"spec", "parts", "0", "name"}},
		"Above":   {"A path that ends above.", []string{"spec", "parts"}, []string{"spec", "parts"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, Wholes(obj, manager, configuration)(tt.path), tt.reason)
		})
	}
}

// TestTransfer gives the applied fields of one manager to another.
func TestTransfer(t *testing.T) {
	t.Parallel()
	const a, b, both = `{"f:data":{"f:a":{}}}`, `{"f:data":{"f:b":{}}}`, `{"f:data":{"f:a":{},"f:b":{}}}`
	from := func(operation, fields string) string {
		return managed("vidra/old", operation, "2026-01-02T03:05:00Z", fields)
	}
	cases := map[string]struct {
		reason     string
		have, want []string
	}{
		"Given":     {"The entry takes the other name.", []string{from("Apply", a)}, []string{managed(manager, "Apply", "2026-01-02T03:05:00Z", a)}},
		"Beside":    {"Both sets of fields are joined.", []string{ours(b), from("Apply", a), theirs("kubectl", b)}, []string{theirs("kubectl", b), managed(manager, "Apply", "2026-01-02T03:05:00Z", both)}},
		"Updates":   {"Other entries of the former manager go.", []string{from("Update", b), from("Apply", a)}, []string{managed(manager, "Apply", "2026-01-02T03:05:00Z", a)}},
		"OurUpdate": {"An Update of the new manager stays.", []string{theirs(manager, b), from("Apply", a)}, []string{theirs(manager, b), managed(manager, "Apply", "2026-01-02T03:05:00Z", a)}},
		"None":      {"Without an apply, the entries of the former manager go.", []string{from("Update", b), ours(a)}, []string{ours(a)}},
		"NoneLeft":  {"The API server ignores an empty list.", []string{from("Update", b)}, []string{`{}`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := widget(t, `"data":{}`, tc.have...)
			list, err := json.Marshal(Transfer(obj, "vidra/old", manager))
			require.NoError(t, err)
			require.JSONEq(t, "["+strings.Join(tc.want, ",")+"]", string(list), tc.reason)
			require.Equal(t, widget(t, `"data":{}`, tc.have...), obj, "the object is not modified")
		})
	}
}

// TestReleaseDefaultedKeys releases items of a list, one of which leaves out a key with a default.
func TestReleaseDefaultedKeys(t *testing.T) {
	t.Parallel()
	const tcp, udp = `"k:{\"port\":53,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{}}`, `"k:{\"port\":53,\"protocol\":\"UDP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{}}`
	const plain, whole = `{"name":"a","port":53}`, `{"name":"b","port":53,"protocol":"UDP"}`
	tests := map[string]struct{ reason, before, after, fields, want string }{
		"WithAllKeys":    {"The item that stays is another one.", plain + "," + whole, plain, tcp + "," + udp, tcp},
		"WithoutAKey":    {"The other way round.", plain + "," + whole, whole, tcp + "," + udp, udp},
		"FieldOfTheItem": {"The item with a default stays.", plain + "," + whole, `{"port":53},` + whole, tcp + "," + udp, strings.Replace(tcp, `"f:name":{},`, "", 1) + "," + udp},
		"Key":            {"The item stays without its key.", whole, `{"name":"b","port":53}`, udp, strings.Replace(udp, `,"f:protocol":{}`, "", 1)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			configuration := func(items string) map[string]any {
				return object(t, `{"apiVersion":"v1","kind":"Service","spec":{"ports":[`+items+`]}}`).Object
			}
			fields := func(items string) string { return ours(`{"f:spec":{"f:ports":{` + items + `}}}`) }
			managedFields, released := ReleaseFields(widget(t, `"spec":{}`, fields(tt.fields)), manager, configuration(tt.before), configuration(tt.after))
			require.True(t, released)
			text, err := json.Marshal(managedFields)
			require.NoError(t, err)
			require.JSONEq(t, "["+fields(tt.want)+"]", string(text), tt.reason)
		})
	}
}

// TestSetByDefaultedKeys: the item of another manager is not the one that leaves out a key with a default.
func TestSetByDefaultedKeys(t *testing.T) {
	t.Parallel()
	const item = `{"f:spec":{"f:ports":{"k:{\"port\":53,\"protocol\":\"%s\"}":{".":{},"f:name":{},"f:port":{}}}}}`
	configuration := object(t, `{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"name":"a","port":53}]}}`).Object
	whole := widget(t, `"spec":{}`, ours(fmt.Sprintf(item, "TCP")))
	for protocol, want := range map[string][][]string{"TCP": {{"spec", "ports", "0", "name"}}, "UDP": nil} {
		obj := widget(t, `"spec":{}`, theirs("mesh", fmt.Sprintf(item, protocol)))
		require.Equal(t, want, setBy(obj, []string{"mesh"}, configuration, whole), protocol)
	}
}
