package desired

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/internal/relation"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// SourceKey is a ConfigMap or Secret that spec.manifestFrom names.
type SourceKey struct{ kind, namespace, name string }

// GVR returns the resource of the source.
func (k SourceKey) GVR() schema.GroupVersionResource {
	if k.kind == "Secret" {
		return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	}
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

// Sources watches the ConfigMaps and Secrets that hold manifests: their metadata
// alone, and each with a watch of its own, so that no right is needed on any other.
// It is safe for concurrent use.
type Sources struct {
	// Changed is called with the owners of a source that was created, changed or deleted.
	Changed func(owners ...trigger.Owner)

	// mu guards what follows.
	mu    sync.Mutex
	ended bool
	// needed relates the owners to their sources; watched has the same sources.
	needed  relation.Relation[trigger.Owner, SourceKey]
	watched map[SourceKey]*source
}

// source is one watched ConfigMap or Secret.
type source struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc

	// mu guards err and since.
	mu sync.Mutex
	// err is the error of the last LIST or WATCH; nil if it succeeded. since is when requests began to fail.
	err   error
	since time.Time
}

// note records the result of a request, and reports whether requests have begun or ceased to fail, or fail otherwise.
func (w *source) note(err error) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed = (err == nil) != (w.err == nil) || err != nil && err.Error() != w.err.Error()
	if w.err == nil && err != nil {
		w.since = time.Now()
	}
	w.err = err
	return changed
}

// failure returns the error of the last request, and since when requests fail; nil if they do not.
func (w *source) failure() (err error, since time.Time) { //nolint:revive,staticcheck // the error is the value
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err, w.since
}

// sync makes the sources of an owner exactly keys. It does not wait for a server.
func (s *Sources) sync(owner trigger.Owner, client metadata.Interface, keys map[SourceKey]map[string]struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	added, removed := s.needed.Set(owner, maps.Keys(keys))
	for _, key := range added {
		if s.watched[key] == nil {
			s.watchLocked(client, key)
		}
	}
	for _, key := range removed {
		if !s.needed.Needed(key) {
			s.watched[key].stop()
			delete(s.watched, key)
		}
	}
}

// Release forgets the sources of an owner.
func (s *Sources) Release(owner trigger.Owner) { s.sync(owner, nil, nil) }

// Start ends the watches when ctx ends. It makes the sources a manager's runnable.
func (s *Sources) Start(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, w := range s.watched {
		w.stop()
	}
	return nil
}

// Failing returns the state of the watches of the sources of a VidraResource that fail, by the names of the sources.
func (s *Sources) Failing(vr *v1alpha1.VidraResource) map[string]watchregistry.Status {
	var failing map[string]watchregistry.Status
	for _, part := range vr.Spec.ManifestFrom {
		key := SourceKeyOf(vr, part)
		s.mu.Lock()
		w := s.watched[key]
		s.mu.Unlock()
		if w == nil {
			continue
		}
		err, since := w.failure()
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
		failing[display.Name(key.kind, key.namespace, key.name)] = watchregistry.Status{State: watchregistry.Degraded, Reason: reason, Message: err.Error(), Since: since}
	}
	return failing
}

// Version is the resourceVersion of a source, empty if it does not exist. It is not
// known before the watch of the source has begun, and while the watch fails.
func (s *Sources) Version(key SourceKey) (version string, known bool) {
	s.mu.Lock()
	w := s.watched[key]
	s.mu.Unlock()
	if w == nil || !w.informer.HasSynced() {
		return "", false
	}
	if err, _ := w.failure(); err != nil {
		return "", false
	}
	obj, found, err := w.informer.GetStore().GetByKey(cache.NewObjectName(key.namespace, key.name).String())
	if kept, ok := obj.(*metav1.PartialObjectMetadata); ok && found && err == nil {
		return kept.ResourceVersion, true
	}
	return "", true
}

// Absent reports whether the watch of a source shows that it does not exist.
func (s *Sources) Absent(key SourceKey) bool {
	version, known := s.Version(key)
	return known && version == ""
}

// watchLocked begins to watch a source.
func (s *Sources) watchLocked(client metadata.Interface, key SourceKey) {
	w := &source{}
	if s.watched == nil {
		s.watched = map[SourceKey]*source{}
	}
	s.watched[key] = w
	only := fields.OneTermEqualSelector("metadata.name", key.name).String()
	resource := client.Resource(key.GVR()).Namespace(key.namespace)
	note := func(ctx context.Context, err error) {
		if ctx.Err() == nil && w.note(err) {
			s.Changed(s.owners(key)...)
		}
	}
	requests := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			opts.FieldSelector = only
			list, err := resource.List(ctx, opts)
			if err != nil { // a LIST alone shows no changes
				note(ctx, err)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.FieldSelector = only
			stream, err := resource.Watch(ctx, opts)
			// The reflector lists where the API server does not stream lists, and where a version has expired.
			if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				note(ctx, err)
			}
			return stream, err
		},
	}, client)
	w.informer = cache.NewSharedIndexInformer(requests, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	changed := func(any) { s.Changed(s.owners(key)...) }
	// The setters fail only for an informer that has been started.
	_ = w.informer.SetTransform(versionOnly)
	_ = w.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}) // reading it reports why
	_, _ = w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) }, DeleteFunc: changed,
	})
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	w.stop = stop
	go w.informer.RunWithContext(ctx)
}

// owners returns the owners of a source.
func (s *Sources) owners(key SourceKey) []trigger.Owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.needed.Owners(key)
}

// versionOnly drops what is not needed.
func versionOnly(obj any) (any, error) {
	if whole, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: whole.Namespace, Name: whole.Name, ResourceVersion: whole.ResourceVersion,
		}}, nil
	}
	return obj, nil
}
