package dryrun

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Runner sends dry runs for one VidraResource. Its methods are safe for concurrent use.
type Runner struct {
	VR *v1alpha1.VidraResource
	// By are the marks of the VidraResource on its objects.
	By object.Signature
	// At is the cluster of the objects.
	At *cluster.Cluster
	// Scope is the part of At that the operator may use.
	Scope cluster.Scope
	// Holders are the VidraResources whose manifests hold VR.
	Holders []string
	// Given are the parts of the manifest, instead of the parts of VR; nil for the parts of VR.
	Given []desired.Part
	// Beside returns the text of a part that is applied together with VR; nil for none.
	Beside func(vr *v1alpha1.VidraResource, source v1alpha1.ManifestSource) (text string, found bool)

	// Sources are the kinds of the sources of the manifest. Defaults to ConfigMaps and Secrets.
	Sources source.Kinds

	// local is the client of the cluster of the VidraResource, which has the sources of its manifest.
	local dynamic.Interface
}

// New returns a Runner for a VidraResource, whose manifest is read with local and whose objects are in the
// cluster at. It sends no request.
func New(local dynamic.Interface, at *cluster.Cluster, vr *v1alpha1.VidraResource) *Runner {
	installation := v1alpha1.InstallationOf(vr)
	shards := installation.ShardLabelKeys(v1alpha1.ShardsOf(vr, ""))
	return &Runner{VR: vr, By: object.SignatureOf(installation, vr.Name, shards...), At: at, Scope: at.Scope(), Sources: source.Objects(nil), local: local}
}

// Parts reads the parts of the manifest.
func (r *Runner) Parts(ctx context.Context) ([]desired.Part, error) {
	if r.Given != nil {
		return r.Given, nil
	}
	return desired.ReadParts(ctx, r.Sources, r.local, r.VR, r.Beside)
}

// Objects returns the objects of the manifest.
func (r *Runner) Objects(ctx context.Context) (*desired.Resolved, error) {
	parts, err := r.Parts(ctx)
	if err != nil {
		return nil, err
	}
	resolved, err := desired.Resolve(ctx, r.VR, r.By, r.Holders, parts, desired.ScopedDestination{Destination: r.At, Scope: r.Scope})
	if err != nil {
		return nil, fmt.Errorf("VidraResource %s: %w", r.VR.Name, err)
	}
	return resolved, nil
}

// Resource is the client for the kind and namespace of an object.
func (r *Runner) Resource(o *desired.Object) dynamic.ResourceInterface {
	return r.At.Dynamic().Resource(o.Key.GVR).Namespace(o.Key.Namespace)
}

// Live reads an object; nil if it is absent.
func (r *Runner) Live(ctx context.Context, key trigger.ObjectKey) (*unstructured.Unstructured, error) {
	live, err := r.At.Dynamic().Resource(key.GVR).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if object.IsAbsent(err, key.Name) {
		return nil, nil
	}
	return live, err
}

// Configuration is the configuration that the operator applies for an object.
type Configuration struct {
	body []byte
	// live is the object as it is; nil if it is absent.
	live *unstructured.Unstructured
	// whole is the result of an apply to live without ignore rules; nil unless there are some.
	whole *unstructured.Unstructured
}

// Configuration returns the applied configuration of an object, without the fields that ignore rules exclude in the
// object as it is. live is nil if the object is absent.
func (r *Runner) Configuration(ctx context.Context, o *desired.Object, live *unstructured.Unstructured) (Configuration, error) {
	all := Configuration{body: o.Body, live: live}
	if live == nil || !o.Rules.Ignored {
		return all, nil
	}
	whole, err := r.Apply(ctx, o, all, true)
	if err != nil {
		return all, nil //nolint:nilerr // the apply of the body reports it
	}
	_, reduced, err := o.Rules.Exemptions.Without(o.Body, live, whole, r.By)
	if err != nil {
		return Configuration{}, err
	}
	body, err := desired.Encode(&unstructured.Unstructured{Object: reduced})
	return Configuration{body: body, live: live, whole: whole}, err
}

// Apply returns the result of an apply of a configuration to an object. force takes fields from other field managers, as the
// operator does; without it, the error is a conflict that names them.
func (r *Runner) Apply(ctx context.Context, o *desired.Object, c Configuration, force bool) (*unstructured.Unstructured, error) {
	applied, err := r.Resource(o).Patch(ctx, o.Key.Name, types.ApplyPatchType, c.body,
		metav1.PatchOptions{FieldManager: r.By.Manager, DryRun: []string{metav1.DryRunAll}, Force: &force})
	if changed, tried := r.withoutDefaults(ctx, o, c, err); tried {
		applied, err = changed, nil
	}
	if err != nil || c.whole == nil {
		return applied, err
	}
	entries := applied.GetManagedFields()
	applied.Object, _ = withIgnored(applied.Object, c.whole.Object, c.live.Object).(map[string]any)
	applied.SetManagedFields(entries)
	return applied, nil
}

// withoutDefaults returns the result of an apply that the API server refuses because of defaults beside the fields that the manifest
// changes, which the operator removes first. tried is false for another refusal.
func (r *Runner) withoutDefaults(ctx context.Context, o *desired.Object, c Configuration, refused error) (changed *unstructured.Unstructured, tried bool) {
	if c.live == nil || !apierrors.IsInvalid(refused) || object.Denied(refused) || r.Owns(c.live) && len(r.InTheWay(o, c.live).Changes) > 0 {
		return nil, false
	}
	undo := r.undoOf(o, ownership.Defaults)
	undo.Refused = object.FieldNames(refused)
	var configuration map[string]any
	if json.Unmarshal(c.body, &configuration) != nil {
		return nil, false
	}
	undo.Configuration = configuration
	found := undo.Added(c.live, c.live)
	if len(found.Patch) == 0 {
		return nil, false
	}
	patch, err := json.Marshal(found.Apply(c.live, configuration, r.By.Manager))
	if err != nil {
		return nil, false
	}
	changed, err = r.Resource(o).Patch(ctx, o.Key.Name, types.JSONPatchType, patch,
		metav1.PatchOptions{FieldManager: r.By.Manager, DryRun: []string{metav1.DryRunAll}})
	return changed, err == nil
}

