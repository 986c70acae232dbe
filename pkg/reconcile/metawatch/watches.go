package metawatch

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/relation"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// retryForbidden is the time after which Sync begins a watch again that the API server refused.
const retryForbidden = time.Minute

// minSharers bounds the share of one owner in the watches that are left: a 32nd, and one at least. Few owners cannot take all.
const minSharers = 32

// Key selects the objects of a watch: one object, or without a name all of the resource in the namespace, or in the cluster.
type Key struct {
	// Cluster is the name of the cluster; empty for the local one.
	Cluster         string
	GVR             schema.GroupVersionResource
	Namespace, Name string
	// Claims leaves out changes of the contents: only changes of the owners, of annotations of Vidra and of the deletion count.
	Claims bool
}

// Compare orders keys, in any order that stays the same.
func (k Key) Compare(other Key) int {
	return cmp.Or(strings.Compare(k.Cluster, other.Cluster), strings.Compare(k.GVR.String(), other.GVR.String()), strings.Compare(k.Namespace, other.Namespace), strings.Compare(k.Name, other.Name),
		strings.Compare(strconv.FormatBool(k.Claims), strconv.FormatBool(other.Claims)))
}

// Roles returns the roles and bindings that grant rights in a cluster, and in namespaces of it. Empty ones are left out.
func Roles(cluster string, namespaces ...string) []Key {
	of := func(resource, namespace string) Key {
		return Key{Cluster: cluster, GVR: rbacv1.SchemeGroupVersion.WithResource(resource), Namespace: namespace}
	}
	keys := []Key{of("clusterroles", ""), of("clusterrolebindings", "")}
	for _, namespace := range namespaces {
		if namespace != "" {
			keys = append(keys, of("roles", namespace), of("rolebindings", namespace))
		}
	}
	return keys
}

// Watches are the watches of all owners. They are safe for concurrent use. The zero value needs Changed and Ended.
type Watches struct {
	// Changed is called when an object of a key was changed, or was created or deleted, and when the API server refuses the watch of objects that
	// it has shown. It must not block.
	Changed func(key Key, existence bool)
	// Ended is called when the objects of a key are watched no more, because no owner needs them or the API server refuses the watch.
	// It must not block.
	Ended func(key Key)
	// Max limits the number of watches. Zero means unlimited. A key beyond it, or beyond the share of its owner, stays unwatched.
	Max int

	// mu guards the fields below.
	mu      sync.Mutex
	ended   bool
	needed  relation.Relation[trigger.Owner, Key]
	watched map[Key]*watch
}

// watch is the watch of one key.
type watch struct {
	// by is the owner that began it, and tenant its tenant.
	by       trigger.Owner
	tenant   string
	informer cache.SharedIndexInformer
	listed   cache.ResourceEventHandlerRegistration
	stop     context.CancelFunc
	// changes counts the events.
	changes atomic.Uint64
	// refused is when the API server refused the watch, in nanoseconds since the epoch; else 0.
	refused atomic.Int64
}

// Sync makes the keys of an owner exactly keys. client watches those that are new. It does not wait for a server. tenant is the namespace of the account of
// the owner; empty for Vidra itself, which has no bound of a tenant.
func (w *Watches) Sync(owner trigger.Owner, tenant string, client metadata.Interface, keys iter.Seq[Key]) {
	for _, key := range w.sync(owner, tenant, client, keys) {
		w.Ended(key)
	}
}

// sync is Sync, and returns the keys of the ended watches.
func (w *Watches) sync(owner trigger.Owner, tenant string, client metadata.Interface, keys iter.Seq[Key]) (ended []Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil
	}
	_, removed := w.needed.Set(owner, keys)
	for _, key := range removed {
		if one := w.watched[key]; one != nil && !w.needed.Needed(key) {
			one.stop()
			delete(w.watched, key)
			ended = append(ended, key)
		}
	}
	begun := 0
	for _, key := range w.needed.Keys(owner) {
		if one := w.watched[key]; one != nil && one.by == owner {
			begun++
		}
	}
	ofTenant := 0
	for _, one := range w.watched {
		if one.tenant == tenant {
			ofTenant++
		}
	}
	for _, key := range w.needed.Keys(owner) {
		one := w.watched[key]
		if one != nil && one.isRefused() && time.Since(time.Unix(0, one.refused.Load())) > retryForbidden {
			delete(w.watched, key)
			if one.by == owner {
				begun--
			}
			if one.tenant == tenant {
				ofTenant--
			}
			one = nil
		}
		if left := w.Max - len(w.watched); one == nil && (w.Max == 0 || left > 0 && begun <= left/minSharers && (tenant == "" || ofTenant < left)) {
			w.beginLocked(client, key, owner, tenant)
			begun++
			ofTenant++
		}
	}
	return ended
}

