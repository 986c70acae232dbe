package ui

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// TestMain leaves errors without their delay: it lasts until a millisecond after the last one, and that has the time of another test: inside of a
// bubble of synctest, the clock is 27 years behind.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	m.Run()
}

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// fakeServer is a Server of the page with the client of its requests.
func fakeServer() (*Server, *fake.FakeDynamicClient) {
	kinds := map[schema.GroupVersionResource]string{v1alpha1.Resource: "VidraResourceList", configMaps: "ConfigMapList", secrets: "SecretList"}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(apiruntime.NewScheme(), kinds)
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
		forbidden := apierrors.NewForbidden(v1alpha1.Resource.GroupResource(), "", errors.New("no right"))
		client.PrependReactor("list", "*", func(clienttesting.Action) (bool, apiruntime.Object, error) { return !may.Load(), nil, forbidden })
		client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
			if !may.Load() {
				return true, nil, forbidden
			}
			initial := action.(clienttesting.WatchActionImpl).ListOptions.SendInitialEvents != nil
			return initial, nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // the fake client lists
		})
		first := s.feeds.use(vidraResourceFeed, s.store)
		_, refusal := s.store.await(t.Context())
		require.True(t, apierrors.IsForbidden(refusal))
		synctest.Wait() // the feed ends after its answer
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
		var requests atomic.Int32
		s, client := fakeServer()
		client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, apiruntime.Object, error) {
			requests.Add(1)
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
		require.EqualValues(t, 3, requests.Load())
		for n := 2; n < 6; n++ {
			time.Sleep(rereadAfter)
			synctest.Wait()
			require.EqualValues(t, 3*n, requests.Load())
		}
		s.observers.mu.Lock()
		delete(s.observers.topics, "page")
		s.observers.mu.Unlock()
		time.Sleep(rereadAfter)
		synctest.Wait()
		require.EqualValues(t, 15, requests.Load(), "no page needs them")
	})
}

// TestObservedOfPage: a page observes the present objects of its VidraResource, with one goroutine, while a watch of it does not begin.
func TestObservedOfPage(t *testing.T) {
	s, _ := fakeServer()
	var err error
	s.cluster, err = cluster.New(&rest.Config{Host: "127.0.0.1:1"})
	require.NoError(t, err)
	s.store.replace(vidraResourceFeed, []any{&entry{vr: &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}})
	_, end := s.observers.open(vidraResourceTopic("shop"))
	defer end()
	former := object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "shop", Name: "former"}
	hanging := objectFeed(configMaps, "")
	s.feeds.mu.Lock()
	s.feeds.all[hanging] = &feed{began: make(chan struct{})}
	s.feeds.mu.Unlock()
	s.observers.mu.Lock()
	page := s.observers.topics[vidraResourceTopic("shop")]
	page.objects[former], s.observers.all[former] = true, &observed{users: 1}
	page.feeds[hanging] = func() {}
	s.observers.mu.Unlock()
	before := runtime.NumGoroutine()
	for range 100 {
		s.observers.inventoryChanged("shop")
	}
	require.Eventually(t, func() bool {
		s.observers.mu.Lock()
		defer s.observers.mu.Unlock()
		return len(page.objects) == 0 && len(s.observers.all) == 0
	}, 5*time.Second, time.Millisecond)
	require.Less(t, runtime.NumGoroutine(), before+10)
}

// TestGap: a gap in a feed, also its start, leaves the known states of other kinds and namespaces, from which edits are told.
func TestGap(t *testing.T) {
	s, _ := fakeServer()
	id := object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "shop", Name: "settings"}
	w := &observer{id: id, gvr: configMaps, clean: stateWith("ConfigMap", "blue", "", 0), asked: true}
	s.observers.all[id] = &observed{users: 1, owners: []*observer{w}}
	for _, other := range []feedSpec{objectFeed(secrets, ""), objectFeed(configMaps, "other")} {
		s.observers.replace(other, nil)
		require.NotNil(t, w.clean)
		require.True(t, w.asked)
	}
	for _, of := range []feedSpec{objectFeed(configMaps, ""), objectFeed(configMaps, "shop")} {
		w.clean, w.asked = stateWith("ConfigMap", "blue", "", 0), true
		s.observers.replace(of, nil)
		require.Nil(t, w.clean)
		require.False(t, w.asked)
	}
}

