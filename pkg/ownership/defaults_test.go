package ownership

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAddedDefaults finds the fields in the way of a changed configuration that the API server refuses.
func TestAddedDefaults(t *testing.T) {
	t.Parallel()
	created := metav1.NewTime(time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)) // the time of theirs
	cases := map[string]struct {
		reason        string
		configuration string
		found         string
		managed       []string
		refused       [][]string
		created       metav1.Time
		want          []string
	}{
		"Changed": {
			reason: "The default belongs to the former value.", configuration: `"spec":{"type":"B"}`, found: `"spec":{"type":"A","port":1}`,
			managed: []string{ours(`{"f:spec":{"f:type":{}}}`)}, want: []string{"spec.port"},
		},
		"Added": {
			reason: "The default excludes the new field.", configuration: `"spec":{"a":1,"b":1}`, found: `"spec":{"a":1,"d":{"x":[1],"y":2}}`,
			managed: []string{ours(`{"f:spec":{"f:a":{}}}`)}, want: []string{"spec.d"},
		},
		"Dropped": {
			reason: "The default belongs to the dropped field.", configuration: `"spec":{"a":1}`, found: `"spec":{"a":1,"m":{"x":1,"y":2},"z":3}`,
			managed: []string{ours(`{"f:spec":{"f:a":{},"f:m":{"f:x":{}}}}`)}, want: []string{"spec.m"},
		},
		"DroppedItem": {
			reason: "A dropped field of an item.", configuration: `"spec":{"parts":[{"name":"a"}]}`, found: `"spec":{"parts":[{"name":"a","m":{"x":1,"y":2}}]}`,
			managed: []string{ours(`{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:m":{"f:x":{}}}}}}`)}, want: []string{`spec.parts[name="a"].m`},
		},
		"OtherType": {
			reason: "A list becomes a map.", configuration: `"spec":{"parts":{"a":1}}`, found: `"spec":{"parts":[{"name":"a"}],"port":1}`,
			managed: []string{ours(`{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}}}}`)},
		},
		"Same": {
			reason: "Nothing changes.", configuration: `"spec":{"type":"A"}`, found: `"spec":{"type":"A","port":1}`,
			managed: []string{ours(`{"f:spec":{"f:type":{}}}`)},
		},
		"Elsewhere": {
			reason: "A default below another parent is not in the way.", configuration: `"spec":{"s":{"type":"B"},"t":{"x":1}}`, found: `"spec":{"s":{"type":"A","port":1},"t":{"x":1,"port":2}}`,
			managed: []string{ours(`{"f:spec":{"f:s":{"f:type":{}},"f:t":{"f:x":{}}}}`)}, want: []string{"spec.s.port"},
		},
		"Refused": {
			reason: "The API server names the field in the way.", configuration: `"spec":{"s":{"type":"B"},"t":{"type":"B"}}`, found: `"spec":{"s":{"type":"A","port":1},"t":{"type":"A","port":2}}`,
			managed: []string{ours(`{"f:spec":{"f:s":{"f:type":{}},"f:t":{"f:type":{}}}}`)}, refused: [][]string{{"spec", "t", "port"}}, want: []string{"spec.t.port"},
		},
		"RefusedDropped": {
			reason: "The API server names a field below the dropped one.", configuration: `"spec":{"x":1}`, found: `"spec":{"x":1,"s":{"a":1,"port":1},"t":{"a":1,"port":2}}`,
			managed: []string{ours(`{"f:spec":{"f:x":{},"f:s":{"f:a":{}},"f:t":{"f:a":{}}}}`)}, refused: [][]string{{"spec", "t", "port"}}, want: []string{"spec.t"},
		},
		"RefusedInAnItem": {
			reason: "A list has no index in the answer.", configuration: `"spec":{"parts":[{"name":"a","type":"B"},{"name":"b","type":"B"}],"t":{"type":"B"}}`,
			found:   `"spec":{"parts":[{"name":"a","type":"A","port":1},{"name":"b","type":"B","port":1}],"t":{"type":"A","port":2}}`,
			managed: []string{ours(`{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:type":{}},"k:{\"name\":\"b\"}":{".":{},"f:name":{},"f:type":{}}},"f:t":{"f:type":{}}}}`)},
			refused: [][]string{{"spec", "parts", "port"}}, want: []string{`spec.parts[name="a"].port`},
		},
		"RefusedElsewhere": {
			reason: "A name that leads to no changed parent excludes none.", configuration: `"spec":{"s":{"type":"B"}}`, found: `"spec":{"s":{"type":"A","port":1},"t":{"x":1}}`,
			managed: []string{ours(`{"f:spec":{"f:s":{"f:type":{}}}}`)}, refused: [][]string{{"spec", "t", "x"}}, want: []string{"spec.s.port"},
		},
		"RefusedTop": {
			reason: "A field at the top has the object as its parent.", configuration: `"type":"B","spec":{"s":{"type":"B"}}`, found: `"type":"A","port":1,"spec":{"s":{"type":"A","port":1}}`,
			managed: []string{ours(`{"f:type":{},"f:spec":{"f:s":{"f:type":{}}}}`)}, refused: [][]string{{"port"}}, want: []string{"port", "spec.s.port"},
		},
		"Replicas": {
			reason: "The scale of an object has no owner, and is no default.", configuration: `"spec":{"type":"B"}`, found: `"spec":{"type":"A","replicas":3}`,
			managed: []string{ours(`{"f:spec":{"f:type":{}}}`)},
		},
		"Owned": {
			reason: "A field of another manager stays.", configuration: `"spec":{"type":"B"}`, found: `"spec":{"type":"A","port":1}`,
			managed: []string{ours(`{"f:spec":{"f:type":{}}}`), theirs("mesh", `{"f:spec":{"f:port":{}}}`)},
		},
		"CreatedByTool": {
			reason: "A tool of users that created the object stored the default as its own.", configuration: `"spec":{"type":"B"}`, found: `"spec":{"type":"A","port":1}`,
			managed: []string{ours(`{"f:spec":{"f:type":{}}}`), theirs("kubectl-create", `{"f:spec":{"f:type":{},"f:port":{}}}`)}, created: created, want: []string{"spec.port"},
		},
		"EditedByTool": {
			reason: "A tool of users wrote the field later.", configuration: `"spec":{"type":"B"}`, found: `"spec":{"type":"A","port":1}`,
			managed: []string{ours(`{"f:spec":{"f:type":{}}}`), theirs("kubectl-edit", `{"f:spec":{"f:port":{}}}`)}, created: metav1.NewTime(created.Add(-time.Second)),
		},
		"MadeUp": {
			reason: "The API server makes an entry up after managedFields were cleared, with the time of that.", configuration: `"spec":{"type":"B"}`, found: `"spec":{"type":"A","port":1}`,
			managed: []string{ours(`{"f:spec":{"f:type":{}}}`), theirs("before-first-apply", `{"f:spec":{"f:port":{}}}`)}, created: metav1.NewTime(created.Add(-time.Hour)), want: []string{"spec.port"},
		},
		"MadeUpDropped": {
			reason: "That entry has the rest of a dropped field.", configuration: `"spec":{"a":1}`, found: `"spec":{"a":1,"m":{"t":{"port":1},"y":2}}`,
			managed: []string{
				ours(`{"f:spec":{"f:a":{},"f:m":{"f:t":{"f:port":{}}}}}`), theirs("before-first-apply", `{"f:spec":{"f:m":{".":{},"f:y":{},"f:t":{".":{}}}}}`),
			}, created: metav1.NewTime(created.Add(-time.Hour)), want: []string{"spec.m.t", "spec.m.y"},
		},
		"CreatedByController": {
			reason: "A controller wants its field.", configuration: `"spec":{"type":"B"}`, found: `"spec":{"type":"A","port":1}`,
			managed: []string{ours(`{"f:spec":{"f:type":{}}}`), theirs("some-controller", `{"f:spec":{"f:port":{}}}`)}, created: created,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			undo := undoOf(t, tc.configuration)
			undo.Scope, undo.Refused = Defaults, tc.refused
			found := widget(t, tc.found, tc.managed...)
			found.SetCreationTimestamp(tc.created)
			require.Equal(t, tc.want, pathsIn(undo.Added(found, found).Changes), tc.reason)
		})
	}
}
