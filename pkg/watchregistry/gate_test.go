package watchregistry

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// TestWatchThatComesTooLate: a WATCH that the API server accepts at the moment at
// which the informer ends is stopped, and its place is free again.
func TestWatchThatComesTooLate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	lists := newLists()
	g := &gate{
		served: func(context.Context) (bool, error) { return true, nil },
		tell:   func(event, Reason, error) {}, lists: lists, breaker: newBreaker(), stats: newStats(),
	}
	source := apiwatch.NewFake()
	_, err := g.watch(ctx, metav1.ListOptions{SendInitialEvents: ptr.To(true)},
		func(context.Context, metav1.ListOptions) (apiwatch.Interface, error) { cancel(); return source, nil })
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, lists.places.TryAcquire(maxLists), "no place is taken")
	require.True(t, source.IsStopped())
}
