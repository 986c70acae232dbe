package trigger

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// maxBytes is how much live heap a watched object may take: what the store of
// its informer keeps, and the Index.
const maxBytes = 512

// liveHeap is the size of what is reachable. The second collection frees what
// the first one only found to be referred to by weak pointers.
func liveHeap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// footprint is the live heap that an object takes, and what its Snapshot
// estimates for its part in the store.
type footprint struct{ index, store, estimate int }

// measure fills an Index and the store of an informer with n objects, perOwner
// of each owner, as a running operator does: the objects are applied, and their
// events are transformed and judged.
func (s sample) measure(t *testing.T, n, perOwner int) footprint {
	t.Helper()
	owners := func(i int) Owner { return Owner{Name: fmt.Sprintf("shop-%d", i/perOwner)} }
	version := func(i int) string { return strconv.Itoa(1_000_000 + i) }
	empty := liveHeap()
	f := NewFactory(NewIndex())
	queue := priorityqueue.New[reconcile.Request](t.Name())
	defer queue.ShutDown()
	require.NoError(t, f.Source().Start(t.Context(), queue))
	for i := range n {
		applied := s.applied(t, i, owners(i), "blue", version(i))
		f.index.Begin(owners(i), s.key(i), applied.Manager)
		f.Commit(owners(i), s.key(i), applied)
	}
	indexed := liveHeap()
	store := cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.Indexers{})
	transform, handler := f.TransformFor("", s.gvr), f.HandlerFor("", s.gvr)
	for i := range n {
		kept, err := transform(s.decoded(t, i, owners(i), "blue", version(i)))
		require.NoError(t, err)
		require.NoError(t, store.Add(kept))
		handler.OnAdd(kept, true)
	}
	stored := liveHeap()
	estimate := 0
	for _, kept := range store.List() {
		estimate += kept.(*Snapshot).Size()
	}
	runtime.KeepAlive(f)
	return footprint{index: (indexed - empty) / n, store: (stored - indexed) / n, estimate: estimate / n}
}

// TestMemoryOfAWatchedObject holds with the race detector too, which keeps what
// it notes outside of the heap.
func TestMemoryOfAWatchedObject(t *testing.T) {
	cases := map[string]struct {
		reason      string
		sample      sample
		n, perOwner int
	}{
		"ConfigMaps":          {"The smallest objects.", smallConfigMap, 5_000, 100},
		"SmallVidraResources": {"What is kept of an owner is shared by few objects.", smallConfigMap, 5_000, 4},
		"Deployments":         {"What is kept does not grow with the object.", fullDeployment, 1_500, 100},
		"Unready":             {"Each says why in words of its own.", talkativeWidget, 1_500, 100},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var all []footprint
			for range 3 {
				all = append(all, tc.sample.measure(t, tc.n, tc.perOwner))
			}
			slices.SortFunc(all, func(a, b footprint) int { return a.index + a.store - b.index - b.store })
			f := all[1]
			t.Logf("%d bytes: %d in the Index and %d in the store, estimated %d", f.index+f.store, f.index, f.store, f.estimate)
			limit := maxBytes
			if name == "Unready" {
				limit += 16 // for the results of spec.healthChecks
			}
			require.LessOrEqual(t, f.index+f.store, limit, tc.reason)
			require.InEpsilon(t, f.store, f.estimate, 0.3, "what a Snapshot says of its size")
		})
	}
}

// TestSizesAreAsEstimated holds what is counted on to what the compiler makes of it.
func TestSizesAreAsEstimated(t *testing.T) {
	require.EqualValues(t, snapshotBytes, unsafe.Sizeof(Snapshot{}))
	require.EqualValues(t, ownedBytes, unsafe.Sizeof(owned{}))
	require.EqualValues(t, specialBytes, unsafe.Sizeof(special{}))
}

// BenchmarkEvent is one event of an object that is in order, from the decoded
// object to the verdict.
func BenchmarkEvent(b *testing.B) {
	for name, s := range map[string]sample{"ConfigMap": smallConfigMap, "Deployment": fullDeployment, "Widget": talkativeWidget} {
		b.Run(name, func(b *testing.B) {
			f := NewFactory(NewIndex())
			queue := priorityqueue.New[reconcile.Request](b.Name())
			defer queue.ShutDown()
			require.NoError(b, f.Source().Start(b.Context(), queue))
			applied := s.applied(b, 0, owner, "blue", "100")
			f.index.Begin(owner, s.key(0), applied.Manager)
			f.Commit(owner, s.key(0), applied)
			transform, handler := f.TransformFor("", s.gvr), f.HandlerFor("", s.gvr)
			seen := s.decoded(b, 0, owner, "blue", "101")
			b.ReportAllocs()
			before, err := transform(seen)
			require.NoError(b, err)
			for b.Loop() {
				kept, err := transform(seen)
				if err != nil {
					b.Fatal(err)
				}
				handler.OnUpdate(before, kept)
			}
			require.Zero(b, queue.Len(), "what is in order is no work")
		})
	}
}

// TestListsKeepNoObjects lists again what was applied: an informer holds what a list
// brought until the list is done, and none of it is to be whole then.
func TestListsKeepNoObjects(t *testing.T) {
	r := newRig(t)
	r.apply("blue", "100", nil)
	transform := r.TransformFor("", key.GVR)
	going := configMap("blue", "102")
	going.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	for reason, object := range map[string]*unstructured.Unstructured{
		"the apply itself": configMap("blue", "100"), "an older one": configMap("green", "99"),
		"in order": configMap("blue", "101"), "on its way out": going,
	} {
		kept, err := transform(object)
		require.NoError(t, err)
		require.Nil(t, kept.(*Snapshot).waiting().object, reason)
	}
	kept, err := transform(configMap("red", "103"))
	require.NoError(t, err)
	require.NotNil(t, kept.(*Snapshot).waiting().object, "what was changed has to be told")
}
