package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// outcome is what becomes of an edit.
type outcome int

const (
	// stays says that the edit changed nothing that is ours: Vidra sends nothing.
	stays outcome = iota
	// reverted says that the object is as the manifest says again.
	reverted
	// recreated says that the object was deleted, and is made again.
	recreated
	// relabelled says that the label by which the object is watched was taken
	// away, and that the same object has it again.
	relabelled
	// undoneWhole is the outcome of a structural edit: the object is as it was before, with
	// nothing left of the edit.
	undoneWhole
)

// anEdit is a row of the table: an edit of an object of a kind.
type anEdit struct {
	reason string
	// first was done by another manager, and stays.
	first *change
	change
	want outcome
	// told is what the Event on the object says was reverted; nothing if the edit
	// changed no value.
	told string
	// whole is true if the edit removed one field and added another beside it: it is undone
	// whole, with one more request.
	whole bool
	// by is the field manager that makes a structural edit, and names are the parts of
	// paths that the Event names. value is true if the edit changes only values, and refused if
	// the API server refuses the first attempt to revert it.
	by string
	// added are those of names that the edit added.
	added []string
	// more is how many requests the heal needs besides.
	more           int
	names          []string
	value, refused bool
	// undo is a merge patch that lets the object be deleted when the test ends.
	undo string
}

// change is one request of a person.
type change struct {
	how howTo
	// what is the body of the request. In it, <fence> and <uid> stand for the name
	// and the UID of the fence, and <ca> for a certificate.
	what string
}

// howTo changes a live object, of which the VidraResource owner declares obj.
type howTo func(owner string, obj *unstructured.Unstructured, what string) error

// TestF21Edits edits objects of many kinds in many ways. What is in the manifest is
// reverted with one PATCH, and reported; everything else stays, and costs nothing.
//
// Each kind has a VidraResource, with an object for each row and one more, the
// fence: see TestHarmlessEdits. All rows of a kind are edited before the first one
// is looked at.
func TestF21Edits(t *testing.T) {
	t.Parallel()
	group := unique(t) + ".example.com"
	kinds := declared(t, "", strings.ReplaceAll(editedKinds, "<group>", group))
	require.NoError(t, testenv.Apply(t.Context(), env.Config, kinds))
	t.Cleanup(func() {
		for _, kind := range kinds {
			require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), kind)))
		}
	})
	rows, x := 0, newExplainer(t)
	for _, table := range []map[string]map[string]anEdit{coreEdits, workloadEdits, configurationEdits, customEdits} {
		for kind, edits := range table {
			rows += len(edits)
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				ns, attempts := testEditsOf(t, kind, group, edits)
				x.explain(t, ns, attempts)
			})
		}
	}
	t.Logf("%d edits", rows)
}

// testEditsOf does the edits of one kind. It returns the VidraResource and the edits.
func testEditsOf(t *testing.T, kind, group string, edits map[string]anEdit, options ...func(*v1alpha1.VidraResource)) (string, map[string]*attempt) {
	ns := newNamespace(t)
	var objs []*unstructured.Unstructured
	var documents []string
	add := func(kind string) *unstructured.Unstructured {
		document := editedObject(kind, fmt.Sprintf("%s-%d", ns, len(objs)), group)
		documents = append(documents, document)
		objs = append(objs, declared(t, ns, asStored.Replace(document))...)
		return objs[len(objs)-1]
	}
	fence := add(strings.TrimSuffix(kind, " of 900 KiB"))
	attempts := map[string]*attempt{}
	for row, edit := range edits {
		attempts[row] = &attempt{anEdit: edit, owner: ns, obj: add(kind)}
	}
	newVidraResource(t, ns, manifests(documents...), append(options, func(v *v1alpha1.VidraResource) {
		if !strings.Contains(kind, "finalizers") {
			return
		}
		v.Spec.DeletionPolicy = v1alpha1.DeletionOrphan // no controller removes the finalizers
		t.Cleanup(func() {
			require.NoError(t, client.IgnoreNotFound(deleteVidraResource(context.Background(), ns)))
			awaitGone(t, v)
			for _, obj := range objs {
				require.NoError(t, client.IgnoreNotFound(mergePatch(obj, `{"metadata":{"finalizers":null}}`)))
			}
		})
	})...)
	awaitReady(t, ns)
	for _, obj := range objs {
		requireInOrder(t, ns, obj)
	}

	mark := auditMark(t)
	for _, a := range attempts { // an edit comes right after a write of others, and is told from it
		a.prepare(t, fence)
		a.do(t)
	}
	passFence(t, ns, fence)
	for row, a := range attempts {
		t.Run(row, a.test)
	}
	requireAllListed(t, ns, attempts)
	passFence(t, ns, fence)
	sent := operatorSince(t, mark)
	for row, a := range attempts {
		a.checkRequests(t, row, sent.Only(nameIs(a.obj.GetName())))
	}
	return ns, attempts
}

