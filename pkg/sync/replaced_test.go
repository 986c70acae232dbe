package sync

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestReplacedWhileTheWatchWasDown: an InfrahubSync, or a VidraResource of one, that was deleted and created again while its watch was down is an
// update with another UID.
func TestReplacedWhileTheWatchWasDown(t *testing.T) {
	t.Parallel()
	is := func(uid types.UID) *v1alpha1.InfrahubSync {
		return &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "is", UID: uid, Generation: 1}}
	}
	require.False(t, changed().Update(event.TypedUpdateEvent[*v1alpha1.InfrahubSync]{ObjectOld: is("a"), ObjectNew: is("a")}))
	require.True(t, changed().Update(event.TypedUpdateEvent[*v1alpha1.InfrahubSync]{ObjectOld: is("a"), ObjectNew: is("b")}))
	require.True(t, changed().Create(event.TypedCreateEvent[*v1alpha1.InfrahubSync]{Object: is("a")}))

	r := &Reconciler{}
	r.session(is("is")).results.written["page"] = &written{generation: 1}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer queue.ShutDown()
	vr := func(uid types.UID) *v1alpha1.VidraResource {
		return &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "page", UID: uid, Generation: 1, OwnerReferences: []metav1.OwnerReference{
			{Kind: v1alpha1.SyncKind, Name: "is", UID: "is", Controller: ptr.To(true)},
		}}}
	}
	r.onVidraResource(queue).OnUpdate(vr("a"), vr("a"))
	require.Zero(t, queue.Len())
	r.onVidraResource(queue).OnUpdate(vr("a"), vr("b"))
	require.Equal(t, 1, queue.Len())
}
