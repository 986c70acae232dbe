package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// structuralEdit is an edit that removes what the manifest names and adds something
// else in its place.
type structuralEdit struct {
	reason string
	// ops is a JSON patch of the live object, which every client sends in its own way.
	ops string
	// removed and added are the parts of paths that the Event names.
	removed, added []string
	// value is true if the edit changes only values, of atomic lists and maps above
	// all: one request reverts it.
	value bool
	// refused is true if the API server refuses the first attempt, because it learns
	// only there that two fields exclude each other.
	refused bool
	// every has every client make the edit; otherwise one does.
	every bool
	// except names a client that cannot make the edit.
	except string
}

// clients are the ways in which programs send an edit, by the field manager of one that
// does it so.
var clients = map[string]howTo{
	"kubectl-patch":   asJSONPatch,
	"node-fetch":      editing(asMergePatch),
	"kubectl-edit":    editing(asStrategicMergePatch),
	"kubectl-replace": editing(asUpdate),
}

// TestStructuralEdits edits the structure of objects of many kinds through each client:
// it renames items of lists and replaces one member of a union by another. Every edit is
// undone whole: the object is as it was before, after two requests at most.
func TestStructuralEdits(t *testing.T) {
	t.Parallel()
	group := unique(t) + ".example.com"
	kinds := declared(t, "", strings.ReplaceAll(structuralKinds, "<group>", group))
	require.NoError(t, testenv.Apply(t.Context(), env.Config, kinds))
	t.Cleanup(func() {
		for _, kind := range kinds {
			require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), kind)))
		}
	})
	rows, x := 0, newExplainer(t)
	for _, table := range []map[string]map[string]structuralEdit{structuralWorkloads, structuralServices, structuralPolicies, structuralCustom} {
		for kind, edits := range table {
			rowsOfKind := structuralRows(t, kind, group, edits)
			rows += len(rowsOfKind)
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				if kind == claiming && !testenv.AtLeast(34) {
					t.Skip("Kubernetes has claims of devices since 1.34")
				}
				ns, attempts := testEditsOf(t, kind, group, rowsOfKind)
				x.explain(t, ns, attempts)
			})
		}
	}
	t.Logf("%d edits", rows)
}

// structuralRows are the edits of a kind, which the clients make in turn.
func structuralRows(t *testing.T, kind, group string, edits map[string]structuralEdit) map[string]anEdit {
	t.Helper()
	obj := declared(t, "none", editedObject(kind, "name", group))[0]
	managers := slices.Sorted(maps.Keys(clients))
	if !clientgoscheme.Scheme.Recognizes(obj.GroupVersionKind()) {
		managers = slices.DeleteFunc(managers, func(manager string) bool { return manager == "kubectl-edit" })
	}
	rows := map[string]anEdit{}
	for i, name := range slices.Sorted(maps.Keys(edits)) {
		e := edits[name]
		able := slices.DeleteFunc(slices.Clone(managers), func(manager string) bool { return manager == e.except })
		if turn := i % len(able); !e.every {
			able = able[turn : turn+1]
		}
		for _, manager := range able {
			row := anEdit{
				reason: e.reason, change: change{clients[manager], e.ops}, want: undoneWhole,
				by: manager, names: slices.Concat(e.removed, e.added), added: e.added, value: e.value, refused: e.refused,
			}
			rows[name+", "+manager] = row
		}
	}
	return rows
}

// editing makes a howTo of a function that sends what is to become of a live object. It
// retries where another client wrote meanwhile.
func editing(send func(live, edited *unstructured.Unstructured) error) howTo {
	return func(_ string, obj *unstructured.Unstructured, ops string) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			live := obj.DeepCopy()
			if err := admin.Get(context.Background(), client.ObjectKeyFromObject(obj), live); err != nil {
				return err
			}
			edited, err := patchedLocally(live, ops)
			if err != nil {
				return err
			}
			return send(live, edited)
		})
	}
}

// patchedLocally is live after a JSON patch.
func patchedLocally(live *unstructured.Unstructured, ops string) (*unstructured.Unstructured, error) {
	patch, err := jsonpatch.DecodePatch([]byte(ops))
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", ops, err)
	}
	before, err := live.MarshalJSON()
	if err != nil {
		return nil, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", ops, err)
	}
	edited := &unstructured.Unstructured{}
	return edited, edited.UnmarshalJSON(after)
}

// asUpdate is kubectl replace.
func asUpdate(_, edited *unstructured.Unstructured) error {
	return admin.Update(context.Background(), edited, client.FieldOwner("kubectl-replace"))
}

// asJSONPatch is kubectl patch --type=json.
func asJSONPatch(_ string, obj *unstructured.Unstructured, ops string) error {
	return edit(obj, types.JSONPatchType, ops, client.FieldOwner("kubectl-patch"))
}

// asMergePatch is what dashboards send, and kubectl edit of a custom resource.
func asMergePatch(live, edited *unstructured.Unstructured) error {
	before, after, err := encoded(live, edited)
	if err != nil {
		return err
	}
	patch, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return err
	}
	return edit(live, types.MergePatchType, string(patch), client.FieldOwner("node-fetch"))
}

