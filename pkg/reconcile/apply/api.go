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
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// objectAPI has the calls about one object. Each returns the object as the API server has it after the call.
type objectAPI interface {
	// get reads the object; nil if it is absent.
	get(ctx context.Context) (*unstructured.Unstructured, error)
	// apply sends an applied configuration, and waits for its answer also if ctx ends meanwhile. With force, it takes fields from all
	// other field managers.
	apply(ctx context.Context, body []byte, force bool) (*unstructured.Unstructured, error)
	// tryApply is the dry run of an apply with force, of the object or of one with another name.
	tryApply(ctx context.Context, name string, body []byte) (*unstructured.Unstructured, error)
	// patch sends a JSON patch (RFC 6902).
	patch(ctx context.Context, operations any, dryRun ...string) (*unstructured.Unstructured, error)
	// merge sends a JSON merge patch (RFC 7396).
	merge(ctx context.Context, body []byte) error

	// coOwners are the other VidraResources that own the object, and conflicting those with their manifests, which costs more.
	coOwners(ctx context.Context, live *unstructured.Unstructured) ([]owners.CoOwner, error)
	conflicting(ctx context.Context, live *unstructured.Unstructured) ([]owners.CoOwner, error)
	// contents returns the contents of a Namespace or CustomResourceDefinition, read with the rights of Vidra itself.
	contents(ctx context.Context, live *unstructured.Unstructured) (owners.Inside, error)
}

// calls are the calls about an object, with the field manager and the rights of the VidraResource.
type calls struct {
	applier *Applier
	key     trigger.ObjectKey
	// converts reports that the call is one of those that give owners another version.
	converts bool
}

func (c calls) get(ctx context.Context) (*unstructured.Unstructured, error) {
	return c.applier.Get(ctx, c.key)
}

func (c calls) apply(ctx context.Context, body []byte, force bool) (*unstructured.Unstructured, error) {
	return c.applier.ApplyBody(ctx, c.key, body, force)
}

func (c calls) tryApply(ctx context.Context, name string, body []byte) (*unstructured.Unstructured, error) {
	return c.send(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{Force: ptr.To(true), DryRun: []string{metav1.DryRunAll}})
}

func (c calls) patch(ctx context.Context, operations any, dryRun ...string) (*unstructured.Unstructured, error) {
	patch, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	return c.send(ctx, c.key.Name, types.JSONPatchType, patch, metav1.PatchOptions{DryRun: dryRun})
}

func (c calls) merge(ctx context.Context, body []byte) error {
	_, err := c.send(ctx, c.key.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

func (c calls) coOwners(ctx context.Context, live *unstructured.Unstructured) ([]owners.CoOwner, error) {
	return c.applier.Finder.CoOwners(ctx, c.key, live)
}

func (c calls) conflicting(ctx context.Context, live *unstructured.Unstructured) ([]owners.CoOwner, error) {
	return c.applier.Finder.Conflicting(ctx, c.key, live)
}

func (c calls) contents(ctx context.Context, live *unstructured.Unstructured) (owners.Inside, error) {
	return c.applier.Finder.Contents(ctx, c.applier.Destination, live, true)
}

// send sends a patch of the object, or the dry run of one with another name. The API server refuses it while the object has owners in a
// version that is unserved by now: they get the version of the request, and it is sent again.
func (c calls) send(ctx context.Context, name string, kind types.PatchType, body []byte, o metav1.PatchOptions) (*unstructured.Unstructured, error) {
	o.FieldManager = c.applier.Settings.Claimant.Manager
	for converted := ""; ; {
		live, err := c.applier.resource(c.key).Patch(ctx, name, kind, body, o)
		unserved := object.UnservedVersion(err)
		if c.converts || unserved == "" || unserved == converted {
			return live, access.WithAccount(err, c.applier.User)
		}
		converted = unserved
		version := c.key.GVR.GroupVersion().String()
		if live, err = c.get(ctx); err == nil && live != nil {
			_, err = editManagedFields(ctx, calls{c.applier, c.key, true}, live, func(live *unstructured.Unstructured) ([]any, bool) {
				return ownership.Reversion(live, unserved, version)
			})
		}
		if err != nil {
			return nil, fmt.Errorf("record the owners of its fields in the version %s: %w", version, err)
		}
	}
}

// fieldsEdit returns other managedFields for an object.
type fieldsEdit func(live *unstructured.Unstructured) (managedFields []any, changed bool)

// editManagedFields writes the result of change for the managedFields of an object, if that
// is another than they are, and returns the object. After a write of another client, it
// begins again with their state.
func editManagedFields(ctx context.Context, api objectAPI, live *unstructured.Unstructured, change fieldsEdit) (*unstructured.Unstructured, error) {
	err := retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		managedFields, changed := change(live)
		if !changed {
			return nil
		}
		written, err := api.patch(ctx, []map[string]any{
			{"op": "replace", "path": "/metadata/managedFields", "value": managedFields},
			{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
		})
		if apierrors.IsConflict(err) {
			if fresh, getErr := api.get(ctx); getErr == nil && fresh != nil {
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

// Get reads an object; nil if it is absent.
func (a *Applier) Get(ctx context.Context, key trigger.ObjectKey) (*unstructured.Unstructured, error) {
	live, err := a.resource(key).Get(ctx, key.Name, metav1.GetOptions{})
	if object.IsAbsent(err, key.Name) {
		return nil, nil
	}
	return live, access.WithAccount(err, a.User)
}

// ApplyBody sends an apply, and waits for its answer also if ctx ends meanwhile.
func (a *Applier) ApplyBody(ctx context.Context, key trigger.ObjectKey, body []byte, force bool) (live *unstructured.Unstructured, err error) {
	err = access.AwaitAnswer(ctx, func(ctx context.Context) error {
		live, err = a.calls(key).send(ctx, key.Name, types.ApplyPatchType, body, metav1.PatchOptions{Force: ptr.To(force)})
		return err
	})
	return live, err
}

// EditMetadata merges metadata into the metadata of the object that was read, if its version is
// unchanged, and returns the object.
func (a *Applier) EditMetadata(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, metadata map[string]any) (
	*unstructured.Unstructured, error,
) {
	metadata["resourceVersion"] = live.GetResourceVersion()
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	return a.calls(key).send(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}

func (a *Applier) calls(key trigger.ObjectKey) calls { return calls{applier: a, key: key} }

func (a *Applier) resource(key trigger.ObjectKey) dynamic.ResourceInterface {
	return a.Client.Resource(key.GVR).Namespace(key.Namespace)
}
