package apply

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// EditMetadata merges metadata into those of the object that was read, if no client has
// written to it since, and returns the object.
func (a *Applier) EditMetadata(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, metadata map[string]any) (
	*unstructured.Unstructured, error,
) {
	metadata["resourceVersion"] = live.GetResourceVersion()
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	return a.resource(key).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: a.Manager})
}

// claim notes on an object that another VidraResource holds, and that is not applied for
// that reason, that we want it, too: our mark and nothing else. Otherwise the other one
// would be its last owner, and would delete it when it releases it: a Namespace with all
// that we have in it, for example.
func (a *Applier) claim(ctx context.Context, t plan.Task) error {
	claim := Bare(t.GVK, t.Key)
	a.Signature().Mark(claim)
	body, err := claim.MarshalJSON()
	if err != nil {
		return err
	}
	if _, err := a.ApplyBody(ctx, t.Key, body, false); err != nil {
		return fmt.Errorf("claim the object: %w", err)
	}
	return nil
}

// noVersion is a resourceVersion that no object has: an apply with it creates an object, and is refused
// with a conflict if there is one. So it costs one request to create, and changes no object of another client.
const noVersion = "1"

// send sends a request and returns the answer. It is the only code that does I/O about a
// task after gather.
func (a *Applier) send(ctx context.Context, r request) (got answer) {
	switch r.kind {
	case observe:
		got.live, got.err = a.dryRun(ctx, r.Task)
	case create:
		anew := r.Unstructured()
		anew.SetResourceVersion(noVersion)
		if got = a.applyObject(ctx, r.Key, anew); !r.unmet() && (apierrors.IsConflict(got.err) || object.Unmergeable(got.err)) {
			got.fresh, got.freshErr = a.Get(ctx, r.Key)
		}
	case reclaim:
		got.live, got.err = a.patchJSON(ctx, r.Key, r.addition.Patch)
		if got.err != nil && r.reclaims < maxReclaims && (apierrors.IsConflict(got.err) || apierrors.IsInvalid(got.err)) && !object.Denied(got.err) {
			got.fresh, got.freshErr = a.Get(ctx, r.Key)
		}
	case releaseIgnored:
		live := r.live
		if live == nil {
			live = r.base
		}
		got.live, got.reduced, got.err = a.releaseFields(ctx, r.Task, live)
	case apply:
		body := r.body()
		if got.forced, got.err = a.forces(ctx, r); got.err == nil && r.exact {
			body, got.err = withVersion(body, r.live.GetResourceVersion())
		}
		if got.err == nil {
			got.live, got.err = a.ApplyBody(ctx, r.Key, body, got.forced)
		}
	case replaceLists:
		if got.repaired, got.err = a.removeUnreadable(ctx, r); got.repaired || got.err != nil {
			break
		}
		// The API server did not name an item. A JSON merge patch with the applied configuration, without what ignore rules exclude,
		// replaces each list as a whole: after it, server-side apply can read the object again.
		_, got.err = a.resource(r.Key).Patch(ctx, r.Key.Name, types.MergePatchType, r.body(), metav1.PatchOptions{FieldManager: a.Manager})
	case askOwners, readReplaced:
		if got.live = r.live; got.live == nil {
			got.live, got.err = a.Get(ctx, r.Key)
		}
		if got.err != nil || got.live == nil {
			break
		}
		if r.kind == askOwners {
			got.others, got.err = a.Finder.Conflicting(ctx, r.Key, got.live)
			break
		}
		if got.others, got.err = a.Finder.CoOwners(ctx, r.Key, got.live); got.err == nil && r.settings.Force && r.ID.IsContainer() {
			got.inside, got.err = a.Contents(ctx, got.live)
		}
	case claim:
		got.err = a.claim(ctx, r.Task)
	case recheck:
		if r.as != plan.WhyNew {
			got.live, got.err = a.Get(ctx, r.Key)
			break
		}
		var met plan.Task
		met, got.err = a.Preflight(ctx, r.Task)
		got.live = met.Cause.Found
	case tryWithoutUnowned:
		got.err = a.dryRunWithout(ctx, r)
	case read, readUnowned, confirm:
		got.live, got.err = a.Get(ctx, r.Key)
	case returnReclaimed:
		got.live, got.err = a.editManagedFields(ctx, r.Key, r.live, func(live *unstructured.Unstructured) (any, bool, error) {
			return ownership.RestoreEntries(live, r.previous, a.Manager), true, nil
		})
	case applyMarks:
		marks := Bare(r.GVK, r.Key)
		marks.SetResourceVersion(r.live.GetResourceVersion()) // another write makes it fail
		a.Signature().Mark(marks)
		got = a.applyObject(ctx, r.Key, marks)
	case migrate:
		got.live, got.err = a.editManagedFields(ctx, r.Key, r.live, withoutFirstOperator)
	case convert:
		if got.live, got.err = a.Get(ctx, r.Key); got.err == nil && got.live != nil {
			got.live, got.err = a.editManagedFields(ctx, r.Key, got.live, func(live *unstructured.Unstructured) (any, bool, error) {
				managedFields, changed := ownership.Reversion(live, r.unserved, r.GVK.GroupVersion().String())
				return managedFields, changed, nil
			})
		}
	case dropStale:
		got.live, got.err = a.editManagedFields(ctx, r.Key, r.live, func(live *unstructured.Unstructured) (any, bool, error) {
			managedFields, changed := ownership.WithoutStaleOwners(live, a.Manager, a.Tools)
			return managedFields, changed, nil
		})
	case probe:
		got.err = a.probe(ctx, r.Task)
	case asIntended, beingDeleted, unchanged, observed, applied, replaced, completed, failed:
	}
	return got
}

