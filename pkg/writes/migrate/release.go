package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/source"
)

// marks are the traces of a tool on its objects.
type marks struct {
	// managers are its field managers. An undo writes under the name of the first one.
	managers []string
	// labels and annotations identify its objects. They stay where the manifest has them.
	labels, annotations []string
	// kept is the annotation that has the tool delete no object with its value keeps. Vidra keeps such an object, too.
	kept, keeps string
}

// traces are the parts that an undo gives back to an object: an entry of a field manager with the fields that Vidra applied, annotations and labels.
type traces struct {
	manager             string
	operation           metav1.ManagedFieldsOperationType
	annotations, labels map[string]string
}

func (m marks) describe() string {
	text := "the fields of field manager " + strings.Join(m.managers, ", ")
	for _, keys := range []struct {
		noun string
		keys []string
	}{{"labels", m.labels}, {"annotations", m.annotations}} {
		if len(keys.keys) > 0 {
			text += ", " + keys.noun + " " + strings.Join(keys.keys, ", ")
		}
	}
	return text
}

// managerOf is the field manager of a VidraResource.
func managerOf(vr *v1alpha1.VidraResource) string {
	return v1alpha1.InstallationOf(vr).FieldManager(vr.Name)
}

// released returns the merge patch that removes the traces of a tool from an object that manager applied; nil if it has none.
func released(live *unstructured.Unstructured, manager string, m marks) ([]byte, error) {
	metadata := map[string]any{}
	remove := func(field string, keys []string, have map[string]string, managers func(*unstructured.Unstructured, string) []string) {
		gone := map[string]any{}
		for _, key := range keys {
			if _, found := have[key]; found && !slices.Contains(managers(live, key), manager) {
				gone[key] = nil
			}
		}
		if len(gone) > 0 {
			metadata[field] = gone
		}
	}
	remove("labels", m.labels, live.GetLabels(), ownership.LabelManagers)
	remove("annotations", m.annotations, live.GetAnnotations(), ownership.AnnotationManagers)
	if m.kept != "" && live.GetAnnotations()[m.kept] == m.keeps && live.GetAnnotations()[v1alpha1.KeepAnnotation] == "" {
		annotations, _ := metadata["annotations"].(map[string]any)
		if annotations == nil {
			annotations = map[string]any{}
		}
		annotations[v1alpha1.KeepAnnotation] = "true"
		metadata["annotations"] = annotations
	}
	entries, changed := live, false
	for _, name := range m.managers {
		if !hasManager(live, name) {
			continue
		}
		entries, changed = entries.DeepCopy(), true
		if err := unstructured.SetNestedSlice(entries.Object, ownership.Without(entries, name), "metadata", "managedFields"); err != nil {
			return nil, err
		}
	}
	if changed {
		metadata["managedFields"], _, _ = unstructured.NestedSlice(entries.Object, "metadata", "managedFields")
	}
	if len(metadata) == 0 {
		return nil, nil
	}
	metadata["resourceVersion"], metadata["uid"] = live.GetResourceVersion(), live.GetUID()
	return json.Marshal(map[string]any{"metadata": metadata})
}

// hasManager reports whether a field manager has an entry, by any operation.
func hasManager(u *unstructured.Unstructured, name string) bool {
	return slices.ContainsFunc(u.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == name })
}

// release removes the traces of the tool from the objects of the VidraResource of a plan, and returns their number. Without write it counts
// the objects that have traces. An object that Vidra has not applied is an error. The last reconcile of the tool may have written again, so
// that it looks until there is nothing to do.
func (c *Client) release(ctx context.Context, p *Plan, write bool) (n int, err error) {
	manager, m := managerOf(p.work.vr), p.work.tool.marks()
	const rounds = 3
	for range rounds {
		var done atomic.Int64
		err := c.each(ctx, p.work.vr, p.work.options.Progress, func(ctx context.Context, _ int, e v1alpha1.ManagedResourceStatus) error {
			sent, err := c.patchObject(ctx, e, insight.FieldManager, func(live *unstructured.Unstructured) ([]byte, error) {
				if !slices.Contains(ownership.Managers(live, manager), manager) {
					if !write || live.GetAnnotations()[v1alpha1.ApplyAnnotation] != "" { // Vidra leaves it
						return nil, nil
					}
					return nil, fmt.Errorf("%s is not applied by VidraResource %s", object.IdentityOf(&e), p.Name)
				}
				patch, err := released(live, manager, m)
				if patch != nil && !write {
					done.Add(1)
					return nil, err
				}
				return patch, err
			})
			if sent {
				done.Add(1)
			}
			return err
		})
		if n = max(n, int(done.Load())); err != nil || !write || done.Load() == 0 {
			return n, err
		}
	}
	return n, fmt.Errorf("%s still writes: check that it is stopped", p.From)
}

// restored returns the merge patch that gives the traces of a tool back to an object; nil if it has them.
func restored(tool Tool, vr *v1alpha1.VidraResource, live, document *unstructured.Unstructured) ([]byte, error) {
	metadata, m := map[string]any{}, tool.marks()
	back, err := tool.restore(vr, live, document)
	if err != nil {
		return nil, err
	}
	for field, values := range map[string]map[string]string{"annotations": back.annotations, "labels": back.labels} {
		have, _, _ := unstructured.NestedStringMap(live.Object, "metadata", field)
		missing := map[string]any{}
		if field == "annotations" && m.kept != "" && have[m.kept] == m.keeps && slices.Contains(ownership.AnnotationManagers(live, v1alpha1.KeepAnnotation), insight.FieldManager) {
			missing[v1alpha1.KeepAnnotation] = nil // of released
		}
		for key, value := range values {
			if have[key] != value {
				missing[key] = value
			}
		}
		if len(missing) > 0 {
			metadata[field] = missing
		}
	}
	installation := v1alpha1.InstallationOf(vr)
	entries, changed := ownership.Shared(live, managerOf(vr), back.manager, back.operation,
		[]string{"metadata", "labels", v1alpha1.ManagedByLabel}, []string{"metadata", "annotations", installation.OwnerAnnotationKey(vr.Name)})
	if changed {
		metadata["managedFields"] = entries
	}
	if len(metadata) == 0 {
		return nil, nil
	}
	metadata["resourceVersion"], metadata["uid"] = live.GetResourceVersion(), live.GetUID()
	return json.Marshal(map[string]any{"metadata": metadata})
}

// documents are the objects of the manifest of a VidraResource. Objects of sources are left out.
func (c *Client) documents(ctx context.Context, vr *v1alpha1.VidraResource) (map[object.Identity]*unstructured.Unstructured, error) {
	if source.HasArtifacts(vr) {
		return nil, nil
	}
	parts, err := desired.ReadParts(ctx, source.Objects(nil), c.objects.Dynamic, vr, nil)
	if err != nil {
		return nil, err
	}
	parsed, err := desired.Parse(vr, parts)
	if err != nil {
		return nil, err
	}
	all := make(map[object.Identity]*unstructured.Unstructured, len(vr.Status.ManagedResources))
	for i := range vr.Status.ManagedResources {
		id := object.IdentityOf(&vr.Status.ManagedResources[i])
		switch at, err := parsed.Locate(id); {
		case err != nil:
			return nil, err
		case at != nil:
			all[id] = at.Object.Unstructured
		}
	}
	return all, nil
}
