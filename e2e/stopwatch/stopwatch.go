package stopwatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

var (
	// ErrNotRestored is what Time fails with when the edit still stands at the
	// end of the timeout.
	ErrNotRestored = errors.New("not restored")
	// ErrNotWanted is what Time fails with when the object is not as wanted
	// before the edit, so that there is nothing to time.
	ErrNotWanted = errors.New("not as wanted before the edit")
)

// Target is an object that a controller keeps as it is wanted.
type Target struct {
	// Resource is the client for the object's kind and namespace.
	Resource dynamic.ResourceInterface
	// Want is what the object must hold, with its name.
	Want *unstructured.Unstructured
	// Timeout is how long a restoration may take.
	Timeout time.Duration
}

// Lap is one edit that was reverted.
type Lap struct {
	// Stood is how long the edit could be seen.
	Stood time.Duration
	// Edited is the object as the edit left it, or as it was when it was
	// deleted.
	Edited *unstructured.Unstructured
	// Restored is the object as wanted again.
	Restored *unstructured.Unstructured
}

// Time makes the edit, and blocks until the object is as wanted again or the
// timeout is over. It returns the error of edit as it is.
func (t Target) Time(ctx context.Context, edit func(context.Context) error) (Lap, error) {
	since, err := t.look(ctx)
	if err != nil {
		return Lap{}, err
	}
	w, err := t.Resource.Watch(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: t.Want.GetName(), ResourceVersion: since}))
	if err != nil {
		return Lap{}, fmt.Errorf("watch %s: %w", t, err)
	}
	defer w.Stop()
	made := make(chan error, 1)
	go func() { made <- edit(ctx) }()
	return t.follow(ctx, w.ResultChan(), made)
}

// look returns the resourceVersion of a list with the object, which has to be as wanted. The version of the object itself may be too old for a watch.
func (t Target) look(ctx context.Context) (version string, err error) {
	found, err := t.Resource.List(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: t.Want.GetName()}))
	switch {
	case err != nil:
		return "", fmt.Errorf("get %s: %w", t, err)
	case len(found.Items) == 0:
		return "", fmt.Errorf("%s does not exist: %w", t, ErrNotWanted)
	case !Covers(found.Items[0].Object, t.Want.Object):
		return "", fmt.Errorf("%s: %w", t, ErrNotWanted)
	}
	return found.GetResourceVersion(), nil
}

// follow reads events until one shows the object as wanted after another has
// shown it otherwise, or gone, and the edit has been answered.
func (t Target) follow(ctx context.Context, events <-chan watch.Event, made <-chan error) (Lap, error) {
	var lap Lap
	var since time.Time
	timer := time.NewTimer(t.Timeout)
	defer timer.Stop()
	for made != nil || lap.Restored == nil {
		select {
		case <-ctx.Done():
			return lap, ctx.Err()
		case <-timer.C:
			return lap, fmt.Errorf("%s: %w within %s", t, ErrNotRestored, t.Timeout)
		case err := <-made:
			if err != nil {
				return lap, err
			}
			made = nil
		case event, open := <-events:
			now := time.Now()
			if !open {
				return lap, fmt.Errorf("the API server ended the watch of %s: try again", t)
			}
			wanted, live, err := t.read(event)
			switch {
			case err != nil:
				return lap, err
			case !wanted && lap.Edited == nil:
				lap.Edited, since = live, now
			case wanted && lap.Edited != nil && lap.Restored == nil:
				lap.Restored, lap.Stood = live, now.Sub(since)
			}
		}
	}
	return lap, nil
}

// read says whether an event shows the object as wanted.
func (t Target) read(event watch.Event) (wanted bool, live *unstructured.Unstructured, err error) {
	live, ok := event.Object.(*unstructured.Unstructured)
	if !ok || event.Type == watch.Error {
		return false, nil, fmt.Errorf("watch %s: %w", t, apierrors.FromObject(event.Object))
	}
	return event.Type != watch.Deleted && Covers(live.Object, t.Want.Object), live, nil
}

// String names the object.
func (t Target) String() string {
	if t.Want.GetNamespace() == "" {
		return t.Want.GetKind() + " " + t.Want.GetName()
	}
	return t.Want.GetKind() + " " + t.Want.GetNamespace() + "/" + t.Want.GetName()
}
