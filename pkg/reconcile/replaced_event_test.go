package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestReplacedWhileTheWatchWasDown: an object that was deleted and created again while its watch was down is an update with another UID.
func TestReplacedWhileTheWatchWasDown(t *testing.T) {
	t.Parallel()
	owner := trigger.Owner{Name: "shop"}
	s := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(s))
	vr := func(name string, uid types.UID, on ...string) *v1alpha1.VidraResource {
		one := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, Generation: 1}}
		for _, name := range on {
			one.Spec.DependsOn = append(one.Spec.DependsOn, v1alpha1.Dependency{Name: name})
		}
		return one
	}
	namespace := func(uid types.UID) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "inner", UID: uid}}
	}
	for name, tt := range map[string]struct {
		reason string
		// enqueues reports whether an update that shows the UID wakes the VidraResource.
		enqueues func(r *Reconciler, uid types.UID) bool
	}{
		"VidraResource": {"the new one is still to be applied", func(r *Reconciler, uid types.UID) bool {
			return r.changed().Update(event.UpdateEvent{ObjectOld: vr(owner.Name, "a"), ObjectNew: vr(owner.Name, uid)})
		}},
		"Namespace": {"the objects in it may be created again", func(r *Reconciler, uid types.UID) bool {
			r.onNamespace().Update(t.Context(), event.UpdateEvent{ObjectOld: namespace("a"), ObjectNew: namespace(uid)}, nil)
			return r.Watching.Trigger.TakeCauses(owner).All
		}},
		"dependent": {"the deletion waits for it no more", func(r *Reconciler, uid types.UID) bool {
			r.onDependency().Update(t.Context(), event.UpdateEvent{ObjectOld: vr("page", "a", owner.Name), ObjectNew: vr("page", uid)}, nil)
			return r.Watching.Trigger.TakeCauses(owner).All
		}},
	} {
		deleted := vr(owner.Name, "a")
		deleted.DeletionTimestamp, deleted.Finalizers = ptr.To(metav1.Now()), []string{v1alpha1.Finalizer}
		r := &Reconciler{
			Clients:  Clients{Client: fake.NewClientBuilder().WithScheme(s).WithObjects(deleted).WithIndex(&v1alpha1.VidraResource{}, dependsOnField, dependsOn).Build()},
			Watching: Watching{Trigger: trigger.NewFactory(trigger.NewIndex())}, Reports: Reports{Inventories: &status.Inventories{}},
		}
		r.related.namespaces.Set(owner, func(yield func(string) bool) { yield("inner") })
		require.False(t, tt.enqueues(r, "a"), "%s: nothing has changed", name)
		require.True(t, tt.enqueues(r, "b"), "%s: %s", name, tt.reason)
	}
}
