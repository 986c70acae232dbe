package watchregistry

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// sized is an object with a revision, which is also its size.
type sized struct {
	metav1.ObjectMeta
	revision int
	skipped  []int
}

func (s *sized) Size() int { return s.revision }

func revision(name string, n int) *sized {
	return &sized{ObjectMeta: metav1.ObjectMeta{Name: name}, revision: n}
}

// Skip notes an earlier revision that the handler does not see.
func (s *sized) Skip(older any) { s.skipped = append(s.skipped, older.(*sized).revision) }

// slowHandler notes what it is told, and waits for a token each time.
type slowHandler struct {
	tokens chan struct{}
	heard  []string
}

func (h *slowHandler) OnAdd(obj any, inInitial bool) {
	<-h.tokens
	h.heard = append(h.heard, fmt.Sprintf("add %s initial=%t", show(obj), inInitial))
}

func (h *slowHandler) OnUpdate(old, obj any) {
	<-h.tokens
	h.heard = append(h.heard, fmt.Sprintf("update %s to %s", show(old), show(obj)))
}

func (h *slowHandler) OnDelete(obj any) {
	<-h.tokens
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		h.heard = append(h.heard, fmt.Sprintf("missed the end of %s %s", tombstone.Key, show(tombstone.Obj)))
		return
	}
	h.heard = append(h.heard, "delete "+show(obj))
}

func show(obj any) string {
	s, ok := obj.(*sized)
	if !ok {
		return fmt.Sprintf("%T", obj)
	}
	if len(s.skipped) > 0 {
		return fmt.Sprintf("%s@%d instead of %d", s.Name, s.revision, s.skipped)
	}
	return fmt.Sprintf("%s@%d", s.Name, s.revision)
}

func TestDeliveryMergesForASlowHandler(t *testing.T) {
	var (
		add    = func(n int) func(*delivery) { return func(d *delivery) { d.OnAdd(revision("a", n), true) } }
		update = func(from, to int) func(*delivery) {
			return func(d *delivery) { d.OnUpdate(revision("a", from), revision("a", to)) }
		}
		remove = func(n int) func(*delivery) { return func(d *delivery) { d.OnDelete(revision("a", n)) } }
	)
	cases := map[string]struct {
		reason string
		events []func(*delivery)
		want   []string
	}{
		"AddUpdate":       {"An object is new with its newest state.", []func(*delivery){add(1), update(1, 2), update(2, 3)}, []string{"add a@3 instead of [2] initial=true"}},
		"UpdateUpdate":    {"Old is what the handler knows.", []func(*delivery){update(1, 2), update(2, 3)}, []string{"update a@1 to a@3 instead of [2]"}},
		"AddDelete":       {"A deletion is never dropped: somebody may expect the object.", []func(*delivery){add(1), remove(1)}, []string{"delete a@1"}},
		"UpdateDelete":    {"The end is what counts.", []func(*delivery){update(1, 2), remove(2)}, []string{"delete a@2"}},
		"DeleteAdd":       {"A deletion is not merged with what came after it.", []func(*delivery){remove(1), add(2), update(2, 3)}, []string{"delete a@1", "add a@3 instead of [2] initial=true"}},
		"DeleteAddDelete": {"Twice deleted is deleted.", []func(*delivery){remove(1), add(2), remove(2)}, []string{"delete a@2"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &slowHandler{tokens: make(chan struct{})}
				d := newDelivery(h, newStats())
				ctx, cancel := context.WithCancel(t.Context())
				go d.run(ctx)
				d.OnAdd(revision("busy", 1), false)
				synctest.Wait() // the handler is busy with it
				for _, event := range tc.events {
					event(d)
				}
				close(h.tokens)
				synctest.Wait()
				cancel()
				synctest.Wait()
				require.Equal(t, append([]string{"add busy@1 initial=false"}, tc.want...), h.heard, tc.reason)
			})
		})
	}
}

// TestDeliveryIsBounded has many more events wait than objects.
func TestDeliveryIsBounded(t *testing.T) {
	d := newDelivery(cache.ResourceEventHandlerFuncs{}, newStats())
	for i := range 10000 {
		d.OnUpdate(revision(fmt.Sprint(i%7), i), revision(fmt.Sprint(i%7), i+1))
	}
	require.Len(t, d.pending, 7)
	require.Len(t, d.queue, 7)
}

