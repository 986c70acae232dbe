package insight

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// FieldManager is the field manager of users' commands. Dry runs of VidraResources have it, too.
const FieldManager = "kubectl-vidra"

// PreviewQuery selects the VidraResources that [Client.Diff] and [Client.Forecast] are about.
type PreviewQuery struct {
	// VidraResource is the name of one. Without it, all in Files are compared, or a new one with the objects of Files as its manifest.
	VidraResource string
	// Files have VidraResources, or the objects of one: the manifest of the named VidraResource, instead of its own. None for the
	// VidraResource as it is.
	Files []File
	// Namespace is the namespace of the objects of a new VidraResource that name none. Defaults to default.
	Namespace string
	// Given is a VidraResource as it would be, with the parts of its manifest; nil for those above.
	Given *Given
}

// Given is a VidraResource as it would be after a write.
type Given struct {
	VidraResource *v1alpha1.VidraResource
	// Parts are its manifest; nil to read the parts that it names.
	Parts []desired.Part
}

// preview are VidraResources as they would be after an apply.
type preview struct {
	// wanted are those that are compared.
	wanted []*v1alpha1.VidraResource
	// given are all that are applied, between which objects move.
	given []*v1alpha1.VidraResource
	// dropped are the fields that the files have dropped, by VidraResource.
	dropped map[string][]string
	// parts are the manifest of the VidraResource that is compared, instead of its own; nil for its own.
	parts []desired.Part
	// beside finds parts of a manifest in files; nil for none.
	beside func(vr *v1alpha1.VidraResource, source v1alpha1.ManifestSource) (text string, found bool)
	// isNew reports that the VidraResource stands for a new one.
	isNew bool
	// remarks are messages to the user about the VidraResources.
	remarks []string
}

// preview returns the VidraResources that a query selects.
func (c *Client) preview(ctx context.Context, q PreviewQuery) (*preview, error) {
	p := &preview{dropped: map[string][]string{}}
	one := func(vr *v1alpha1.VidraResource, err error) (*preview, error) {
		p.wanted, p.given = []*v1alpha1.VidraResource{vr}, append(p.given, vr)
		return p, err
	}
	if q.Given != nil {
		p.parts = q.Given.Parts
		return one(q.Given.VidraResource, nil)
	}
	if len(q.Files) == 0 {
		if q.VidraResource == "" {
			return nil, fmt.Errorf("name a VidraResource or files")
		}
		return one(c.VidraResource(ctx, q.VidraResource))
	}
	files, err := parseFiles(q.Files)
	if err != nil {
		return nil, err
	}
	objects := files.objects()
	p.beside = func(vr *v1alpha1.VidraResource, source v1alpha1.ManifestSource) (string, bool) {
		return textIn(objects, q.Namespace, vr, source)
	}
	if err := p.add(ctx, c, objects, q.VidraResource); err != nil {
		return nil, err
	}
	switch {
	case len(p.wanted) > 0:
		return p, nil
	case len(objects) == 0:
		return nil, fmt.Errorf("%s: no object found", FileNames(q.Files))
	}
	parts, text := files.parts()
	if len(parts) > 1 {
		p.parts = parts
	}
	if q.VidraResource != "" {
		vr, err := c.VidraResource(ctx, q.VidraResource)
		if err != nil {
			return nil, err
		}
		vr = vr.DeepCopy() // it may be that of a watch
		if vr.Spec.Manifest != text || len(vr.Spec.ManifestFrom) > 0 {
			vr.Generation++ // as the API server counts another spec
		}
		vr.Spec.Manifest, vr.Spec.ManifestFrom = text, nil
		return one(vr, nil)
	}
	p.remarks = append(p.remarks, FileNames(q.Files)+": no VidraResource found: the objects are compared as the manifest of a new one")
	vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: c.freeName(ctx)}}
	if vr.Spec.Manifest, vr.Spec.Destination.Namespace = text, q.Namespace; q.Namespace == "" {
		vr.Spec.Destination.Namespace = metav1.NamespaceDefault
	}
	p.isNew = true
	return one(vr, nil)
}

// newName is the name of a new VidraResource in answers. takenName is its name where a VidraResource has newName, or may have: the API server
// accepts no VidraResource with an upper-case letter.
const (
	newName   = "new"
	takenName = "New"
)

// freeName returns the name of no VidraResource: the new one would own the objects of its namesake.
func (c *Client) freeName(ctx context.Context) string {
	if _, err := c.resources.Get(ctx, newName); object.IsAbsent(err, newName) {
		return newName
	}
	return takenName
}

