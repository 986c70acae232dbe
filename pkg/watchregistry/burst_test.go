package watchregistry

import (
	"context"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// BenchmarkBurst sends 20,000 edits of 200 owned objects of 4 KiB while the handler is blocked, and
// reports the memory of the pending events, the calls of the handler, and the time from the end of the
// block until the handler has received the last edit. ADR 26 has the results. Run it with -benchtime=1x.
func BenchmarkBurst(b *testing.B) {
	for name, merged := range map[string]bool{"informer": false, "delivery": true} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				burst(b, merged)
			}
		})
	}
}

const burstObjects, burstEdits = 200, 20_000

// lastVersion is the resourceVersion of the last edit.
var lastVersion = fmt.Sprint(burstEdits + 1)

// burstSource is a source without streamed lists.
type burstSource struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported makes the reflector send a LIST and a WATCH.
func (burstSource) IsWatchListSemanticsUnSupported() bool { return true }

func burst(b *testing.B, merged bool) {
	const manager = "vidra/shop"
	owner := trigger.Owner{Name: "shop"}
	gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
	index := trigger.NewIndex()
	factory := trigger.NewFactory(index)
	list, source := &unstructured.UnstructuredList{}, apiwatch.NewFake()
	list.SetResourceVersion("1")
	applied := map[trigger.ObjectKey]trigger.Applied{}
	for i := range burstObjects {
		obj := edited(i, 0)
		list.Items = append(list.Items, *obj)
		digest, _ := ownership.Of(obj, manager)
		key := trigger.ObjectKey{GVR: gvr, Namespace: "shop", Name: obj.GetName()}
		applied[key] = trigger.Applied{Manager: manager, Digest: digest}
	}
	index.Load(owner, applied)

	var calls atomic.Int64
	block, lastSeen := make(chan struct{}), make(chan time.Time, 1)
	handler := factory.HandlerFor("", gvr)
	blocking := cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { handler.OnAdd(obj, true) },
		UpdateFunc: func(old, obj any) {
			<-block
			handler.OnUpdate(old, obj)
			calls.Add(1)
			if m, err := cache.DeletionHandlingObjectToName(obj); err == nil && m.Name == nameOf(burstEdits-1) {
				if obj.(metav1.ObjectMetaAccessor).GetObjectMeta().GetResourceVersion() == lastVersion {
					lastSeen <- time.Now()
				}
			}
		},
	}
	informer := cache.NewSharedIndexInformer(burstSource{&cache.ListWatch{
		ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list, nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (apiwatch.Interface, error) { return source, nil },
	}}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	require.NoError(b, informer.SetTransform(factory.TransformFor("", gvr)))
	if merged {
		d := newDelivery(blocking, newStats())
		go d.run(b.Context())
		_, err := informer.AddEventHandler(d)
		require.NoError(b, err)
	} else {
		_, err := informer.AddEventHandler(blocking)
		require.NoError(b, err)
	}
	go informer.RunWithContext(b.Context())
	require.Eventually(b, func() bool { return len(informer.GetStore().ListKeys()) == burstObjects }, time.Minute, time.Millisecond)

	before := heap()
	for i := range burstEdits {
		source.Modify(edited(i, i+1))
	}
	require.Eventually(b, func() bool {
		obj, _, _ := informer.GetStore().GetByKey("shop/" + nameOf(burstEdits-1))
		return obj.(metav1.ObjectMetaAccessor).GetObjectMeta().GetResourceVersion() == lastVersion
	}, time.Minute, time.Millisecond)
	time.Sleep(100 * time.Millisecond) // the informer passes the last event on
	b.ReportMetric(float64(heap()-before)/(1<<20), "MiB-pending")
	unblocked := time.Now()
	close(block)
	b.ReportMetric(float64((<-lastSeen).Sub(unblocked).Microseconds())/1000, "ms-last-edit")
	b.ReportMetric(float64(calls.Load()), "calls")
}

func nameOf(edit int) string { return fmt.Sprintf("object-%d", edit%burstObjects) }

// edited returns an object after an edit of its owned field.
func edited(i, value int) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"data": map[string]any{"greeting": fmt.Sprint(value), "text": strings.Repeat("x", 4<<10)},
	}}
	u.SetNamespace("shop")
	u.SetName(nameOf(i))
	u.SetUID("1")
	u.SetResourceVersion(fmt.Sprint(value + 1))
	u.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "vidra/shop", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:greeting":{},"f:text":{}}}`),
	}})
	return u
}

// heap returns the live heap in bytes.
func heap() int64 {
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // a heap is smaller than that
}
