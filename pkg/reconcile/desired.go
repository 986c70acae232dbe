package reconcile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Kinds that are treated in a way of their own.
var (
	crdKind    = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	secretKind = schema.GroupKind{Kind: "Secret"}
)

// desired is an object as the manifest has it, ready to be applied.
type desired struct {
	id    identity
	gvk   schema.GroupVersionKind
	key   trigger.ObjectKey
	place place
	stage manifest.Stage
	// body is the applied configuration: the object with our label and
	// annotation, as JSON.
	body []byte
	// provides is the kind that the object defines, if it is a
	// CustomResourceDefinition.
	provides schema.GroupKind
	// ignored are the ignore rules for the object; nil if there are none.
	ignored *ignored
	// exempt are the same rules, with all their paths.
	exempt []managedPaths
	// sensitive reports that its values must not be shown, and withholds that some must not.
	sensitive, withholds bool
	// setsBreakGlass reports that the manifest gives it a break-glass annotation.
	setsBreakGlass bool
	// configuration identifies the body and the rules.
	configuration string
	// weight is the memory that it takes to parse the body; see heavyShare.
	weight int64
}

// unresolved is an object whose kind is not served.
type unresolved struct {
	// id has the namespace that the manifest gives, which may be none.
	id  identity
	gvk schema.GroupVersionKind
	why failure
}

// is reports whether the object may be the one of the inventory.
func (u unresolved) is(id identity) bool {
	return u.id.GroupKind == id.GroupKind && u.id.name == id.name &&
		(u.id.namespace == "" || id.namespace == "" || u.id.namespace == id.namespace) // cluster-scoped ones may name one, too
}

// resolved are the objects of a manifest, with how their kinds are served.
type resolved struct {
	// objects are in the order in which they are applied.
	objects    []*desired
	unresolved []unresolved
	// unmatched are the ignore rules that match nothing.
	unmatched []string
}

// resolveManifest returns what the parts of the manifest of vr want, which holders hold and
// which is applied with a signature. It fails for a manifest that cannot be read.
func resolveManifest(ctx context.Context, vr *v1alpha1.VidraResource, by signature, holders []string, parts []part, kinds Destination) (*resolved, error) {
	parsed, err := parse(parts)
	if err != nil {
		return nil, err
	}
	if len(parsed) == 0 {
		return nil, errEmpty
	}
	if err := holdsItself(vr.Name, holders, parsed); err != nil {
		return nil, err
	}
	rules, err := rulesOf(vr)
	if err != nil {
		return nil, err
	}
	w := &resolved{}
	mappings, missing := resolve(ctx, parsed, kinds)
	var known []manifest.Object
	for _, obj := range parsed {
		gvk := obj.GroupVersionKind()
		if err := missing[gvk]; err != nil {
			why := *err
			why.message = obj.Position.String() + ": " + why.message
			w.unresolved = append(w.unresolved, unresolved{id: identityIn(obj.Unstructured), gvk: gvk, why: why})
			continue
		}
		known = append(known, obj)
	}
	namespaced := func(gvk schema.GroupVersionKind) bool { return mappings[gvk].Namespaced }
	if known, err = manifest.Resolve(known, vr.Spec.Destination.Namespace, namespaced); err != nil {
		return nil, err
	}
	manifest.Sort(known, namespaced)
	w.objects = make([]*desired, 0, len(known))
	for _, obj := range known {
		d, err := newDesired(by, kinds.Name(), obj, mappings[obj.GroupVersionKind()])
		if err != nil {
			return nil, err
		}
		if err := d.setIgnoreRules(rules, obj.Unstructured); err != nil {
			return nil, err
		}
		w.objects = append(w.objects, d)
	}
	if len(w.unresolved) == 0 { // otherwise a rule may be for what is not known yet
		w.unmatched = unmatched(rules)
	}
	return w, nil
}

// errEmpty is what a manifest without objects fails with. Taking it for the
// wish to remove everything would make a slip of the pen a catastrophe.
var errEmpty = errors.New("the manifest holds no object, so what was applied before stays as it is: " +
	"put objects into spec.manifest, or delete the VidraResource to remove what it applied")

// adopt takes over what was read. What waited for its kind is attempted anew.
func (s *ownerState) adopt(generation int64, objects []*desired, waiting []unresolved) {
	for o := range s.all() {
		if o.problem != nil && (o.problem.reason == v1alpha1.ReasonKindUnavailable || o.problem.reason == v1alpha1.ReasonProgressing) {
			o.problem = nil
		}
	}
	s.setManifest(objects)
	s.generation, s.unresolved = generation, waiting
	s.reread, s.stalled = false, nil
	s.weight, s.bodies, s.dropped = 0, nil, false
	for _, d := range objects {
		s.weight += d.weight
	}
}

