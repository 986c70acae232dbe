package insight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// scaler is the field manager of the HorizontalPodAutoscaler, and of other controllers of kube-controller-manager.
const scaler = "kube-controller-manager"

var (
	hpaKind     = schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}
	hpaResource = schema.GroupVersionResource{Group: hpaKind.Group, Version: "v2", Resource: "horizontalpodautoscalers"}
	replicas    = []string{"spec", "replicas"}
)

// Forecast are the writes of others to the fields of a VidraResource.
type Forecast struct {
	VidraResource string           `json:"vidraResource"`
	Fields        []ContestedField `json:"fields"`
	// Rules leave the fields that will fight to their writers, if they are added to spec.drift.ignore.
	Rules []v1alpha1.IgnoreRule `json:"ignoreRules,omitempty"`
	// Controlled are the fields that are left to the controllers that write them by contract.
	Controlled []ControlledFields `json:"controlled,omitempty"`
	// Missing names the unchecked parts, with the reasons.
	Missing []string `json:"missing,omitempty"`

	// Existing are the present rules of spec.drift.ignore, which Rules extend.
	Existing []v1alpha1.IgnoreRule `json:"-"`
	// Applied reports that the operator has observed the VidraResource.
	Applied bool `json:"-"`
}

// ContestedField is a field of the manifest that another field manager writes.
type ContestedField struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	Field      string `json:"field"`
	// Place is where the manifest has the field.
	Place string `json:"place,omitempty"`
	// Writer is a field manager, or a HorizontalPodAutoscaler.
	Writer string `json:"writer"`
	// Fights reports that the writer is a program, which writes the field again, and that Vidra reverts that.
	Fights bool `json:"fights"`
	// NotBefore is the end of the break-glass of the object: until then, Vidra reverts nothing of it; nil without break-glass.
	NotBefore *metav1.Time `json:"notBefore,omitempty"`
	// Now is the present value, and Wanted the value of the manifest. Empty if they are the same, or withheld.
	Now    string `json:"now,omitempty"`
	Wanted string `json:"wanted,omitempty"`
	// Times is how often status.history has that the writer wrote the field, and Last when it did last.
	Times int64        `json:"times,omitempty"`
	Last  *metav1.Time `json:"last,omitempty"`

	// tokens lead to the field in the manifest; nil if they are unknown.
	tokens []string
	// kinds are the kinds of all objects of the manifest.
	kinds display.Kinds
}

// Object is the object in messages: Deployment shop/web. A kind that the manifest has in several groups gets its group.
func (c ContestedField) Object() string {
	return c.kinds.Name(c.id().GroupKind, c.Namespace, c.Name)
}

// id is the identity of the object.
func (c ContestedField) id() object.Identity {
	return identify(c.APIVersion, c.Kind, c.Namespace, c.Name)
}

// ControlledFields are fields of one object of the manifest.
type ControlledFields struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Namespace  string   `json:"namespace,omitempty"`
	Name       string   `json:"name"`
	Fields     []string `json:"fields"`
}

// ignored are the rules of spec.drift.ignore.
func ignored(vr *v1alpha1.VidraResource) []v1alpha1.IgnoreRule {
	if vr.Spec.Drift == nil {
		return nil
	}
	return vr.Spec.Drift.Ignore
}

// forecaster finds out which fields of a VidraResource others write.
type forecaster struct {
	differ *differ
	// autoscalers are the HorizontalPodAutoscalers by their targets.
	autoscalers map[object.Identity]string
}

func (f *forecaster) run(ctx context.Context) (*Forecast, error) {
	resolved, err := f.differ.resolve(ctx)
	if err != nil {
		return nil, err
	}
	found := &Forecast{VidraResource: f.differ.name(), Fields: []ContestedField{}, Existing: ignored(f.differ.runner.VR), Applied: f.differ.runner.VR.Status.ObservedGeneration != 0}
	if found.Missing, err = f.findAutoscalers(ctx, resolved.Objects); err != nil {
		return nil, err
	}
	for _, u := range resolved.Unresolved {
		found.Missing = append(found.Missing, u.Why.Message)
	}
	fields, missing := make([][]ContestedField, len(resolved.Objects)), make([]string, len(resolved.Objects))
	var checking errgroup.Group
	checking.SetLimit(readers)
	for i, o := range resolved.Objects {
		checking.Go(func() (err error) {
			fields[i], missing[i], err = f.check(ctx, o)
			return err
		})
	}
	if err := checking.Wait(); err != nil {
		return nil, err
	}
	var kinds display.Kinds
	for _, o := range resolved.Objects {
		kinds.Add(o.ID.GroupKind)
	}
	for i, o := range resolved.Objects {
		for j := range fields[i] {
			fields[i][j].kinds = kinds
		}
		found.Fields = append(found.Fields, fields[i]...)
		if controlled := o.Rules.Exemptions.ControllerFields(); len(controlled) > 0 {
			found.Controlled = append(found.Controlled, ControlledFields{
				APIVersion: o.GVK.GroupVersion().String(), Kind: o.GVK.Kind, Namespace: o.ID.Namespace, Name: o.ID.Name, Fields: controlled,
			})
		}
		found.Rules = append(found.Rules, rulesFor(o.ID, fields[i])...)
		if missing[i] != "" {
			found.Missing = append(found.Missing, missing[i])
		}
	}
	return found, f.locate(ctx, found)
}

