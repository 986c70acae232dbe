package suite

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// NewVidraResource creates a VidraResource with the name of its namespace. It is deleted
// when the test ends, and must be gone then. Options change it before it is created.
func (c *Cluster) NewVidraResource(
	t *testing.T, namespace, manifest string, options ...func(*v1alpha1.VidraResource),
) *v1alpha1.VidraResource {
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
	require.NoError(t, c.Admin.Create(t.Context(), v))
	c.RemoveAtEnd(t, v.Name)
	return v
}

// RemoveAtEnd deletes a VidraResource when the test ends, if it exists. It must be gone then.
func (c *Cluster) RemoveAtEnd(t *testing.T, name string) {
	t.Cleanup(func() {
		c.unblockDeletion(t, name)
		if err := c.DeleteVidraResource(context.Background(), name); !apierrors.IsNotFound(err) {
			require.NoError(t, err)
			// It may own a Namespace, which Kubernetes empties first.
			c.AwaitGoneFor(t, 2*Patience, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	})
}

// unblockDeletion ends what keeps the objects of a VidraResource from being removed: its
// suspension, and break-glass.
func (c *Cluster) unblockDeletion(t *testing.T, name string) {
	t.Helper()
	v := &v1alpha1.VidraResource{}
	if c.Admin.Get(context.Background(), client.ObjectKey{Name: name}, v) != nil {
		return // the deletion fails for the same reason, and reports it
	}
	held := v.Spec.Suspend
	for _, e := range v.Status.ManagedResources {
		held = held || e.BreakGlass != nil
	}
	if held {
		require.NoError(t, client.IgnoreNotFound(c.MergePatch(v, `{"spec":{"suspend":false,"drift":{"maxBreakGlass":"0s"}}}`)))
	}
}

// Named gives a VidraResource another name than that of its namespace.
func Named(name string) func(*v1alpha1.VidraResource) {
	return func(v *v1alpha1.VidraResource) { v.Name = name }
}

// Orphaning leaves the objects of a VidraResource in place when it is deleted.
func Orphaning(v *v1alpha1.VidraResource) { v.Spec.DeletionPolicy = v1alpha1.DeletionOrphan }

// SetManifest gives a VidraResource another manifest.
func (c *Cluster) SetManifest(t *testing.T, name, manifest string) {
	t.Helper()
	v := c.GetVidraResource(t, name)
	base := v.DeepCopy()
	v.Spec.Manifest = manifest
	require.NoError(t, c.Admin.Patch(t.Context(), v, client.MergeFrom(base)))
}

// DeleteVidraResource asks for the deletion of a VidraResource.
func (c *Cluster) DeleteVidraResource(ctx context.Context, name string) error {
	return c.Admin.Delete(ctx, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// GetVidraResource reads a VidraResource.
func (c *Cluster) GetVidraResource(t require.TestingT, name string) *v1alpha1.VidraResource {
	v := &v1alpha1.VidraResource{}
	require.NoError(t, c.Admin.Get(context.Background(), client.ObjectKey{Name: name}, v))
	return v
}

// AwaitReady waits until a VidraResource reports that its present generation is ready.
func (c *Cluster) AwaitReady(t *testing.T, name string) *v1alpha1.VidraResource {
	t.Helper()
	return c.AwaitReadyFor(t, Patience, name)
}

// AwaitReadyFor waits until a VidraResource reports that its present generation is ready, for a
// time that the test knows better than AwaitReady.
func (c *Cluster) AwaitReadyFor(t *testing.T, most time.Duration, name string) *v1alpha1.VidraResource {
	t.Helper()
	return c.awaitCondition(t, most, name, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonApplied,
	})
}

// AwaitNotReady waits until a VidraResource reports that its present generation is not
// ready, for a reason and with a message that contains each part.
func (c *Cluster) AwaitNotReady(t *testing.T, name, reason string, parts ...string) *v1alpha1.VidraResource {
	t.Helper()
	return c.AwaitNotReadyFor(t, Patience, name, reason, parts...)
}

// AwaitNotReadyFor is AwaitNotReady, for a time that the test knows better.
func (c *Cluster) AwaitNotReadyFor(t *testing.T, most time.Duration, name, reason string, parts ...string) *v1alpha1.VidraResource {
	t.Helper()
	return c.awaitCondition(t, most, name, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason,
	}, parts...)
}

// AwaitCondition waits until a VidraResource has a condition of its present generation,
// with a message that contains each part.
func (c *Cluster) AwaitCondition(t *testing.T, name string, want metav1.Condition, parts ...string) *v1alpha1.VidraResource {
	t.Helper()
	return c.awaitCondition(t, Patience, name, want, parts...)
}

func (c *Cluster) awaitCondition(t *testing.T, most time.Duration, name string, want metav1.Condition, parts ...string) *v1alpha1.VidraResource {
	t.Helper()
	v := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.AwaitObject(t, most, v, func(collect *assert.CollectT) {
		v = c.GetVidraResource(collect, name)
		got := Condition(collect, v, want.Type)
		require.Equal(collect, want.Status, got.Status, "%s: %s", got.Reason, got.Message)
		require.Equal(collect, want.Reason, got.Reason, got.Message)
		for _, part := range parts {
			require.Contains(collect, got.Message, part)
		}
		require.Equal(collect, v.Generation, got.ObservedGeneration)
		require.Equal(collect, v.Generation, v.Status.ObservedGeneration)
	}, "VidraResource %s: %s=%s, %s", name, want.Type, want.Status, want.Reason)
	return v
}

// Condition returns a condition that a VidraResource must have.
func Condition(t require.TestingT, v *v1alpha1.VidraResource, kind string) metav1.Condition {
	got := meta.FindStatusCondition(v.Status.Conditions, kind)
	require.NotNil(t, got, "VidraResource %s has no condition %s", v.Name, kind)
	return *got
}

// Greeting is a manifest with one ConfigMap.
func Greeting(name, greeting string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  greeting: %s\n", name, greeting)
}

// Manifests joins the documents of a manifest.
func Manifests(documents ...string) string { return strings.Join(documents, "\n---\n") }
