package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

// target is the object that a command is about, with what the user may read of it.
type target struct {
	client dynamic.Interface
	mapper meta.RESTMapper
	gvk    schema.GroupVersionKind
	gvr    schema.GroupVersionResource
	id     object.Identity
	// typed is the kind as the user wrote it.
	typed string
	// live is the object; nil if it does not exist or may not be read.
	live *unstructured.Unstructured
	// owners are the VidraResources that manage it, and named those that the object itself names.
	owners []*v1alpha1.VidraResource
	named  []string
	// missing is what could not be read, and why.
	missing []string
	// locations are where the manifests of the owners have the object; nil until they were read.
	locations map[string]location
}

// location is where a manifest has the object, or why that is not known.
type location struct {
	at  *located
	why string
}

// countObject accepts as many arguments as name an object.
func countObject(_ *cobra.Command, args []string) error {
	if len(args) == 0 || len(args) > 2 {
		return fmt.Errorf("%d arguments: %s", len(args), wantObject)
	}
	return nil
}

// wantObject is how an object is named.
const wantObject = "want KIND/NAME or KIND.GROUP/NAME, such as configmap/settings, and the namespace with -n"

// readTarget finds and reads the object that the arguments name, see newTarget and read.
func (k *kube) readTarget(ctx context.Context, args []string) (*target, error) {
	t, err := k.newTarget(args)
	if err != nil {
		return nil, err
	}
	return t, t.read(ctx)
}

// newTarget finds the object that the arguments name: KIND/NAME, or KIND NAME.
func (k *kube) newTarget(args []string) (*target, error) {
	kind, name, found := strings.Cut(args[0], "/")
	if len(args) == 2 && !found {
		name = args[1]
	} else if len(args) != 1 || !found {
		return nil, fmt.Errorf("%q: %s; about a VidraResource: `%s`", strings.Join(args, " "), wantObject, hint("status", args[0]))
	}
	if kind == "" || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("%q: want KIND/NAME, such as configmap/settings", strings.Join(args, " "))
	}
	namespace, err := k.namespace()
	if err != nil {
		return nil, err
	}
	client, err := k.dynamic()
	if err != nil {
		return nil, err
	}
	mapper, err := k.ToRESTMapper()
	if err != nil {
		return nil, fmt.Errorf("find the kind %q: %w", kind, err)
	}
	resolved, served, err := kindFrom(mapper, kind)
	if err != nil {
		return nil, err
	}
	if !served {
		return nil, k.noKind(kind)
	}
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: *resolved.group, Kind: resolved.kind})
	if err != nil {
		return nil, fmt.Errorf("find the kind %q: %w", kind, err)
	}
	if !isNamespaced(mapping) {
		namespace = ""
	}
	return &target{
		client: client, mapper: mapper, gvk: mapping.GroupVersionKind, gvr: mapping.Resource, typed: kind,
		id: object.Identity{GroupKind: mapping.GroupVersionKind.GroupKind(), Namespace: namespace, Name: name},
	}, nil
}

// isNamespaced reports whether objects of a kind have a namespace.
func isNamespaced(mapping *meta.RESTMapping) bool {
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace
}

// kindArgument is a kind as an argument: with its group if that is not one of Kubernetes, because other groups may have the kind, too.
func kindArgument(kind schema.GroupKind) string {
	if !strings.Contains(kind.Group, ".") || strings.HasSuffix(kind.Group, ".k8s.io") {
		kind.Group = ""
	}
	return strings.ToLower(kind.String())
}

// argument is the target as an argument of a command.
func (t *target) argument() string {
	text := t.typed + "/" + t.id.Name
	if t.id.Namespace != "" {
		text += " -n " + t.id.Namespace
	}
	return text
}

// read reads the object, and finds the VidraResources that manage it. It fails if there are none.
func (t *target) read(ctx context.Context) error {
	live, err := t.client.Resource(t.gvr).Namespace(t.id.Namespace).Get(ctx, t.id.Name, metav1.GetOptions{})
	absent := apierrors.IsNotFound(err)
	switch {
	case apierrors.IsForbidden(err):
		t.missing = append(t.missing, fmt.Sprintf("the object: you may not get %s in namespace %q", t.gvr.GroupResource(), t.id.Namespace))
	case absent:
	case err != nil:
		return fmt.Errorf("read %s: %w", t.id, err)
	default:
		t.live, t.named = live, v1alpha1.Owners(live.GetAnnotations())
	}
	all, err := t.findOwners(ctx)
	switch {
	case err != nil && !apierrors.IsForbidden(err):
		return err
	case err != nil && len(t.named) == 0 && t.live == nil:
		return err
	case err != nil:
		t.missing = append(t.missing, "the VidraResource: "+err.Error())
	}
	if len(t.owners) > 0 || len(t.named) > 0 && len(t.missing) > 0 { // a controller copies the annotations that name them to what it creates
		return nil
	}
	return t.unmanaged(ctx, absent, all)
}

