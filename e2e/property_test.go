package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// randomRounds is how often each object is edited, randomDefinitions the number of generated CustomResourceDefinitions,
	// and randomObjects the number of objects of each; those with Long are for long tests. randomTries is the number
	// of random edits that the API server may refuse in a row.
	randomRounds, randomRoundsLong           = 3, 6
	randomDefinitions, randomDefinitionsLong = 4, 16
	randomObjects, randomObjectsLong         = 4, 12
	randomTries                              = 40
)

// randomKinds are the built-in kinds of which there is an object.
var randomKinds = []string{
	"Deployment of many parts", "Deployment without replicas", "StatefulSet of many parts", "DaemonSet", "CronJob",
	"Service of many ports", "Ingress of many parts", "NetworkPolicy", "PodDisruptionBudget", "HorizontalPodAutoscaler",
	"ConfigMap", "Secret", "ServiceAccount of many Secrets", "Role", "ResourceQuota", "ValidatingWebhookConfiguration",
	"ValidatingAdmissionPolicy", "PodTemplate",
}

// TestRandomEdits makes random edits of objects of built-in kinds and of generated schemas, by updates and
// by applies of other managers, with and without force. The schema of the API server gives the expected object: the
// edited one without the additions of a structural edit, with the values of the manifest. VIDRA_SEED repeats the edits of
// an earlier run. Five classes are left out: null in a manifest, items of a manifest without a key that has a default, defaults of maps and lists, an addition of an empty set or list with
// keys, and an edit that removes all fields of Vidra.
func TestRandomEdits(t *testing.T) {
	t.Parallel()
	seed, rounds := suite.Seed(t), suite.Size(randomRounds, randomRoundsLong)
	ns := newNamespace(t)
	group := ns + ".example.com"
	var documents []string
	var shapes []*shape
	for i, kind := range randomKinds {
		documents, shapes = append(documents, editedObject(kind, fmt.Sprintf("%s-%d", ns, i), "")), append(shapes, nil)
	}
	for i := range suite.Size(randomDefinitions, randomDefinitionsLong) {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		s, kind := randomShape(random, 3), fmt.Sprintf("kind%d", i)
		definition := definitionOf(s, kind, group)
		objs := declared(t, "", definition)
		require.NoError(t, testenv.Apply(t.Context(), env.Config, objs), "VIDRA_SEED=%d: %s", seed, definition)
		t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), objs[0]))) })
		for range suite.Size(randomObjects, randomObjectsLong) {
			documents, shapes = append(documents, manifestOf(random, s, kind, group, fmt.Sprintf("%s-%d", ns, len(documents)))), append(shapes, s)
		}
	}
	newVidraResource(t, ns, manifests(documents...))
	awaitReady(t, ns)
	objs := declared(t, ns, asStored.Replace(manifests(documents...)))
	kinds, fence := typesOf(t, objs), objs[len(randomKinds)]

	made, structural := 0, 0
	for round := range rounds {
		mark := auditMark(t)
		edited := map[int]*randomEdit{}
		for i, obj := range objs {
			if obj == fence {
				continue
			}
			e := &randomEdit{types: kinds, owner: ns, manifest: obj, shape: shapes[i], random: rand.New(rand.NewPCG(seed, uint64(1000*round+i+100)))}
			if e.make(t) {
				edited[i] = e
				made++
				structural += e.gone.Size()
			}
		}
		for i, e := range edited {
			await(t, func(c *assert.CollectT) { e.requireUndone(c) }, "VIDRA_SEED=%d round %d object %d: %s", seed, round, i, e)
		}
		passFence(t, ns, fence)
		sent := operatorSince(t, mark)
		for i, e := range edited {
			e.requireUndone(t)
			e.requireFewWrites(t, sent.Only(nameIs(e.manifest.GetName())), "VIDRA_SEED=%d round %d object %d: %s", seed, round, i, e)
		}
	}
	t.Logf("%d edits, which added %d fields and items that had to go", made, structural)
	require.Positive(t, structural)
	require.Greater(t, made, rounds*len(objs)/2, "most objects could be edited")
}