// add adds the VidraResources among objects. name is the compared one; empty for all.
func (p *preview) add(ctx context.Context, c *Client, objects []manifest.Object, name string) error {
	for _, obj := range objects {
		if !isVidraResource(obj) {
			continue
		}
		if slices.ContainsFunc(p.given, func(other *v1alpha1.VidraResource) bool { return other.Name == obj.GetName() }) {
			return fmt.Errorf("%s: VidraResource %s is in the files twice: remove one", obj.Position, obj.GetName())
		}
		vr, err := p.stored(ctx, c, obj)
		if err != nil {
			return err
		}
		p.given = append(p.given, vr)
		if name == "" || name == vr.Name {
			p.wanted = append(p.wanted, vr)
		}
	}
	return nil
}

// stored returns a VidraResource of a file as the API server would store it, with the status that it has. A user who may read it alone
// gets it as it is in the file.
func (p *preview) stored(ctx context.Context, c *Client, obj manifest.Object) (*v1alpha1.VidraResource, error) {
	body, err := obj.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("%s: encode VidraResource %s: %w", obj.Position, obj.GetName(), err)
	}
	stored, err := c.dynamic.Resource(v1alpha1.Resource).Patch(ctx, obj.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: FieldManager, DryRun: []string{metav1.DryRunAll}, Force: new(true)})
	if err == nil {
		stored, p.dropped[obj.GetName()], err = c.withoutDropped(ctx, obj, stored)
	}
	switch {
	case err == nil:
		return AsVidraResource(stored)
	case !apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%s: the API server refuses VidraResource %s: %s", obj.Position, obj.GetName(),
			object.Message(err, c.DisclosureOfWrite(ctx, obj.GetName(), obj.Unstructured)))
	}
	p.remarks = append(p.remarks, fmt.Sprintf("you may not write VidraResource %s: its fields are not validated", obj.GetName()))
	vr, err := AsVidraResource(obj.Unstructured)
	if err != nil {
		return nil, err
	}
	live, err := c.resources.Get(ctx, vr.Name)
	switch {
	case err == nil:
		vr.Status, vr.UID, vr.DeletionTimestamp, vr.Generation = live.Status, live.UID, live.DeletionTimestamp, live.Generation+1
	case !object.IsAbsent(err, vr.Name): // its inventory has the objects that an apply would remove, and its history the writers that would fight
		return nil, c.program.VidraResourceError("get", vr.Name, err)
	}
	return vr, nil
}

// DisclosureOfWrite decides about values in the refusal of a write of a VidraResource: a policy may quote the manifest that it is to get, and the
// former one. written is the VidraResource as it is to be; nil for a write without the manifest.
func (c *Client) DisclosureOfWrite(ctx context.Context, name string, written *unstructured.Unstructured) ownership.Disclosure {
	live, err := c.dynamic.Resource(v1alpha1.Resource).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !object.IsAbsent(err, name) {
		return ownership.Disclosure{}
	}
	return ownership.Disclose(ownership.SensitivityOf(live), ownership.SensitivityOf(written), false)
}

// appliesFiles reports whether an entry of managedFields comes from a client that applies whole files, and so removes the fields that
// its file has dropped. Fields of other clients, such as vidra suspend and kubectl edit, stay.
func appliesFiles(manager, operation string) bool {
	return operation == string(metav1.ManagedFieldsOperationApply) && manager != FieldManager || manager == "kubectl-client-side-apply" || manager == "helm"
}

// withoutDropped removes from a VidraResource the fields that its file has dropped, as the client does that applied the file before:
// a dry run under another name keeps them.
func (c *Client) withoutDropped(ctx context.Context, obj manifest.Object, stored *unstructured.Unstructured) (*unstructured.Unstructured, []string, error) {
	after := ownership.Merge(stored, map[string]any{"spec": obj.Object["spec"], "metadata": obj.Object["metadata"]}, appliesFiles)
	dropped := droppedFields("spec", stored.Object["spec"], after.Object["spec"])
	if len(dropped) == 0 {
		return stored, nil, nil
	}
	patch, err := json.Marshal([]ownership.PatchOp{{Op: "replace", Path: "/spec", Value: after.Object["spec"]}})
	if err != nil {
		return nil, nil, err
	}
	stored, err = c.dynamic.Resource(v1alpha1.Resource).Patch(ctx, obj.GetName(), types.JSONPatchType, patch,
		metav1.PatchOptions{FieldManager: FieldManager, DryRun: []string{metav1.DryRunAll}})
	return stored, dropped, err
}

// droppedFields are the paths of the topmost fields that a value has and another one lacks.
func droppedFields(path string, before, after any) []string {
	fields, isMap := before.(map[string]any)
	left, _ := after.(map[string]any)
	if !isMap {
		return nil
	}
	var dropped []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if value, stays := left[name]; stays {
			dropped = append(dropped, droppedFields(path+"."+name, fields[name], value)...)
		} else {
			dropped = append(dropped, path+"."+name)
		}
	}
	return dropped
}
