package prune

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// release leaves an object in place, without a trace of us: our fields are unmanaged then. An empty apply would remove
// them. The label stays while another VidraResource needs it.
func (a *Remover) release(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured) removal {
	metadata := a.withoutMarks(live, a.Applier.Settings.Claimant.Signature().Annotation)
	metadata["managedFields"] = ownership.Without(live, a.Applier.Settings.Claimant.Manager)
	others, err := a.Applier.Finder.AllOwners(ctx, key, live)
	labels := map[string]any{}
	for key := range live.GetLabels() { // the VidraResource may have left a shard
		if a.Applier.Settings.Claimant.Installation.IsShardLabel(key) && ownership.OnlyLabelledBy(live, key, a.Applier.Settings.Claimant.Manager) {
			labels[key] = nil
		}
	}
	if err == nil && len(others) == 0 {
		labels[v1alpha1.ManagedByLabel] = nil
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if err == nil {
		_, err = a.Applier.EditMetadata(ctx, key, live, metadata)
	}
	if err != nil {
		return failure(fmt.Errorf("leave the object in place: %w", err))
	}
	return removal{end: unmanaged}
}

// withoutMarks is the metadata, as a merge patch has them, that take the marks of the first operator and further annotations from an object;
// empty for an object without them.
func (a *Remover) withoutMarks(live *unstructured.Unstructured, further ...string) map[string]any {
	metadata, annotations := map[string]any{}, unlisted(live, a.Applier.Settings.Claimant.Owner.Name)
	for _, annotation := range further {
		annotations[annotation] = nil
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if references, changed := otherReferences(live, a.Applier.Settings.Claimant.Owner.Name); changed {
		metadata["ownerReferences"] = references
	}
	return metadata
}

// releaseShared releases our fields by an empty apply to the object that was read. If the
// others have released it at the same time, it has no owner, and is deleted.
func (a *Remover) releaseShared(ctx context.Context, about *departure) removal {
	key, live := about.key, about.of.Live
	if metadata := a.withoutMarks(live); len(metadata) > 0 {
		var err error
		if live, err = a.Applier.EditMetadata(ctx, key, live, metadata); err != nil {
			return failure(err)
		}
	}
	nothing := object.Bare(live.GroupVersionKind(), key.Namespace, key.Name)
	// An apply without a UID creates an absent object.
	nothing.SetUID(live.GetUID())
	nothing.SetResourceVersion(live.GetResourceVersion())
	body, err := nothing.MarshalJSON()
	if err != nil {
		return failure(err)
	}
	if live, err = a.Applier.ApplyBody(ctx, key, body, true); err != nil {
		return failure(err)
	}
	others, err := a.Applier.Finder.AllOwners(ctx, key, live)
	switch {
	case err != nil:
		return failure(err)
	case len(others) > 0:
		return removal{end: released}
	}
	about.of.Live = live
	return a.carryOut(ctx, about, policy.DecideUnshared(ctx, about.of, about))
}

// unlisted are the annotations, as a merge patch has them, that take an owner from the
// list that the first operator kept; empty if it is absent from it.
func unlisted(live *unstructured.Unstructured, owner string) map[string]any {
	names := owners.Listed(live)
	others := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == owner })
	switch len(others) {
	case len(names):
		return map[string]any{}
	case 0:
		return map[string]any{v1alpha1.OwnerAnnotation: nil}
	default:
		return map[string]any{v1alpha1.OwnerAnnotation: strings.Join(others, ",")}
	}
}

// otherReferences returns the ownerReferences of an object without those to the VidraResource
// name, and reports whether it had such a one. The first operator set them on each object. The
// garbage collector would delete the object with the VidraResource, also where it has to stay.
func otherReferences(live *unstructured.Unstructured, name string) (others []metav1.OwnerReference, changed bool) {
	all := live.GetOwnerReferences()
	others = slices.DeleteFunc(slices.Clone(all), func(ref metav1.OwnerReference) bool {
		version, err := schema.ParseGroupVersion(ref.APIVersion)
		return err == nil && version.Group == v1alpha1.GroupVersion.Group && ref.Kind == v1alpha1.Kind && ref.Name == name
	})
	return others, len(others) < len(all)
}