// fenceHeals is how often passFence has the fence reverted.
const fenceHeals = 2

// passFence returns when Vidra has dealt with all events before, of objects of the
// kind and owner of fence. The first pass may still be about to write to another
// object when fence is reverted; it has ended when the second one begins.
func passFence(t *testing.T, owner string, fence *unstructured.Unstructured) {
	t.Helper()
	for range fenceHeals {
		require.NoError(t, mergePatch(fence, `{"metadata":{"annotations":null}}`))
		awaitInOrder(t, owner, fence)
	}
}

// attempt is an edit of an object that a VidraResource owns.
type attempt struct {
	anEdit
	owner string
	obj   *unstructured.Unstructured
	// before and edited are the object right before and after the edit.
	before, edited *unstructured.Unstructured
}

// prepare has others write to the object.
func (a *attempt) prepare(t *testing.T, fence *unstructured.Unstructured) {
	t.Helper()
	placeholders := strings.NewReplacer("<fence>", fence.GetName(), "<uid>", string(get(t, fence).GetUID()),
		"<ca>", base64.StdEncoding.EncodeToString(env.Config.CAData))
	if a.undo != "" {
		t.Cleanup(func() { require.NoError(t, mergePatch(a.obj, "%s", a.undo)) })
	}
	a.what = placeholders.Replace(a.what)
	if a.first == nil {
		return
	}
	require.NoError(t, a.first.how(a.owner, a.obj, placeholders.Replace(a.first.what)), a.reason)
}

// do makes the edit.
func (a *attempt) do(t *testing.T) {
	t.Helper()
	a.before = get(t, a.obj)
	require.NoError(t, a.how(a.owner, a.obj, a.what), a.reason)
	if a.want == stays {
		a.edited = get(t, a.obj)
	}
}

// test shows what comes of the edit.
func (a *attempt) test(t *testing.T) {
	switch a.want {
	case undoneWhole:
		a.requireUndone(t)
	case reverted, recreated, relabelled:
		awaitInOrder(t, a.owner, a.obj)
		a.requireTold(t)
	case stays:
	}
	live := get(t, a.obj)
	require.Equal(t, a.want == recreated, live.GetUID() != a.before.GetUID(), "it is another object: %s", a.reason)
	if a.want == stays {
		require.Empty(t, difference("", settled(a.edited), live.Object), a.reason)
		require.Empty(t, eventsAbout(t, live), a.reason)
		require.Empty(t, historyOf(getVidraResource(t, a.owner).Status, live.GetName()), a.reason)
	}
}

