package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

const (
	fluxGroup   = "kustomize.toolkit.fluxcd.io"
	fluxKind    = "Kustomization"
	fluxVersion = fluxGroup + "/v1"
	fluxManager = "kustomize-controller"
	// fluxReconcile on a Kustomization has another one that applies it leave it as it is.
	fluxReconcile = fluxGroup + "/reconcile"
)

// flux is a Kustomization of Flux.
type flux struct {
	c               *Client
	namespace, name string
}

// Flux is the objects of a Kustomization of Flux.
func (c *Client) Flux(namespace, name string) Tool { return &flux{c, namespace, name} }

func (f *flux) title() string       { return display.Name(fluxKind, f.namespace, f.name) }
func (f *flux) origin() string      { return "Flux " + f.title() }
func (f *flux) defaultName() string { return f.name }

func (f *flux) marks() marks {
	return marks{managers: []string{fluxManager}, labels: []string{fluxGroup + "/name", fluxGroup + "/namespace"}, kept: fluxGroup + "/prune", keeps: "disabled"}
}

func (f *flux) steps() (stop, end string) {
	return fmt.Sprintf("suspend %s, with spec.prune false and spec.deletionPolicy Orphan, so that it applies and deletes nothing", f.title()),
		fmt.Sprintf("%s stays suspended. To end the migration, remove it from its repository, and run `kubectl -n %s delete kustomizations.%s %s`: no object is deleted by that", f.title(), f.namespace, fluxGroup, f.name)
}

// get reads the Kustomization; nil if it is absent.
func (f *flux) get(ctx context.Context) (*unstructured.Unstructured, error) {
	return f.c.read(ctx, fluxVersion, fluxKind, f.namespace, f.name)
}

func (f *flux) read(ctx context.Context, p *Plan) error {
	u, err := f.get(ctx)
	switch {
	case err != nil:
		return err
	case u == nil:
		if hint := f.c.helmReleaseHint(ctx, helmRelease{f.namespace, f.name}); hint != "" {
			return fmt.Errorf("%s does not exist, but %s", f.title(), hint)
		}
		return fmt.Errorf("%s does not exist: name its namespace with -n", f.title())
	case u.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%s is being deleted", f.title())
	}
	spec, _, _ := unstructured.NestedMap(u.Object, "spec")
	former, wasStopped, err := f.former(u)
	if err != nil {
		return err
	}
	if wasStopped { // by an earlier run
		for _, field := range []string{"suspend", "prune", "deletionPolicy"} {
			delete(spec, field)
			if value, found := former.Spec[field]; found && value != nil {
				spec[field] = value
			}
		}
	}
	all, err := f.c.questions.VidraResources(ctx, "")
	if err != nil {
		return err
	}
	m := &fluxMapper{plan: p, namespace: f.namespace, from: spec, moved: func(namespace, name string) string {
		for _, vr := range all {
			if vr.Annotations[v1alpha1.MigratedFromAnnotation] == (&flux{nil, namespace, name}).origin() {
				return vr.Name
			}
		}
		return ""
	}}
	m.run()
	p.VidraResource = &unstructured.Unstructured{Object: map[string]any{"spec": m.spec}}
	p.VidraResource.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
	p.VidraResource.SetName(p.Name)
	p.VidraResource.SetAnnotations(map[string]string{v1alpha1.MigratedFromAnnotation: f.origin()})
	if !wasStopped && !fluxReady(u) {
		p.find(Acceptable, "status", "%s is not Ready, so that the objects may not be as the source has them", f.title())
	}
	return f.inventory(ctx, p, u)
}

// fluxReady reports whether a Kustomization has applied its present spec.
func fluxReady(u *unstructured.Unstructured) bool {
	observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	return observed == u.GetGeneration() && fluxCondition(u, "Ready")["status"] == string(metav1.ConditionTrue)
}

// fluxCondition returns a condition of a Kustomization.
func fluxCondition(u *unstructured.Unstructured, kind string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range conditions {
		if one, _ := item.(map[string]any); one["type"] == kind {
			return one
		}
	}
	return nil
}

// inventory reads the objects that Flux has applied.
func (f *flux) inventory(ctx context.Context, p *Plan, u *unstructured.Unstructured) error {
	entries, _, _ := unstructured.NestedSlice(u.Object, "status", "inventory", "entries")
	for _, item := range entries {
		entry, _ := item.(map[string]any)
		id, _ := entry["id"].(string)
		version, _ := entry["v"].(string)
		parts := strings.Split(id, "_") // namespace_name_group_kind, in which a name of RBAC has __ for a colon
		if len(parts) < 4 {
			continue
		}
		n := len(parts)
		namespace, name, group, kind := parts[0], strings.Join(parts[1:n-2], "_"), parts[n-2], parts[n-1]
		name = strings.ReplaceAll(name, "__", ":")
		live, err := f.c.read(ctx, schema.GroupVersion{Group: group, Version: version}.String(), kind, namespace, name)
		if err != nil {
			return err
		}
		if live != nil {
			objectAnnotations(p, live)
		}
		p.work.expected = append(p.work.expected, object.Identity{GroupKind: schema.GroupKind{Group: group, Kind: kind}, Namespace: namespace, Name: name})
	}
	return nil
}

