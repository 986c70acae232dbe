package suite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// Person is the field manager of a person who edits managed objects.
const Person = "person"

// Cluster is a control plane that tests share. Its methods may be called by parallel tests
// once it is started.
type Cluster struct {
	*testenv.Env
	// Admin is a client of the administrator that knows VidraResources.
	Admin client.Client
	// watching is a client of the administrator that watches.
	watching client.WithWatch
	// events watches the Events, once watchEvents is done.
	events      cache.SharedIndexInformer
	watchEvents sync.Once
	// made is what tests made in a cluster that is not theirs.
	made made
}

// Start starts the control plane, or connects to the cluster in which the operator is deployed.
// Stop ends it.
func (c *Cluster) Start(ctx context.Context, o testenv.Options) (err error) {
	if Deployed() {
		c.Env, err = connect(ctx)
	} else {
		c.Env, err = testenv.Start(ctx, o)
	}
	if err != nil {
		return err
	}
	if c.watching, err = testenv.Client(c.Config); err != nil {
		return err
	}
	c.Admin = c.watching
	if Deployed() {
		c.Admin = c.made.noting(c.watching)
	}
	return nil
}

// Stop does what that of Env does. In a cluster that is not that of the tests, it deletes what
// they made first, while the operator still runs, which finalizes VidraResources.
func (c *Cluster) Stop() error {
	if c.Env == nil || !Deployed() {
		return c.Env.Stop()
	}
	return errors.Join(c.made.remove(context.Background(), c.watching), c.Env.Stop())
}

// NewNamespace makes a namespace for one test, see MakeNamespace.
func (c *Cluster) NewNamespace(t *testing.T) string {
	t.Helper()
	name := Unique(t)
	c.MakeNamespace(t, name)
	return name
}

// MakeNamespace makes a namespace of a name. It is left behind until Stop. No Pod runs in it, where the
// API server has the admission plugin PodNodeSelector: hundreds of Pods that the tests need not
// run would take the time of the nodes.
func (c *Cluster) MakeNamespace(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, c.Admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{testenv.NodeSelectorAnnotation: "vidra.example.com/node=none"},
	}}))
}

// Get reads the live object that obj names.
func (c *Cluster) Get(t require.TestingT, obj client.Object) *unstructured.Unstructured {
	live := &unstructured.Unstructured{}
	gvk, err := c.Admin.GroupVersionKindFor(obj)
	require.NoError(t, err)
	live.SetGroupVersionKind(gvk)
	require.NoError(t, c.Admin.Get(context.Background(), client.ObjectKeyFromObject(obj), live))
	return live
}

// Exists reports whether an object exists.
func (c *Cluster) Exists(t require.TestingT, obj client.Object) bool {
	err := c.Admin.Get(context.Background(), client.ObjectKeyFromObject(obj), obj.DeepCopyObject().(client.Object))
	if !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
	return err == nil
}

// AwaitGone waits until an object does not exist.
func (c *Cluster) AwaitGone(t *testing.T, obj client.Object) {
	t.Helper()
	c.AwaitGoneFor(t, Patience, obj)
}

// AwaitGoneFor waits until an object does not exist, for another time than usual.
func (c *Cluster) AwaitGoneFor(t *testing.T, most time.Duration, obj client.Object) {
	t.Helper()
	live := obj.DeepCopyObject().(client.Object)
	c.AwaitObject(t, most, obj, func(collect *assert.CollectT) {
		err := c.Admin.Get(context.Background(), client.ObjectKeyFromObject(obj), live)
		require.True(collect, apierrors.IsNotFound(err), "it still exists: %v %v", err, live)
	}, "%T %s is gone", obj, obj.GetName())
}

// MergePatch edits an object as a person does with kubectl, and leaves obj as it is.
func (c *Cluster) MergePatch(obj client.Object, format string, args ...any) error {
	return c.Edit(obj, types.MergePatchType, fmt.Sprintf(format, args...))
}

// JSONPatch edits an object as a person does with kubectl, and leaves obj as it is.
func (c *Cluster) JSONPatch(obj client.Object, format string, args ...any) error {
	return c.Edit(obj, types.JSONPatchType, fmt.Sprintf(format, args...))
}

// Edit patches an object as the field manager Person, unless options name another one, and
// leaves obj as it is.
func (c *Cluster) Edit(obj client.Object, how types.PatchType, patch string, options ...client.PatchOption) error {
	options = append([]client.PatchOption{client.FieldOwner(Person)}, options...)
	copied := obj.DeepCopyObject().(client.Object)
	return c.Admin.Patch(context.Background(), copied, client.RawPatch(how, []byte(patch)), options...)
}