// asStrategicMergePatch is kubectl edit.
func asStrategicMergePatch(live, edited *unstructured.Unstructured) error {
	before, after, err := encoded(live, edited)
	if err != nil {
		return err
	}
	typed, err := clientgoscheme.Scheme.New(live.GroupVersionKind())
	if err != nil {
		return err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, typed)
	if err != nil {
		return err
	}
	return edit(live, types.StrategicMergePatchType, string(patch), client.FieldOwner("kubectl-edit"))
}

func encoded(live, edited *unstructured.Unstructured) (before, after []byte, err error) {
	if before, err = live.MarshalJSON(); err != nil {
		return nil, nil, err
	}
	after, err = edited.MarshalJSON()
	return before, after, err
}

// requireUndone requires that the object is as it was before the edit, and that the
// Event on it names all that was removed and added, and by which manager.
func (a *attempt) requireUndone(t *testing.T) {
	t.Helper()
	var live *unstructured.Unstructured
	await(t, func(c *assert.CollectT) {
		live = get(c, a.obj)
		if a.first != nil { // the order of lists with items of others is unmanaged
			require.True(c, contains(settled(live), settled(a.before)), "something is missing: %s: %s; managed: %v", a.reason, difference("", settled(a.before), settled(live)), entriesIn(live))
			require.True(c, contains(settled(a.before), settled(live)), "something is left of the edit: %s: %s", a.reason, difference("", settled(live), settled(a.before)))
			return
		}
		require.Empty(c, difference("", settled(a.before), settled(live)), "something is missing: %s", a.reason)
		require.Empty(c, difference("", settled(live), settled(a.before)), "something is left of the edit: %s", a.reason)
		require.Contains(c, appliedBy(live), "vidra/"+a.owner)
	})
	if a.before.GetAnnotations()[revisionAnnotation] != "" {
		require.NotEmpty(t, live.GetAnnotations()[revisionAnnotation], "the controller of Deployments wrote it")
	}
	require.Equal(t, a.others(a.before), a.others(live), "what other field managers own: %s", a.reason)
	a.requireTold(t)
}

// others are the entries of the field managers that neither edited the object nor reverted
// the edit, and for a manager that wrote before, too, what it owned then.
func (a *attempt) others(obj *unstructured.Unstructured) map[string]string {
	entries := map[string]string{}
	for _, e := range obj.GetManagedFields() {
		if _, edits := clients[e.Manager]; !edits && e.Manager != "vidra/"+a.owner && e.Subresource != "status" {
			entries[e.Manager+" "+string(e.Operation)+" "+e.Subresource] = e.FieldsV1.GetRawString()
		}
	}
	return entries
}

// checkUndoing checks the requests that undid a structural edit: one PATCH of managedFields
// and one apply, or one apply alone if the edit changed only values. The API server refuses
// one more where it alone knows that two fields exclude each other. A controller that
// writes at the same time costs a GET and another attempt each time.
func (a *attempt) checkUndoing(t *testing.T, row string, sent requests) {
	t.Helper()
	writes, refused := 2+a.more, 0
	if a.value {
		writes = 1 + a.more
	}
	if a.refused {
		refused = 1
	}
	apply := func(e request) bool { return strings.Contains(e.RequestURI, "force=true") }
	if crowded(sent) {
		return
	}
	collisions := len(sent.Only(verbIs("get")))
	assert.GreaterOrEqual(t, len(sent.Writes().Accepted()), writes, "%s: %s\n%s", row, a.reason, sent)
	assert.LessOrEqual(t, len(sent.Writes().Accepted()), writes+collisions, "%s: %s\n%s", row, a.reason, sent)
	if collisions == 0 {
		assert.Equal(t, refused, len(sent.Only(apply))-len(sent.Only(apply).Accepted()), "%s: %s\n%s", row, a.reason, sent)
	}
	assert.LessOrEqual(t, len(sent), writes+refused+3*collisions, "%s: %s\n%s", row, a.reason, sent)
}

// crowded reports whether others wrote to an object between the requests that undid an edit,
// more than once: then each apply reverts what it can, and the number of requests says nothing.
func crowded(sent requests) bool {
	refused := sent.Only(func(e request) bool {
		return e.Code == http.StatusUnprocessableEntity && !strings.Contains(e.RequestURI, "force=true")
	})
	return len(refused) > len(sent.Only(verbIs("get")))
}

// contains reports whether live has all that want has, among other items of lists.
func contains(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		fields, ok := live.(map[string]any)
		for name, value := range want {
			ok = ok && contains(fields[name], value)
		}
		return ok
	case []any:
		items, ok := live.([]any)
		for _, value := range want {
			ok = ok && slices.ContainsFunc(items, func(item any) bool { return contains(item, value) })
		}
		return ok
	}
	return live == want
}

// entriesIn are the field managers of an object with their operations, for messages.
func entriesIn(obj *unstructured.Unstructured) []string {
	var names []string
	for _, e := range obj.GetManagedFields() {
		names = append(names, fmt.Sprintf("%s %s %s at %s: %s", e.Manager, e.Operation, e.Subresource, e.Time, e.FieldsV1.GetRawString()))
	}
	return names
}