// Release forgets the keys of an owner.
func (w *Watches) Release(owner trigger.Owner) { w.Sync(owner, "", nil, func(func(Key) bool) {}) }

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

// Owners returns the owners of a key.
func (w *Watches) Owners(key Key) []trigger.Owner {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.needed.Owners(key)
}

// State returns a text that differs after each change of an object of the key. It is unknown until the watch has listed the
// objects, and while the API server refuses the watch.
func (w *Watches) State(key Key) (state string, known bool) {
	w.mu.Lock()
	one := w.watched[key]
	w.mu.Unlock()
	if one == nil || one.isRefused() || one.listed == nil || !one.listed.HasSynced() {
		return "", false
	}
	return strconv.FormatUint(one.changes.Load(), 10), true
}

func (w *watch) isRefused() bool { return w.refused.Load() != 0 }

// beginLocked begins the watch of a key for an owner. w.mu must be held.
func (w *Watches) beginLocked(client metadata.Interface, key Key, by trigger.Owner, tenant string) {
	if w.watched == nil {
		w.watched = map[Key]*watch{}
	}
	one := &watch{by: by, tenant: tenant}
	w.watched[key] = one
	one.informer = metadatainformer.NewFilteredMetadataInformer(client, key.GVR, key.Namespace, 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			if key.Name != "" {
				o.FieldSelector = fields.OneTermEqualSelector("metadata.name", key.Name).String()
			}
		}).Informer()
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	one.stop = stop
	changed := func(existence bool) {
		one.changes.Add(1)
		w.Changed(key, existence)
	}
	// The setters fail only for an informer that has been started.
	_ = one.informer.SetTransform(key.transform)
	_ = one.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			one.refused.Store(time.Now().UnixNano())
			stop()
			if one.listed.HasSynced() { // its objects may end unseen, or have ended with their kind
				changed(true)
			}
			w.Ended(key)
		}
	})
	one.listed, _ = one.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed(true) },
		UpdateFunc: func(before, after any) {
			was, _ := before.(*metav1.PartialObjectMetadata) // which transform returns
			is, _ := after.(*metav1.PartialObjectMetadata)
			if was.ResourceVersion != is.ResourceVersion && (!key.Claims || !sameClaims(*was, is)) { // otherwise a relist
				changed(false)
			}
		},
		DeleteFunc: func(any) { changed(true) },
	})
	go one.informer.RunWithContext(ctx)
}

// transform drops all but the version, and with Claims the owners, the annotations of Vidra and the deletion. Times and fields in managedFields
// change with the contents.
func (k Key) transform(obj any) (any, error) {
	whole, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	kept := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: whole.Namespace, Name: whole.Name, ResourceVersion: whole.ResourceVersion,
	}}
	if !k.Claims {
		return kept, nil
	}
	kept.UID, kept.DeletionTimestamp, kept.OwnerReferences = whole.UID, whole.DeletionTimestamp, whole.OwnerReferences
	for name, value := range whole.Annotations {
		if domain, _, _ := strings.Cut(name, "/"); strings.HasSuffix(domain, v1alpha1.GroupVersion.Group) {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, name, value)
		}
	}
	for _, entry := range whole.ManagedFields {
		if one := (metav1.ManagedFieldsEntry{Manager: entry.Manager, Operation: entry.Operation}); !slices.Contains(kept.ManagedFields, one) {
			kept.ManagedFields = append(kept.ManagedFields, one)
		}
	}
	slices.SortFunc(kept.ManagedFields, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(strings.Compare(a.Manager, b.Manager), strings.Compare(string(a.Operation), string(b.Operation)))
	})
	return kept, nil
}

// sameClaims reports whether two versions of an object differ in nothing else that transform keeps.
func sameClaims(before metav1.PartialObjectMetadata, after *metav1.PartialObjectMetadata) bool {
	before.ResourceVersion = after.ResourceVersion
	return equality.Semantic.DeepEqual(&before, after)
}
