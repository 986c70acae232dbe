package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// patience bounds the wait for anything. It is for slow machines; what has
	// to be fast says so itself. It is far below the default resync interval, so
	// what happens within it was caused by an event.
	patience = 30 * time.Second
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

// newNamespace makes a namespace for one test. It is left behind.
func newNamespace(t *testing.T) string {
	t.Helper()
	name := unique(t)
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	return name
}

// newVidraResource creates a VidraResource with the name of its namespace,
// which is deleted when the test ends, and must be gone then. Options change it
// before it is created.
func newVidraResource(t *testing.T, namespace, manifest string, options ...func(*v1alpha1.VidraResource)) *v1alpha1.VidraResource {
	t.Helper()
	v := &v1alpha1.VidraResource{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: v1alpha1.VidraResourceSpec{
			Destination: v1alpha1.Destination{Namespace: namespace}, Manifest: manifest,
		},
	}
	for _, option := range options {
		option(v)
	}
	require.NoError(t, admin.Create(t.Context(), v))
	name := v.Name
	t.Cleanup(func() {
		unblockDeletion(t, name)
		if err := deleteVidraResource(context.Background(), name); !apierrors.IsNotFound(err) {
			require.NoError(t, err)
			awaitGoneFor(t, 2*patience, v) // it may own a Namespace, which Kubernetes empties first
		}
	})
	return v
}

// unblockDeletion ends what keeps the objects of a VidraResource from being removed: its
// suspension, and break-glass.
func unblockDeletion(t *testing.T, name string) {
	t.Helper()
	v := &v1alpha1.VidraResource{}
	if admin.Get(context.Background(), client.ObjectKey{Name: name}, v) != nil {
		return // the deletion fails for the same reason, and says so
	}
	held := v.Spec.Suspend
	for _, e := range v.Status.ManagedResources {
		held = held || e.BreakGlass != nil
	}
	if held {
		require.NoError(t, client.IgnoreNotFound(mergePatch(v, `{"spec":{"suspend":false,"drift":{"maxBreakGlass":"0s"}}}`)))
	}
}

// named gives a VidraResource another name than that of its namespace.
func named(name string) func(*v1alpha1.VidraResource) {
	return func(v *v1alpha1.VidraResource) { v.Name = name }
}

// withoutEvents turns the watches of a VidraResource off.
func withoutEvents(v *v1alpha1.VidraResource) {
	off := false
	v.Spec.Destination.ReconcileOnEvents = &off
}

// every sets the resync interval of a VidraResource.
func every(interval time.Duration) func(*v1alpha1.VidraResource) {
	return func(v *v1alpha1.VidraResource) { v.Spec.Interval = &metav1.Duration{Duration: interval} }
}

// setManifest gives a VidraResource another manifest.
func setManifest(t *testing.T, name, manifest string) {
	t.Helper()
	v := getVidraResource(t, name)
	base := v.DeepCopy()
	v.Spec.Manifest = manifest
	require.NoError(t, admin.Patch(t.Context(), v, client.MergeFrom(base)))
}

// deleteVidraResource asks for the deletion of a VidraResource.
func deleteVidraResource(ctx context.Context, name string) error {
	return admin.Delete(ctx, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// getVidraResource reads a VidraResource.
func getVidraResource(t require.TestingT, name string) *v1alpha1.VidraResource {
	v := &v1alpha1.VidraResource{}
	require.NoError(t, admin.Get(context.Background(), client.ObjectKey{Name: name}, v))
	return v
}

// awaitReady waits until a VidraResource says that its present generation is
// ready.
func awaitReady(t *testing.T, name string) *v1alpha1.VidraResource {
	t.Helper()
	return awaitCondition(t, name, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonApplied,
	})
}

// awaitNotReady waits until a VidraResource says that its present generation
// is not ready, for a reason and with a message that contains each part.
func awaitNotReady(t *testing.T, name, reason string, parts ...string) *v1alpha1.VidraResource {
	t.Helper()
	return awaitCondition(t, name, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason,
	}, parts...)
}

// awaitCondition waits until a VidraResource has a condition that speaks of its
// present generation, with a message that contains each part.
func awaitCondition(t *testing.T, name string, want metav1.Condition, parts ...string) *v1alpha1.VidraResource {
	t.Helper()
	var v *v1alpha1.VidraResource
	await(t, func(c *assert.CollectT) {
		v = getVidraResource(c, name)
		got := condition(c, v, want.Type)
		require.Equal(c, want.Status, got.Status, "%s: %s", got.Reason, got.Message)
		require.Equal(c, want.Reason, got.Reason, got.Message)
		for _, part := range parts {
			require.Contains(c, got.Message, part)
		}
		require.Equal(c, v.Generation, got.ObservedGeneration)
		require.Equal(c, v.Generation, v.Status.ObservedGeneration)
	}, "VidraResource %s: %s=%s, %s", name, want.Type, want.Status, want.Reason)
	return v
}

// condition returns a condition that a VidraResource must have.
func condition(t require.TestingT, v *v1alpha1.VidraResource, kind string) metav1.Condition {
	got := meta.FindStatusCondition(v.Status.Conditions, kind)
	require.NotNil(t, got, "VidraResource %s has no condition %s", v.Name, kind)
	return *got
}

// entry returns the entry that the inventory of a VidraResource must have.
func entry(t require.TestingT, v *v1alpha1.VidraResource, kind, name string) v1alpha1.ManagedResourceStatus {
	for _, e := range v.Status.ManagedResources {
		if e.Kind == kind && e.Name == name {
			return e
		}
	}
	require.Fail(t, "not in the inventory", "%s %s in %v", kind, name, v.Status.ManagedResources)
	return v1alpha1.ManagedResourceStatus{}
}

// awaitGone waits until an object does not exist.
func awaitGone(t *testing.T, obj client.Object) {
	t.Helper()
	awaitGoneFor(t, patience, obj)
}

// awaitGoneFor waits until an object does not exist, for another time than usual.
func awaitGoneFor(t *testing.T, patience time.Duration, obj client.Object) {
	t.Helper()
	live := obj.DeepCopyObject().(client.Object)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		err := admin.Get(context.Background(), client.ObjectKeyFromObject(obj), live)
		require.True(c, apierrors.IsNotFound(err), "it is still there: %v %v", err, live)
	}, patience, poll, "%T %s is gone", obj, obj.GetName())
}

// mergePatch edits an object as somebody with kubectl does.
func mergePatch(obj client.Object, format string, args ...any) error {
	return edit(obj, types.MergePatchType, fmt.Sprintf(format, args...))
}

// jsonPatch edits an object as somebody with kubectl does.
func jsonPatch(obj client.Object, format string, args ...any) error {
	return edit(obj, types.JSONPatchType, fmt.Sprintf(format, args...))
}

// edit patches an object as the field manager person and leaves obj as it is.
func edit(obj client.Object, how types.PatchType, patch string, options ...client.PatchOption) error {
	options = append([]client.PatchOption{client.FieldOwner(person)}, options...)
	copied := obj.DeepCopyObject().(client.Object)
	return admin.Patch(context.Background(), copied, client.RawPatch(how, []byte(patch)), options...)
}