// Acceptable reports whether the API server accepts a refused change as a new object.
func (r *Runner) Acceptable(ctx context.Context, o *desired.Object) bool {
	probe := o.Probe()
	body, err := desired.Encode(probe)
	if err != nil {
		return false
	}
	_, err = r.Resource(o).Patch(ctx, probe.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: r.By.Manager, DryRun: []string{metav1.DryRunAll}, Force: ptr.To(true)})
	return err == nil
}

// withIgnored is the result of an apply to a value, with the excluded fields of ignore rules as they are. The two differ from
// the whole, the result of an apply without rules, in these fields. The operator releases them before its apply, so that the
// API server keeps them and sets no defaults; a dry run has one request alone.
func withIgnored(applied, whole, live any) any {
	if equality.Semantic.DeepEqual(applied, whole) {
		return applied
	}
	switch applied := applied.(type) {
	case map[string]any:
		whole, isWhole := whole.(map[string]any)
		live, isLive := live.(map[string]any)
		if !isWhole || !isLive {
			break
		}
		fields := map[string]any{}
		for _, side := range []map[string]any{applied, whole} {
			for name := range side {
				if value := withIgnored(applied[name], whole[name], live[name]); value != nil {
					fields[name] = value
				}
			}
		}
		return fields
	case []any:
		whole, isWhole := whole.([]any)
		live, isLive := live.([]any)
		if !isWhole || !isLive || len(whole) != len(applied) || len(live) != len(applied) {
			break
		}
		items := make([]any, len(applied))
		for i := range applied {
			items[i] = withIgnored(applied[i], whole[i], live[i])
		}
		return items
	}
	return live
}

// Owns reports whether the VidraResource applied an object, as the operator decides it.
func (r *Runner) Owns(live *unstructured.Unstructured) bool {
	by := owners.Claimant{Owner: trigger.Owner{Name: r.VR.Name}, Installation: v1alpha1.InstallationOf(r.VR), Manager: r.By.Manager}
	return by.Owns(live, owners.EntryOf(r.VR, object.IdentityIn(live)))
}

// Disclosure decides whether values of an object are shown, from its inventory entry, its manifest, and further versions of
// it.
func (r *Runner) Disclosure(o *desired.Object, versions ...*unstructured.Unstructured) ownership.Disclosure {
	return o.Disclosure(r.WasSensitive(o.ID), versions...)
}

// WasSensitive reports whether the object had the annotation that withholds its values, as far as the inventory has it.
func (r *Runner) WasSensitive(id object.Identity) ownership.Sensitivity {
	entry := owners.EntryOf(r.VR, id)
	return ownership.Sensitivity(entry != nil && entry.Sensitive)
}

// Added are the additions of an edit in the place of the fields that it removed: they are removed with the revert.
func (r *Runner) Added(o *desired.Object, live *unstructured.Unstructured) []ownership.Change {
	return r.undo(o, live, ownership.BesideRemoved).Changes
}

// InTheWay is the edit that the operator undoes first if the API server calls the apply of an object invalid: the additions of
// other field managers, as few of them as there is a reason for, and the fields that they removed or changed. Its Changes are
// empty if no edit is in the way.
func (r *Runner) InTheWay(o *desired.Object, live *unstructured.Unstructured) ownership.Addition {
	for scope := ownership.BesideRemoved; scope <= ownership.SinceApply; scope++ {
		found := r.undo(o, live, scope)
		switch {
		case len(found.Changes) == 0:
		case scope == ownership.Everything && len(found.Lost) == 0: // it covers what was added beside nothing of ours, too
		case scope == ownership.SinceApply && !slices.ContainsFunc(found.Lost, isChanged): // a default beside a field that is new in the manifest
		default:
			return found
		}
	}
	return ownership.Addition{}
}

func isChanged(c ownership.Change) bool { return c.Kind == ownership.Changed }

// undo finds the additions of an edit.
func (r *Runner) undo(o *desired.Object, live *unstructured.Unstructured, scope ownership.Scope) ownership.Addition {
	return r.undoOf(o, scope).Added(live, live)
}

func (r *Runner) undoOf(o *desired.Object, scope ownership.Scope) ownership.Undo {
	return ownership.Undo{
		Manager: r.By.Manager, Prefix: v1alpha1.FieldManagerPrefix, Configuration: o.Unstructured().Object,
		Keep: o.Rules.Exemptions.Exempts, Scope: scope, Known: r.Disclosure(o),
	}
}

// Changes are the changes that an apply would revert in an existing object: fields, and additions of edits in the place of
// removed fields. An error of the API server is its refusal of the apply.
func (r *Runner) Changes(ctx context.Context, o *desired.Object, live *unstructured.Unstructured) ([]ownership.Change, error) {
	configuration, err := r.Configuration(ctx, o, live)
	if err != nil {
		return nil, err
	}
	applied, err := r.Apply(ctx, o, configuration, true)
	if err != nil {
		return nil, err
	}
	return append(ownership.Drift(live, applied, r.By.Manager, r.Disclosure(o)), r.Added(o, live)...), nil
}
