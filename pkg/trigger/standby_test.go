package trigger

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestStandbyStoresNoUnknownOwners: users can write any number of names of owners, and a replica that does not lead
// takes none of them. When it leads, its controller reconciles every VidraResource; a name is enqueued from then on.
func TestStandbyStoresNoUnknownOwners(t *testing.T) {
	f := NewFactory(NewIndex())
	watch, transform := f.HandlerFor("", configMaps), f.TransformFor("", configMaps)
	see := func(i int) {
		u := smallConfigMap.decoded(t, i, Owner{Name: "shop"}, "red", fmt.Sprint(i+1))
		name := fmt.Sprintf("forged-%d", i)
		u.SetAnnotations(map[string]string{v1alpha1.Installation("").OwnerAnnotationKey(name): name})
		s, err := transform(u)
		require.NoError(t, err)
		watch.OnAdd(s, false)
	}
	for i := range 10_000 {
		see(i)
	}
	require.Empty(t, f.owners.early)
	require.Empty(t, f.pending.causes)

	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	require.NoError(t, f.Source().Start(t.Context(), queue))
	see(10_000)
	require.Equal(t, 1, queue.Len())
}
