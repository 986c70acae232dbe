package desired

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/internal/ending"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Object is an object as the manifest has it, ready to be applied.
type Object struct {
	ID    object.Identity
	GVK   schema.GroupVersionKind
	Key   trigger.ObjectKey
	Place place
	// Body is the applied configuration: the object with our label and
	// annotation, as JSON.
	Body     []byte
	Declares Declarations
	Rules    Rules
	Secrecy  Secrecy
	Lifetime Lifetime
	// Configuration identifies the body and the rules.
	Configuration string
	// Weight is the memory that it takes to parse the body; see limits.HeavyShare.
	Weight int64
}

// Declarations are the parts of an object with a meaning for Vidra.
type Declarations struct {
	// Provides is the kind that the object defines, if it is a
	// CustomResourceDefinition; nil otherwise.
	Provides *schema.GroupKind
	// References are the owner references that the manifest gives it.
	References []metav1.OwnerReference
	// SetsBreakGlass reports that the manifest gives it a break-glass annotation.
	SetsBreakGlass bool
}

// Rules are the ignore rules for an object.
type Rules struct {
	Exemptions Exemptions
	// Ignored reports that they match something in the manifest, so that not all of it is enforced.
	Ignored bool
}

// Secrecy is the secrecy of an object. Disclosure decides whether values are shown.
type Secrecy struct {
	// Sensitive reports that the object is sensitive in the manifest, and Withholds that some of its values must stay
	// hidden.
	Sensitive ownership.Sensitivity
	Withholds bool
}

// Lifetime is the lifetime of an object.
type Lifetime struct {
	// Apply is the policy of an object that is created once; empty for others.
	Apply v1alpha1.ApplyPolicy
	// RemovesItself reports that the controller of the object removes it after its end; RunsOnce, that the
	// manifest says that it is created once.
	RemovesItself, RunsOnce bool
}

// Disclosure decides whether values of the object are shown. before reports that the object was sensitive before it
// was edited; after are its versions since then, nil where one is absent.
func (d *Object) Disclosure(before ownership.Sensitivity, after ...*unstructured.Unstructured) ownership.Disclosure {
	known := ownership.Disclose(before, false, d.Secrecy.Sensitive).With(after...)
	if d.Secrecy.Withholds {
		known = known.Withholding(d.Unstructured)
	}
	return known
}

// Defines reports whether the object is the CustomResourceDefinition of a kind.
func (d *Object) Defines(kind schema.GroupKind) bool {
	return d.Declares.Provides != nil && *d.Declares.Provides == kind
}

// Unresolved is an object whose kind is unserved, or that is out of scope.
type Unresolved struct {
	// ID has the namespace that the manifest gives, if any.
	ID  object.Identity
	GVK schema.GroupVersionKind
	Why object.Failure
}

// AwaitsKind reports whether the object is applied when its kind is served.
func (u Unresolved) AwaitsKind() bool { return u.Why.Reason != v1alpha1.ReasonOutOfScope }

// MayBe returns the function that reports whether one of the unresolved objects may be the object of an inventory entry: the manifest may leave out
// the namespace, or name one of a cluster-scoped object.
func MayBe(unresolved []Unresolved) func(entry object.Identity) bool {
	bare := func(id object.Identity) object.Identity { id.Namespace = ""; return id }
	ids, names := sets.New[object.Identity](), sets.New[object.Identity]()
	for _, u := range unresolved {
		ids.Insert(u.ID)
		names.Insert(bare(u.ID))
	}
	return func(id object.Identity) bool {
		return ids.Has(id) || ids.Has(bare(id)) || id.Namespace == "" && names.Has(id)
	}
}

// Resolved are the objects of a manifest, with how their kinds are served.
type Resolved struct {
	// Objects are in the order of their apply.
	Objects    []*Object
	Unresolved []Unresolved
	// Unmatched are the ignore rules that match nothing.
	Unmatched []string
}

// ScopedDestination is where the objects of a manifest are applied.
type ScopedDestination struct {
	Destination access.Destination
	// Scope is the part of it that Vidra may use. Objects that are out of scope stay unresolved.
	Scope cluster.Scope
}