// TestDeliveryReportsWhatIsMissingAfterARestart has an informer find less than
// the one before.
func TestDeliveryReportsWhatIsMissingAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &slowHandler{tokens: make(chan struct{})}
		close(h.tokens)
		s := newStats()
		d := newDelivery(h, s)
		ctx, cancel := context.WithCancel(t.Context())
		go d.run(ctx)
		store := cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc)
		for _, name := range []string{"gone", "kept"} {
			obj := revision(name, 10)
			require.NoError(t, store.Add(obj))
			d.OnAdd(obj, true)
		}
		synctest.Wait()
		require.EqualValues(t, 2, s.objects.Load())
		require.EqualValues(t, 20, s.bytes.Load())
		d.restart(store)
		require.Zero(t, s.objects.Load())
		h.heard = nil
		d.OnAdd(revision("kept", 5), true)
		handled := false
		d.synced(func() { handled = true })
		synctest.Wait()
		require.True(t, handled)
		require.Equal(t, []string{"add kept@5 initial=true", "missed the end of gone gone@10"}, h.heard)
		require.EqualValues(t, 1, s.objects.Load())
		require.EqualValues(t, 5, s.bytes.Load())

		d.OnUpdate(revision("kept", 5), revision("kept", 8))
		require.EqualValues(t, 8, s.bytes.Load())
		d.OnDelete(cache.DeletedFinalStateUnknown{Key: "kept", Obj: revision("kept", 8)})
		require.Zero(t, s.bytes.Load())
		require.Zero(t, s.objects.Load())
		cancel()
		synctest.Wait()
	})
}

// TestSyncedComesAfterTheInitialList has a slow handler: what has synced has been
// handled, not only handed over.
func TestSyncedComesAfterTheInitialList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &slowHandler{tokens: make(chan struct{})}
		d := newDelivery(h, newStats())
		ctx, cancel := context.WithCancel(t.Context())
		go d.run(ctx)
		handled := false
		for i := range 3 {
			d.OnAdd(revision(fmt.Sprint(i), 1), true)
		}
		d.synced(func() { handled = true })
		for range 3 {
			synctest.Wait()
			require.False(t, handled)
			h.tokens <- struct{}{}
		}
		synctest.Wait()
		require.True(t, handled)
		cancel()
		synctest.Wait()
	})
}

// TestDeletionIsTheLastWord: what the handler has not taken yet of an object that is
// gone when the kind is back is not told after its end.
func TestDeletionIsTheLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &slowHandler{tokens: make(chan struct{})}
		d := newDelivery(h, newStats())
		ctx, cancel := context.WithCancel(t.Context())
		go d.run(ctx)
		d.OnAdd(revision("busy", 1), false)
		synctest.Wait()
		d.OnUpdate(revision("a", 1), revision("a", 2))
		store := cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc)
		require.NoError(t, store.Add(revision("a", 2)))
		d.restart(store)
		d.synced(func() {})
		close(h.tokens)
		synctest.Wait()
		require.Contains(t, h.heard[len(h.heard)-1], "missed the end of a")
		cancel()
		synctest.Wait()
	})
}

// TestStoredOfKind counts the objects of two watches of one resource together, as their limit does.
func TestStoredOfKind(t *testing.T) {
	t.Parallel()
	c := &clusterWatches{name: "https://there:6443"}
	one, two, other := newStats(), newStats(), newStats()
	one.ofKind, two.ofKind = c.storedLocked(configMapsV1.GVR), c.storedLocked(configMapsV1.GVR)
	other.ofKind = c.storedLocked(schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	one.addStored(3, 30)
	two.addStored(2, 20)
	two.addStored(-1, -10)
	other.addStored(7, 70)
	require.EqualValues(t, 4, one.storedOfKind())
	require.EqualValues(t, 4, two.storedOfKind())
	one.clearStored()
	require.Zero(t, one.objects.Load())
	require.Zero(t, one.bytes.Load())
	require.EqualValues(t, 1, one.storedOfKind())

	require.Nil(t, (&clusterWatches{}).storedLocked(configMapsV1.GVR), "the local cluster has no limit")
	local := newStats()
	local.addStored(5, 50)
	require.EqualValues(t, 5, local.storedOfKind())
}
