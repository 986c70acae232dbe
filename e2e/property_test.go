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
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

const (
	// randomRounds is how often each object is edited, randomRoundsLong how often in long
	// tests, randomDefinitions the number of generated CustomResourceDefinitions, and
	// randomTries the number of random edits that the API server may refuse in a row.
	randomRounds, randomRoundsLong, randomDefinitions, randomTries = 2, 12, 4, 40
)

// randomKinds are the built-in kinds of which there is an object.
var randomKinds = []string{
	"Deployment of many parts", "Deployment without replicas", "StatefulSet of many parts", "DaemonSet", "CronJob",
	"Service of many ports", "Ingress of many parts", "NetworkPolicy", "PodDisruptionBudget", "HorizontalPodAutoscaler",
	"ConfigMap", "Secret", "ServiceAccount of many Secrets", "Role", "ResourceQuota", "ValidatingWebhookConfiguration",
	"ValidatingAdmissionPolicy", "PodTemplate",
}

// TestRandomEdits makes random edits of random objects through every client. After each,
// the object has what the manifest says, nothing is left that the edit added below a parent
// of what it removed, and what others had added before is still there. VIDRA_SEED repeats
// the edits of an earlier run.
func TestRandomEdits(t *testing.T) {
	t.Parallel()
	seed, rounds := suite.Seed(t), suite.Size(randomRounds, randomRoundsLong)
	ns := newNamespace(t)
	var documents []string
	for i, kind := range randomKinds {
		documents = append(documents, editedObject(kind, fmt.Sprintf("%s-%d", ns, i), ""))
	}
	for i := range randomDefinitions {
		definition, object := randomDefinition(rand.New(rand.NewPCG(seed, uint64(i))), fmt.Sprintf("kind%d", i), ns+".example.com")
		objs := declared(t, "", definition)
		require.NoError(t, testenv.Apply(t.Context(), env.Config, objs), "VIDRA_SEED=%d: %s", seed, definition)
		t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), objs[0]))) })
		documents = append(documents, object)
	}
	newVidraResource(t, ns, manifests(documents...))
	awaitReady(t, ns)
	objs := declared(t, ns, asStored.Replace(manifests(documents...)))

	mark := auditMark(t)
	made, gone := 0, 0
	for round := range rounds {
		edited := map[int]*randomEdit{}
		for i, obj := range objs {
			random := rand.New(rand.NewPCG(seed, uint64(1000*round+i+100)))
			if e := makeRandomEdit(t, random, ns, obj); e != nil {
				edited[i] = e
				made++
				gone += len(e.gone)
			}
		}
		for i, e := range edited {
			await(t, func(c *assert.CollectT) { e.requireUndone(c, ns) },
				"VIDRA_SEED=%d round %d object %d, %s %s: %s by %s", seed, round, i, e.want.GetKind(), e.want.GetName(), e.ops, e.by)
		}
	}
	sent := operatorSince(t, mark).Only(func(e request) bool {
		return e.Verb != "watch" && e.Verb != "list" && strings.HasPrefix(e.Name, ns+"-")
	})
	t.Logf("%d edits, which added %d fields and items that had to go, %d requests", made, gone, len(sent))
	require.Positive(t, gone)
	require.Greater(t, made, rounds*len(objs)/2, "most objects could be edited")
	require.LessOrEqual(t, len(sent), 3*made, "VIDRA_SEED=%d", seed)
}

// randomEdit is a random edit that the API server has accepted.
type randomEdit struct {
	want *unstructured.Unstructured
	// ops is the edit as a JSON patch, and by who made it.
	ops, by string
	// gone are the paths that the edit added below the parent of an owned path that it removed,
	// and kept those that users had added before and that the edit left alone.
	gone, kept []fieldpath.Path
}

// makeRandomEdit makes an edit, another one where the API server refuses it; nil if it
// refuses all.
func makeRandomEdit(t *testing.T, random *rand.Rand, owner string, want *unstructured.Unstructured) *randomEdit {
	t.Helper()
	managers := slices.Sorted(maps.Keys(clients))
	if !clientgoscheme.Scheme.Recognizes(want.GroupVersionKind()) {
		managers = slices.DeleteFunc(managers, func(manager string) bool { return manager == "kubectl-edit" })
	}
	for range randomTries {
		before := get(t, want)
		ops := randomOps(random, before)
		by := managers[random.IntN(len(managers))]
		edited, err := admittedAs(before, ops)
		if err != nil {
			continue
		}
		if clients[by](owner, want, ops) != nil {
			continue // the client cannot make it, or only as another edit that is refused
		}
		e := &randomEdit{want: want, ops: ops, by: by}
		e.judge(before, edited, owner)
		return e
	}
	return nil
}

// admittedAs is what the API server makes of an edit.
func admittedAs(before *unstructured.Unstructured, ops string) (*unstructured.Unstructured, error) {
	edited := before.DeepCopy()
	return edited, admin.Patch(context.Background(), edited, client.RawPatch(types.JSONPatchType, []byte(ops)), client.DryRunAll)
}

