package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/writes"
)

// planDocuments has the documents that a tool applied be the manifest of the VidraResource of a plan. Where an object has other values, it is a
// finding. If the user accepts that, the document gets the values of the object. look gets each object as it is; it may be nil.
func (c *Client) planDocuments(ctx context.Context, p *Plan, tool Tool, namespace, source string, documents []*unstructured.Unstructured, look func(live *unstructured.Unstructured)) error {
	for i, document := range documents {
		live, err := c.read(ctx, document.GetAPIVersion(), document.GetKind(), cmp.Or(document.GetNamespace(), namespace), document.GetName())
		if err != nil {
			return err
		}
		if live == nil {
			continue
		}
		if look != nil {
			look(live)
		}
		if documents[i], err = c.reconciled(ctx, p, tool, document, live); err != nil {
			return err
		}
	}
	file, err := fileOf(source, documents)
	if err != nil {
		return err
	}
	p.work.creation = &writes.Creation{
		Name: p.Name, Files: []insight.File{file}, Namespace: namespace, DefaultNamespace: namespace, PartsNamespace: p.work.options.PartsNamespace,
		Annotations: map[string]string{v1alpha1.MigratedFromAnnotation: tool.origin()},
	}
	return nil
}

// reconciled returns a document with the values of an object, where they differ. A field that another program writes, rather than a user, is
// left out.
func (c *Client) reconciled(ctx context.Context, p *Plan, tool Tool, document, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	manager := v1alpha1.Installation("").FieldManager(p.Name)
	at, err := c.objects.At(document.GroupVersionKind(), live.GetNamespace())
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(document.Object)
	if err != nil {
		return nil, err
	}
	applied, err := at.Patch(ctx, live.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: manager, Force: ptr.To(true), DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return document, nil //nolint:nilerr // the comparison of the VidraResource reports it
	}
	known := ownership.Disclose(false, ownership.SensitivityOf(document, live), false)
	var differences []ownership.Change
	for _, change := range ownership.Drift(live, applied, manager, known) {
		if change.Kind != ownership.Taken && !strings.HasPrefix(change.Path, "metadata.managedFields") {
			differences = append(differences, change)
		}
	}
	if len(differences) == 0 {
		return document, nil
	}
	for _, d := range differences {
		p.find(Acceptable, "drift", "%s: %s", name(live), describe(d, tool))
	}
	if !p.accepts("drift") {
		p.work.drifted[object.IdentityIn(live)] = true
		return document, nil
	}
	with := live.DeepCopy()
	entries, _, _ := unstructured.NestedSlice(applied.Object, "metadata", "managedFields")
	ours, _, _ := unstructured.NestedSlice(live.Object, "metadata", "managedFields") // a copy
	for _, item := range entries {
		if m, _ := item.(map[string]any); m["manager"] == manager {
			ours = append(ours, item)
		}
	}
	if err := unstructured.SetNestedSlice(with.Object, ours, "metadata", "managedFields"); err != nil {
		return nil, err
	}
	for _, d := range differences {
		if leftOut(d) && d.Pointer != "" {
			without, changed := ownership.WithoutField(with, manager, ownership.PointerNames(d.Pointer))
			if changed {
				if err := unstructured.SetNestedSlice(with.Object, without, "metadata", "managedFields"); err != nil {
					return nil, err
				}
			}
		}
	}
	merged, ok := ownership.Extract(with, manager)
	if !ok {
		return nil, fmt.Errorf("%s differs in a way that its manifest cannot take: apply it with %s again first", name(live), strings.Fields(tool.origin())[0])
	}
	return merged, nil
}

// leftOut reports whether the manifest leaves a field out: it was removed, or a program rather than a user wrote it. A field of an item of a list
// has no pointer by which it could be left out.
func leftOut(d ownership.Change) bool {
	byProgram := d.Manager != "" && !ownership.DefaultTools.Has(d.Manager) && d.Manager != helmManager && d.Manager != helmController
	return d.Kind == ownership.Removed || byProgram && d.Pointer != ""
}

// describe describes a difference.
func describe(d ownership.Change, tool Tool) string {
	what, by := d.Path+" differs", ""
	if d.Manager != "" {
		by = fmt.Sprintf(", written by %q", d.Manager)
	}
	if !d.Withheld && d.Kind == ownership.Changed {
		what = fmt.Sprintf("%s is %s, and %s applied %s", d.Path, d.Found, strings.Fields(tool.origin())[0], d.Restored)
	} else if d.Kind == ownership.Removed {
		what = d.Path + " was removed"
	}
	if leftOut(d) {
		return what + by + ": it is left out of the manifest"
	}
	return what + by + ": the manifest gets the present value"
}
