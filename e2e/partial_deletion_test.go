package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestF30KindGoesDuringDeletion deletes a VidraResource, and the kind of an object that
// is still waiting to go: the deletion ends when the object does.
func TestF30KindGoesDuringDeletion(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd, manifest := newKind(t)
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	v := newVidraResource(t, ns, manifests(configMap("other", "hello"), manifest))
	awaitReady(t, ns)
	thing := thingIn(crd, ns)
	require.NoError(t, mergePatch(thing, `{"metadata":{"finalizers":["example.com/wait"]}}`))
	t.Cleanup(func() { _ = mergePatch(thing, `{"metadata":{"finalizers":null}}`) }) // it is gone if all went well

	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, declaredObject(t, ns, configMap("other", "hello"), "ConfigMap", "other"))
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "Thing "+ns+"/thing", "is being deleted")
	require.NoError(t, admin.Delete(t.Context(), crd.DeepCopy()))
	awaitTerminating(t, crd)
	require.Contains(t, getVidraResource(t, ns).Finalizers, v1alpha1.Finalizer, "the object is still there")
	require.NoError(t, mergePatch(thing, `{"metadata":{"finalizers":null}}`))
	awaitGone(t, crd)
	awaitGoneFor(t, 2*patience, v) // the kind must have been gone for a while
}

// TestF30NamespaceIsGone deletes a VidraResource whose namespace is gone, and one whose
// namespace is on its way out and waits for an object.
func TestF30NamespaceIsGone(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		// held says that an object keeps the namespace from going.
		held bool
		// options of the VidraResource.
		options []func(*v1alpha1.VidraResource)
	}{
		"gone":                         {reason: "what was in it is gone with it"},
		"gone, unwatched":              {reason: "no watch reports it", options: []func(*v1alpha1.VidraResource){withoutEvents}},
		"terminating":                  {reason: "what is on its way out is waited for", held: true},
		"terminating, to be orphaned":  {reason: "what is to be left in place goes all the same", held: true, options: []func(*v1alpha1.VidraResource){orphaning}},
		"gone, and was to be orphaned": {reason: "nothing is left to be left in place", options: []func(*v1alpha1.VidraResource){orphaning}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns + "-objects"}}
			require.NoError(t, admin.Create(t.Context(), namespace.DeepCopy()))
			manifest := manifests(configMap("one", "hello"), configMap("two", "hello"))
			v := newVidraResource(t, ns, manifest, append(tt.options, func(v *v1alpha1.VidraResource) { v.Spec.Destination.Namespace = namespace.Name })...)
			awaitReady(t, ns)
			one := declaredObject(t, namespace.Name, manifest, "ConfigMap", "one")
			if tt.held {
				require.NoError(t, mergePatch(one, `{"metadata":{"finalizers":["example.com/wait"]}}`))
				t.Cleanup(func() { _ = mergePatch(one, `{"metadata":{"finalizers":null}}`) }) // it is gone if all went well
			}
			mark := auditMark(t)
			require.NoError(t, admin.Delete(t.Context(), namespace.DeepCopy()))
			if tt.held {
				awaitTerminating(t, namespace)
			} else {
				awaitGone(t, namespace)
			}
			require.NoError(t, deleteVidraResource(t.Context(), ns))
			if tt.held {
				require.NoError(t, mergePatch(one, `{"metadata":{"finalizers":null}}`))
			}
			awaitGone(t, v)
			awaitGone(t, namespace)
			require.Empty(t, operatorSince(t, mark).ObjectsIn(namespace.Name).Only(func(e request) bool { return e.Verb == "patch" && e.Code == 201 }), tt.reason)
		})
	}
}

// awaitTerminating waits until an object is on its way out.
func awaitTerminating(t *testing.T, obj client.Object) {
	t.Helper()
	await(t, func(c *assert.CollectT) { require.NotNil(c, get(c, obj).GetDeletionTimestamp()) })
}

// TestReadyIsNotSaidOfWhatGoes applies an object that a user is deleting: it is not
// there to stay. When it is gone it is made, and that is no drift.
func TestReadyIsNotSaidOfWhatGoes(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]func(*v1alpha1.VidraResource){"with events": nil, "without events": {withoutEvents}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			one, two := ns+"-one", ns+"-two"
			newVidraResource(t, ns, configMap("page", "hello"), named(one))
			awaitReady(t, one)
			page := declared(t, ns, configMap("page", "hello"))[0]
			require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":["example.com/stays"]}}`))
			t.Cleanup(func() { _ = mergePatch(page, `{"metadata":{"finalizers":null}}`) }) // it is gone if all went well
			require.NoError(t, deleteVidraResource(t.Context(), one))
			await(t, func(c *assert.CollectT) { require.NotNil(c, get(c, page).GetDeletionTimestamp()) })

			second := newVidraResource(t, ns, configMap("page", "hello"), append(options, named(two))...)
			v := awaitNotReady(t, two, v1alpha1.ReasonProgressing, "ConfigMap "+ns+"/page", "is being deleted, and will be created again")
			require.Nil(t, v.Status.LastSyncTime)
			require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":null}}`))
			awaitInOrder(t, two, page)
			v = awaitReady(t, two)
			require.Nil(t, v.Status.Drift)
			awaitEvent(t, second, corev1.EventTypeNormal, "Applied", "Apply", "1 created")
			require.Empty(t, withReason(eventsAbout(t, second), "DriftCorrected"), "it was not changed")
		})
	}
}
