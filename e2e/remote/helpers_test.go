package remote

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// patience bounds the wait for anything that need not be fast.
	patience = 40 * time.Second
	// poll is how often the API server is asked.
	poll = 20 * time.Millisecond
	// person is the field manager of somebody who edits managed objects.
	person = "person"
)

// await waits until condition holds.
func await(t *testing.T, condition func(c *assert.CollectT), msgAndArgs ...any) {
	t.Helper()
	require.EventuallyWithT(t, condition, patience, poll, msgAndArgs...)
}

// unique returns a name that tells which test it belongs to.
func unique(t *testing.T) string {
	t.Helper()
	return testenv.UniqueName(t.Name())
}

// newNamespace makes a namespace of that name. It is left behind.
func (s site) newNamespace(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, s.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// greeting is a manifest with one ConfigMap.
func greeting(name, says string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  greeting: %s\n", name, says)
}

// manifests joins the documents of a manifest.
func manifests(documents ...string) string { return strings.Join(documents, "\n---\n") }

// configMap names a ConfigMap.
func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// says is what a ConfigMap says; nothing if it is not there, or not Vidra's.
func (s site) says(t require.TestingT, namespace, name string) string {
	cm := configMap(namespace, name)
	err := s.admin.Get(context.Background(), client.ObjectKeyFromObject(cm), cm)
	if apierrors.IsNotFound(err) || cm.Labels[v1alpha1.ManagedByLabel] != v1alpha1.ManagedByValue {
		return ""
	}
	require.NoError(t, err)
	return cm.Data["greeting"]
}

// awaitSays waits until a ConfigMap says something.
func (s site) awaitSays(t *testing.T, namespace, name, says string) {
	t.Helper()
	await(t, func(c *assert.CollectT) { require.Equal(c, says, s.says(c, namespace, name)) }, "ConfigMap %s/%s", namespace, name)
}

// edit has a person patch an object.
func (s site) edit(t *testing.T, obj client.Object, format string, args ...any) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))
	require.NoError(t, s.admin.Patch(t.Context(), obj.DeepCopyObject().(client.Object), patch, client.FieldOwner(person)))
}

// exists says whether an object is there.
func (s site) exists(t require.TestingT, obj client.Object) bool {
	err := s.admin.Get(context.Background(), client.ObjectKeyFromObject(obj), obj.DeepCopyObject().(client.Object))
	if !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
	return err == nil
}

// awaitGone waits until an object is not there.
func (s site) awaitGone(t *testing.T, obj client.Object) {
	t.Helper()
	await(t, func(c *assert.CollectT) { require.False(c, s.exists(c, obj)) }, "%T %s is gone", obj, obj.GetName())
}

// newVidraResource creates a VidraResource with the name of its namespace, which is
// deleted when the test ends, and must be gone then.
func newVidraResource(t *testing.T, server, namespace, manifest string, options ...func(*v1alpha1.VidraResource)) *v1alpha1.VidraResource {
	t.Helper()
	v := &v1alpha1.VidraResource{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: v1alpha1.VidraResourceSpec{
			Destination: v1alpha1.Destination{Server: server, Namespace: namespace}, Manifest: manifest,
		},
	}
	for _, option := range options {
		option(v)
	}
	require.NoError(t, here.admin.Create(t.Context(), v))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(here.admin.Delete(context.Background(), v.DeepCopy())))
		here.awaitGone(t, v)
	})
	return v
}

// named gives a VidraResource another name than that of its namespace.
func named(name string) func(*v1alpha1.VidraResource) {
	return func(v *v1alpha1.VidraResource) { v.Name = name }
}

// remove has a VidraResource deleted.
func remove(t *testing.T, v *v1alpha1.VidraResource) {
	t.Helper()
	require.NoError(t, here.admin.Delete(t.Context(), v.DeepCopy()))
}

// setManifest gives a VidraResource another manifest.
func setManifest(t *testing.T, v *v1alpha1.VidraResource, manifest string) {
	t.Helper()
	here.edit(t, v, `{"spec":{"manifest":%q}}`, manifest)
}

// read reads a VidraResource.
func read(t require.TestingT, name string) *v1alpha1.VidraResource {
	v := &v1alpha1.VidraResource{}
	require.NoError(t, here.admin.Get(context.Background(), client.ObjectKey{Name: name}, v))
	return v
}

// awaitReady waits until a VidraResource says that its present generation is ready.
func awaitReady(t *testing.T, name string) *v1alpha1.VidraResource {
	t.Helper()
	return awaitCondition(t, name, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonApplied)
}

// awaitUnreachable waits until a VidraResource says that its destination cannot be
// reached, in a message that contains each part.
func awaitUnreachable(t *testing.T, name string, parts ...string) *v1alpha1.VidraResource {
	t.Helper()
	return awaitCondition(t, name, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDestinationUnreachable, parts...)
}

// awaitCondition waits until a VidraResource has a condition that speaks of its present
// generation, with a message that contains each part.
func awaitCondition(
	t *testing.T, name, kind string, status metav1.ConditionStatus, reason string, parts ...string,
) (v *v1alpha1.VidraResource) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		v = read(c, name)
		got := meta.FindStatusCondition(v.Status.Conditions, kind)
		require.NotNil(c, got)
		require.Equal(c, status, got.Status, "%s: %s", got.Reason, got.Message)
		require.Equal(c, reason, got.Reason, got.Message)
		for _, part := range parts {
			require.Contains(c, got.Message, part)
		}
		require.Equal(c, v.Generation, got.ObservedGeneration)
	}, "VidraResource %s: %s=%s, %s", name, kind, status, reason)
	return v
}

// eventsOf lists the Events about a VidraResource that have a reason.
func eventsOf(t require.TestingT, v *v1alpha1.VidraResource, reason string) []eventsv1.Event {
	all := &eventsv1.EventList{}
	require.NoError(t, here.admin.List(context.Background(), all, client.InNamespace("default")))
	var found []eventsv1.Event
	for _, e := range all.Items {
		if e.Regarding.Kind == v1alpha1.Kind && e.Regarding.UID == v.UID && e.Reason == reason {
			found = append(found, e)
		}
	}
	return found
}

// awaitEvent waits for an Event about a VidraResource whose note contains each part.
func awaitEvent(t *testing.T, v *v1alpha1.VidraResource, kind, reason string, parts ...string) eventsv1.Event {
	t.Helper()
	var found eventsv1.Event
	await(t, func(c *assert.CollectT) {
		var notes []string
		for _, e := range eventsOf(c, v, reason) {
			notes = append(notes, e.Note)
			fits := e.Type == kind
			for _, part := range parts {
				fits = fits && strings.Contains(e.Note, part)
			}
			if fits {
				found = e
				return
			}
		}
		require.Fail(c, "no such Event", "%s %s with %q in %q", kind, reason, parts, notes)
	})
	return found
}