// typesOf returns the types of the API versions of objects, by the schema of the API server.
func typesOf(t *testing.T, objs []*unstructured.Unstructured) map[string]managedfields.TypeConverter {
	t.Helper()
	api, err := discovery.NewDiscoveryClientForConfig(env.Config)
	require.NoError(t, err)
	schemas, all := openapi3.NewRoot(api.OpenAPIV3()), map[string]managedfields.TypeConverter{}
	await(t, func(c *assert.CollectT) {
		for _, obj := range objs {
			if all[obj.GetAPIVersion()] == nil {
				document, err := schemas.GVSpec(obj.GroupVersionKind().GroupVersion())
				require.NoError(c, err)
				all[obj.GetAPIVersion()], err = managedfields.NewTypeConverter(document.Components.Schemas, false)
				require.NoError(c, err)
			}
			if _, err := all[obj.GetAPIVersion()].ObjectToTyped(obj); err != nil { // the API server publishes definitions later
				delete(all, obj.GetAPIVersion())
				require.NoError(c, err)
			}
		}
	})
	return all
}

// randomEdit is a random edit that the API server has accepted.
type randomEdit struct {
	types    map[string]managedfields.TypeConverter
	random   *rand.Rand
	owner    string
	manifest *unstructured.Unstructured
	// shape is the generated schema; nil for a built-in kind.
	shape *shape
	// by is the field manager, and how the request.
	by, how        string
	before, edited *unstructured.Unstructured
	// gone are the additions of a structural edit.
	gone *fieldpath.Set
	// want is the expected object.
	want *typed.TypedValue
}

func (e *randomEdit) String() string {
	return fmt.Sprintf("%s by %q\nmanifest %s\nbefore   %s\nedited   %s\ngone     %s\nmanaged  %s\nthen     %s", e.how, e.by, encodedText(e.manifest.Object), encodedText(bare(e.before)), encodedText(bare(e.edited)), e.gone, entriesIn(e.before), entriesIn(e.edited))
}

// make makes an edit, another one where the API server refuses it. It returns false if it refuses all.
func (e *randomEdit) make(t *testing.T) bool {
	t.Helper()
	for range randomTries {
		e.before = get(t, e.manifest)
		if e.send() != nil || e.edited.GetResourceVersion() == e.before.GetResourceVersion() {
			continue
		}
		e.judge(t)
		return true
	}
	return false
}

// send sends a random edit.
func (e *randomEdit) send() error {
	ctx := context.Background()
	if e.shape != nil && e.random.IntN(3) == 0 {
		e.edited = portionOf(e.random, e.shape, e.before)
		e.by, e.how = pick(e.random, "applier", "another-manager"), "apply"
		options := []client.PatchOption{client.FieldOwner(e.by)}
		if e.random.IntN(2) == 0 {
			options, e.how = append(options, client.ForceOwnership), "apply with force"
		}
		return admin.Patch(ctx, e.edited, client.RawPatch(types.ApplyPatchType, []byte(encodedText(e.edited.Object))), options...)
	}
	var err error
	if e.shape == nil {
		e.edited, err = patchedLocally(e.before, randomOps(e.random, e.before))
	} else {
		e.edited = e.before.DeepCopy()
		spec, _ := e.edited.Object["spec"].(map[string]any)
		e.edited.Object["spec"] = e.shape.editFields(e.random, spec)
		for e.random.IntN(2) == 0 {
			spec, _ = e.edited.Object["spec"].(map[string]any)
			e.edited.Object["spec"] = e.shape.editFields(e.random, spec)
		}
		e.editMetadata()
	}
	if err != nil {
		return err
	}
	if _, err := e.types[e.manifest.GetAPIVersion()].ObjectToTyped(&unstructured.Unstructured{Object: bare(e.edited)}, typed.AllowDuplicates); err != nil {
		return err
	}
	e.by, e.how = pick(e.random, "kubectl-edit", "kubectl-patch", "controller"), pick(e.random, "update", "merge patch")
	if e.how == "update" {
		return admin.Update(ctx, e.edited, client.FieldOwner(e.by))
	}
	return admin.Patch(ctx, e.edited, client.MergeFromWithOptions(e.before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(e.by))
}

// editMetadata changes labels and annotations, also those of Vidra.
func (e *randomEdit) editMetadata() {
	labels, annotations := e.edited.GetLabels(), e.edited.GetAnnotations()
	switch e.random.IntN(16) {
	case 0:
		delete(labels, "app")
		labels["added"] = "1"
	case 1:
		delete(labels, v1alpha1.ManagedByLabel)
	case 2:
		labels[v1alpha1.ManagedByLabel] = "another"
	case 3:
		delete(annotations, v1alpha1.OwnerAnnotationKey(e.owner))
		annotations["added"] = "1"
	case 4: // without another edit: Vidra must own a field afterwards, or the time of the edit is unknown
		labels, annotations = nil, nil
		e.edited.Object["spec"] = e.before.Object["spec"]
	}
	e.edited.SetLabels(labels)
	e.edited.SetAnnotations(annotations)
}

// bare is an object without the fields that controllers and the API server keep.
func bare(obj *unstructured.Unstructured) map[string]any {
	content := settled(obj)
	metadata, _ := content["metadata"].(map[string]any)
	for name := range metadata {
		if name != "labels" && name != "annotations" {
			delete(metadata, name)
		}
	}
	if annotations, _ := metadata["annotations"].(map[string]any); len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	return content
}

// typed is an object in the types of the API server, with its paths.
func (e *randomEdit) typed(t require.TestingT, content map[string]any) (*typed.TypedValue, *fieldpath.Set) {
	value, err := e.types[e.manifest.GetAPIVersion()].ObjectToTyped(&unstructured.Unstructured{Object: content}, typed.AllowDuplicates)
	require.NoError(t, err, "%v", content)
	paths, err := value.ToFieldSet()
	require.NoError(t, err, "%v", content)
	return value, paths
}

// configuration is what Vidra applies.
func (e *randomEdit) configuration(t require.TestingT) (*typed.TypedValue, *fieldpath.Set) {
	return e.typed(t, bare(&unstructured.Unstructured{Object: marked(e.owner, e.manifest)}))
}

// ours are the fields that Vidra owns.
func (e *randomEdit) ours(obj *unstructured.Unstructured) *fieldpath.Set {
	return fieldsOf(obj, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == v1alpha1.FieldManager(e.owner) && f.Operation == metav1.ManagedFieldsOperationApply
	})
}

