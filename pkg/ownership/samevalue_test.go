package ownership

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestSameValue(t *testing.T) {
	t.Parallel()
	const fields = `{"f:data":{"f:a":{},"f:b":{}},"f:list":{"k:{\"name\":\"x\"}":{".":{},"f:v":{}},"k:{\"name\":\"x\",\"protocol\":\"TCP\"}":{".":{},"f:v":{}}}}`
	of := func(a, v any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"data": map[string]any{"a": a}, "list": []any{map[string]any{"name": "w"}, map[string]any{"name": "x", "v": v}},
		}}
	}
	live := of("1", "1")
	live.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "vidra/one", Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)},
		{Manager: "vidra/three", Operation: metav1.ManagedFieldsOperationApply, Subresource: "status", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)},
		{Manager: "vidra/four", Operation: metav1.ManagedFieldsOperationApply},
		{Manager: "vidra/two", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)},
	})
	cases := map[string]struct {
		reason, manager, field string
		a, b                   *unstructured.Unstructured
		want                   bool
	}{
		"Same":    {"both have the value", "vidra/one", ".data.a", of("2", "2"), of("2", "3"), true},
		"Other":   {"the values differ", "vidra/one", ".data.a", of("2", "2"), of("3", "2"), false},
		"Item":    {"in an item with a key", "vidra/one", `.list[name="x"].v`, of("2", "2"), of("3", "2"), true},
		"Missing": {"neither has the field", "vidra/one", ".data.b", of("2", "2"), of("2", "2"), false},
		"Unowned": {"the manager does not own it", "vidra/one", ".data.c", of("2", "2"), of("2", "2"), false},
		"Status":  {"the manager applied it to a subresource", "vidra/three", ".data.a", of("2", "2"), of("2", "2"), false},
		"Nothing": {"the entry has no fields", "vidra/four", ".data.a", of("2", "2"), of("2", "2"), false},
		"Null":    {"one has no value, and the other lacks the field", "vidra/one", ".data.a", of(nil, "2"), &unstructured.Unstructured{Object: map[string]any{}}, false},
		"Default": {"an item that leaves out a key with a default", "vidra/one", `.list[name="x",protocol="TCP"].v`, of("2", "2"), of("3", "2"), true},
		"Update":  {"the manager did not apply it", "vidra/two", ".data.a", of("2", "2"), of("2", "2"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, SameValues(live, tc.manager, tc.a, tc.b)(tc.field), tc.reason)
		})
	}
}

func TestDisagreement(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	cases := map[string]struct {
		reason string
		a, b   fields
		path   string
	}{
		"equal":         {"Equal values agree.", fields{"data": fields{"a": "1"}}, fields{"data": fields{"a": "1"}}, ""},
		"disjoint":      {"Fields of one of them are no conflict.", fields{"data": fields{"a": "1"}}, fields{"data": fields{"b": "2"}}, ""},
		"value":         {"A value.", fields{"data": fields{"a": "1"}}, fields{"data": fields{"a": "2"}}, "data.a"},
		"empty":         {"An empty value is a value.", fields{"data": fields{"a": ""}}, fields{"data": fields{"a": "2"}}, "data.a"},
		"other type":    {"A value of another type.", fields{"data": fields{"a": "1"}}, fields{"data": "a"}, "data"},
		"other items":   {"Two lists of named items can be merged.", fields{"l": []any{fields{"name": "x"}}}, fields{"l": []any{fields{"name": "y"}}}, ""},
		"item":          {"A field of an item.", fields{"l": []any{fields{"name": "x", "v": "1"}}}, fields{"l": []any{fields{"name": "x", "v": "2"}}}, "l.x.v"},
		"version":       {"One object in two versions of its kind.", fields{"apiVersion": "a/v1", "kind": "A"}, fields{"apiVersion": "a/v2", "kind": "A"}, ""},
		"unnamed items": {"Lists without names.", fields{"l": []any{"a"}}, fields{"l": []any{"b"}}, "l"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, other := &unstructured.Unstructured{Object: tc.a}, &unstructured.Unstructured{Object: tc.b}
			for _, pair := range [][2]*unstructured.Unstructured{{one, other}, {other, one}} {
				path, differs := Disagreement(pair[0], pair[1])
				require.Equal(t, tc.path, path, tc.reason)
				require.Equal(t, tc.path != "", differs, tc.reason)
			}
		})
	}
}
