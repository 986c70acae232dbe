package trigger

import (
	"slices"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// Snapshot is what a watch keeps of an object.
type Snapshot struct {
	// ObjectMeta holds name, namespace, UID, resourceVersion and
	// deletionTimestamp, and the annotations that name owners; nothing else.
	metav1.ObjectMeta
	// Owned are the digests of what each of our field managers owns.
	Owned []Owned

	// found is the object as it was, while somebody may want to know what was
	// changed in it: when it is not as expected, or not known to be. It is let
	// go when the event has been judged.
	found atomic.Pointer[unstructured.Unstructured]
}

// Owned is what one field manager owns in an object.
type Owned struct {
	Manager string
	Digest  ownership.Digest
}

// owns says whether manager owns what digest says.
func (s *Snapshot) owns(manager string, digest ownership.Digest) bool {
	return slices.Contains(s.Owned, Owned{Manager: manager, Digest: digest})
}

// TransformFor returns the function that reduces the objects of one watch to
// Snapshots. It runs on the goroutines of the informer, before the object is
// stored, and is safe for concurrent use.
func (f *Factory) TransformFor(cluster string, gvr schema.GroupVersionResource) cache.TransformFunc {
	return func(obj any) (any, error) {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return obj, nil // a Snapshot already, or a tombstone
		}
		return f.snapshot(cluster, gvr, u), nil
	}
}

// snapshot reduces an object to what is kept of it.
func (f *Factory) snapshot(cluster string, gvr schema.GroupVersionResource, u *unstructured.Unstructured) *Snapshot {
	s := &Snapshot{ObjectMeta: metav1.ObjectMeta{
		Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(),
		ResourceVersion: u.GetResourceVersion(), DeletionTimestamp: u.GetDeletionTimestamp(),
		Annotations: ownerAnnotations(u),
	}}
	key := ObjectKey{Cluster: cluster, GVR: gvr, Namespace: s.Namespace, Name: s.Name}
	managers := f.index.managers(key)
	for _, manager := range ownership.Managers(u, v1alpha1.FieldManagerPrefix) {
		if !slices.Contains(managers, manager) {
			managers = append(managers, manager)
		}
	}
	for _, manager := range managers {
		digest, _ := ownership.Of(u, manager)
		s.Owned = append(s.Owned, Owned{Manager: manager, Digest: digest})
	}
	// What is in order needs no evidence. Everything else is judged with the
	// event that brings it, and lets go of the object then.
	if !f.index.inOrder(key, s) {
		s.found.Store(u)
	}
	return s
}

// inOrder says whether every owner of an object finds it as expected.
func (x *Index) inOrder(key ObjectKey, s *Snapshot) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.claims[key] {
		if v := judge(c, observation{snapshot: s}); v != VerdictInOrder && v != VerdictStale {
			return false
		}
	}
	return true
}

// ownerAnnotations are the annotations of an object that name its owners.
func ownerAnnotations(u *unstructured.Unstructured) map[string]string {
	var kept map[string]string
	for key, value := range u.GetAnnotations() {
		if v1alpha1.IsOwnerAnnotation(key) {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}
