package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/writes"
)

// Undo returns the objects to their former tool, and the number of the objects that stay. It may be repeated.
func (c *Client) Undo(ctx context.Context, tool Tool, o Options) (objects int, err error) {
	name := cmp.Or(o.Name, tool.defaultName())
	now, err := tool.state(ctx)
	if err != nil {
		return 0, err
	}
	vr, err := c.ours(ctx, name, tool)
	switch {
	case err != nil:
		return 0, err
	case vr != nil && !now.exists:
		return 0, fmt.Errorf("%s does not exist any more, so that nothing could manage the objects: they stay with VidraResource %s, and nothing was written", tool.title(), name)
	case vr == nil && !now.begun:
		return 0, fmt.Errorf("%s is not moved: there is no VidraResource %s, and nothing to undo", tool.title(), name)
	}
	if vr != nil {
		objects = len(vr.Status.ManagedResources)
		if err := unfinished(ctx, c.giveBack(ctx, tool, vr, o)); err != nil {
			return 0, err
		}
	}
	return objects, unfinished(ctx, tool.start(ctx))
}

// giveBack returns the marks of a tool to the objects of a VidraResource, which it then deletes without them.
func (c *Client) giveBack(ctx context.Context, tool Tool, vr *v1alpha1.VidraResource, o Options) error {
	documents, err := c.documents(ctx, vr)
	if err != nil {
		return err
	}
	manager := tool.marks().managers[0] // spec.drift.additions may remove what a user's tool, such as this one, adds to a managed object
	restore := func() error {
		return c.each(ctx, vr, o.Progress, func(ctx context.Context, _ int, e v1alpha1.ManagedResourceStatus) error {
			_, err := c.patchObject(ctx, e, manager, func(live *unstructured.Unstructured) ([]byte, error) {
				return restored(tool, vr, live, documents[object.IdentityOf(&e)])
			})
			return err
		})
	}
	if vr.DeletionTimestamp.IsZero() {
		if err := restore(); err != nil {
			return fmt.Errorf("return the objects to %s: %w", tool.title(), err)
		}
	}
	if err := c.deleteAlone(ctx, vr); err != nil {
		return err
	}
	return c.awaitGone(ctx, vr, o.Timeout)
}

// formerPolicy is the key of the former spec.deletionPolicy in v1alpha1.BeforeMigrationAnnotation of a VidraResource: an undo may end before its deletion.
const formerPolicy = "deletionPolicy"

// recordOf returns the record in v1alpha1.BeforeMigrationAnnotation of a VidraResource.
func recordOf(vr *v1alpha1.VidraResource) map[string]any {
	record := map[string]any{}
	_ = json.Unmarshal([]byte(vr.Annotations[v1alpha1.BeforeMigrationAnnotation]), &record) // an unreadable one fails where it is needed
	return record
}

// policyPatch returns the merge patch of a VidraResource that sets spec.deletionPolicy and the record.
func policyPatch(vr *v1alpha1.VidraResource, policy any, record map[string]any, version string) ([]byte, error) {
	text, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	annotation := any(string(text))
	if len(record) == 0 {
		annotation = nil
	}
	metadata := map[string]any{"uid": vr.UID, "annotations": map[string]any{v1alpha1.BeforeMigrationAnnotation: annotation}}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	return json.Marshal(map[string]any{"metadata": metadata, "spec": map[string]any{"deletionPolicy": policy}})
}

// withdrawUndo returns its former spec.deletionPolicy to a VidraResource that an ended undo was about to delete.
func (c *Client) withdrawUndo(ctx context.Context, name string) error {
	at := c.objects.Dynamic.Resource(v1alpha1.Resource)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		u, err := at.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		vr, err := insight.AsVidraResource(u)
		if err != nil {
			return err
		}
		record := recordOf(vr)
		former, is := record[formerPolicy]
		if !is || !vr.DeletionTimestamp.IsZero() || vr.Spec.DeletionPolicy != v1alpha1.DeletionOrphan { // one that is being deleted leaves its objects
			return nil
		}
		delete(record, formerPolicy)
		patch, err := policyPatch(vr, former, record, vr.ResourceVersion)
		if err != nil {
			return err
		}
		_, err = at.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: writes.FieldManager})
		return err
	})
	if err != nil {
		return c.program.VidraResourceError("patch", name, object.WithoutValues(err, ownership.Disclosure{}))
	}
	return nil
}

// deleteAlone deletes a VidraResource without its objects: exactly the one that leaves them, as another client may write spec.deletionPolicy meanwhile.
func (c *Client) deleteAlone(ctx context.Context, vr *v1alpha1.VidraResource) error {
	record := recordOf(vr)
	if _, is := record[formerPolicy]; !is || vr.Spec.DeletionPolicy != v1alpha1.DeletionOrphan {
		record[formerPolicy] = vr.Spec.DeletionPolicy
	}
	patch, err := policyPatch(vr, v1alpha1.DeletionOrphan, record, "")
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	at, verb := c.objects.Dynamic.Resource(v1alpha1.Resource), ""
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		verb = "patch"
		left, err := at.Patch(ctx, vr.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: writes.FieldManager})
		if err != nil {
			return err
		}
		verb = "delete"
		exactly := &metav1.Preconditions{UID: ptr.To(vr.UID), ResourceVersion: ptr.To(left.GetResourceVersion())}
		return at.Delete(ctx, vr.Name, metav1.DeleteOptions{Preconditions: exactly})
	})
	if err != nil && (verb == "patch" || !object.IsAbsent(err, vr.Name)) {
		return c.program.VidraResourceError(verb, vr.Name, object.WithoutValues(err, object.DisclosureOf(vr)))
	}
	return nil
}

// awaitGone waits until the operator has released the objects of a VidraResource.
func (c *Client) awaitGone(ctx context.Context, vr *v1alpha1.VidraResource, timeout time.Duration) error {
	_, err := c.questions.Watch(ctx, vr.Name, timeout, func(now *v1alpha1.VidraResource) bool { return now.UID != vr.UID })
	if err == nil {
		return nil
	}
	if _, getErr := c.objects.Dynamic.Resource(v1alpha1.Resource).Get(ctx, vr.Name, metav1.GetOptions{}); object.IsAbsent(getErr, vr.Name) {
		return nil
	}
	return fmt.Errorf("VidraResource %s is not gone: %w: check that the operator runs, and run the command again", vr.Name, err)
}
