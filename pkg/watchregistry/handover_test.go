package watchregistry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"
)

// TestHandOverWaitsForEveryEvent: the informer of a kind that is no longer served is stopped
// only when its handler has received every addition and deletion, however the numbers of
// objects compare meanwhile.
func TestHandOverWaitsForEveryEvent(t *testing.T) {
	cases := map[string]struct {
		reason string
		stored []string
		events []func(*delivery)
	}{
		"Deletion": {
			"A deletion that the handler has not received would be lost.",
			nil, []func(*delivery){func(d *delivery) { d.OnDelete(revision("old", 1)) }},
		},
		"Addition": {
			"The handler has to know an object whose deletion it may receive next.",
			[]string{"old", "new"}, []func(*delivery){func(d *delivery) { d.OnAdd(revision("new", 1), false) }},
		},
		"AdditionAndDeletion": {
			"As many objects in the store as the handler knows need not be the same objects.",
			[]string{"new"}, []func(*delivery){
				func(d *delivery) { d.OnDelete(cache.DeletedFinalStateUnknown{Key: "old", Obj: revision("old", 1)}) },
				func(d *delivery) { d.OnAdd(revision("new", 1), false) },
			},
		},
		"UpdateBetween": {
			"An update changes nothing of which objects there are.",
			nil, []func(*delivery){
				func(d *delivery) { d.OnUpdate(revision("old", 1), revision("old", 2)) },
				func(d *delivery) { d.OnDelete(revision("old", 2)) },
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDelivery(cache.ResourceEventHandlerFuncs{}, newStats())
				d.OnAdd(revision("old", 1), true)
				store := cache.NewStore(cache.MetaNamespaceKeyFunc)
				for _, name := range tc.stored {
					require.NoError(t, store.Add(revision(name, 1)))
				}
				done := false
				go func() {
					d.waitDelivered(t.Context(), store)
					done = true
				}()
				for _, event := range tc.events {
					synctest.Wait()
					require.False(t, done, tc.reason)
					event(d)
				}
				synctest.Wait()
				require.True(t, done, tc.reason)
			})
		})
	}
}

// TestHandOverEndsWithItsTimeout: an informer whose handler never receives an event is stopped
// nevertheless, and the registry can tell that the hand-over is incomplete.
func TestHandOverEndsWithItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDelivery(cache.ResourceEventHandlerFuncs{}, newStats())
		d.OnAdd(revision("old", 1), true)
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		ctx, cancel := context.WithTimeout(t.Context(), handOverTimeout)
		defer cancel()
		start := time.Now()
		d.waitDelivered(ctx, store)
		require.Equal(t, handOverTimeout, time.Since(start), "it waits no longer")
		require.False(t, d.hasDelivered(store))
		d.restart(store)
		require.True(t, d.hasDelivered(store), "the next run begins without objects")
	})
}
