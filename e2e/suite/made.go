package suite

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// goneTimeout bounds the wait until what tests made in a cluster is gone. Kubernetes empties each
// namespace first, which takes it some seconds, one after the other.
const goneTimeout = 15 * time.Minute

// made are the objects without a namespace that tests created in a cluster that is not theirs.
// Those with one are deleted with the namespace.
type made struct {
	// mu guards objects.
	mu      sync.Mutex
	objects []client.Object
}

// noting returns a client that notes what it creates.
func (m *made) noting(c client.WithWatch) client.WithWatch {
	create := func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		err := c.Create(ctx, obj, opts...)
		options := &client.CreateOptions{}
		if options.ApplyOptions(opts); err == nil && len(options.DryRun) == 0 {
			m.note(c, obj)
		}
		return err
	}
	return interceptor.NewClient(c, interceptor.Funcs{Create: create})
}

// note notes an object. A review of rights has no name, and is not stored.
func (m *made) note(c client.Client, obj client.Object) {
	if obj.GetName() == "" || obj.GetNamespace() != "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	copied := obj.DeepCopyObject().(client.Object)
	if gvk, err := c.GroupVersionKindFor(obj); err == nil {
		copied.GetObjectKind().SetGroupVersionKind(gvk)
	}
	m.objects = append(m.objects, copied)
}

// remove deletes the objects, in the opposite order, and waits until they are gone.
func (m *made) remove(ctx context.Context, c client.Client) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Reverse(m.objects)
	var last error
	err := wait.PollUntilContextTimeout(ctx, time.Second/2, goneTimeout, true, func(ctx context.Context) (bool, error) {
		last = nil
		m.objects = slices.DeleteFunc(m.objects, func(obj client.Object) bool {
			err := c.Delete(ctx, obj)
			gone := apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
			if !gone && err != nil {
				last = err
			}
			return gone
		})
		return len(m.objects) == 0, nil
	})
	if err != nil {
		names := make([]string, 0, len(m.objects))
		for _, obj := range m.objects {
			names = append(names, obj.GetObjectKind().GroupVersionKind().Kind+" "+obj.GetName())
		}
		return fmt.Errorf("deleting what the tests made: %w: %q are left (%w)", err, names, last)
	}
	return nil
}
