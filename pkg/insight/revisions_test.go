package insight

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestManagerOfHold: an entry of managedFields may have no time and no fields.
func TestManagerOfHold(t *testing.T) {
	early, late := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	hold := metav1.NewFieldsV1(`{"f:spec":{"f:revision":{"f:hold":{}}}}`)
	cases := map[string]struct {
		reason  string
		entries []metav1.ManagedFieldsEntry
		manager string
		since   *metav1.Time
	}{
		"Last":       {"The last one counts.", []metav1.ManagedFieldsEntry{{Manager: "b", Time: &late, FieldsV1: hold}, {Manager: "a", Time: &early, FieldsV1: hold}}, "b", &late},
		"OtherField": {"It set another field.", []metav1.ManagedFieldsEntry{{Manager: "a", Time: &early, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:prune":{}}}`)}}, "", nil},
		"NoFields":   {"It set no field.", []metav1.ManagedFieldsEntry{{Manager: "a", Time: &early}}, "", nil},
		"NoTime":     {"It is the only one.", []metav1.ManagedFieldsEntry{{Manager: "a", FieldsV1: hold}}, "a", nil},
		"TimeFirst":  {"A time is later than none.", []metav1.ManagedFieldsEntry{{Manager: "a", Time: &early, FieldsV1: hold}, {Manager: "b", FieldsV1: hold}}, "a", &early},
		"TimeLast":   {"The same in the other order.", []metav1.ManagedFieldsEntry{{Manager: "b", FieldsV1: hold}, {Manager: "a", Time: &early, FieldsV1: hold}}, "a", &early},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			manager, since := managerOfHold(tc.entries)
			require.Equal(t, tc.manager, manager, tc.reason)
			require.Equal(t, tc.since, since, tc.reason)
		})
	}
}
