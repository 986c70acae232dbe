package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// patch sends the apply, and notifies the trigger when it begins and ends. It takes
// fields from other managers, but never from another VidraResource: two of them
// would take the field from each other for ever. What it finds of the object
// meanwhile it notes in the cause.
func (a *applier) patch(ctx context.Context, t *task) (*unstructured.Unstructured, ownership.Digest, error) {
	if a.watched {
		a.index.Begin(a.owner, t.key, a.manager)
	}
	live, err := a.sendAnew(ctx, t)
	if live == nil && err == nil {
		live, err = a.sendReverting(ctx, t)
	}
	if err == nil {
		live, err = a.migrateLegacyOwner(ctx, *t, live)
	}
	if err == nil && !labelled(live) {
		err = fmt.Errorf("the API server took it without its label %s=%s, by which it is watched: look for a mutating webhook that removes the label",
			v1alpha1.ManagedByLabel, v1alpha1.ManagedByValue)
	}
	if err != nil {
		if a.watched {
			a.trigger.Abort(a.owner, t.key)
		}
		return nil, ownership.Digest{}, err
	}
	applied := a.expectation(live)
	if a.watched {
		applied.Raced = t.raced(applied.Others)
		a.trigger.Commit(a.owner, t.key, applied)
	}
	return live, applied.Digest, nil
}

// noVersion is a resourceVersion that no object has: an apply with it creates an object,
// and is refused with a conflict if there is one.
const noVersion = "1"

// sendAnew creates an object that was deleted. What has lost the label by which it is
// watched looks deleted, too: then it returns nil, and the cause says what was found. So
// it costs one request to recreate what was deleted, and no change goes unseen.
func (a *applier) sendAnew(ctx context.Context, t *task) (*unstructured.Unstructured, error) {
	if !t.cause.Deleted || t.why == whyNew {
		return nil, nil
	}
	anew := t.object()
	anew.SetResourceVersion(noVersion)
	body, err := encode(anew)
	if err != nil {
		return nil, err
	}
	live, err := a.send(ctx, t.key, body, true)
	switch {
	case apierrors.IsConflict(err) || unreadable(err):
		t.cause.Found, err = a.get(ctx, t.key)
		return nil, err
	case err == nil && t.ignored != nil:
		live, _, err = a.releaseFields(ctx, *t, live)
	}
	return live, err
}

// sendWithoutIgnored sends the apply without what is left to others. What does not exist
// yet is created whole, and the fields of others are given up then.
func (a *applier) sendWithoutIgnored(ctx context.Context, t task) (*unstructured.Unstructured, error) {
	if t.ignored == nil {
		return a.sendUnlessOwned(ctx, t)
	}
	live := t.cause.Found
	if live == nil && !t.cause.Deleted {
		var err error
		if live, err = a.get(ctx, t.key); err != nil {
			return nil, err
		}
	}
	if live != nil {
		_, body, err := a.releaseFields(ctx, t, live)
		if err != nil {
			return nil, err
		}
		lean := *t.desired
		lean.body = body
		t.desired = &lean
		return a.sendUnlessOwned(ctx, t)
	}
	live, err := a.sendUnlessOwned(ctx, t)
	if err == nil {
		live, _, err = a.releaseFields(ctx, t, live)
	}
	return live, err
}

// sendUnlessOwned sends the apply, and takes fields from other managers unless
// they are other VidraResources.
func (a *applier) sendUnlessOwned(ctx context.Context, t task) (*unstructured.Unstructured, error) {
	var others []coOwner
	if t.why == whyDrift && t.cause.Found != nil {
		var err error
		if others, err = a.coOwners(ctx, t.key, t.cause.Found); err != nil {
			return nil, err
		}
	}
	force := t.why == whyDrift && len(others) == 0
	live, err := a.send(ctx, t.key, t.body, force)
	if unreadable(err) && t.why != whyNew {
		if err := a.replaceLists(ctx, t); err != nil {
			return nil, err
		}
		live, err = a.send(ctx, t.key, t.body, force)
	}
	if force || !apierrors.IsConflict(err) {
		return live, err
	}
	if err := a.ownershipConflict(ctx, t, err); err != nil {
		return nil, errors.Join(err, a.claim(ctx, t))
	}
	if t.why == whyNew { // somebody may have made or changed it since it was looked at
		if _, err := a.preflight(ctx, t); err != nil {
			return nil, err
		}
	}
	return a.send(ctx, t.key, t.body, true)
}

// lastAnswer is how long an answer is waited for after Vidra was told to end. The
// operator waits for passes a little longer.
const lastAnswer = 1500 * time.Millisecond

// send sends an apply. If ctx ends meanwhile, it waits for the answer all the same, for
// lastAnswer at most: a revert whose answer is lost could not be reported later.
func (a *applier) send(ctx context.Context, key trigger.ObjectKey, body []byte, force bool) (*unstructured.Unstructured, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ended := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ended))
	defer cancel()
	defer context.AfterFunc(ended, func() { time.AfterFunc(lastAnswer, cancel) })()
	return a.resource(key).Patch(ctx, key.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: a.manager, Force: ptr.To(force)})
}
