package watchregistry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// TestWatchThatComesTooLate: a WATCH that the API server accepts at the moment at
// which the informer ends is stopped, and its list slot is free again.
func TestWatchThatComesTooLate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	lists := newListLimiter()
	g := &retryingClient{
		served: func(context.Context) (bool, error) { return true, nil },
		report: func(event, Reason, error) {}, listLimiter: lists, backoff: newRequestBackoff(), stats: newStats(),
	}
	source := apiwatch.NewFake()
	_, err := g.watch(ctx, metav1.ListOptions{SendInitialEvents: ptr.To(true)},
		func(context.Context, metav1.ListOptions) (apiwatch.Interface, error) { cancel(); return source, nil }, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, lists.slots.TryAcquire(maxConcurrentLists), "no slot is taken")
	require.True(t, source.IsStopped())
}

// newTestClient returns a retryingClient that reports what happens to told.
func newTestClient(told func(what event)) *retryingClient {
	return &retryingClient{
		served:      func(context.Context) (bool, error) { return true, nil },
		report:      func(what event, _ Reason, _ error) { told(what) },
		listLimiter: newListLimiter(), backoff: newRequestBackoff(), stats: newStats(),
	}
}

// TestAnswerAsTimeoutEnds: a WATCH that is answered in the moment in which it is
// given up is given up, and is no answer without a stream.
func TestAnswerAsTimeoutEnds(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			g := newTestClient(func(event) {})
			source, err := g.open(t.Context(), metav1.ListOptions{}, func(context.Context, metav1.ListOptions) (apiwatch.Interface, error) {
				time.Sleep(listTimeout)
				return apiwatch.NewFake(), nil
			})
			if err == nil {
				require.NotNil(t, source)
				source.Stop()
			}
		})
	}
}

// TestWatchesThatExpireForEver: where lists work and every WATCH has expired, the
// watch is not healthy.
func TestWatchesThatExpireForEver(t *testing.T) {
	t.Parallel()
	failures := 0
	g := newTestClient(func(what event) {
		if what == failed {
			failures++
		}
	})
	answers := func() {
		_, err := list(t.Context(), g, metav1.ListOptions{}, func(context.Context) (*unstructured.UnstructuredList, error) {
			return &unstructured.UnstructuredList{}, nil
		})
		require.NoError(t, err)
	}
	gone := apierrors.NewResourceExpired("too old")
	g.expire(gone)
	answers()
	require.Zero(t, failures, "one that expires is usual")
	g.expire(gone)
	require.Equal(t, 1, failures)
}

// TestEventThatCannotBeRead: a stream that was cut is resumed; one whose first event
// cannot be read, each time, is not resumed for ever.
func TestEventThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestClient(func(event) {})
		unreadable := &metav1.Status{Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError, Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: causeWatchDecoding}},
		}}
		// passed says whether the reflector gets the error, and not just an end.
		passed := func(before ...apiwatch.Event) bool {
			source := apiwatch.NewFakeWithChanSize(len(before)+1, false)
			for _, e := range before {
				source.Action(e.Type, e.Object)
			}
			source.Error(unreadable)
			s := newStream(g, source, nil, nil)
			defer s.Stop()
			last := apiwatch.Event{}
			for e := range s.ResultChan() {
				last = e
			}
			return last.Type == apiwatch.Error
		}
		for range maxUndecodableStreams {
			require.False(t, passed(), "it may have been cut")
		}
		require.True(t, passed())
		require.False(t, passed(apiwatch.Event{Type: apiwatch.Added, Object: &unstructured.Unstructured{}}), "it brought something")
		require.False(t, passed())
	})
}

// streamOf returns all that a reflector gets of a stream with events.
func streamOf(t *testing.T, g *retryingClient, opts metav1.ListOptions, all ...apiwatch.Event) (got []apiwatch.Event) {
	t.Helper()
	stream, err := g.watch(t.Context(), opts, func(context.Context, metav1.ListOptions) (apiwatch.Interface, error) {
		source := apiwatch.NewFakeWithChanSize(len(all), false)
		for _, e := range all {
			source.Action(e.Type, e.Object)
		}
		source.Stop()
		return source, nil
	}, nil)
	require.NoError(t, err)
	defer stream.Stop()
	for e := range stream.ResultChan() {
		got = append(got, e)
	}
	return got
}

// TestTooManyObjects: a kind with too many objects is listed now and then, and watched again once it has fewer.
func TestTooManyObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := started
		g := newTestClient(func(what event) { last = what })
		g.maxObjects = 2
		listing := metav1.ListOptions{SendInitialEvents: ptr.To(true)}
		added, deleted := apiwatch.Event{Type: apiwatch.Added, Object: &unstructured.Unstructured{}}, apiwatch.Event{Type: apiwatch.Deleted, Object: &unstructured.Unstructured{}}
		end := &unstructured.Unstructured{Object: map[string]any{}}
		end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		bookmark := apiwatch.Event{Type: apiwatch.Bookmark, Object: end}

		lists := 0
		for began := time.Now(); time.Since(began) < time.Hour; lists++ {
			require.Len(t, streamOf(t, g, listing, added, added, added, bookmark), 2)
			require.Equal(t, failed, last)
		}
		require.LessOrEqual(t, lists, 31, "lists of an hour")

		require.Len(t, streamOf(t, g, listing, added, added, bookmark), 3)
		require.Equal(t, answered, last)
		g.stats.addStored(2, 0)
		require.Len(t, streamOf(t, g, metav1.ListOptions{ResourceVersion: "1"}, deleted), 1, "there is room for none, and a deletion makes some")
		got := streamOf(t, g, metav1.ListOptions{ResourceVersion: "1"}, added, deleted)
		require.Len(t, got, 1)
		require.True(t, apierrors.IsResourceExpired(apierrors.FromObject(got[0].Object)), "all objects are listed next: %v", got)
		require.Equal(t, failed, last)
		g.stats.addStored(1, 0)
		require.Len(t, streamOf(t, g, listing, added, added, bookmark), 3, "the objects in the store are replaced")
		require.Equal(t, answered, last)
	})
}

// TestStalledListIsStreamedAgain: a streamed list that stalls is replaced by a plain one. The next list is streamed again, because a plain one takes the
// memory of all objects, and the API server may have been slow for once.
func TestStalledListIsStreamedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestClient(func(event) {})
		streams := 0
		streamed := func() error {
			stream, err := g.watch(t.Context(), metav1.ListOptions{SendInitialEvents: ptr.To(true)}, func(context.Context, metav1.ListOptions) (apiwatch.Interface, error) {
				streams++
				return apiwatch.NewFake(), nil
			}, nil)
			if err != nil {
				return err
			}
			for range stream.ResultChan() { // it stalls until it is given up
			}
			stream.Stop()
			return nil
		}
		for n := range 2 {
			require.NoError(t, streamed())
			require.Equal(t, n+1, streams)
			require.True(t, apierrors.IsBadRequest(streamed()), "a plain list is next")
			require.Equal(t, n+1, streams)
			_, err := list(t.Context(), g, metav1.ListOptions{}, func(context.Context) (*unstructured.UnstructuredList, error) {
				return &unstructured.UnstructuredList{}, nil
			})
			require.NoError(t, err)
		}
	})
}