// judge finds the expected object. Where the API server refuses the object with the additions beside changed values, these
// have to go, too.
func (e *randomEdit) judge(t *testing.T) {
	t.Helper()
	configuration, configured := e.configuration(t)
	before, _ := e.typed(t, bare(e.before))
	edited, _ := e.typed(t, bare(e.edited))
	changes, err := before.Compare(edited)
	require.NoError(t, err)
	managed := fieldsOf(e.before, func(metav1.ManagedFieldsEntry) bool { return true }) // a changed default counts as added
	var refusal error
	for scope := range 3 {
		touched := map[string]bool{}
		switch {
		case scope == 0 && strings.HasPrefix(e.how, "apply"):
		case scope == 2:
			touched[""] = true
		default:
			e.ours(e.before).Iterate(func(path fieldpath.Path) {
				for n := range path {
					if changes.Removed.Has(path[:n+1]) {
						touched[path[:n].String()] = true
						return
					}
				}
				if scope == 1 && changes.Modified.Has(path) {
					touched[path[:len(path)-1].String()] = true
				}
			})
		}
		e.gone = fieldpath.NewSet()
		changes.Added.Union(changes.Modified).Iterate(func(path fieldpath.Path) {
			below := false
			for n := range path {
				below = below || touched[path[:n].String()]
				if changes.Added.Has(path[:n+1]) || !has(managed, path[:n+1]) {
					if below && !has(configured, path[:n+1]) {
						e.gone.Insert(path[:n+1].Copy())
					}
					return
				}
			}
		})
		left, _ := without(bare(e.edited), e.gone).(map[string]any)
		rest, _ := e.typed(t, left)
		want, err := rest.Merge(configuration)
		require.NoError(t, err)
		if e.want, refusal = e.defaulted(t, want); refusal == nil {
			return
		}
	}
	require.NoError(t, refusal, "%s", e)
}

// without is a value without the fields and items at the paths of a set.
func without(v any, gone *fieldpath.Set) any {
	if gone.Empty() {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		left := map[string]any{}
		for name, value := range v {
			if element := (fieldpath.PathElement{FieldName: &name}); !gone.Members.Has(element) {
				left[name] = without(value, gone.WithPrefix(element))
			}
		}
		return left
	case []any:
		left := []any{}
		for _, item := range v {
			if element, found := elementOf(item, gone); !found {
				left = append(left, item)
			} else if !gone.Members.Has(element) {
				left = append(left, without(item, gone.WithPrefix(element)))
			}
		}
		return left
	}
	return v
}

