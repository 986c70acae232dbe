package ui

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// linger is how long a feed runs after its last page was closed, so that a page that is opened next needs no new list.
const linger = 30 * time.Second

// feedSpec is a watch that pages share.
type feedSpec struct {
	gvr schema.GroupVersionResource
	// namespace of the objects; empty for all.
	namespace string
	// labels and fields select objects.
	labels, fields string
	// news leaves out the objects that exist at the start: the feed takes two requests, whatever their number is.
	news bool
}

// feedHandler gets the objects of a feed. A feed calls its methods one after the other.
type feedHandler interface {
	// set is called for an object that was added or changed, and remove for one that was deleted or is not selected any more.
	// late reports an event from the time without a connection.
	set(obj any, late bool)
	remove(obj any, late bool)
	// replace is called with all objects; with none at the start and after a gap in a feed of news.
	replace(spec feedSpec, all []any)
	// refused is called when the user may not list or watch the objects. The feed ends then.
	refused(spec feedSpec, err error)
	// ended is called when no page has needed the feed for a while, and a while after a refusal: the next page starts it anew.
	ended()
	// convert reduces an object to the part that is kept.
	convert(u *unstructured.Unstructured) any
}

// feeds are the watches of all pages. Its methods are safe for concurrent use.
type feeds struct {
	client dynamic.Interface
	hub    *hub

	// mu guards all.
	mu  sync.Mutex
	all map[feedSpec]*feed
}

// feed is a running watch.
type feed struct {
	users int
	stop  context.CancelFunc
	// isRefused reports that the user may not have it.
	isRefused bool
	// began is closed when the first list was answered: the feed misses no event from then on.
	began chan struct{}
}

func newFeeds(client dynamic.Interface, hub *hub) *feeds {
	return &feeds{client: client, hub: hub, all: map[feedSpec]*feed{}}
}

// use starts a feed unless it runs already, and returns a function that ends the use. The handler is the same for each use of a spec.
func (f *feeds) use(spec feedSpec, handler feedHandler) (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	running := f.all[spec]
	if running == nil {
		ctx, stop := context.WithCancel(context.Background())
		running = &feed{stop: stop, began: make(chan struct{})}
		f.all[spec] = running
		go f.run(ctx, spec, running, handler)
	}
	running.users++
	return sync.OnceFunc(func() {
		time.AfterFunc(linger, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if running.users--; running.users == 0 {
				running.stop()
				f.forgetLocked(spec, running, handler)
			}
		})
	})
}

// forgetLocked has the next page start a feed anew. A feed that runs in its place continues.
func (f *feeds) forgetLocked(spec feedSpec, ended *feed, handler feedHandler) {
	if f.all[spec] == ended {
		delete(f.all, spec)
		handler.ended()
	}
}

// began returns a channel that is closed once a running feed misses no event.
func (f *feeds) began(spec feedSpec) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if running := f.all[spec]; running != nil {
		return running.began
	}
	ended := make(chan struct{})
	close(ended)
	return ended
}

// hasBegun reports whether a feed misses no event.
func (f *feeds) hasBegun(spec feedSpec) bool {
	select {
	case <-f.began(spec):
		return true
	default:
		return false
	}
}

// refuses reports whether the user may not have a feed, as far as is known.
func (f *feeds) refuses(spec feedSpec) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	running := f.all[spec]
	return running != nil && running.isRefused
}

// run lists and watches until ctx ends, or until the user may not.
func (f *feeds) run(ctx context.Context, spec feedSpec, running *feed, handler feedHandler) {
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	source := &feedSource{feeds: f, spec: spec, stop: stop}
	defer f.hub.answered(spec, true)
	began := sync.OnceFunc(func() { close(running.began) })
	lw := &cache.ListWatch{ListWithContextFunc: source.list, WatchFuncWithContext: source.watch}
	// The delay between two tries grows from 0.3 to 2 seconds: the API server is back for a user who waits.
	options := cache.ReflectorOptions{
		Name: "vidra ui", TypeDescription: spec.gvr.String(),
		Backoff: &wait.Backoff{Duration: 300 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 4, Cap: 2 * time.Second},
	}
	cache.NewReflectorWithOptions(newsSource{lw, spec.news}, &unstructured.Unstructured{}, feedStore{handler, source, began}, options).RunWithContext(watching)
	defer began()
	if ctx.Err() == nil { // judge has ended it
		f.mu.Lock()
		running.isRefused = true
		f.mu.Unlock()
		handler.refused(spec, context.Cause(watching))
		time.AfterFunc(linger, func() { // a page that is opened later tries again
			f.mu.Lock()
			defer f.mu.Unlock()
			f.forgetLocked(spec, running, handler)
		})
	}
}

// newsSource is a ListWatch without the streamed list, which has all objects, for news.
type newsSource struct {
	*cache.ListWatch
	news bool
}