// checkRequests checks what Vidra sent about the object: whatever it does, it does
// with one PATCH, without looking first. Only what lost its label is taken for deleted
// at first, and then looked at.
func (a *attempt) checkRequests(t *testing.T, row string, sent requests) {
	t.Helper()
	verbs := []string{"patch"}
	switch a.want {
	case stays:
		verbs = nil
	case relabelled:
		verbs = []string{"patch", "get", "patch"}
	case undoneWhole:
		a.checkUndoing(t, row, sent)
		return
	case reverted, recreated:
	}
	if a.whole {
		verbs = append(verbs, "patch")
	}
	var were []string
	for _, request := range sent {
		were = append(were, request.Verb)
	}
	assert.Equal(t, verbs, were, "%s: %s\n%s", row, a.reason, sent)
}

// report is what the Event on the object, where a person looks, and the history have of the edit; nil if it is not
// reported.
func (a *attempt) report() []string {
	switch told := a.told; {
	case a.want == undoneWhole && a.by != "":
		return append([]string{fmt.Sprintf("%q", a.by)}, a.names...)
	case a.want == recreated:
		return []string{"created it again after it had been deleted"}
	case a.want == relabelled:
		return []string{"restored the label managed-by=vidra"}
	case told != "":
		return []string{told}
	}
	return nil
}

// requireTold requires the Event on the object and the entry of the history.
func (a *attempt) requireTold(t *testing.T) {
	t.Helper()
	if told := a.report(); told != nil {
		awaitEvent(t, a.obj, corev1.EventTypeNormal, "ChangeReverted", "Restore", append([]string{"VidraResource " + a.owner}, told...)...)
		a.requireListed(t, told...)
	}
}

// requireListed requires the edit in the history of the VidraResource, from which the command line
// explains it, unless there were so many that some were dropped.
func (a *attempt) requireListed(t *testing.T, told ...string) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		status := getVidraResource(c, a.owner).Status
		require.True(c, status.UnlistedHistory > 0 || slices.ContainsFunc(historyOf(status, a.obj.GetName()), func(e v1alpha1.HistoryEntry) bool {
			text := e.Message + " " + strings.Join(e.Fields, " ")
			return !slices.ContainsFunc(told, func(part string) bool { return !strings.Contains(text, part) })
		}), "%q of %s: %+v", told, a.obj.GetName(), status.History)
	})
}

// requireAllListed requires that the history has each edit that was told, or counts it.
func requireAllListed(t *testing.T, owner string, attempts map[string]*attempt) {
	t.Helper()
	var edits int64
	for _, a := range attempts {
		if a.report() != nil {
			edits++
		}
	}
	await(t, func(c *assert.CollectT) {
		status := getVidraResource(c, owner).Status
		listed := status.UnlistedHistory
		for _, e := range status.History {
			listed += e.Count
		}
		require.GreaterOrEqual(c, listed, edits)
	})
}

// settled is what an edit left behind, without what Kubernetes goes on to change.
func settled(edited *unstructured.Unstructured) map[string]any {
	left := edited.DeepCopy()
	for _, fields := range [][]string{
		{"status"},
		{"metadata", "resourceVersion"}, {"metadata", "generation"}, {"metadata", "managedFields"},
		{"metadata", "annotations", "deployment.kubernetes.io/revision"},
		{"metadata", "annotations", "deprecated.daemonset.template.generation"},
	} {
		unstructured.RemoveNestedField(left.Object, fields...)
	}
	return left.Object
}

// merge is kubectl patch --type=merge, and what most programs do.
func merge(_ string, obj *unstructured.Unstructured, what string) error {
	return edit(obj, types.MergePatchType, what)
}

// strategic is kubectl patch.
func strategic(_ string, obj *unstructured.Unstructured, what string) error {
	return edit(obj, types.StrategicMergePatchType, what)
}

// jsonOps is kubectl patch --type=json.
func jsonOps(_ string, obj *unstructured.Unstructured, what string) error {
	return edit(obj, types.JSONPatchType, what)
}

// byForce is kubectl apply --server-side --force-conflicts.
func byForce(_ string, obj *unstructured.Unstructured, what string) error {
	return applying(obj, what, person)
}