// maxRechecks is how often an object is read again that other clients keep writing, before the apply is left to the next reconcile.
const maxRechecks = 3

// withVersion returns an applied configuration for an object of a resourceVersion alone.
func withVersion(body []byte, version string) ([]byte, error) {
	configuration := &unstructured.Unstructured{}
	if err := configuration.UnmarshalJSON(body); err != nil {
		return nil, err
	}
	configuration.SetResourceVersion(version)
	return desired.Encode(configuration)
}

// forces reports whether an apply takes fields from all other managers. A heal does, unless
// other VidraResources own the object.
func (a *Applier) forces(ctx context.Context, r request) (bool, error) {
	if r.force || r.as != plan.WhyDrift || r.live == nil {
		return r.force || r.as == plan.WhyDrift, nil
	}
	others, err := a.Finder.CoOwners(ctx, r.Key, r.live)
	return len(others) == 0, err
}

// Get reads an object; nil if it does not exist.
func (a *Applier) Get(ctx context.Context, key trigger.ObjectKey) (*unstructured.Unstructured, error) {
	live, err := a.resource(key).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && object.IsObject(err, key.Name) {
		return nil, nil
	}
	return live, err
}

// dryRun asks what an apply would make of an object that exists.
func (a *Applier) dryRun(ctx context.Context, t plan.Task) (*unstructured.Unstructured, error) {
	whole, err := a.patchDry(ctx, t.Key, t.Body)
	if err != nil || t.Ignored == nil {
		return whole, err
	}
	_, reduced, err := t.Ignored.Without(t.Body, t.Cause.Found, whole, a.Signature())
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(reduced)
	if err != nil {
		return nil, err
	}
	return a.patchDry(ctx, t.Key, body)
}

// patchDry sends an apply that writes nothing.
func (a *Applier) patchDry(ctx context.Context, key trigger.ObjectKey, body []byte) (*unstructured.Unstructured, error) {
	return a.resource(key).Patch(ctx, key.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: a.Manager, Force: ptr.To(true), DryRun: []string{metav1.DryRunAll}})
}

// dryRunWithout asks whether the API server accepts the apply once what is in its way is removed.
func (a *Applier) dryRunWithout(ctx context.Context, r request) error {
	var configuration map[string]any
	if err := json.Unmarshal(r.body(), &configuration); err != nil {
		return err
	}
	patch, err := json.Marshal(r.addition.Apply(r.live, configuration, a.Manager))
	if err != nil {
		return err
	}
	_, err = a.resource(r.Key).Patch(ctx, r.Key.Name, types.JSONPatchType, patch,
		metav1.PatchOptions{FieldManager: a.Manager, DryRun: []string{metav1.DryRunAll}})
	return err
}

// ApplyBody sends an apply, and waits for its answer also if ctx ends meanwhile.
func (a *Applier) ApplyBody(ctx context.Context, key trigger.ObjectKey, body []byte, force bool) (live *unstructured.Unstructured, err error) {
	err = access.AwaitAnswer(ctx, func(ctx context.Context) error {
		live, err = a.resource(key).Patch(ctx, key.Name, types.ApplyPatchType, body,
			metav1.PatchOptions{FieldManager: a.Manager, Force: ptr.To(force)})
		return err
	})
	return live, err
}

// applyObject sends an apply that takes fields from all other managers.
func (a *Applier) applyObject(ctx context.Context, key trigger.ObjectKey, object *unstructured.Unstructured) (got answer) {
	body, err := desired.Encode(object)
	if err != nil {
		return answer{err: err}
	}
	got.live, got.err = a.ApplyBody(ctx, key, body, true)
	return got
}

// maxRepairs is how often items that server-side apply cannot read are removed before an apply.
const maxRepairs = 8

// removeUnreadable removes the items that server-side apply cannot read from the lists of the applied configuration. It reports
// whether there were any that the error of the apply names.
func (a *Applier) removeUnreadable(ctx context.Context, r request) (removed bool, err error) {
	var configuration map[string]any
	if err := json.Unmarshal(r.body(), &configuration); err != nil {
		return false, err
	}
	err = retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		live, err := a.Get(ctx, r.Key)
		if err != nil || live == nil {
			return err
		}
		patch := ownership.RemoveUnreadable(live, configuration, r.unreadable.Error())
		if removed = len(patch) > 0; !removed {
			return nil
		}
		_, err = a.patchJSON(ctx, r.Key, append(patch, ownership.PatchOp{Op: "replace", Path: "/metadata/resourceVersion", Value: live.GetResourceVersion()}))
		return err
	})
	return removed, err
}

// patchJSON sends a JSON patch (RFC 6902).
func (a *Applier) patchJSON(ctx context.Context, key trigger.ObjectKey, operations any) (*unstructured.Unstructured, error) {
	patch, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	return a.resource(key).Patch(ctx, key.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: a.Manager})
}

// editManagedFields writes what change makes of the managedFields of an object, if that
// is another than they are, and returns the object. Should another client write meanwhile, it
// begins again with what they wrote.
func (a *Applier) editManagedFields(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured,
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
			if fresh, getErr := a.Get(ctx, key); getErr == nil && fresh != nil {
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

func (a *Applier) resource(key trigger.ObjectKey) dynamic.ResourceInterface {
	return a.Client.Resource(key.GVR).Namespace(key.Namespace)
}