// formerFlux is the value of v1alpha1.BeforeMigrationAnnotation. A field is nil if it was absent.
type formerFlux struct {
	Spec      map[string]any `json:"spec"`
	Reconcile *string        `json:"reconcile,omitempty"`
}

// former returns the fields of a Kustomization from before stop; found reports whether it was stopped.
func (f *flux) former(u *unstructured.Unstructured) (former formerFlux, found bool, err error) {
	text, found := u.GetAnnotations()[v1alpha1.BeforeMigrationAnnotation]
	if !found {
		return former, false, nil
	}
	if err := json.Unmarshal([]byte(text), &former); err != nil {
		return former, true, fmt.Errorf("%s: its annotation %s cannot be read: restore spec.suspend, spec.prune and spec.deletionPolicy by hand, and remove it", f.title(), v1alpha1.BeforeMigrationAnnotation)
	}
	return former, true, nil
}

func (f *flux) state(ctx context.Context) (state, error) {
	u, err := f.get(ctx)
	if err != nil || u == nil {
		return state{}, err
	}
	_, marked, err := f.former(u)
	return state{exists: u.GetDeletionTimestamp() == nil, begun: marked, stopped: marked && isStopped(u)}, err
}

// isStopped reports whether a Kustomization applies and deletes nothing.
func isStopped(u *unstructured.Unstructured) bool {
	suspend, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
	prune, _, _ := unstructured.NestedBool(u.Object, "spec", "prune")
	policy, _, _ := unstructured.NestedString(u.Object, "spec", "deletionPolicy")
	return suspend && !prune && (policy == "" || policy == "Orphan") && u.GetAnnotations()[fluxReconcile] == "disabled"
}

func (f *flux) stop(ctx context.Context, timeout time.Duration) error {
	u, err := f.get(ctx)
	if err != nil {
		return err
	}
	if u == nil { // it was removed after an earlier run
		return nil
	}
	former, marked, err := f.former(u)
	if err != nil {
		return err
	}
	if !marked {
		former.Spec = map[string]any{}
		for _, field := range []string{"suspend", "prune", "deletionPolicy"} {
			former.Spec[field], _, _ = unstructured.NestedFieldCopy(u.Object, "spec", field)
		}
		if value, found := u.GetAnnotations()[fluxReconcile]; found {
			former.Reconcile = &value
		}
	}
	if !marked || !isStopped(u) {
		text, err := json.Marshal(former)
		if err != nil {
			return err
		}
		err = f.patch(ctx, u, map[string]any{"suspend": true, "prune": false, "deletionPolicy": "Orphan"},
			map[string]any{v1alpha1.BeforeMigrationAnnotation: string(text), fluxReconcile: "disabled"})
		if err != nil {
			return err
		}
	}
	// Its reconcile that runs now ends first.
	err = wait.PollUntilContextTimeout(ctx, time.Second/4, timeout, true, func(ctx context.Context) (bool, error) {
		if u, err = f.get(ctx); err != nil || u == nil {
			return true, err
		}
		running := fluxCondition(u, "Reconciling")
		return running["status"] != string(metav1.ConditionTrue) || running["reason"] == "ProgressingWithRetry", nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("%s is suspended, and its last reconcile has not ended within %s: run the command again", f.title(), timeout)
	}
	return err
}

// patch sends a merge patch of the Kustomization as it was read.
func (f *flux) patch(ctx context.Context, u *unstructured.Unstructured, spec, annotations map[string]any) error {
	body, err := json.Marshal(map[string]any{"spec": spec, "metadata": map[string]any{
		"annotations": annotations, "resourceVersion": u.GetResourceVersion(), "uid": u.GetUID(),
	}})
	if err != nil {
		return err
	}
	at, err := f.c.objects.At(schema.FromAPIVersionAndKind(fluxVersion, fluxKind), f.namespace)
	if err != nil {
		return err
	}
	if _, err = at.Patch(ctx, f.name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: insight.FieldManager}); apierrors.IsConflict(err) {
		return fmt.Errorf("%s was changed meanwhile: run the command again", f.title())
	} else if err != nil {
		return fmt.Errorf("patch %s: %w", f.title(), object.WithoutValues(err, ownership.Disclose(false, ownership.SensitivityOf(u), false).With(u)))
	}
	return nil
}

func (f *flux) start(ctx context.Context) error {
	u, err := f.get(ctx)
	if err != nil {
		return err
	}
	if u == nil {
		return fmt.Errorf("%s does not exist any more: its objects stay, and no tool manages them. Create it again", f.title())
	}
	former, marked, err := f.former(u)
	if err != nil || !marked {
		return err
	}
	reconcile := any(nil)
	if former.Reconcile != nil {
		reconcile = *former.Reconcile
	}
	return f.patch(ctx, u, former.Spec, map[string]any{v1alpha1.BeforeMigrationAnnotation: nil, fluxReconcile: reconcile})
}

func (f *flux) restore(*v1alpha1.VidraResource, *unstructured.Unstructured, *unstructured.Unstructured) (traces, error) {
	return traces{
		manager: fluxManager, operation: metav1.ManagedFieldsOperationApply,
		labels: map[string]string{fluxGroup + "/name": f.name, fluxGroup + "/namespace": f.namespace},
	}, nil
}