// byAnother is byForce by another manager.
func byAnother(_ string, obj *unstructured.Unstructured, what string) error {
	return applying(obj, what, "another-manager")
}

func applying(obj *unstructured.Unstructured, what, manager string) error {
	config := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,%s`, obj.GetAPIVersion(), obj.GetKind(), what[1:])
	return edit(obj, types.ApplyPatchType, config, client.ForceOwnership, client.FieldOwner(manager))
}

// asVidra applies the manifest with a change, under the name of the VidraResource.
func asVidra(owner string, obj *unstructured.Unstructured, what string) error {
	config, err := changed(marked(owner, obj), what)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return edit(obj, types.ApplyPatchType, string(patch), client.ForceOwnership, client.FieldOwner("vidra/"+owner))
}

// marked is what Vidra applies for an object of the VidraResource owner: the manifest, with its marks.
func marked(owner string, obj *unstructured.Unstructured) map[string]any {
	return merged(obj.Object, map[string]any{"metadata": map[string]any{
		"labels":      map[string]any{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue},
		"annotations": map[string]any{v1alpha1.OwnerAnnotationKey(owner): owner},
	}})
}

// underOurName updates the object under the name of the VidraResource.
func underOurName(owner string, obj *unstructured.Unstructured, what string) error {
	return edit(obj, types.MergePatchType, what, client.FieldOwner("vidra/"+owner))
}

// put is kubectl edit: it reads the object, and writes all of it.
func put(_ string, obj *unstructured.Unstructured, what string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live := obj.DeepCopy()
		if err := admin.Get(context.Background(), client.ObjectKeyFromObject(obj), live); err != nil {
			return err
		}
		config, err := changed(live.Object, what)
		if err != nil {
			return err
		}
		return admin.Update(context.Background(), &unstructured.Unstructured{Object: config}, client.FieldOwner(person))
	})
}

// scaling is kubectl scale, and what autoscalers do.
func scaling(_ string, obj *unstructured.Unstructured, what string) error {
	return ofSubresource("scale", obj, what)
}

// reporting is what controllers do.
func reporting(_ string, obj *unstructured.Unstructured, what string) error {
	return ofSubresource("status", obj, what)
}

func ofSubresource(name string, obj *unstructured.Unstructured, what string) error {
	patch := client.RawPatch(types.MergePatchType, []byte(what))
	return admin.SubResource(name).Patch(context.Background(), obj.DeepCopy(), patch, client.FieldOwner(person))
}

// deletion is kubectl delete.
func deletion(_ string, obj *unstructured.Unstructured, _ string) error {
	err := admin.Delete(context.Background(), obj.DeepCopy(), client.PropagationPolicy("Background"))
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("nothing to delete: %w", err)
	}
	return err
}

// oneByte changes one byte in the middle of a large value.
func oneByte(owner string, obj *unstructured.Unstructured, _ string) error {
	blob, _, err := unstructured.NestedString(obj.Object, "data", "blob")
	if err != nil {
		return err
	}
	half := len(blob) / 2
	return put(owner, obj, fmt.Sprintf(`{"data":{"blob":%q}}`, blob[:half]+"!"+blob[half+1:]))
}

// changed is content after a merge patch.
func changed(content map[string]any, patch string) (map[string]any, error) {
	var changes map[string]any
	if err := utiljson.Unmarshal([]byte(patch), &changes); err != nil {
		return nil, err
	}
	return merged(content, changes), nil
}

// merged is content after a merge patch, as RFC 7396 has it.
func merged(content, changes map[string]any) map[string]any {
	result := maps.Clone(content)
	for name, value := range changes {
		inner, isMap := value.(map[string]any)
		fields, wasMap := result[name].(map[string]any)
		switch {
		case value == nil:
			delete(result, name)
		case isMap && wasMap:
			result[name] = merged(fields, inner)
		default:
			result[name] = value
		}
	}
	return result
}
