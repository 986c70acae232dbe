package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// TestAppliedByThis: an object that was applied before the VidraResource existed belongs to no lost inventory of it.
func TestAppliedByThis(t *testing.T) {
	t.Parallel()
	l := newLab(t, colors("a"))
	l.mustPass(t)
	p := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()})
	defer p.state.lane.leave()
	like, created := p.state.plan.Objects.Manifest[0].Desired, metav1.Now().Rfc3339Copy()
	p.plan.VR.CreationTimestamp = created
	for name, tc := range map[string]struct {
		reason  string
		applied time.Duration
		want    bool
	}{
		"Before": {"A former VidraResource applied it.", -time.Second, false},
		"Then":   {"The API server counts seconds.", 0, true},
		"Since":  {"The inventory was emptied.", time.Hour, true},
	} {
		live := &unstructured.Unstructured{}
		live.SetName("left")
		live.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "vidra/faulty", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:color":{}}}`), Time: new(metav1.NewTime(created.Add(tc.applied))),
		}})
		l.kept = map[string]*unstructured.Unstructured{"left": live}
		p.applier.Client = l.Dynamic()
		is, err := p.appliedByThis(t.Context(), object.Identity{GroupKind: like.ID.GroupKind, Name: "left"}, like)
		require.NoError(t, err)
		require.Equal(t, tc.want, is, "%s: %s", name, tc.reason)
	}
	is, err := p.appliedByThis(t.Context(), object.Identity{GroupKind: like.ID.GroupKind, Name: "gone"}, like)
	require.NoError(t, err)
	require.False(t, is)
}

// shown are watches that have listed objects.
type shown struct {
	*lab
	objects []any
}

func (s shown) List(watchregistry.Key) ([]any, bool) { return s.objects, true }

// TestRecoverWithAnUnreadableObject: an object that cannot be read leaves the others in the inventory, and is read again.
func TestRecoverWithAnUnreadableObject(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		failure error
		// again reports that time alone causes the next read.
		again bool
	}{
		"Forbidden": {apierrors.NewForbidden(fixture.ConfigMaps.GroupResource(), "unread", errors.New("no right")), false},
		"Timeout":   {apierrors.NewTimeoutError("the API server is slow", 1), true},
	} {
		l := newLab(t, colors("a"))
		l.mustPass(t)
		l.kept, l.unreadable = map[string]*unstructured.Unstructured{}, map[string]error{"unread": tc.failure}
		watches := shown{lab: l}
		for _, name := range []string{"left", "unread"} {
			live := &unstructured.Unstructured{}
			live.SetAPIVersion("v1")
			live.SetKind("ConfigMap")
			live.SetNamespace("default")
			live.SetName(name)
			live.SetManagedFields([]metav1.ManagedFieldsEntry{{
				Manager: "vidra/faulty", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:color":{}}}`), Time: new(metav1.Now()),
			}})
			l.kept[name] = live
			kept, err := l.Watching.Trigger.TransformFor("", fixture.ConfigMaps)(live.DeepCopy())
			require.NoError(t, err)
			watches.objects = append(watches.objects, kept)
		}
		l.Watching.Watches = watches
		p := l.newPass(faulty, l.get(t), trigger.Causes{All: true}, seal.Keys{seal.NewKey()})
		p.applier.Client, p.applier.Settings.Watched, p.state.inventory.recovers = l.Dynamic(), true, true
		p.recoverInventory(t.Context())
		require.NotNil(t, p.state.plan.Objects.ByID[object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "default", Name: "left"}], name)
		require.Len(t, p.state.plan.Objects.Inventory(), 2, name)
		require.True(t, p.state.inventory.recovers, name)
		require.Equal(t, tc.again, l.Watching.Trigger.TakeCauses(faulty).All, name)

		l.unreadable = nil
		p.recoverInventory(t.Context())
		require.Len(t, p.state.plan.Objects.Inventory(), 3, name)
		require.False(t, p.state.inventory.recovers, name)
		p.state.lane.leave()
	}
}

// TestKilledBeforeTheFinalizerIsRemoved: the status of a deleted VidraResource without objects is no lost inventory. Its manifest and its destination,
// which may be gone with it, are unneeded.
func TestKilledBeforeTheFinalizerIsRemoved(t *testing.T) {
	t.Parallel()
	l := newLab(t, colors("a")+"---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n")
	l.kept = map[string]*unstructured.Unstructured{}
	l.mustPass(t)
	require.NoError(t, l.client.Delete(t.Context(), l.get(t)))
	clear(l.kept)
	refused := errors.New("the operator is killed")
	l.Clients.Client = interceptor.NewClient(l.client.(client.WithWatch), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return refused
		},
	})
	l.definitions.last.Store(ownDefinition, definitionRead{time.Now().Add(time.Hour), &metav1.PartialObjectMetadata{}}) // it is not being deleted
	require.Eventually(t, func() bool {
		_, err := l.pass(t)
		return errors.Is(err, refused)
	}, 10*plan.RemovalSettle, plan.RemovalSettle/10)
	require.Empty(t, l.get(t).Status.ManagedResources)

	l.restart()
	l.serves, l.away = false, errors.New("the cluster is gone")
	l.mustPass(t)
	require.True(t, apierrors.IsNotFound(l.client.Get(t.Context(), faulty, &v1alpha1.VidraResource{})), "the deletion ends")
}