// elementOf is the element of a set that leads to an item of a list.
func elementOf(item any, set *fieldpath.Set) (element fieldpath.PathElement, found bool) {
	fields, _ := item.(map[string]any)
	leads := func(to fieldpath.PathElement) bool {
		if to.Value != nil {
			return value.Equals(*to.Value, value.NewValueInterface(item))
		}
		return to.Key != nil && !slices.ContainsFunc(*to.Key, func(key value.Field) bool {
			v, there := fields[key.Name] // an absent key has its default
			return there && !value.Equals(key.Value, value.NewValueInterface(v))
		})
	}
	see := func(to fieldpath.PathElement) {
		if !found && leads(to) {
			element, found = to, true
		}
	}
	set.Members.Iterate(see)
	for to := range set.Children.All() {
		see(to)
	}
	return element, found
}

// defaulted is an object with the defaults of the API server, by a dry run.
func (e *randomEdit) defaulted(t *testing.T, want *typed.TypedValue) (*typed.TypedValue, error) {
	t.Helper()
	content, _ := want.AsValue().Unstructured().(map[string]any)
	var ops []map[string]any
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if name != "apiVersion" && name != "kind" && name != "metadata" {
			ops = append(ops, map[string]any{"op": "add", "path": "/" + name, "value": content[name]})
		}
	}
	obj := e.manifest.DeepCopy()
	if err := admin.Patch(t.Context(), obj, client.RawPatch(types.JSONPatchType, []byte(encodedText(ops))), client.DryRunAll); err != nil {
		return nil, err
	}
	result := bare(obj)
	result["metadata"] = content["metadata"]
	defaulted, _ := e.typed(t, result)
	return defaulted, nil
}

// has reports whether a set has a path, or one below it.
func has(set *fieldpath.Set, path fieldpath.Path) bool {
	if len(path) == 0 || set.Has(path) {
		return true
	}
	for _, element := range path {
		set = set.WithPrefix(element)
	}
	return !set.Empty()
}

// requireUndone requires the expected object, with the fields of the manifest and no other ones under the manager of Vidra.
func (e *randomEdit) requireUndone(t require.TestingT) {
	live := get(t, e.manifest)
	is, paths := e.typed(t, bare(live))
	differences := e.differences(t, is, paths)
	require.True(t, differences.IsSame(), "%s\nlive     %s\n%s", differences, encodedText(bare(live)), entriesIn(live))
	_, configured := e.configuration(t)
	configured = configured.Difference(fieldpath.NewSet(fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind")))
	ours := e.ours(live)
	require.True(t, ours.Equals(configured), "Vidra owns also %s and lacks %s", ours.Difference(configured), configured.Difference(ours))
}

// differences are those between the expected object and another one, apart from empty sets and lists with keys: managedFields
// have no path for them.
func (e *randomEdit) differences(t require.TestingT, is *typed.TypedValue, paths *fieldpath.Set) *typed.Comparison {
	differences, err := e.want.Compare(is)
	require.NoError(t, err)
	expected, err := e.want.ToFieldSet()
	require.NoError(t, err)
	differences.Removed, differences.Added = thoseIn(expected, differences.Removed), thoseIn(paths, differences.Added)
	return differences
}

// thoseIn are the paths that are in all, or above one in it.
func thoseIn(all, paths *fieldpath.Set) *fieldpath.Set {
	those := fieldpath.NewSet()
	paths.Iterate(func(path fieldpath.Path) {
		if has(all, path) {
			those.Insert(path.Copy())
		}
	})
	return those
}

// requireFewWrites requires the writes that the edit needs at most.
func (e *randomEdit) requireFewWrites(t *testing.T, sent requests, message string, args ...any) {
	t.Helper()
	if crowded(sent) || len(sent.Only(verbIs("get"))) > 0 {
		return // a controller wrote at the same time, or the label of the watch was missing
	}
	most := 2
	if edited, paths := e.typed(t, bare(e.edited)); e.differences(t, edited, paths).IsSame() && e.ours(e.before).Equals(e.ours(e.edited)) {
		most = 0
	} else if e.gone.Empty() && e.shape != nil { // the API server writes annotations into some built-in kinds
		most = 1
	}
	require.LessOrEqual(t, len(sent.Writes().Accepted()), most, "%s\n%s", sent, fmt.Sprintf(message, args...))
}

// fieldsOf are the paths in some entries of an object's managedFields.
func fieldsOf(obj *unstructured.Unstructured, which func(metav1.ManagedFieldsEntry) bool) *fieldpath.Set {
	all := fieldpath.NewSet()
	for _, f := range obj.GetManagedFields() {
		if set := fieldpath.NewSet(); which(f) && set.FromJSON(bytes.NewReader(f.FieldsV1.GetRawBytes())) == nil {
			all = all.Union(set)
		}
	}
	return all
}