// Resolve returns the objects of the parts of the manifest of vr, which holders hold and
// which is applied with a signature. It fails for an unreadable manifest.
func Resolve(ctx context.Context, vr *v1alpha1.VidraResource, by object.Signature, holders []string, parts []Part, at ScopedDestination) (*Resolved, error) {
	parsed, rules, err := checked(vr, holders, parts)
	if err != nil {
		return nil, err
	}
	w := &Resolved{}
	leave := func(obj manifest.Object, why object.Failure) {
		why.Message = obj.Position.String() + ": " + why.Message
		w.Unresolved = append(w.Unresolved, Unresolved{ID: object.IdentityIn(obj.Unstructured), GVK: obj.GroupVersionKind(), Why: why})
	}
	mappings, missing := resolve(ctx, parsed, at.Destination)
	var known []manifest.Object
	for _, obj := range parsed {
		if why := missing[obj.GroupVersionKind()]; why != nil {
			leave(obj, *why)
			continue
		}
		known = append(known, obj)
	}
	namespaced := func(gvk schema.GroupVersionKind) bool { return mappings[gvk].Namespaced }
	if known, err = manifest.Resolve(known, vr.Spec.Destination.Namespace, namespaced); err != nil {
		return nil, err
	}
	manifest.Sort(known, namespaced)
	w.Objects = make([]*Object, 0, len(known))
	for _, obj := range known {
		if why := access.ObjectOutOfScope(at.Scope, object.IdentityIn(obj.Unstructured)); why != nil {
			leave(obj, *why)
			continue
		}
		d, err := newObject(by, at.Destination.Name(), obj, mappings[obj.GroupVersionKind()], rules)
		if err != nil {
			return nil, err
		}
		w.Objects = append(w.Objects, d)
	}
	if len(w.Unresolved) == 0 { // otherwise a rule may be for what is not known yet
		w.Unmatched = rules.unmatched()
	}
	return w, nil
}

// ErrEmpty is the error of a manifest without objects. An empty manifest is
// refused because it may be a mistake, and pruning would delete every object.
var ErrEmpty = errors.New("the manifest holds no object, so nothing is changed or removed: " +
	"put objects into spec.manifest, or delete the VidraResource to remove what it applied")

// empty returns an error that wraps ErrEmpty if the manifest has no object, or if one of several parts that are there is
// empty, as a template may render it. A missing optional part and an empty spec.manifest are left out.
func empty(parts []Part, parsed []manifest.Object) error {
	for _, part := range parts {
		given := len(parts) > 1 && (part.name != specManifest || strings.TrimSpace(part.text) != "")
		if given && !slices.ContainsFunc(parsed, func(obj manifest.Object) bool { return obj.Position.Source == part.name }) {
			return emptyPart(part.name)
		}
	}
	if len(parsed) == 0 {
		return ErrEmpty
	}
	return nil
}

// emptyPart is the refusal of a manifest that has a part without objects.
type emptyPart string

func (e emptyPart) Error() string {
	return string(e) + ": this part of the manifest holds no object, so nothing is changed or removed: " +
		"put objects into it, or take it out of the spec to remove the objects that it had"
}

// Is makes an emptyPart ErrEmpty.
func (e emptyPart) Is(target error) bool { return target == ErrEmpty }

// resolve asks how each kind of the objects is served.
func resolve(ctx context.Context, objects []manifest.Object, kinds access.Kinds) (
	map[schema.GroupVersionKind]cluster.Mapping, map[schema.GroupVersionKind]*object.Failure,
) {
	mappings := map[schema.GroupVersionKind]cluster.Mapping{}
	missing := map[schema.GroupVersionKind]*object.Failure{}
	for _, obj := range objects {
		gvk := obj.GroupVersionKind()
		if _, known := mappings[gvk]; known || missing[gvk] != nil {
			continue
		}
		mapping, err := kinds.Mapping(ctx, gvk)
		if err != nil {
			missing[gvk] = unavailable(ctx, kinds, gvk, err)
			continue
		}
		if len(mapping.MissingVerbs) > 0 {
			missing[gvk] = object.CannotBeKept(gvk, mapping.MissingVerbs)
			continue
		}
		mappings[gvk] = mapping
	}
	return mappings, missing
}

// laterGroups are the present groups of the kinds of a former group of Kubernetes:
// https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-16
var laterGroups = map[string][]string{"extensions": {"apps", "networking.k8s.io"}}

// unavailable returns the obstacle to applying a kind: it is unserved, or the API server leaves that unanswered. It names the version that the API
// server serves where the manifest has another one.
func unavailable(ctx context.Context, kinds access.Kinds, gvk schema.GroupVersionKind, err error) *object.Failure {
	if !meta.IsNoMatchError(err) {
		return &object.Failure{Reason: v1alpha1.ReasonApplyFailed, Message: err.Error()}
	}
	for _, group := range append([]string{gvk.Group}, laterGroups[gvk.Group]...) {
		other := schema.GroupVersionKind{Group: group, Version: gvk.Version, Kind: gvk.Kind}
		if served, err := kinds.MappingInAnyVersion(ctx, other); err == nil {
			return object.NotServedVersion(gvk, served.GVR.GroupVersion())
		}
	}
	return object.NotServed(gvk)
}

// maxQuoted is how many bytes of a wrong value a message quotes.
const maxQuoted = 63