// resolve asks how each kind of the objects is served.
func resolve(ctx context.Context, objects []manifest.Object, kinds Kinds) (
	map[schema.GroupVersionKind]cluster.Mapping, map[schema.GroupVersionKind]*failure,
) {
	mappings := map[schema.GroupVersionKind]cluster.Mapping{}
	missing := map[schema.GroupVersionKind]*failure{}
	for _, obj := range objects {
		gvk := obj.GroupVersionKind()
		if _, known := mappings[gvk]; known || missing[gvk] != nil {
			continue
		}
		mapping, err := kinds.Mapping(ctx, gvk)
		if err != nil {
			missing[gvk] = unavailable(gvk, err)
			continue
		}
		if len(mapping.MissingVerbs) > 0 {
			missing[gvk] = cannotBeKept(gvk, mapping.MissingVerbs)
			continue
		}
		mappings[gvk] = mapping
	}
	return mappings, missing
}

// unavailable says why the objects of a kind cannot be applied: because it is
// not served, or because the API server cannot say.
func unavailable(gvk schema.GroupVersionKind, err error) *failure {
	if meta.IsNoMatchError(err) {
		return notServed(gvk)
	}
	return &failure{v1alpha1.ReasonApplyFailed, err.Error()}
}

func notServed(gvk schema.GroupVersionKind) *failure {
	return &failure{v1alpha1.ReasonKindUnavailable, fmt.Sprintf(
		"kind %s of %s is not served here: install its CustomResourceDefinition, or correct the kind or apiVersion",
		gvk.Kind, gvk.GroupVersion())}
}

// newDesired prepares an object of the manifest of an owner, for a cluster.
func newDesired(by signature, at string, obj manifest.Object, mapping cluster.Mapping) (*desired, error) {
	u := obj.Unstructured
	gvk := u.GroupVersionKind()
	d := &desired{
		id:    identityIn(u),
		gvk:   gvk,
		key:   trigger.ObjectKey{Cluster: at, GVR: mapping.GVR, Namespace: u.GetNamespace(), Name: u.GetName()},
		place: placeOf(obj.Position),
		stage: manifest.StageOf(gvk.GroupKind(), mapping.Namespaced), sensitive: ownership.Sensitive(u),
	}
	_, d.setsBreakGlass = u.GetAnnotations()[v1alpha1.BreakGlassUntilAnnotation]
	if d.id.GroupKind == crdKind {
		d.provides.Group, _, _ = unstructured.NestedString(u.Object, "spec", "group")
		d.provides.Kind, _, _ = unstructured.NestedString(u.Object, "spec", "names", "kind")
	}
	if d.id.GroupKind == secretKind {
		mergeStringData(u)
	}
	by.mark(u)
	body, err := encode(u)
	if err != nil {
		return nil, fmt.Errorf("%s: encode %s: %w", obj.Position, u.GetName(), err)
	}
	d.withholds = ownership.Withholds(u)
	d.body, d.configuration, d.weight = body, identify(escaped(body)), manifest.Weight(body)
	return d, nil
}

// setIgnoreRules takes over the ignore rules for the object.
func (d *desired) setIgnoreRules(rules []*rule, obj *unstructured.Unstructured) error {
	var mine []v1alpha1.IgnoreRule
	d.ignored, mine = ignoredIn(rules, obj)
	d.exempt = exemptIn(rules, obj)
	if d.ignored == nil {
		return nil
	}
	text, err := json.Marshal(mine)
	d.configuration = identify(escaped(d.body), text)
	return err
}

// identify is a short text that is another one for other parts.
func identify(parts ...[]byte) string {
	const enough = 12 // bytes
	sum := sha256.Sum256(bytes.Join(parts, []byte{0}))
	return base64.RawURLEncoding.EncodeToString(sum[:enough])
}

// mergeStringData turns stringData of a Secret into data, as the API server does
// when it stores one. Applied as it is, we would own a field that is never there,
// and no manager would own the data.
func mergeStringData(u *unstructured.Unstructured) {
	values, found, err := unstructured.NestedStringMap(u.Object, "stringData")
	if !found || err != nil {
		return // the API server says what is wrong with it
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
