package ownership

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestReversion(t *testing.T) {
	t.Parallel()
	const (
		old   = `{"manager":"a","operation":"Apply","apiVersion":"x/v1beta1","fieldsV1":{"f:spec":{"f:a":{}}}}`
		other = `{"manager":"b","operation":"Update","apiVersion":"x/v1beta1","fieldsV1":{"f:spec":{"f:b":{}}}}`
		same  = `{"manager":"b","operation":"Update","apiVersion":"x/v1","fieldsV1":{"f:spec":{"f:c":{}}}}`
	)
	cases := map[string]struct {
		reason, entries, want string
		changed               bool
	}{
		"None":   {"Nothing is of that version.", same, same, false},
		"One":    {"Its version changes alone.", old, `{"manager":"a","operation":"Apply","apiVersion":"x/v1","fieldsV1":{"f:spec":{"f:a":{}}}}`, true},
		"Merged": {"A manager has one entry for a version.", other + "," + same, `{"manager":"b","operation":"Update","apiVersion":"x/v1","fieldsV1":{"f:spec":{"f:b":{},"f:c":{}}}}`, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := &unstructured.Unstructured{}
			require.NoError(t, obj.UnmarshalJSON([]byte(`{"apiVersion":"x/v1","kind":"X","metadata":{"name":"x","managedFields":[`+tc.entries+`]}}`)))
			got, changed := Reversion(obj, "x/v1beta1", "x/v1")
			require.Equal(t, tc.changed, changed, tc.reason)
			text, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, "["+tc.want+"]", string(text), tc.reason)
		})
	}
}