// newObject prepares an object of the manifest of an owner, for a cluster. The labels of shards are left out of its
// Configuration, which stays the same in another shard.
func newObject(by object.Signature, at string, obj manifest.Object, mapping cluster.Mapping, ignore rules) (*Object, error) {
	u := obj.Unstructured
	gvk, namespace := unique.Make(u.GroupVersionKind()).Value(), unique.Make(u.GetNamespace()).Value() // many objects share them
	d := &Object{
		ID:      object.Identity{GroupKind: gvk.GroupKind(), Namespace: namespace, Name: u.GetName()},
		GVK:     gvk,
		Key:     trigger.ObjectKey{Cluster: at, GVR: mapping.GVR, Namespace: namespace, Name: u.GetName()},
		Place:   placeOf(obj.Position),
		Secrecy: Secrecy{Sensitive: ownership.SensitivityOf(u)}, Declares: Declarations{References: u.GetOwnerReferences()},
	}
	_, d.Declares.SetsBreakGlass = u.GetAnnotations()[v1alpha1.BreakGlassUntilAnnotation]
	if value, set := u.GetAnnotations()[v1alpha1.ApplyAnnotation]; set {
		if d.Lifetime.Apply = v1alpha1.ApplyPolicy(value); d.Lifetime.Apply != v1alpha1.ApplyIfNotPresent && d.Lifetime.Apply != v1alpha1.ApplyCreateOnly {
			return nil, fmt.Errorf("%s: the annotation %s of %s is %q: set it to %s or %s, or remove it", obj.Position, v1alpha1.ApplyAnnotation, d.ID,
				display.Truncate(value, maxQuoted), v1alpha1.ApplyIfNotPresent, v1alpha1.ApplyCreateOnly)
		}
	}
	if d.ID.GroupKind == object.CRDKind {
		d.Declares.Provides = &schema.GroupKind{}
		d.Declares.Provides.Group, _, _ = unstructured.NestedString(u.Object, "spec", "group")
		d.Declares.Provides.Kind, _, _ = unstructured.NestedString(u.Object, "spec", "names", "kind")
	}
	if d.ID.GroupKind == object.SecretKind {
		MergeStringData(u)
	}
	by.MarkOwner(u)
	mine := ignore.of(u)
	if ignore.controllers {
		withoutBindings(u)
	}
	body, err := Encode(u)
	if err != nil {
		return nil, fmt.Errorf("%s: encode %s: %w", obj.Position, u.GetName(), err)
	}
	d.Secrecy.Withholds = ownership.Withholds(u)
	d.Lifetime.RemovesItself, d.Lifetime.RunsOnce = ending.RemovesItself(u), ending.RunsOnce(u)
	d.Body, d.Configuration, d.Weight = body, object.Identify(escaped(body)), manifest.Weight(body)
	if err := d.setIgnoreRules(mine, u, ignore.steps); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", obj.Position, d.ID, err)
	}
	if by.Sharded() {
		by.Mark(u)
		d.Body, err = Encode(u)
	}
	d.Body = bytes.Clone(d.Body) // without the rest of the buffer, because it is kept
	return d, err
}

// setIgnoreRules sets the ignore rules of the object. steps is the rest of maxIgnoreSteps.
func (d *Object) setIgnoreRules(mine []*rule, obj *unstructured.Unstructured, steps *int) error {
	exempt, given := matchedIn(mine, obj, steps)
	d.Rules = Rules{Exemptions: exempt, Ignored: len(given) > 0}
	if err := exempt.fit(steps, len(d.Body)); err != nil || !d.Rules.Ignored {
		return err
	}
	text, err := json.Marshal(given)
	d.Configuration = object.Identify(escaped(d.Body), text)
	return err
}

// MergeStringData turns stringData of a Secret into data, as the API server does
// when it stores one. Applied as it is, we would own a field that is always absent,
// and the data would be unowned.
func MergeStringData(u *unstructured.Unstructured) {
	values, found, err := unstructured.NestedStringMap(u.Object, "stringData")
	if !found || err != nil {
		return // the API server reports what is wrong with it
	}
	data, _, err := unstructured.NestedMap(u.Object, "data")
	if err != nil {
		return
	}
	if data == nil {
		data = make(map[string]any, len(values))
	}
	for key, value := range values {
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	u.Object["data"] = data
	unstructured.RemoveNestedField(u.Object, "stringData")
}

// SetsAll reports whether the applied configuration has each of some fields, as the API server names them
// in an error, or something above or below each.
func (d *Object) SetsAll(fields []string) bool {
	content := d.Unstructured().Object
	return !slices.ContainsFunc(fields, func(field string) bool { return !setsField(content, field) })
}

// setsField reports whether value has a field, or something above or below it.
func setsField(value any, field string) bool {
	for token := range strings.SplitSeq(field, ".") {
		name, _, listed := strings.Cut(token, "[") // of which item, the configuration need not say
		fields, ok := value.(map[string]any)
		if !ok {
			return true // it is within something that is set
		}
		child, found := fields[name]
		if !found && name == "clusterIPs" { // which the API server fills from clusterIP
			child, found = fields["clusterIP"]
		}
		if !found {
			return false
		}
		if listed {
			return true
		}
		value = child
	}
	return true
}

// Unstructured is the applied configuration.
func (d *Object) Unstructured() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	_ = u.UnmarshalJSON(d.Body) // it was encoded from one
	return u
}
