package source

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/internal/relation"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// Watches watches the objects that hold manifests, each with a watch of its own, so that no right is needed on any other.
// It is safe for concurrent use.
type Watches struct {
	// Kinds are the kinds of the objects.
	Kinds Kinds
	// Changed is called with the owners of an object when its watch has begun, and when it is created, deleted, or has another revision.
	Changed func(owners ...trigger.Owner)
	// Everywhere reports that objects of all namespaces may be listed.
	Everywhere bool

	// mu guards the fields below.
	mu    sync.Mutex
	ended bool
	// needed relates the owners to their sources; watched has the same sources.
	needed  relation.Relation[trigger.Owner, Key]
	watched map[Key]*watched
}

// watched is one watched object.
type watched struct {
	informer cache.SharedIndexInformer
	// listed is done once the store shows whether the object exists.
	listed cache.DoneChecker
	stop   context.CancelFunc

	// mu guards err and since.
	mu sync.Mutex
	// err is the error of the last LIST or WATCH; nil if it succeeded. since is when requests began to fail.
	err   error
	since time.Time
}

// note records the result of a request, and reports whether requests have begun or ceased to fail, or fail otherwise.
func (o *watched) note(err error) (changed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	changed = (err == nil) != (o.err == nil) || err != nil && o.err != nil && display.ErrorText(err.Error()) != display.ErrorText(o.err.Error())
	if o.err == nil && err != nil {
		o.since = time.Now()
	}
	o.err = err
	return changed
}

// failure returns the error of the last request, and since when requests fail; nil if they succeed.
func (o *watched) failure() (err error, since time.Time) { //nolint:revive,staticcheck // the error is the value
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err, o.since
}

// Sync makes the sources of an owner exactly keys. It returns at once.
func (w *Watches) Sync(owner trigger.Owner, keys iter.Seq[Key]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	added, removed := w.needed.Set(owner, keys)
	for _, key := range added {
		if w.watched[key] == nil {
			w.watchLocked(key)
		}
	}
	for _, key := range removed {
		if !w.needed.Needed(key) {
			w.watched[key].stop()
			delete(w.watched, key)
		}
	}
}

// Release forgets the sources of an owner.
func (w *Watches) Release(owner trigger.Owner) { w.Sync(owner, func(func(Key) bool) {}) }

// Start ends the watches when ctx ends. It makes the watches a manager's runnable.
func (w *Watches) Start(ctx context.Context) error {
	<-ctx.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for _, one := range w.watched {
		one.stop()
	}
	return nil
}

// Failing returns the state of the watches of the sources of a VidraResource that fail, by the names of the sources.
func (w *Watches) Failing(vr *v1alpha1.VidraResource) map[string]watchregistry.Status {
	var failing map[string]watchregistry.Status
	for _, key := range KeysOf(vr) {
		one := w.get(key)
		if one == nil {
			continue
		}
		err, since := one.failure()
		if err == nil {
			continue
		}
		if failing == nil {
			failing = map[string]watchregistry.Status{}
		}
		reason := watchregistry.ReasonUnavailable
		if apierrors.IsForbidden(err) {
			reason = watchregistry.ReasonForbidden
		}
		failing[key.String()] = watchregistry.Status{State: watchregistry.Degraded, Reason: reason, Message: display.ErrorText(err.Error()), Since: since}
	}
	return failing
}

// Revision returns the revision of a source, empty if it is absent. It is unknown before the
// watch of the source has begun, and while the watch fails.
func (w *Watches) Revision(key Key) (revision string, known bool) {
	one := w.get(key)
	if one == nil || !cache.IsDone(one.listed) {
		return "", false
	}
	if err, _ := one.failure(); apierrors.IsNotFound(err) { // its kind is not served any more
		return "", true
	} else if err != nil {
		return "", false
	}
	obj, found, err := one.informer.GetStore().GetByKey(cache.NewObjectName(key.Namespace, key.Name).String())
	if kept, ok := obj.(*revisionOf); ok && found && err == nil {
		return kept.revision, true
	}
	return "", true
}

// selectorOf is the field selector of a source.
func selectorOf(key Key) string {
	return fields.OneTermEqualSelector("metadata.name", key.Name).String()
}

// get returns the watch of a source, or nil.
func (w *Watches) get(key Key) *watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watched[key]
}

// watchLocked begins to watch a source.
func (w *Watches) watchLocked(key Key) {
	one := &watched{}
	if w.watched == nil {
		w.watched = map[Key]*watched{}
	}
	w.watched[key] = one
	kind := w.Kinds[key.Kind]
	only := selectorOf(key)
	requests := kind.Requests(key.Namespace)
	note := func(ctx context.Context, err error) {
		if ctx.Err() == nil && one.note(err) {
			w.Changed(w.owners(key)...)
		}
	}
	listWatch := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			opts.FieldSelector = only
			list, err := requests.List(ctx, opts)
			if err != nil { // a LIST alone shows no changes
				note(ctx, err)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.FieldSelector = only
			stream, err := requests.Watch(ctx, opts)
			// The reflector lists where the API server does not stream lists, and where a version has expired.
			if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				note(ctx, err)
			}
			return stream, err
		},
	}, requests.Client)
	one.informer = cache.NewSharedIndexInformer(listWatch, requests.Object, 0, cache.Indexers{})
	changed := func() { w.Changed(w.owners(key)...) }
	// The setters fail only for an informer that has been started.
	_ = one.informer.SetTransform(revisionOnly(kind))
	_ = one.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}) // reading it reports why
	registration, _ := one.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, initial bool) {
			if !initial { // the end of the first list calls changed
				changed()
			}
		},
		UpdateFunc: func(before, after any) {
			was, _ := before.(*revisionOf)
			if is, _ := after.(*revisionOf); was == nil || is == nil || was.revision != is.revision {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	})
	one.listed = registration.HasSyncedChecker()
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	one.stop = stop
	go one.informer.RunWithContext(ctx)
	go func() {
		select {
		case <-one.listed.Done():
			changed() // the object may have changed since a reconcile read it
		case <-ctx.Done():
		}
	}()
}

// owners returns the owners of a source.
func (w *Watches) owners(key Key) []trigger.Owner {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.needed.Owners(key)
}

// revisionOf is the kept part of an object: its name and its revision. It is a metav1.Object, which the store of an informer needs.
type revisionOf struct {
	metav1.PartialObjectMetadata

	revision string
}

var _ metav1.Object = (*revisionOf)(nil)

// revisionOnly returns the transform that keeps the revision of an object.
func revisionOnly(kind Source) cache.TransformFunc {
	return func(obj any) (any, error) {
		whole, is := obj.(metav1.Object)
		if _, done := obj.(*revisionOf); !is || done {
			return obj, nil
		}
		kept := &revisionOf{revision: kind.Revision(obj)}
		kept.Namespace, kept.Name, kept.ResourceVersion = whole.GetNamespace(), whole.GetName(), whole.GetResourceVersion()
		return kept, nil
	}
}
