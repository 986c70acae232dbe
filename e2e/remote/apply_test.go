package remote

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// idle is a manifest with a Deployment that is healthy without a node.
const idle = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: idle
spec:
  replicas: 0
  selector:
    matchLabels:
      app: idle
  template:
    metadata:
      labels:
        app: idle
    spec:
      containers:
      - name: idle
        image: registry.invalid/idle:1
`

// TestRemoteLikeLocal applies, heals, prunes and deletes in another cluster what it
// would here, and touches nothing here.
func TestRemoteLikeLocal(t *testing.T) {
	t.Parallel()
	d, _ := newDestination(t)
	here.MakeNamespace(t, d.name) // with room for what must not come here
	page, extra := configMap(d.name, "page"), configMap(d.name, "extra")
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: d.name, Name: "idle"}}
	newVidraResource(t, d.url(), d.name, manifests(greeting("page", "hello"), greeting("extra", "hello"), idle))
	v := awaitReady(t, d.name)
	awaitCondition(t, d.name, metav1.Condition{
		Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHealthy,
	})
	require.Len(t, v.Status.ManagedResources, 3)
	for _, obj := range []client.Object{page, extra, deployment} {
		require.True(t, there.Exists(t, obj))
		require.False(t, here.Exists(t, obj), "%s is in the other cluster", obj.GetName())
	}
	require.NoError(t, there.Admin.Get(t.Context(), client.ObjectKeyFromObject(page), page))
	for _, e := range v.Status.ManagedResources {
		if e.Name == "page" {
			require.Equal(t, string(page.UID), e.UID)
		}
	}

	mark := there.AuditMark(t)
	there.edit(t, page, `{"data":{"greeting":"changed"}}`)
	there.awaitSays(t, d.name, "page", "hello")
	there.requireOnePatch(t, mark, d.user, d.name)
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "", `ConfigMap `+d.name+`/page`, `reverted data.greeting to "hello"`, person)
	require.NoError(t, there.Admin.Delete(t.Context(), extra))
	there.awaitSays(t, d.name, "extra", "hello")
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "", `ConfigMap `+d.name+`/extra`, "deleted")
	for _, s := range []site{here, there} {
		all := &eventsv1.EventList{}
		require.NoError(t, s.Admin.List(t.Context(), all, client.InNamespace(d.name)))
		for _, e := range all.Items {
			require.NotEqual(t, "vidra-operator", e.ReportingController, "%s about %s", e.Reason, e.Regarding.Name)
		}
	}

	setManifest(t, v.Name, manifests(greeting("page", "hi"), idle))
	there.AwaitGone(t, extra)
	v = awaitReady(t, d.name)
	require.Equal(t, "hi", there.says(t, d.name, "page"))
	require.Len(t, v.Status.ManagedResources, 2)
	remove(t, v)
	here.AwaitGone(t, v)
	require.False(t, there.Exists(t, page))
	require.False(t, there.Exists(t, deployment))
}

// TestKindsAreThoseOfTheDestination installs a kind in one of the two clusters.
func TestKindsAreThoseOfTheDestination(t *testing.T) {
	t.Parallel()
	d, _ := newDestination(t)
	crd := testenv.CRD(d.name)
	elsewhere := crd.DeepCopy()
	manifest := fmt.Sprintf("apiVersion: %s/v1\nkind: Thing\nmetadata:\n  name: thing\nspec:\n  size: 1\n", crd.Spec.Group)
	newVidraResource(t, d.url(), d.name, manifest)
	unavailable := func() {
		awaitNotReady(t, d.name, v1alpha1.ReasonKindUnavailable, "Thing")
	}
	unavailable()
	require.NoError(t, here.Admin.Create(t.Context(), elsewhere))
	mark := there.AuditMark(t)
	unavailable()
	require.Empty(t, there.RequestsBy(t, mark, d.user).Writes())

	require.NoError(t, there.Admin.Create(t.Context(), crd))
	v := awaitReady(t, d.name)
	thing := &unstructured.Unstructured{}
	thing.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: "v1", Kind: "Thing"})
	thing.SetNamespace(d.name)
	thing.SetName("thing")
	there.edit(t, thing, `{"spec":{"size":2}}`)
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "", "reverted spec.size to 1")
	require.NoError(t, there.Admin.Get(t.Context(), client.ObjectKeyFromObject(thing), thing))
	size, _, err := unstructured.NestedInt64(thing.Object, "spec", "size")
	require.NoError(t, err)
	require.EqualValues(t, 1, size)
}

// TestSameNameInTwoClusters edits two objects that differ in their cluster alone.
func TestSameNameInTwoClusters(t *testing.T) {
	t.Parallel()
	const edits = 10
	d, _ := newDestination(t)
	here.MakeNamespace(t, d.name)
	homely, distant := d.name+"-here", d.name+"-there"
	newVidraResource(t, "", d.name, greeting("page", "here"), named(homely))
	newVidraResource(t, d.url(), d.name, greeting("page", "there"), named(distant))
	awaitReady(t, homely)
	awaitReady(t, distant)
	marks := []testenv.AuditMark{here.AuditMark(t), there.AuditMark(t)}
	var editing sync.WaitGroup
	for s, says := range map[*site]string{&here: "here", &there: "there"} {
		editing.Go(func() {
			for i := range edits {
				s.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"changed %d"}}`, i)
				s.awaitSays(t, d.name, "page", says)
			}
		})
	}
	editing.Wait()
	for _, name := range []string{homely, distant} {
		await(t, func(c *assert.CollectT) {
			drift := getVidraResource(c, name).Status.Drift
			require.NotNil(c, drift)
			require.EqualValues(c, edits, drift.Heals)
		}, name)
	}
	require.Len(t, here.RequestsBy(t, marks[0], suite.OperatorUser).ObjectsIn(d.name), edits)
	require.Len(t, there.RequestsBy(t, marks[1], d.user).ObjectsIn(d.name), edits)

	// One that goes leaves the other in place.
	remove(t, getVidraResource(t, homely))
	here.AwaitGone(t, configMap(d.name, "page"))
	there.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"changed"}}`)
	there.awaitSays(t, d.name, "page", "there")
}

// TestNamespaceOfTheSameName has a namespace here with the name of that there be stuck in
// its deletion: that concerns no object there.
func TestNamespaceOfTheSameName(t *testing.T) {
	t.Parallel()
	d, _ := newDestination(t)
	here.MakeNamespace(t, d.name)
	stays := configMap(d.name, "stays")
	stays.Finalizers = []string{"example.com/stays"}
	require.NoError(t, here.Admin.Create(t.Context(), stays))
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	awaitReady(t, d.name)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.name}}
	require.NoError(t, here.Admin.Delete(t.Context(), namespace))
	await(t, func(c *assert.CollectT) { // the namespace is seen to be going by all
		require.NoError(c, here.Admin.Get(context.Background(), client.ObjectKeyFromObject(stays), stays))
		require.NotNil(c, stays.DeletionTimestamp)
	})
	there.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"changed"}}`)
	there.awaitSays(t, d.name, "page", "hello")
	require.NoError(t, there.Admin.Delete(t.Context(), configMap(d.name, "page")))
	there.awaitSays(t, d.name, "page", "hello")
	setManifest(t, d.name, greeting("page", "hi"))
	there.awaitSays(t, d.name, "page", "hi")
	awaitReady(t, d.name)
	require.True(t, here.Exists(t, namespace), "it was going all the time")
	here.edit(t, stays, `{"metadata":{"finalizers":null}}`)
}

// TestNamespaceThatGoesThere deletes the namespace there, with objects that stay for a
// while, and then makes it again.
func TestNamespaceThatGoesThere(t *testing.T) {
	t.Parallel()
	d, _ := newDestination(t)
	stays := configMap(d.name, "stays")
	stays.Finalizers = []string{"example.com/stays"}
	require.NoError(t, there.Admin.Create(t.Context(), stays))
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	awaitReady(t, d.name)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.name}}
	require.NoError(t, there.Admin.Delete(t.Context(), namespace.DeepCopy()))
	awaitNotReady(t, d.name, v1alpha1.ReasonNamespaceTerminating, d.name)
	there.edit(t, stays, `{"metadata":{"finalizers":null}}`)
	there.AwaitGone(t, namespace)
	there.MakeNamespace(t, d.name)
	there.awaitSays(t, d.name, "page", "hello")
	awaitReady(t, d.name)
}
