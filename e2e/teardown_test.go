package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestF25NamespaceGoesAndComesBack deletes the namespace of managed objects: nothing
// is reverted while it terminates, and everything once it is there again.
func TestF25NamespaceGoesAndComesBack(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	held := ns + "-objects"
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: held}}
	require.NoError(t, admin.Create(t.Context(), namespace))
	manifest := manifests(configMap("one", "hello"), configMap("two", "hello"))
	newVidraResource(t, ns, manifest, func(v *v1alpha1.VidraResource) { v.Spec.Destination.Namespace = held })
	awaitReady(t, ns)
	one, two := declaredObject(t, held, manifest, "ConfigMap", "one"), declaredObject(t, held, manifest, "ConfigMap", "two")

	// What has a finalizer keeps the namespace from going.
	require.NoError(t, mergePatch(one, `{"metadata":{"finalizers":["example.com/wait"]}}`))
	t.Cleanup(func() { _ = mergePatch(one, `{"metadata":{"finalizers":null}}`) })
	mark := auditMark(t)
	require.NoError(t, admin.Delete(t.Context(), namespace.DeepCopy()))
	awaitGone(t, two)
	awaitNotReady(t, ns, v1alpha1.ReasonNamespaceTerminating, "ConfigMap "+held+"/two", held)
	require.NoError(t, mergePatch(one, `{"data":{"greeting":"hi"}}`))
	require.Never(t, func() bool { return len(operatorSince(t, mark).ObjectsIn(held).Writes()) > 0 }, time.Second, 100*time.Millisecond,
		"nothing is reverted while the namespace terminates")
	require.NoError(t, mergePatch(one, `{"metadata":{"finalizers":null}}`))
	awaitGone(t, namespace)

	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: held}}))
	start := time.Now()
	awaitInOrder(t, ns, one, two)
	require.Less(t, time.Since(start), 10*time.Second, "it does not wait for the next attempt")
	awaitReady(t, ns)
}

// TestF25NamespaceOfTheManifest is the same for a namespace that is itself managed:
// it is created again, and filled.
func TestF25NamespaceOfTheManifest(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	managed := ns + "-managed"
	manifest := "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + managed + "\n---\n" +
		strings.Replace(configMap("page", "hello"), "name: page", "name: page\n  namespace: "+managed, 1)
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)
	namespace := declaredObject(t, ns, manifest, "Namespace", managed)
	uid := get(t, namespace).GetUID()
	require.NoError(t, admin.Delete(t.Context(), namespace.DeepCopy()))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.NotEqual(c, uid, get(c, namespace).GetUID())
	}, 2*patience, poll, "it is made again when Kubernetes has emptied it")
	awaitInOrder(t, ns, declared(t, managed, manifest)...)
	awaitReady(t, ns)
}

// TestDigestsOfAnotherVersion starts the operator on a status whose digests another
// version of Vidra computed. They are replaced, and nothing is written to the objects.
func TestDigestsOfAnotherVersion(t *testing.T) {
	const objects = 120 // more than what is replaced in the first second
	ns := newNamespace(t)
	newVidraResource(t, ns, sets(objects/4))
	v := awaitReady(t, ns)
	stopOperator(t)
	versions := map[string]string{}
	list := &corev1.ConfigMapList{}
	require.NoError(t, admin.List(t.Context(), list, client.InNamespace(ns)))
	for _, cm := range list.Items {
		versions[cm.Name] = cm.ResourceVersion
	}
	before := v.DeepCopy()
	for i := range v.Status.ManagedResources {
		v.Status.ManagedResources[i].Digest = "0:AAAAAAAAAAAAAAAAAAAAAA"
	}
	require.NoError(t, admin.Status().Patch(t.Context(), v, client.MergeFrom(before)))
	mark := auditMark(t)
	startOperator(t)
	await(t, func(c *assert.CollectT) {
		for _, e := range getVidraResource(c, ns).Status.ManagedResources {
			require.False(c, strings.HasPrefix(e.Digest, "0:"), e.Name)
		}
	})
	awaitReady(t, ns)
	require.NoError(t, admin.List(t.Context(), list, client.InNamespace(ns)))
	for _, cm := range list.Items {
		require.Equal(t, versions[cm.Name], cm.ResourceVersion, "nothing was written")
	}
	sent := operatorSince(t, mark).ObjectsIn(ns).Writes()
	t.Logf("%d requests in %s for %d objects", len(sent), sent[len(sent)-1].Time.Sub(sent[0].Time).Round(time.Millisecond), len(v.Status.ManagedResources))
	require.LessOrEqual(t, len(sent), len(v.Status.ManagedResources))
	require.Empty(t, withReason(eventsAbout(t, v), "DriftCorrected"))
}