// IsWatchListSemanticsUnSupported implements an interface of package watchlist of client-go.
func (s newsSource) IsWatchListSemanticsUnSupported() bool { return s.news }

// feedSource sends the requests of a feed.
type feedSource struct {
	feeds *feeds
	spec  feedSpec
	stop  context.CancelCauseFunc

	// A feed of news continues at the version of its last event after an interruption, and the events of the interruption are late.
	// The reflector uses these fields in one goroutine after the other.
	//
	// seen is the version of the last event, and current the version of the API server at the last list. resumed reports that
	// the list was answered with the former.
	seen, current string
	resumed       bool
	// expired reports that the API server has no events after seen any more.
	expired atomic.Bool
}

func (s *feedSource) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.LabelSelector, o.FieldSelector = s.spec.labels, s.spec.fields
	if s.spec.news {
		o.Limit, o.ResourceVersion, o.ResourceVersionMatch = 1, "", "" // a cached list has no limit
	}
	list, err := s.feeds.client.Resource(s.spec.gvr).Namespace(s.spec.namespace).List(ctx, o)
	s.judge(ctx, err)
	if err == nil && s.spec.news {
		list.Items = nil
		list.SetContinue("")
		list.SetRemainingItemCount(nil)
		s.resume(list)
	}
	return list, err
}

// resume has a list of news be the state at the last event. The versions of a restored cluster are lower than that: it is a gap.
func (s *feedSource) resume(list *unstructured.UnstructuredList) {
	s.current = list.GetResourceVersion()
	order, err := resourceversion.CompareResourceVersion(s.seen, s.current)
	if s.resumed = !s.expired.Swap(false) && err == nil && order <= 0; s.resumed {
		list.SetResourceVersion(s.seen)
	} else {
		s.seen = s.current
	}
}

// late reports whether an object comes from an event before the list that continued the feed.
func (s *feedSource) late(obj any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || !s.resumed {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(u.GetResourceVersion(), s.current)
	return err == nil && order <= 0
}

func (s *feedSource) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.LabelSelector, o.FieldSelector = s.spec.labels, s.spec.fields
	w, err := s.feeds.client.Resource(s.spec.gvr).Namespace(s.spec.namespace).Watch(ctx, o)
	if apierrors.IsInvalid(err) && o.SendInitialEvents != nil { // an API server without streamed lists; a list follows
		return w, err
	}
	s.judge(ctx, err)
	if err != nil {
		s.expire(err)
		return nil, errors.New(err.Error()) // of any type: the reflector lists again, and the events of the interruption are known as late
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		if e.Type == watch.Error {
			s.expire(apierrors.FromObject(e.Object))
		}
		return e, true
	}), nil
}

// expire notes the answer that the API server has no events after a version any more.
func (s *feedSource) expire(err error) {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		s.expired.Store(true)
	}
}

// judge notes whether the API server answers, and ends a feed whose next request is answered in the same way.
func (s *feedSource) judge(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		s.stop(err)
	case unanswered(err) && (s.spec == vidraResourceFeed || statusCode(err) == 0): // a status can be about the kind alone
		s.feeds.hub.answered(s.spec, false)
	default:
		s.feeds.hub.answered(s.spec, true)
	}
}

// unanswered reports whether a request failed without a decision of the API server.
func unanswered(err error) bool {
	code := statusCode(err)
	return err != nil && (code == 0 || code >= http.StatusInternalServerError)
}

// statusCode is the HTTP status of a failure; 0 without an answer.
func statusCode(err error) int32 {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}

// feedStore hands the objects of a reflector to a handler.
type feedStore struct {
	handler feedHandler
	source  *feedSource
	// began is called after each list.
	began func()
}

// Transformer implements cache.TransformingStore: a long list is not kept whole.
func (s feedStore) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.kept(obj), nil }
}

func (s feedStore) kept(obj any) any {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return s.handler.convert(u)
	}
	return obj
}

// Add implements cache.ReflectorStore.
func (s feedStore) Add(obj any) error {
	s.handler.set(s.kept(obj), s.source.late(obj))
	return nil
}

// Update implements cache.ReflectorStore.
func (s feedStore) Update(obj any) error { return s.Add(obj) }

// Delete implements cache.ReflectorStore.
func (s feedStore) Delete(obj any) error {
	s.handler.remove(s.kept(obj), s.source.late(obj))
	return nil
}

// Replace implements cache.ReflectorStore.
func (s feedStore) Replace(objs []any, _ string) error {
	for i := range objs {
		objs[i] = s.kept(objs[i])
	}
	if !s.source.resumed {
		s.handler.replace(s.source.spec, objs)
	}
	s.began()
	return nil
}

// UpdateResourceVersion implements cache.ResourceVersionUpdater.
func (s feedStore) UpdateResourceVersion(version string) { s.source.seen = version }

// Resync implements cache.ReflectorStore.
func (s feedStore) Resync() error { return nil }
