package ownership

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRemoveUnreadable removes the items at fault, and nothing else.
func TestRemoveUnreadable(t *testing.T) {
	t.Parallel()
	const (
		prefix = "failed to create typed live object (shop/web; /v1, Kind=ServiceAccount): "
		omits  = `associative list with keys has an element that omits key field "name" (and doesn't have default value)`
		list   = `"secrets":[{"name":"a"},{},{"name":"theirs"},{"kind":"x"}]`
	)
	for name, tc := range map[string]struct {
		reason, live, configuration, message string
		want                                 []string
	}{
		"OneList": {
			"Each item without the key goes, and the others stay.", list, `"secrets":[{"name":"a"}]`, prefix + ".secrets: element 1: " + omits,
			[]string{"/secrets/3", "/secrets/1"},
		},
		"TwoLists": {
			"The error has a line for each list.", `"secrets":[{}],"others":[{"name":"a"},{}]`, `"secrets":[],"others":[]`,
			prefix + "errors:\n  .others: element 1: " + omits + "\n  .secrets: element 0: " + omits, []string{"/others/1", "/secrets/0"},
		},
		"Nested": {
			"In an item of another list.", `"spec":{"racks":[{"name":"a"},{"name":"b\"]","row":1,"slots":[{"name":"s"},{}]}]}`,
			`"spec":{"racks":[{"name":"b\"]","row":1,"slots":[{"name":"s"}]}]}`, prefix + `.spec.racks[name="b\"]",row=1].slots: element 1: ` + omits,
			[]string{"/spec/racks/1/slots/1"},
		},
		"NestedFirst": {
			"In the first item of another list.", `"spec":{"racks":[{"name":"a","slots":[{"name":"s"},{}]}]}`, `"spec":{"racks":[{"name":"a","slots":[{"name":"s"}]}]}`,
			prefix + `.spec.racks[name="a"].slots: element 1: ` + omits, []string{"/spec/racks/0/slots/1"},
		},
		"NestedGone": {
			"The item is gone.", `"spec":{"racks":[{"name":"b","slots":[{}]}]}`, `"spec":{"racks":[{"name":"a","slots":[{"name":"s"}]}]}`,
			prefix + `.spec.racks[name="a"].slots: element 0: ` + omits, nil,
		},
		"NestedOfOthers": {
			"The manifest has no such item.", `"spec":{"racks":[{"name":"a","slots":[{}]}]}`, `"spec":{"racks":[{"name":"b","slots":[{"name":"s"}]}]}`,
			prefix + `.spec.racks[name="a"].slots: element 0: ` + omits, nil,
		},
		"Dots":       {"Below a name with dots.", `"spec":{"a.b":{"c":[{}]},"a":{"b":[{}]}}`, `"spec":{"a.b":{"c":[]}}`, prefix + ".spec.a.b.c: element 0: " + omits, []string{"/spec/a.b/c/0"}},
		"NoMap":      {"An item that is no map.", `"secrets":[{"name":"a"},null]`, `"secrets":[]`, prefix + ".secrets: element 1: associative list with keys may not have non-map elements", []string{"/secrets/1"}},
		"OfOthers":   {"The manifest has no such list: it stays.", list, `"data":{}`, prefix + ".secrets: element 1: " + omits, nil},
		"OtherError": {"Another error.", list, `"secrets":[]`, prefix + ".secrets: expected list, got map", nil},
		"Gone":       {"The list is gone.", `"data":{}`, `"secrets":[]`, prefix + ".secrets: element 1: " + omits, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var removed []string
			for _, op := range RemoveUnreadable(widget(t, tc.live), widget(t, tc.configuration).Object, tc.message) {
				if op.Op == "remove" {
					removed = append(removed, op.Path)
				}
			}
			require.Equal(t, tc.want, removed, tc.reason)
		})
	}
}
