package reconcile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestAppliedByThis: an object that was applied before the VidraResource existed belongs to no lost inventory of it.
func TestAppliedByThis(t *testing.T) {
	t.Parallel()
	l := newLab(t, colors("a"))
	l.mustPass(t)
	p := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()})
	defer p.state.lane.leave()
	like, created := p.state.plan.Objects.Manifest[0].Desired, metav1.Now().Rfc3339Copy()
	p.plan.VR.CreationTimestamp = created
	for name, tc := range map[string]struct {
		reason  string
		applied time.Duration
		want    bool
	}{
		"Before": {"A former VidraResource applied it.", -time.Second, false},
		"Then":   {"The API server counts seconds.", 0, true},
		"Since":  {"The inventory was emptied.", time.Hour, true},
	} {
		live := &unstructured.Unstructured{}
		live.SetName("left")
		live.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "vidra/faulty", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{"f:color":{}}}`)}, Time: new(metav1.NewTime(created.Add(tc.applied))),
		}})
		l.kept = map[string]*unstructured.Unstructured{"left": live}
		p.applier.Client = l.Dynamic()
		is, err := p.appliedByThis(t.Context(), object.Identity{GroupKind: like.ID.GroupKind, Name: "left"}, like)
		require.NoError(t, err)
		require.Equal(t, tc.want, is, "%s: %s", name, tc.reason)
	}
	is, err := p.appliedByThis(t.Context(), object.Identity{GroupKind: like.ID.GroupKind, Name: "gone"}, like)
	require.NoError(t, err)
	require.False(t, is)
}
