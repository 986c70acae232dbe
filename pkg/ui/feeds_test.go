package ui

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// fakeServer is a Server of the page with the client of its requests.
func fakeServer() (*Server, *fake.FakeDynamicClient) {
	kinds := map[schema.GroupVersionResource]string{v1alpha1.Resource: "VidraResourceList", configMaps: "ConfigMapList"}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
	s := &Server{client: client, hub: newHub()}
	s.feeds = newFeeds(client, s.hub)
	s.store = newStore(s)
	s.observers = newObservers(s)
	return s, client
}

// TestFeedAfterRefusal: a page that is opened after a refusal tries again, and keeps the answer when a page from before is closed.
func TestFeedAfterRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var may atomic.Bool
		s, client := fakeServer()
		client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
			if !may.Load() {
				return true, nil, apierrors.NewForbidden(v1alpha1.Resource.GroupResource(), "", errors.New("no right"))
			}
			initial := action.(clienttesting.WatchActionImpl).ListOptions.SendInitialEvents != nil
			return initial, nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // the fake client lists
		})
		first := s.feeds.use(vidraResourceFeed, s.store)
		_, refusal := s.store.await(t.Context())
		require.True(t, apierrors.IsForbidden(refusal))
		require.True(t, s.feeds.refuses(vidraResourceFeed))
		may.Store(true)
		time.Sleep(linger + time.Second)
		second := s.feeds.use(vidraResourceFeed, s.store)
		known, refusal := s.store.await(t.Context())
		require.NoError(t, refusal, "the first answer after the refusal counts")
		require.True(t, known)
		first()
		time.Sleep(linger + time.Second)
		known, _ = s.store.await(t.Context())
		require.True(t, known, "the present feed continues")
		second()
		time.Sleep(linger + time.Second)
		known, _ = s.store.await(t.Context())
		require.False(t, known, "no feed runs")
	})
}

// TestReads: objects whose requests have no answer are read again, each once at a time.
func TestReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		s, client := fakeServer()
		client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			requests++
			return true, nil, apierrors.NewInternalError(errors.New("no storage"))
		})
		page := &openTopic{ctx: t.Context(), objects: map[object.Identity]bool{}}
		s.observers.topics["page"] = page
		for _, name := range []string{"a", "b", "c"} {
			id := object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "shop", Name: name}
			page.objects[id] = true
			s.observers.all[id] = &observed{owners: []*observer{{id: id, gvr: configMaps}}}
		}
		s.observers.baselines(page)
		require.Equal(t, 3, requests)
		for n := 2; n < 6; n++ {
			time.Sleep(rereadAfter)
			synctest.Wait()
			require.Equal(t, 3*n, requests)
		}
		delete(s.observers.topics, "page")
		time.Sleep(rereadAfter)
		synctest.Wait()
		require.Equal(t, 15, requests, "no page needs them")
	})
}
