package reconcile

import (
	"context"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// noVersion is a resourceVersion that no object has: an apply with it creates an object,
// and is refused with a conflict if there is one. So it costs one request to recreate what was
// deleted, and no change goes unseen.
const noVersion = "1"

// send sends a request and returns the answer. It is the only code that does I/O about a
// task after gather.
func (a *applier) send(ctx context.Context, r request) (got answer) {
	switch r.kind {
	case observe:
		got.live, got.err = a.dryRun(ctx, r.task)
	case create:
		anew := r.object()
		anew.SetResourceVersion(noVersion)
		if got = a.applyObject(ctx, r.key, anew); apierrors.IsConflict(got.err) || unreadable(got.err) {
			got.fresh, got.freshErr = a.get(ctx, r.key)
		}
	case reclaim:
		got.live, got.err = a.patchJSON(ctx, r.key, r.addition.Patch)
		if got.err != nil && r.reclaims < maxReclaims && (apierrors.IsConflict(got.err) || apierrors.IsInvalid(got.err)) && !denied(got.err) {
			got.fresh, got.freshErr = a.get(ctx, r.key)
		}
	case releaseIgnored:
		live := r.live
		if live == nil {
			live = r.base
		}
		got.live, got.lean, got.err = a.releaseFields(ctx, r.task, live)
	case apply:
		body := r.body
		if r.lean != nil {
			body = r.lean
		}
		if got.forced, got.err = a.forces(ctx, r); got.err == nil {
			got.live, got.err = a.applyBody(ctx, r.key, body, got.forced)
		}
	case replaceLists:
		got.err = a.replaceLists(ctx, r.task)
	case askOwners, readReplaced:
		if got.live = r.live; got.live == nil {
			got.live, got.err = a.get(ctx, r.key)
		}
		if got.err == nil && got.live != nil {
			got.others, got.err = a.finder.coOwners(ctx, r.key, got.live)
		}
	case claim:
		got.err = a.claim(ctx, r.task)
	case recheck:
		_, got.err = a.preflight(ctx, r.task)
	case read:
		got.live, got.err = a.get(ctx, r.key)
	case giveBack:
		got.live, got.err = a.editManagedFields(ctx, r.key, r.live, func(live *unstructured.Unstructured) (any, bool, error) {
			return ownership.RestoreEntries(live, r.previous, a.manager), true, nil
		})
	case applyMarks:
		marks := bare(r.gvk, r.key)
		marks.SetResourceVersion(r.live.GetResourceVersion()) // another write makes it fail
		a.signature().mark(marks)
		got = a.applyObject(ctx, r.key, marks)
	case migrate:
		got.live, got.err = a.editManagedFields(ctx, r.key, r.live, withoutFirstOperator)
	case probe:
		got.err = a.probe(ctx, r.task)
	case inOrder, beingDeleted, unchanged, observed, applied, replaced, failed:
	}
	return got
}

// forces reports whether an apply takes fields from all other managers. A heal does, unless
// other VidraResources own the object.
func (a *applier) forces(ctx context.Context, r request) (bool, error) {
	if r.force || r.as != whyDrift || r.live == nil {
		return r.force || r.as == whyDrift, nil
	}
	others, err := a.finder.coOwners(ctx, r.key, r.live)
	return len(others) == 0, err
}

// get reads an object; nil if it does not exist.
func (a *applier) get(ctx context.Context, key trigger.ObjectKey) (*unstructured.Unstructured, error) {
	live, err := a.resource(key).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && isObject(err, key.Name) {
		return nil, nil
	}
	return live, err
}

// dryRun asks what an apply would make of an object that exists.
func (a *applier) dryRun(ctx context.Context, t task) (*unstructured.Unstructured, error) {
	whole, err := a.patchDry(ctx, t.key, t.body)
	if err != nil || t.ignored == nil {
		return whole, err
	}
	_, lean, err := t.ignored.without(t.body, t.cause.Found, whole, a.signature())
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(lean)
	if err != nil {
		return nil, err
	}
	return a.patchDry(ctx, t.key, body)
}

// patchDry sends an apply that writes nothing.
func (a *applier) patchDry(ctx context.Context, key trigger.ObjectKey, body []byte) (*unstructured.Unstructured, error) {
	return a.resource(key).Patch(ctx, key.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: a.manager, Force: ptr.To(true), DryRun: []string{metav1.DryRunAll}})
}

// lastAnswer is how long send waits for an answer after the operator began to end. The
// operator waits for reconciles a little longer.
const lastAnswer = 1500 * time.Millisecond

// applyBody sends an apply. If ctx ends meanwhile, it waits for the answer all the same, for
// lastAnswer at most: a revert whose answer is lost could not be reported later.
func (a *applier) applyBody(ctx context.Context, key trigger.ObjectKey, body []byte, force bool) (*unstructured.Unstructured, error) {
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

// applyObject sends an apply that takes fields from all other managers.
func (a *applier) applyObject(ctx context.Context, key trigger.ObjectKey, object *unstructured.Unstructured) (got answer) {
	body, err := encode(object)
	if err != nil {
		return answer{err: err}
	}
	got.live, got.err = a.applyBody(ctx, key, body, true)
	return got
}

// patchJSON sends a JSON patch (RFC 6902).
func (a *applier) patchJSON(ctx context.Context, key trigger.ObjectKey, operations any) (*unstructured.Unstructured, error) {
	patch, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	return a.resource(key).Patch(ctx, key.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: a.manager})
}

// editManagedFields writes what change makes of the managedFields of an object, if that
// is another than they are, and returns the object. Should another client write meanwhile, it
// begins again with what they wrote.
func (a *applier) editManagedFields(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured,
	change func(live *unstructured.Unstructured) (managedFields any, changed bool, err error),
) (*unstructured.Unstructured, error) {
	err := retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		managedFields, changed, err := change(live)
		if err != nil || !changed {
			return err
		}
		written, err := a.patchJSON(ctx, key, []map[string]any{
			{"op": "replace", "path": "/metadata/managedFields", "value": managedFields},
			{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
		})
		if apierrors.IsConflict(err) {
			if fresh, getErr := a.get(ctx, key); getErr == nil && fresh != nil {
				live = fresh
			}
		}
		if err == nil {
			live = written
		}
		return err
	})
	return live, err
}

func (a *applier) resource(key trigger.ObjectKey) dynamic.ResourceInterface {
	return a.client.Resource(key.GVR).Namespace(key.Namespace)
}
