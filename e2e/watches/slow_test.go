package watches

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// census counts the objects that a transform made and that are still in memory.
type census struct{ alive atomic.Int64 }

// transform is metadataOnly.
func (c *census) transform(obj any) (any, error) {
	obj, err := metadataOnly(obj)
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok && err == nil {
		c.alive.Add(1)
		runtime.AddCleanup(m, func(alive *atomic.Int64) { alive.Add(-1) }, &c.alive)
	}
	return obj, err
}

// becomes waits until there are no more than most.
func (c *census) becomes(t *testing.T, most int) {
	t.Helper()
	await(t, func(collect *assert.CollectT) {
		runtime.GC()
		assert.LessOrEqual(collect, c.alive.Load(), int64(most))
	})
}

// churn edits each object n times, all objects at a time.
func churn(t *testing.T, cms []*corev1.ConfigMap, n int) {
	t.Helper()
	var all errgroup.Group
	for _, cm := range cms {
		all.Go(func() error {
			for range n {
				patch := fmt.Sprintf(`{"data":{"edit":"%d"}}`, edits.Add(1))
				if err := admin.Patch(context.Background(), cm, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
}

// TestF19SlowHandler: what a slow handler had not taken waited in a buffer that grew
// with every event, until the memory was full. Here a handler stands still while
// thousands of edits flow. What is kept for it does not grow with their number, the
// handler of another kind goes on, and when it moves again, it is told the last state
// of every object and every deletion.
func TestF19SlowHandler(t *testing.T) {
	t.Parallel()
	var blocked atomic.Bool
	busy, unblock := make(chan struct{}, 1), make(chan struct{})
	kept := &census{}
	l := newLab(t, labOptions{transform: kept.transform, onEvent: func(gvr schema.GroupVersionResource) {
		if gvr == configMaps.GVR && blocked.Load() {
			select {
			case busy <- struct{}{}:
			default:
			}
			<-unblock
		}
	}})
	free := sync.OnceFunc(func() { close(unblock) })
	t.Cleanup(free) // or the registry would not stop
	cms := make([]*corev1.ConfigMap, 5)
	for i := range cms {
		cms[i] = l.configMap(t, fmt.Sprint(i))
	}
	deleted, replaced := l.configMap(t, "deleted"), l.configMap(t, "replaced")
	secret := l.secret(t, "one")
	l.Sync(owner("one"), []watchregistry.Key{configMaps, secrets})
	l.becomes(t, configMaps, watchregistry.Synced)
	l.becomes(t, secrets, watchregistry.Synced)

	blocked.Store(true)
	edit(t, cms[0])
	<-busy
	require.NoError(t, admin.Delete(t.Context(), deleted))
	require.NoError(t, admin.Delete(t.Context(), replaced))
	l.configMap(t, "replaced")
	passing := l.configMap(t, "passing")
	require.NoError(t, admin.Delete(t.Context(), passing))
	// For each object, the store has one state and what waits at most two.
	const few, states = 20, 3 * 10
	many := suite.Size(100, 500)
	for _, n := range []int{few, many} {
		churn(t, cms, n)
		await(t, func(c *assert.CollectT) {
			for _, cm := range cms {
				obj, found, _ := l.Get(configMaps, cm.Namespace, cm.Name)
				if assert.True(c, found) {
					assert.Equal(c, cm.ResourceVersion, obj.(*metav1.PartialObjectMetadata).ResourceVersion)
				}
			}
		}, "the watch itself goes on")
		kept.becomes(t, states)
	}
	require.GreaterOrEqual(t, l.watch(configMaps).Events[watch.Modified], uint64((few+many)*len(cms)))
	since := time.Now()
	edit(t, secret)
	await(t, func(c *assert.CollectT) { assert.True(c, l.knows(secrets, secret)) })
	t.Logf("another kind's handler knew of an edit %s later", time.Since(since).Round(time.Millisecond))
	require.False(t, l.knows(configMaps, cms[1]), "the handler stands still")

	blocked.Store(false)
	free()
	await(t, func(c *assert.CollectT) {
		known := l.known()
		delete(known, id(secrets, secret))
		assert.Equal(c, l.truth(t), known)
	})
	for _, cm := range []*corev1.ConfigMap{deleted, replaced, passing} {
		l.requireGoneOnce(t, configMaps, cm, 0, cm.Name)
	}
}