// TestKindWithoutAnswer: a page knows the objects of the other kinds, and names the kind, until the watch of it begins.
func TestKindWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		s, client := fakeServer()
		withoutAnswer := &feed{began: make(chan struct{})}
		s.feeds.all[objectFeed(secrets, "")] = withoutAnswer
		for resource, kind := range map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"} {
			client.PrependReactor("get", resource, func(clienttesting.Action) (bool, apiruntime.Object, error) {
				reads.Add(1)
				u := stateWith(kind, "blue", "", 0)
				u.SetNamespace("shop")
				return true, u, nil
			})
		}
		end := s.feeds.use(objectFeed(configMaps, ""), s.observers)
		synctest.Wait() // another page has it
		page := &openTopic{ctx: t.Context(), feeds: map[feedSpec]func(){}, objects: map[object.Identity]bool{}, changed: make(chan struct{}, 1)}
		s.observers.topics["page"] = page
		all := map[string]*observer{}
		for kind, gvr := range map[string]schema.GroupVersionResource{"ConfigMap": configMaps, "Secret": secrets} {
			id := object.Identity{GroupKind: schema.GroupKind{Kind: kind}, Namespace: "shop", Name: "settings"}
			all[kind] = &observer{id: id, gvr: gvr, manager: "vidra/shop"}
			page.feeds[objectFeed(gvr, "")] = func() {}
			page.objects[id], s.observers.all[id] = true, &observed{users: 1, owners: []*observer{all[kind]}}
		}
		var settled atomic.Bool
		go func() { settled.Store(s.observers.settled(page)) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NotNil(t, all["ConfigMap"].clean, "an edit is told from it")
		require.Nil(t, all["Secret"].clean)
		require.EqualValues(t, 1, reads.Load(), "no object is read before its watch begins")
		require.Equal(t, []string{"secrets"}, s.observers.waiting([]string{"page"}))
		require.False(t, settled.Load())
		s.observers.replace(objectFeed(secrets, ""), nil)
		close(withoutAnswer.began)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NotNil(t, all["Secret"].clean)
		require.EqualValues(t, 2, reads.Load())
		require.Empty(t, s.observers.waiting([]string{"page"}))
		require.True(t, settled.Load())
		end()
		time.Sleep(linger + time.Second)
	})
}

// TestNamespaceAfterRefusal: a page whose user may not watch all namespaces watches the namespace of an object that its VidraResource gets later.
func TestNamespaceAfterRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := fakeServer()
		client.PrependReactor("list", "configmaps", func(action clienttesting.Action) (bool, apiruntime.Object, error) {
			return action.GetNamespace() == "", nil, apierrors.NewForbidden(configMaps.GroupResource(), "", errors.New("no right"))
		})
		page := &openTopic{ctx: t.Context(), feeds: map[feedSpec]func(){}, objects: map[object.Identity]bool{}}
		s.observers.topics["page"] = page
		follow := func(namespace string) {
			s.observers.mu.Lock()
			id := object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: namespace, Name: "settings"}
			page.objects[id], s.observers.all[id] = true, &observed{users: 1, owners: []*observer{{id: id, gvr: configMaps, asked: true}}}
			s.observers.followLocked(page, objectFeed(configMaps, ""), namespace)
			s.observers.mu.Unlock()
			time.Sleep(time.Second)
			synctest.Wait()
			s.observers.mu.Lock()
			defer s.observers.mu.Unlock()
			require.NotNil(t, page.feeds[objectFeed(configMaps, namespace)], namespace)
		}
		defer time.Sleep(linger + time.Second)
		defer func() {
			for _, end := range page.feeds {
				end()
			}
		}()
		follow("shop")
		follow("soon")
		time.Sleep(linger + time.Second)
		follow("late")
	})
}
