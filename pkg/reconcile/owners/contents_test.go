package owners

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// countingReader counts the reads, which fail with an error if there is one.
type countingReader struct {
	client.Reader
	reads int
	err   error
}

func (c *countingReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if c.reads++; c.err != nil {
		return c.err
	}
	return c.Reader.Get(ctx, key, obj, opts...)
}

// pages is a cluster with a number of ConfigMaps of the VidraResource bank in each namespace.
type pages int

func (pages) Name() string { return "" }

func (pages) VisitKind(context.Context, schema.GroupVersionResource, string, func(cluster.Content)) error {
	return nil
}

func (p pages) VisitNamespace(_ context.Context, namespace string, visit func(cluster.Content)) error {
	for i := range int(p) {
		visit(cluster.Content{GVR: fixture.ConfigMaps, Kind: "ConfigMap", PartialObjectMetadata: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprint("page-", i), UID: types.UID(fmt.Sprint(i)),
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "vidra/bank", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`)}},
		}}})
	}
	return nil
}

// clientWith is a client of a cluster with VidraResources.
func clientWith(t *testing.T, all ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(all...).Build()
}

// listedBy is an API server that lists one VidraResource.
func listedBy(t *testing.T, vr *v1alpha1.VidraResource) metadata.Interface {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	return metadatafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind}, ObjectMeta: vr.ObjectMeta,
	})
}

// finderOfBank is the Finder of the VidraResource bank, beside others.
func finderOfBank(t *testing.T, others ...*v1alpha1.VidraResource) *Finder {
	t.Helper()
	return &Finder{
		Claimant: Claimant{Owner: trigger.Owner{Name: "bank"}, Manager: "vidra/bank"}, Index: trigger.NewIndex(), VidraResources: clientWith(t),
		Named: &Named{Preview: func(context.Context) ([]*v1alpha1.VidraResource, error) { return others, nil }},
	}
}

// shop is the Namespace of the objects.
func shop() *unstructured.Unstructured {
	namespace := &unstructured.Unstructured{}
	namespace.SetGroupVersionKind(fixture.NamespaceKind)
	namespace.SetName("shop")
	return namespace
}

// TestContentsOfAnotherShard: the API server is asked once for the owner of many objects in a container, and not again after an error.
func TestContentsOfAnotherShard(t *testing.T) {
	t.Parallel()
	const objects = 100
	bank := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "bank"}}
	for i := range objects {
		bank.Status.ManagedResources = append(bank.Status.ManagedResources, v1alpha1.ManagedResourceStatus{
			APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: fmt.Sprint("page-", i), UID: fmt.Sprint(i),
		})
	}
	elsewhere := &countingReader{Reader: clientWith(t, bank)}
	f := &Finder{
		Claimant: Claimant{Owner: trigger.Owner{Name: "me"}, Manager: "vidra/me"}, Index: trigger.NewIndex(),
		VidraResources: clientWith(t), Elsewhere: elsewhere,
	}
	namespace := shop()
	inside, err := f.Contents(t.Context(), pages(objects), namespace, false)
	require.NoError(t, err)
	require.Equal(t, objects, inside.Owned.Count)
	require.Equal(t, 1, elsewhere.reads)

	elsewhere.err = errors.New("no answer")
	_, err = f.Contents(t.Context(), pages(objects), namespace, false)
	require.EqualError(t, err, "read VidraResource bank, which its marks name: no answer")
	require.Equal(t, 2, elsewhere.reads)
}

// TestManifestsOfDeletedVidraResources: the manifests of VidraResources of other shards are forgotten when the VidraResources are deleted.
func TestManifestsOfDeletedVidraResources(t *testing.T) {
	t.Parallel()
	page := fixture.IDOf(fixture.ConfigMapKind, "shop", "page")
	own := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "own"}}
	api := clientWith(t)
	n := &Named{Cache: clientWith(t, own), API: api, Sources: &source.Watches{}}
	n.Note(own, nil, nil) // it was created after the list began
	for i := range 3 {
		vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("preview-", i), UID: types.UID(fmt.Sprint(i)), Generation: 1}}
		vr.Spec.Manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: shop}\n"
		require.NoError(t, api.Create(t.Context(), vr))
		n.Metadata = listedBy(t, vr)
		receivers, err := n.Receivers(t.Context(), "me", "", []object.Identity{page}, time.Now())
		require.NoError(t, err)
		require.Len(t, receivers[page], 1)
		require.NoError(t, api.Delete(t.Context(), vr))
		require.Len(t, maps.Collect(n.manifests.Range), 2, "the own one, and the last one")
	}
	require.Contains(t, maps.Collect(n.manifests.Range), any("own"))
}

// TestReceiversInARestoredCluster: etcd was restored from a backup, and the cache of VidraResources is still to show that. An object is in the manifest of
// the backup, or of a later spec whose generation another one had before.
func TestReceiversInARestoredCluster(t *testing.T) {
	t.Parallel()
	page := fixture.IDOf(fixture.ConfigMapKind, "shop", "page")
	bank := func(generation int64, version, object string) *v1alpha1.VidraResource {
		vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "bank", UID: "1", Generation: generation, ResourceVersion: version}}
		vr.Spec.Manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + object + ", namespace: shop}\n"
		return vr
	}
	for _, generation := range []int64{3, 5} {
		before, now := bank(5, "500", "other"), bank(generation, "400", "page")
		n := &Named{Cache: clientWith(t, before), API: clientWith(t, now), Sources: &source.Watches{}, Metadata: listedBy(t, now)}
		n.Note(before, nil, []object.Identity{fixture.IDOf(fixture.ConfigMapKind, "shop", "other")})
		_, err := n.Receivers(t.Context(), "me", "", []object.Identity{page}, time.Now())
		require.ErrorContains(t, err, "VidraResource bank is older than before", generation)
		n.Cache = n.API
		receivers, err := n.Receivers(t.Context(), "me", "", []object.Identity{page}, time.Now())
		require.NoError(t, err)
		require.Len(t, receivers[page], 1, generation)
	}
}

// copied is a cluster with a ConfigMap that was created an hour after the VidraResource bank applied it, as a backup restores it.
type copied struct{ pages }

func (c copied) VisitNamespace(ctx context.Context, namespace string, visit func(cluster.Content)) error {
	return c.pages.VisitNamespace(ctx, namespace, func(content cluster.Content) {
		content.ManagedFields[0].Time = new(metav1.NewTime(time.Now().Add(-time.Hour)))
		content.CreationTimestamp = metav1.Now()
		visit(content)
	})
}

// TestCopyInAContainer: an object that was copied with managedFields is unmanaged, and blocks the removal of its Namespace by spec.unmanagedContents.
func TestCopyInAContainer(t *testing.T) {
	t.Parallel()
	f := finderOfBank(t)
	namespace := shop()
	for at, unmanaged := range map[Containers]int{pages(1): 0, copied{1}: 1} {
		inside, err := f.Contents(t.Context(), at, namespace, false)
		require.NoError(t, err)
		require.Equal(t, unmanaged, inside.Unmanaged.Count)
	}
}

// TestReceivedContents: the manifest of another VidraResource keeps the Namespace of an object that it does not own.
func TestReceivedContents(t *testing.T) {
	t.Parallel()
	other := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	other.Spec.Manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page-0, namespace: shop}\n"
	f := finderOfBank(t, other)
	f.MayTake = func(context.Context, *v1alpha1.VidraResource, trigger.ObjectKey) (bool, error) { return true, nil }
	namespace := shop()
	inside, err := f.Contents(t.Context(), copied{1}, namespace, false)
	require.NoError(t, err)
	blocked := inside.Blocked(v1alpha1.UnmanagedDelete)
	require.EqualError(t, blocked, "it holds ConfigMap shop/page-0 in the manifest of VidraResource other")
	require.True(t, blocked.Received)
	f.MayTake = func(context.Context, *v1alpha1.VidraResource, trigger.ObjectKey) (bool, error) {
		return false, &access.NoNamespace{}
	}
	for _, waits := range []bool{true, false} {
		inside, err := f.Contents(t.Context(), copied{1}, namespace, waits)
		require.NoError(t, err)
		require.Equal(t, waits, inside.Blocked(v1alpha1.UnmanagedDelete) != nil, "an account without a Namespace keeps nothing for long")
	}
}

// twice is a cluster with a RoleBinding that two groups serve, as OpenShift does, whose lists end in any order.
type twice struct{ groups []string }

func (twice) Name() string { return "" }

func (c twice) VisitNamespace(_ context.Context, namespace string, visit func(cluster.Content)) error {
	for _, group := range c.groups {
		visit(cluster.Content{
			GVR: schema.GroupVersionResource{Group: group, Version: "v1", Resource: "rolebindings"}, Kind: "RoleBinding",
			PartialObjectMetadata: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "viewers", UID: types.UID(group)}},
		})
	}
	return nil
}

func (twice) VisitKind(context.Context, schema.GroupVersionResource, string, func(cluster.Content)) error {
	return nil
}

// TestFirstOfTwoGroups: the same object counts as the first one each time. Two in turn would have their watches begin and end without end.
func TestFirstOfTwoGroups(t *testing.T) {
	t.Parallel()
	f := finderOfBank(t)
	namespace := shop()
	const first, second = "authorization.openshift.io", "rbac.authorization.k8s.io"
	for _, groups := range [][]string{{first, second}, {second, first}} {
		inside, err := f.Contents(t.Context(), twice{groups}, namespace, false)
		require.NoError(t, err)
		require.Equal(t, first, inside.Blocked(v1alpha1.UnmanagedBlock).Object.GVR.Group)
	}
}
