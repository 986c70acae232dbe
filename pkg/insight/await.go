package insight

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The states that a user can wait for.
const (
	StateReady   = "ready"
	StateHealthy = "healthy"
	StateSettled = "settled"
)

// States are the states that a user can wait for.
var States = []string{StateReady, StateHealthy, StateSettled}

// Await waits until a VidraResource is in one of States. Its error at the end of timeout has the reason.
func (c *Client) Await(ctx context.Context, name, state string, timeout time.Duration) error {
	vr, err := c.VidraResource(ctx, name) // an error of it says what to do
	if err != nil || InState(vr, state) {
		return err
	}
	last, err := c.Watch(ctx, name, timeout, func(vr *v1alpha1.VidraResource) bool { return InState(vr, state) })
	if !errors.Is(err, ErrTimeout) {
		return err
	}
	if last != nil {
		vr = last
	}
	why := c.program.ReportOf(vr).Why
	if len(why) == 0 {
		why = []string{"it is not known whether its objects are healthy"}
	}
	return fmt.Errorf("VidraResource %s is not %s after %s: %s", name, state, timeout, strings.Join(why, "; "))
}

// InState reports whether a VidraResource is in one of States.
func InState(vr *v1alpha1.VidraResource, state string) bool {
	present := vr.Status.ObservedGeneration == vr.Generation
	ready := present && meta.IsStatusConditionTrue(vr.Status.Conditions, v1alpha1.ConditionReady)
	switch state {
	case StateReady:
		return ready
	case StateHealthy:
		return ready && meta.IsStatusConditionTrue(vr.Status.Conditions, v1alpha1.ConditionHealthy)
	}
	return ready || present && meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionReady) != nil &&
		!meta.IsStatusConditionTrue(vr.Status.Conditions, v1alpha1.ConditionReconciling)
}

// ErrTimeout is the error of a wait at the end of its time.
var ErrTimeout = errors.New("timed out")

// Watch waits until done holds for a VidraResource, and returns it as it was last. A watch that ends is started again. The error at the
// end of timeout wraps ErrTimeout. Without the rights to list and watch VidraResources, it fails at once.
func (c *Client) Watch(
	ctx context.Context, name string, timeout time.Duration, done func(*v1alpha1.VidraResource) bool,
) (*v1alpha1.VidraResource, error) {
	granted, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	waiting, cancel := context.WithTimeout(granted, timeout)
	defer cancel()
	watched := false
	refuse := func(verb string, err error) { // a reflector would retry for ever
		if apierrors.IsForbidden(err) && !watched {
			stop(c.program.VidraResourceError(verb, "", err))
		}
	}
	only := fields.OneTermEqualSelector("metadata.name", name).String()
	resource := c.dynamic.Resource(v1alpha1.Resource)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			list, err := resource.List(ctx, o)
			refuse("list", err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			w, err := resource.Watch(ctx, o)
			refuse("watch", err)
			watched = watched || err == nil
			return w, err
		},
	}
	var last *v1alpha1.VidraResource
	exists := func(store cache.Store) (bool, error) {
		if len(store.List()) == 0 {
			return false, fmt.Errorf("VidraResource %s does not exist", name)
		}
		return false, nil
	}
	_, err := watchtools.UntilWithSync(waiting, source, &unstructured.Unstructured{}, exists, func(e watch.Event) (bool, error) {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			return false, apierrors.FromObject(e.Object)
		}
		if e.Type == watch.Deleted {
			return false, fmt.Errorf("VidraResource %s was deleted", name)
		}
		vr, err := AsVidraResource(u)
		if err != nil {
			return false, err
		}
		last = vr
		return done(vr), nil
	})
	switch {
	case err == nil:
		return last, nil
	case ctx.Err() == nil && granted.Err() != nil:
		return last, context.Cause(granted)
	case ctx.Err() == nil && waiting.Err() != nil:
		return last, fmt.Errorf("VidraResource %s: %w after %s", name, ErrTimeout, timeout)
	}
	return last, err
}