// judge finds out what is to become of the paths that the edit added.
func (e *randomEdit) judge(before, edited *unstructured.Unstructured, owner string) {
	ours := fieldsOf(before, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == "vidra/"+owner && f.Operation == "Apply" })
	var touched []fieldpath.Path
	ours.Iterate(func(path fieldpath.Path) {
		for n := 1; n <= len(path); n++ {
			if _, found := at(edited.Object, path[:n]); !found {
				touched = append(touched, path[:n-1].Copy())
				return
			}
		}
	})
	for _, parent := range touched {
		was, _ := at(before.Object, parent)
		is, _ := at(edited.Object, parent)
		e.gone = append(e.gone, addedBelow(parent, was, is, ours)...)
	}
	theirs := fieldsOf(before, func(f metav1.ManagedFieldsEntry) bool {
		_, person := clients[f.Manager]
		return person && f.Subresource == ""
	})
	theirs.Difference(ours).Iterate(func(path fieldpath.Path) {
		was, _ := at(before.Object, path)
		if is, found := at(edited.Object, path); found && value.Equals(value.NewValueInterface(was), value.NewValueInterface(is)) {
			e.kept = append(e.kept, path.Copy())
		}
	})
}

// addedBelow are the paths below parent that are in is and not in was: the names of maps,
// and the items of lists of which ours has items by their keys or values.
func addedBelow(parent fieldpath.Path, was, is any, ours *fieldpath.Set) []fieldpath.Path {
	var added []fieldpath.Path
	child := func(element fieldpath.PathElement) fieldpath.Path { return append(parent.Copy(), element) }
	switch is := is.(type) {
	case map[string]any:
		fields, _ := was.(map[string]any)
		for name, value := range is {
			path := child(fieldpath.PathElement{FieldName: &name})
			if old, found := fields[name]; !found {
				added = append(added, path)
			} else {
				added = append(added, addedBelow(path, old, value, ours)...)
			}
		}
	case []any:
		like, ok := elementsOf(ours, parent)
		if !ok {
			return nil // an atomic list
		}
		for _, item := range is {
			element := sameAs(like, item)
			if old, found := find(was, element); !found {
				added = append(added, child(element))
			} else {
				added = append(added, addedBelow(child(element), old, item, ours)...)
			}
		}
	}
	return added
}

// requireUndone requires what the test promises of an edit.
func (e *randomEdit) requireUndone(t require.TestingT, owner string) {
	live := get(t, e.want)
	require.True(t, contains(live.Object, e.want.Object), "%s: the manifest", difference("", e.want.Object, live.Object))
	require.Contains(t, appliedBy(live), "vidra/"+owner)
	for _, path := range e.gone {
		_, found := at(live.Object, path)
		require.False(t, found, "%s is left of the edit", path)
	}
	for _, path := range e.kept {
		_, found := at(live.Object, path)
		require.True(t, found, "%s was there before the edit", path)
	}
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

// at is what is at a path.
func at(v any, path fieldpath.Path) (any, bool) {
	for _, element := range path {
		var found bool
		if v, found = find(v, element); !found {
			return nil, false
		}
	}
	return v, true
}

// find is the child that an element of a path leads to.
func find(v any, element fieldpath.PathElement) (any, bool) {
	if element.FieldName != nil {
		fields, _ := v.(map[string]any)
		child, found := fields[*element.FieldName]
		return child, found
	}
	items, _ := v.([]any)
	for _, item := range items {
		if sameAs(element, item).Equals(element) {
			return item, true
		}
	}
	return nil, false
}

// sameAs is the element of an item in the list that another element is from.
func sameAs(like fieldpath.PathElement, item any) fieldpath.PathElement {
	if like.Key == nil {
		v := value.NewValueInterface(item)
		return fieldpath.PathElement{Value: &v}
	}
	fields, _ := item.(map[string]any)
	var key value.FieldList
	for _, field := range *like.Key {
		v := fields[field.Name]
		if v == nil && field.Name == "protocol" {
			v = "TCP" // the default of every such key here
		}
		key = append(key, value.Field{Name: field.Name, Value: value.NewValueInterface(v)})
	}
	return fieldpath.PathElement{Key: &key}
}

// elementsOf is an element of an item of ours in a list; ok is false if the list is atomic.
func elementsOf(ours *fieldpath.Set, list fieldpath.Path) (like fieldpath.PathElement, ok bool) {
	for _, element := range list {
		ours = ours.WithPrefix(element)
	}
	for _, set := range []func(func(fieldpath.PathElement)){
		func(yield func(fieldpath.PathElement)) { ours.Members.Iterate(yield) },
		func(yield func(fieldpath.PathElement)) {
			for element := range ours.Children.All() {
				yield(element)
			}
		},
	} {
		set(func(element fieldpath.PathElement) {
			if element.Key != nil || element.Value != nil {
				like, ok = element, true
			}
		})
	}
	return like, ok
}
