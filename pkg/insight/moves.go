package insight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// moves finds the VidraResources between which objects move, as they would be after the apply. It is safe for concurrent use.
type moves struct {
	client *Client
	// given are the VidraResources of the apply, by name.
	given map[string]*v1alpha1.VidraResource
	// others lists the VidraResources of the cluster, once: no object of most diffs asks for it.
	others func(ctx context.Context) ([]*v1alpha1.VidraResource, error)

	// named knows which of them have an object in their manifests, as the operator finds it.
	named *owners.Named
	// identities finds the URLs of one cluster.
	identities access.Identities

	// mu guards contents.
	mu sync.Mutex
	// contents are the manifests that were read, by the name of the VidraResource.
	contents map[string]content
}

// content is the manifest of a VidraResource.
type content struct {
	parts []desired.Part
	// unread is the obstacle to reading parts of the manifest; nil if all are known.
	unread error
}

func newMoves(client *Client, given []*v1alpha1.VidraResource) *moves {
	m := &moves{client: client, given: map[string]*v1alpha1.VidraResource{}, contents: map[string]content{}}
	m.named = &owners.Named{Preview: m.all, Parts: m.partsOf, Sources: &source.Watches{}}
	for _, vr := range given {
		m.given[vr.Name] = vr
	}
	var once sync.Once
	var all []*v1alpha1.VidraResource
	var failed error
	m.others = func(ctx context.Context) ([]*v1alpha1.VidraResource, error) {
		once.Do(func() { all, failed = client.VidraResources(ctx, "") })
		return all, failed
	}
	return m
}

// all returns the VidraResources as they would be after the apply. It fails if the others are unknown, and returns the VidraResources of the apply.
func (m *moves) all(ctx context.Context) ([]*v1alpha1.VidraResource, error) {
	others, err := m.others(ctx)
	all := slices.DeleteFunc(slices.Clone(others), func(vr *v1alpha1.VidraResource) bool { return m.given[vr.Name] != nil })
	for _, vr := range m.given {
		all = append(all, vr)
	}
	slices.SortFunc(all, func(a, b *v1alpha1.VidraResource) int { return cmp.Compare(a.Name, b.Name) })
	return all, err
}

// former returns the VidraResource that an object of the cluster at moves from, to the VidraResource to: it manages the object,
// and removes it. It returns nil if there is none.
func (m *moves) former(ctx context.Context, to, at string, id object.Identity, live *unstructured.Unstructured) (*v1alpha1.VidraResource, error) {
	if live.GetAnnotations()[v1alpha1.KeepAnnotation] == "true" { // it is released, unmanaged
		return nil, nil
	}
	named := v1alpha1.OwnersNamed(live.GetAnnotations())
	for _, manager := range ownership.Managers(live, v1alpha1.FieldManagerPrefix) {
		name, _ := v1alpha1.ParseFieldManager(manager)
		named[name] = true
	}
	delete(named, to)
	var found *v1alpha1.VidraResource
	for name := range named {
		vr := m.given[name]
		if vr == nil {
			var err error
			vr, err = m.client.resources.Get(ctx, name)
			switch {
			case object.IsAbsent(err, name), apierrors.IsForbidden(err): // the dry run reports a conflict
				continue
			case err != nil:
				return nil, m.client.program.VidraResourceError("get", name, err)
			}
		}
		if !owners.HoldsObject(vr, at, id, live.GetUID()) {
			continue // the mark was copied
		}
		if vr.Orphans() || vr.DeletionTimestamp.IsZero() && m.named.Names(ctx, vr, id) {
			return nil, nil // it may stay an owner
		}
		if found == nil || name < found.Name {
			found = vr
		}
	}
	return found, nil
}

// partsOf reads the parts of the manifest of a VidraResource. It fails with those that it has read if others may exist.
func (m *moves) partsOf(ctx context.Context, vr *v1alpha1.VidraResource, _ func(source.Key) bool) ([]desired.Part, error) {
	m.mu.Lock()
	c, read := m.contents[vr.Name]
	m.mu.Unlock()
	if read {
		return c.parts, c.unread
	}
	var refused, err error // a server that does not answer must not delay the reads of others
	c.parts, refused, err = desired.AvailableParts(ctx, m.client.sources, m.client.dynamic, cluster.Scope{}, vr, nil)
	if c.unread = refused; err != nil {
		c.parts, c.unread = []desired.Part{desired.InlinePart(vr)}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.contents[vr.Name] = c
	return c.parts, c.unread
}

// holders returns the VidraResources whose manifests hold one, and those that hold them.
func (m *moves) holders(ctx context.Context, vr *v1alpha1.VidraResource) ([]string, error) {
	return desired.HoldersOf(vr, func(holder string, held *v1alpha1.VidraResource) (*v1alpha1.VidraResource, bool) {
		found, err := owners.Cached(ctx, reader{moves: m}, holder)
		return found, err == nil && found != nil && owners.HoldsObject(found, "", object.Identity{GroupKind: desired.VidraResourceKind, Name: held.Name}, held.UID)
	})
}

// reader reads the VidraResources as they would be after the apply, and the labels of Namespaces.
type reader struct{ moves *moves }

// Get reads a VidraResource or the metadata of a Namespace into obj.
func (r reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	into, is := obj.(*v1alpha1.VidraResource)
	if !is {
		live, err := r.moves.client.dynamic.Resource(namespaces).Get(ctx, key.Name, metav1.GetOptions{})
		if err == nil {
			obj.SetLabels(live.GetLabels())
		}
		return err
	}
	vr := r.moves.given[key.Name]
	if vr == nil {
		all, err := r.moves.others(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(other *v1alpha1.VidraResource) bool { return other.Name == key.Name })
		if i < 0 {
			return apierrors.NewNotFound(v1alpha1.Resource.GroupResource(), key.Name)
		}
		vr = all[i]
	}
	vr.DeepCopyInto(into)
	return nil
}

// List fails: nothing lists with a reader.
func (r reader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return fmt.Errorf("list a %T: %w", list, errors.ErrUnsupported)
}

// releaseReason is the reason of the release of an object that moves.
func releaseReason(former *v1alpha1.VidraResource) string {
	if !former.DeletionTimestamp.IsZero() {
		return "is being deleted"
	}
	return "no longer has it in its manifest"
}

// mayPatch reports whether the account of a VidraResource may patch an object. It fails for users who may not ask that.
func mayPatch(ctx context.Context, at dynamic.Interface, vr *v1alpha1.VidraResource, key trigger.ObjectKey) (bool, error) {
	user := access.UserOf(vr)
	if user == "" {
		return true, nil
	}
	return access.AllowedTo(ctx, at, access.Subject{Cluster: key.Cluster, User: user}.Right(key, "patch"))
}
