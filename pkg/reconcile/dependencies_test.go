package reconcile

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metadatafake "k8s.io/client-go/metadata/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestDependencyFoundReady: a reconcile of some objects that finds the dependency of another shard Ready, without an event, has the objects
// that waited for it applied.
func TestDependencyFoundReady(t *testing.T) {
	t.Parallel()
	l := newLab(t, colors("a")+"---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n")
	base := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "base", Generation: 1}}
	elsewhere := fake.NewClientBuilder().WithScheme(l.client.Scheme()).WithObjects(base).WithStatusSubresource(base).Build()
	l.Assignment.Elsewhere = elsewhere
	setReady := func(is metav1.ConditionStatus) {
		base.Status.ObservedGeneration = 1
		meta.SetStatusCondition(&base.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: is, Reason: "Test", ObservedGeneration: 1})
		require.NoError(t, elsewhere.Status().Update(t.Context(), base))
	}
	vr := l.get(t)
	vr.Spec.DependsOn = []v1alpha1.Dependency{{Name: "base"}}
	require.NoError(t, l.client.Update(t.Context(), vr))
	setReady(metav1.ConditionTrue)
	l.serves = false
	require.Contains(t, l.mustPass(t), "a")

	setReady(metav1.ConditionFalse)
	l.serves = true
	l.Watching.Trigger.EnqueueAll(faulty)
	require.NotContains(t, l.mustPass(t), "b", "it waits")
	setReady(metav1.ConditionTrue)
	l.Watching.Trigger.RequeueCauses(faulty, trigger.Causes{Health: true})
	require.NotContains(t, l.mustPass(t), "b", "the health of an object is no reason to apply")
	require.True(t, l.Watching.Trigger.TakeCauses(faulty).All, "the objects that waited are considered next")
	require.Contains(t, l.mustPass(t), "b")
	require.Empty(t, l.mustPass(t))
	require.False(t, l.Watching.Trigger.TakeCauses(faulty).All)
}

// TestDependentsAfterAnOutage: a VidraResource that was deleted while the operator was down, or by a clock that is behind, waits for its dependents as
// long as any other.
func TestDependentsAfterAnOutage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		deleting bool
		limit    time.Duration
	}{
		"stays":    {false, dependentsGrace},
		"deleting": {true, dependentsLimit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, colors("a"))
			app := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "app", Finalizers: []string{v1alpha1.Finalizer}}}
			app.Spec.DependsOn = []v1alpha1.Dependency{{Name: faulty.Name}}
			require.NoError(t, l.client.Create(t.Context(), app))
			if tc.deleting {
				require.NoError(t, l.client.Delete(t.Context(), app))
			}
			vr := l.get(t)
			vr.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-time.Hour)}
			p := l.passOn(faulty, vr, newOwnerState(vr, seal.Keys{}), nil)
			why, until := p.dependents(t.Context())
			require.NotNil(t, why)
			require.Equal(t, p.plan.Now.Add(tc.limit), until)
			p.plan.Now = until
			why, _ = p.dependents(t.Context())
			require.Nil(t, why)
		})
	}
}

// TestDependentsAfterAnotherObstacle: the time for the dependents is none in which another obstacle kept the objects of both: they would be removed together
// at its end.
func TestDependentsAfterAnotherObstacle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, colors("a"))
		app := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "app", Finalizers: []string{v1alpha1.Finalizer}}}
		app.Spec.DependsOn = []v1alpha1.Dependency{{Name: faulty.Name}}
		require.NoError(t, l.client.Create(t.Context(), app))
		require.NoError(t, l.client.Delete(t.Context(), app))
		require.Contains(t, l.mustPass(t), "a")
		require.NoError(t, l.client.Delete(t.Context(), l.get(t)))
		waitsFor := func(text string) {
			l.mustPass(t)
			require.Contains(t, meta.FindStatusCondition(l.get(t).Status.Conditions, v1alpha1.ConditionReady).Message, text)
		}
		waitsFor("CustomResourceDefinition")
		time.Sleep(dependentsLimit)
		definition := &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}, ObjectMeta: metav1.ObjectMeta{Name: ownDefinition},
		}
		require.NoError(t, l.Clients.Metadata.(*metadatafake.FakeMetadataClient).Tracker().Add(definition))
		waitsFor("VidraResource app is gone")
		l.away = errors.New("the destination is away")
		waitsFor("the destination is away")
		time.Sleep(dependentsLimit)
		waitsFor("the destination is away")
		waitsFor("the destination is away")
		l.away = nil
		waitsFor("VidraResource app is gone")
		time.Sleep(dependentsLimit)
		l.mustPass(t)
		require.NotContains(t, meta.FindStatusCondition(l.get(t).Status.Conditions, v1alpha1.ConditionReady).Message, "is gone", "it is bounded")
	})
}