// annotate sets annotations of the object, and removes those that are nil.
func (t *target) annotate(ctx context.Context, annotations map[string]any) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	objects := t.client.Resource(t.gvr).Namespace(t.id.Namespace)
	_, err = objects.Patch(ctx, t.id.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("you may not patch %s: ask for that right, or for an edit of the VidraResource: %w", t.id, err)
	} else if err != nil {
		return fmt.Errorf("annotate %s: %w", t.id, err)
	}
	return nil
}

// findOwners finds the VidraResources that have the object in their inventory, or that it names, among all that may be read.
func (t *target) findOwners(ctx context.Context) (all []*v1alpha1.VidraResource, err error) {
	all, err = listVidraResources(ctx, t.client, "")
	if apierrors.IsForbidden(err) { // perhaps those that the object names may be read
		for _, name := range t.named {
			vr, getErr := getVidraResource(ctx, t.client, name)
			if getErr != nil {
				return nil, errors.Join(getErr)
			}
			all = append(all, vr)
		}
		if len(t.named) == 0 {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	for _, vr := range all {
		if owners.EntryOf(vr, t.id) != nil || t.appliedBy(vr) {
			t.owners = append(t.owners, vr)
		}
	}
	return all, nil
}

// signature is what the objects of a VidraResource show of it.
func signature(vr *v1alpha1.VidraResource) object.Signature {
	return object.SignatureOf(v1alpha1.InstallationOf(vr), vr.Name)
}

// appliedBy reports whether managedFields show that a VidraResource of this cluster applied the object.
func (t *target) appliedBy(vr *v1alpha1.VidraResource) bool {
	if t.live == nil || remote(vr) {
		return false
	}
	by := signature(vr)
	return slices.Contains(ownership.Managers(t.live, by.Manager), by.Manager)
}

// located is where the manifest of an owner has the object.
type located struct {
	*desired.Located
	vr *v1alpha1.VidraResource
}

// locate finds the object in the manifest of an owner; nil if it cannot be found, with why.
func (t *target) locate(ctx context.Context, vr *v1alpha1.VidraResource) (*located, string) {
	t.readManifests(ctx)
	found := t.locations[vr.Name]
	return found.at, found.why
}

// readManifests finds the object in the manifests of its owners.
func (t *target) readManifests(ctx context.Context) {
	if t.locations != nil {
		return
	}
	t.locations = map[string]location{}
	for _, vr := range t.owners {
		at, why := t.locateIn(ctx, vr)
		t.locations[vr.Name] = location{at, why}
	}
}

// disclosure decides whether values of the object are shown, from the inventories of its owners, the object as it is, and
// the manifests of its owners.
func (t *target) disclosure(ctx context.Context) ownership.Disclosure {
	t.readManifests(ctx)
	var before, manifest ownership.Sensitivity
	for _, vr := range t.owners {
		if entry := owners.EntryOf(vr, t.id); entry != nil && entry.Sensitive {
			before = true
		}
		if at := t.locations[vr.Name].at; at != nil {
			manifest = manifest || ownership.SensitivityOf(at.Unstructured)
		}
	}
	return ownership.Disclose(before, ownership.SensitivityOf(t.live), manifest)
}

// locateIn finds the object in the manifest of a VidraResource; nil if it cannot be found, with why.
func (t *target) locateIn(ctx context.Context, vr *v1alpha1.VidraResource) (*located, string) {
	parts, err := desired.ReadParts(ctx, t.client, vr)
	if err != nil {
		return nil, err.Error()
	}
	found, err := desired.Locate(vr, parts, t.id)
	switch {
	case err != nil:
		return nil, "the manifest cannot be read: " + err.Error()
	case found == nil:
		return nil, "the manifest does not have the object any more"
	}
	return &located{Located: found, vr: vr}, ""
}

// place is where a field of the object is in the manifest.
func (l *located) place(path ...string) string {
	at := *l.Located
	at.Position.Line, at.Position.Item = l.Line(path...), 0
	return at.In(l.vr)
}

// start is where the lines of the part of the manifest that has the object are counted from.
func (l *located) start() string {
	if source := l.Source(); source != nil {
		return "key " + source.Key
	}
	return "spec.manifest"
}

// how is the command that edits the part of the manifest that has the object.
func (l *located) how() string {
	source := l.Source()
	if source == nil {
		return "kubectl edit vidraresource " + l.vr.Name
	}
	namespace := source.Namespace
	if namespace == "" {
		namespace = l.vr.Spec.Destination.Namespace
	}
	return fmt.Sprintf("kubectl edit %s %s -n %s", strings.ToLower(source.Kind), source.Name, namespace)
}
