package reconcile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestDeletionWithADefinition compares a deleted VidraResource with the CustomResourceDefinition of its controller.
func TestDeletionWithADefinition(t *testing.T) {
	at := func(d time.Duration) metav1.Time {
		return metav1.NewTime(time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC).Add(d))
	}
	deleted := at(time.Hour)
	vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(0), DeletionTimestamp: &deleted}}
	allowed := map[string]string{v1alpha1.AllowDeletionAnnotation: "true"}
	for name, tc := range map[string]struct {
		definition *metav1.PartialObjectMetadata
		deletes    bool
	}{
		"absent":                       {nil, true},
		"in place":                     {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(-time.Hour)}}, false},
		"being deleted":                {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(-time.Hour), DeletionTimestamp: &deleted}}, true},
		"being deleted on purpose":     {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(-time.Hour), DeletionTimestamp: &deleted, Annotations: allowed}}, false},
		"installed again since":        {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(2 * time.Hour)}}, true},
		"installed again, and allowed": {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(2 * time.Hour), Annotations: allowed}}, false},
		"installed again just before the garbage collector": {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(55 * time.Minute)}}, true},
		"installed again long before":                       {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(29 * time.Minute)}}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.deletes, deletes(tc.definition, vr)) })
	}
}
