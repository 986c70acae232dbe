package ownership

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
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