// findAutoscalers finds the HorizontalPodAutoscalers of the objects that set spec.replicas: in the manifest, and in the
// namespaces of the objects. It returns the unreadable ones.
func (f *forecaster) findAutoscalers(ctx context.Context, objects []*desired.Object) (missing []string, err error) {
	f.autoscalers = map[object.Identity]string{}
	var namespaces []string
	for _, o := range objects {
		u := o.Unstructured()
		if o.ID.GroupKind == hpaKind {
			f.scales(u)
		}
		if _, sets, _ := unstructured.NestedFieldNoCopy(u.Object, replicas...); sets && o.ID.Namespace != "" && !slices.Contains(namespaces, o.ID.Namespace) {
			namespaces = append(namespaces, o.ID.Namespace)
		}
	}
	for _, namespace := range namespaces {
		list, err := f.differ.runner.At.Dynamic().Resource(hpaResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		switch {
		case apierrors.IsForbidden(err):
			missing = append(missing, fmt.Sprintf("you may not list %s in namespace %q, which may write spec.replicas", hpaResource.GroupResource(), namespace))
		case err != nil:
			return nil, fmt.Errorf("list HorizontalPodAutoscalers in namespace %q: %w", namespace, err)
		default:
			for i := range list.Items {
				f.scales(&list.Items[i])
			}
		}
	}
	return missing, nil
}

// scales notes the target of a HorizontalPodAutoscaler.
func (f *forecaster) scales(hpa *unstructured.Unstructured) {
	target, _, _ := unstructured.NestedStringMap(hpa.Object, "spec", "scaleTargetRef") // without one it scales nothing
	id := identify(target["apiVersion"], target["kind"], hpa.GetNamespace(), target["name"])
	f.autoscalers[id] = object.Identity{GroupKind: hpaKind, Namespace: hpa.GetNamespace(), Name: hpa.GetName()}.String()
}

// check returns the fields of an object that others write, or the obstacle to knowing them.
func (f *forecaster) check(ctx context.Context, o *desired.Object) (fields []ContestedField, missing string, err error) {
	if o.Lifetime.Apply.Leaves() { // no write of others is reverted
		return nil, "", nil
	}
	found := &contested{forecaster: f, object: o}
	if hpa := f.autoscalers[o.ID]; hpa != "" {
		if _, sets, _ := unstructured.NestedFieldNoCopy(o.Unstructured().Object, replicas...); sets && !o.Rules.Exemptions.Exempts(scaler, replicas) {
			found.add(strings.Join(replicas, "."), scaler, replicas)
		}
	}
	live, err := f.differ.runner.Live(ctx, o.Key)
	switch {
	case apierrors.IsForbidden(err):
		return found.fields, fmt.Sprintf("%s: you may not read it: %s", o.ID, err), nil
	case err != nil:
		return nil, "", fmt.Errorf("read %s: %w", o.ID, err)
	case live == nil:
		return found.fields, "", nil
	}
	configuration, err := f.differ.runner.Configuration(ctx, o, live)
	if err != nil {
		return nil, "", err
	}
	applied, err := f.differ.runner.Apply(ctx, o, configuration, true)
	switch {
	case err != nil && !isAnswer(err):
		return nil, "", fmt.Errorf("dry run of %s: %w", o.ID, err)
	case err != nil:
		why := object.Explain(err, o.GVK, o.ID, f.differ.runner.Disclosure(o, live)).Message
		return found.fields, fmt.Sprintf("%s: %s", o.ID, why), nil
	}
	found.compare(live, applied)
	if until := f.differ.decide(o, live).Until; !until.IsZero() {
		for i := range found.fields {
			found.fields[i].NotBefore = &metav1.Time{Time: until}
		}
	}
	return found.fields, "", nil
}

// contested collects the fields of one object that others write.
type contested struct {
	forecaster *forecaster
	object     *desired.Object
	fields     []ContestedField
}

// add returns the entry of a field and the field manager that writes it.
func (c *contested) add(field, manager string, tokens []string) *ContestedField {
	o := c.object
	writer := fmt.Sprintf("field manager %q", manager)
	if hpa := c.forecaster.autoscalers[o.ID]; hpa != "" && manager == scaler && slices.Equal(tokens, replicas) {
		writer = hpa
	}
	for i := range c.fields {
		if c.fields[i].Field == field && c.fields[i].Writer == writer {
			return &c.fields[i]
		}
	}
	c.fields = append(c.fields, ContestedField{
		APIVersion: o.GVK.GroupVersion().String(), Kind: o.GVK.Kind, Namespace: o.ID.Namespace, Name: o.ID.Name,
		Field: field, Writer: writer, tokens: tokens,
		Fights: c.forecaster.differ.runner.VR.DriftMode() == v1alpha1.DriftCorrect && !c.forecaster.differ.settings.Tools.Has(manager),
	})
	return &c.fields[len(c.fields)-1]
}

// compare adds the fields that others own in an existing object with another value than the apply would set, and the history
// of the fields that the apply would own.
func (c *contested) compare(live, applied *unstructured.Unstructured) {
	leaves, above := ownership.FieldsOf(applied, c.forecaster.differ.runner.By.Manager, c.object.Unstructured().Object, c.forecaster.differ.runner.Disclosure(c.object, live))
	tokens := map[string][]string{}
	for _, field := range slices.Concat(leaves, above) {
		tokens[field.Path] = field.Tokens
	}
	foreign := func(manager string) bool {
		return manager != "" && !strings.HasPrefix(manager, v1alpha1.FieldManagerPrefix)
	}
	for _, change := range ownership.Drift(live, applied, c.forecaster.differ.runner.By.Manager, c.forecaster.differ.runner.Disclosure(c.object)) {
		// A field with the same value is co-owned. A value that was set through scale is changed again.
		if foreign(change.Manager) && (change.Kind == ownership.Changed || change.Subresource == "scale") {
			field := c.add(change.Path, change.Manager, tokens[change.Path])
			if change.Kind == ownership.Changed {
				field.Now, field.Wanted = change.Found, change.Restored
			}
		}
	}
	for _, e := range c.forecaster.differ.runner.VR.Status.History {
		if IdentityOf(e.Object) != c.object.ID || !foreign(e.Manager) {
			continue
		}
		for _, path := range e.Fields {
			at, sets := tokens[path]
			if !sets || at != nil && c.object.Rules.Exemptions.Exempts(e.Manager, at) {
				continue
			}
			field := c.add(path, e.Manager, at)
			field.Times += e.Count
			if field.Last == nil || field.Last.Before(&e.LastTime) {
				field.Last = &e.LastTime
			}
		}
	}
}

// maxRulePaths is how many paths a rule of spec.drift.ignore has at most.
const maxRulePaths = 64

// rulesFor are the rules that leave the fields that fight to their writers.
func rulesFor(id object.Identity, fields []ContestedField) (rules []v1alpha1.IgnoreRule) {
	var all []string
	for _, field := range fields {
		if pointer := (ownership.Field{Tokens: field.tokens}).Pointer(); field.Fights && pointer != "" && !slices.Contains(all, pointer) {
			all = append(all, pointer)
		}
	}
	for paths := range slices.Chunk(all, maxRulePaths) {
		rules = append(rules, v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTargetOf(id.GroupKind, id.Namespace, id.Name), Paths: paths})
	}
	return rules
}

// locate adds where the manifest has the fields, and puts those that fight first.
func (f *forecaster) locate(ctx context.Context, found *Forecast) error {
	if len(found.Fields) == 0 {
		return nil
	}
	slices.SortStableFunc(found.Fields, func(a, b ContestedField) int { return cmp.Compare(rankOf(a.Fights), rankOf(b.Fights)) })
	parts, err := f.differ.runner.Parts(ctx)
	if err != nil {
		return err
	}
	parsed, err := desired.Parse(f.differ.runner.VR, parts)
	if err != nil {
		return err
	}
	places := map[object.Identity]*located{}
	for i := range found.Fields {
		id := found.Fields[i].id()
		at, known := places[id]
		if !known {
			switch is, err := parsed.Locate(id); {
			case err != nil:
				return err
			case is != nil:
				at = &located{located: is, vr: f.differ.runner.VR}
			}
			places[id] = at
		}
		if at != nil {
			found.Fields[i].Place = at.place(found.Fields[i].tokens...)
		}
	}
	return nil
}
