package suite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// Patience bounds the wait for anything. It is for slow machines, and for clusters whose Pods run
// on the same machine; a test of something that has to be fast has a bound of its own. It is far
// below the default resync interval, so what happens within it was caused by an event.
const Patience = 80 * time.Second

const (
	// Poll is how often a condition is checked at first, and pollMost how rarely later:
	// each check is a request that competes with what the test waits for.
	Poll     = 10 * time.Millisecond
	pollMost = 150 * time.Millisecond
)

// Await waits until condition holds, for Patience at most.
func Await(t *testing.T, condition func(c *assert.CollectT), msgAndArgs ...any) {
	t.Helper()
	AwaitFor(t, Patience, condition, msgAndArgs...)
}

// AwaitFor waits until condition holds, for a time that the test knows better than Await.
func AwaitFor(t *testing.T, most time.Duration, condition func(c *assert.CollectT), msgAndArgs ...any) {
	t.Helper()
	pause := time.Duration(0)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		time.Sleep(pause)
		pause = min(max(Poll, pause*3/2), pollMost)
		condition(c)
	}, most, time.Millisecond, msgAndArgs...)
}

const (
	// pollsBeforeWatch is how often AwaitObject checks its condition before it watches the
	// object: most conditions hold within a tenth of a second, and a watch costs more than
	// some reads.
	pollsBeforeWatch = 6
	// pollWatched is how rarely the condition is checked while a watch reports no change. The
	// API server may end a watch.
	pollWatched = time.Second
)

// AwaitObject waits until condition holds, which depends on one object alone. It is checked
// when the object changes.
func (c *Cluster) AwaitObject(t *testing.T, most time.Duration, obj client.Object, condition func(c *assert.CollectT), msgAndArgs ...any) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pause, polls, changed := time.Duration(0), 0, (<-chan struct{})(nil)
	require.EventuallyWithT(t, func(collect *assert.CollectT) {
		if polls++; polls == pollsBeforeWatch {
			changed = c.changes(ctx, obj)
		}
		if polls < pollsBeforeWatch || changed == nil {
			time.Sleep(pause)
			pause = min(max(Poll, pause*3/2), pollMost)
		} else {
			select {
			case <-changed:
			case <-time.After(pollWatched):
			case <-ctx.Done():
			}
		}
		condition(collect)
	}, most, time.Millisecond, msgAndArgs...)
}

// changes returns a channel that has a value when an object may have changed, from now on
// until ctx ends. It is nil if the object cannot be watched.
func (c *Cluster) changes(ctx context.Context, obj client.Object) <-chan struct{} {
	gvk, err := c.Admin.GroupVersionKindFor(obj)
	if err != nil {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	w, err := c.watching.Watch(ctx, list, client.InNamespace(obj.GetNamespace()), client.MatchingFields{metav1.ObjectNameField: obj.GetName()})
	if err != nil {
		return nil
	}
	changed := make(chan struct{}, 1)
	go func() {
		defer w.Stop()
		for range w.ResultChan() {
			select {
			case changed <- struct{}{}:
			default: // what waits covers this change, too
			}
		}
	}()
	return changed
}

// Unique returns a name that no other test of the process has, and that begins with the
// name of the test.
func Unique(t *testing.T) string {
	t.Helper()
	return testenv.UniqueName(t.Name())
}
