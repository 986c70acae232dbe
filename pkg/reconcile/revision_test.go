package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// TestIsApplied recognizes the applied manifest after a start. An object that is only created, and never changed, may be of another client, or have its
// first configuration.
func TestIsApplied(t *testing.T) {
	t.Parallel()
	id := func(name string) object.Identity {
		return object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "default", Name: name}
	}
	entry := func(name, configuration string) *plan.Object {
		return &plan.Object{ID: id(name), Entry: &v1alpha1.ManagedResourceStatus{UID: "u", State: v1alpha1.ObjectApplied, Configuration: configuration}}
	}
	going := entry("a", "1")
	going.Entry.State = v1alpha1.ObjectDeleting
	goingOnce := entry("once", "2")
	goingOnce.Entry.State = v1alpha1.ObjectDeleting
	left := entry("left", "")
	left.Entry.UID, left.Entry.State = "", v1alpha1.ObjectPending
	a, once := &desired.Object{ID: id("a"), Configuration: "1"}, &desired.Object{ID: id("once"), Configuration: "2", Lifetime: desired.Lifetime{Apply: v1alpha1.ApplyIfNotPresent}}
	for name, tc := range map[string]struct {
		objects   []*desired.Object
		inventory []*plan.Object
		want      bool
	}{
		"Applied":         {[]*desired.Object{a}, []*plan.Object{entry("a", "1")}, true},
		"Changed":         {[]*desired.Object{a}, []*plan.Object{entry("a", "2")}, false},
		"Unknown":         {[]*desired.Object{a}, []*plan.Object{entry("a", "")}, false},
		"Removed":         {[]*desired.Object{a}, []*plan.Object{going}, false},
		"More":            {[]*desired.Object{a}, []*plan.Object{entry("a", "1"), entry("b", "1")}, false},
		"Fewer":           {[]*desired.Object{a}, nil, false},
		"Left":            {[]*desired.Object{a}, []*plan.Object{entry("a", "1"), left}, true},
		"LeftAndWanted":   {[]*desired.Object{a, {ID: id("left"), Configuration: "1"}}, []*plan.Object{entry("a", "1"), left}, false},
		"OfAnotherClient": {[]*desired.Object{a, once}, []*plan.Object{entry("a", "1")}, true},
		"NeverChanged":    {[]*desired.Object{a, once}, []*plan.Object{entry("a", "1"), entry("once", "1")}, true},
		"RemovedOnce":     {[]*desired.Object{a, once}, []*plan.Object{entry("a", "1"), goingOnce}, false},
	} {
		require.Equal(t, tc.want, isApplied(&desired.Resolved{Objects: tc.objects}, tc.inventory), name)
	}
}
