package e2e

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// This file edits objects while the operator is down. Its tests are not parallel: they stop the operator.

// labelled is a ConfigMap whose label an edit may rename.
const labelled = `
apiVersion: v1
kind: ConfigMap
metadata: {name: page, labels: {team: web}}
data: {greeting: hello}
`

// renamed is an edit that renames the label of labelled, and the key of its data.
const renamed = `[{"op":"move","from":"/metadata/labels/team","path":"/metadata/labels/crew"},{"op":"move","from":"/data/greeting","path":"/data/welcome"}]`

// awaitOthersRecorded waits until the status has recorded that another manager owns other fields in an object than before.
func awaitOthersRecorded(t *testing.T, ns string, obj *unstructured.Unstructured, write func()) {
	t.Helper()
	before := entryOf(t, getVidraResource(t, ns), obj).Others
	write()
	await(t, func(c *assert.CollectT) { require.NotEqual(c, before, entryOf(c, getVidraResource(c, ns), obj).Others) })
}

// entryOf returns the inventory entry of an object.
func entryOf(t require.TestingT, v *v1alpha1.VidraResource, obj *unstructured.Unstructured) v1alpha1.ManagedResourceStatus {
	for _, e := range v.Status.ManagedResources {
		if e.Kind == obj.GetKind() && e.Name == obj.GetName() {
			return e
		}
	}
	require.Fail(t, "no entry of "+obj.GetName())
	return v1alpha1.ManagedResourceStatus{}
}

// TestUndoAfterRestartKeepsWhatWasThere: fields that other managers wrote while Vidra saw it survive the undo of an edit beside
// them that was made while Vidra was down, which is undone whole. The entry in managedFields may be that of the edit.
func TestUndoAfterRestartKeepsWhatWasThere(t *testing.T) {
	ns := newNamespace(t)
	setMode := func(mode v1alpha1.DriftMode) func(*v1alpha1.VidraResourceSpec) {
		return func(s *v1alpha1.VidraResourceSpec) { s.Drift = &v1alpha1.DriftPolicy{Mode: mode} }
	}
	rows := map[string]struct {
		reason string
		// begin and end change the spec before the other manager writes, and before the operator starts again.
		begin, end func(*v1alpha1.VidraResourceSpec)
		// other wrote the fields that stay, and editor the edit.
		other, editor string
		metadata      string
	}{
		"correct": {reason: "an addition stays", other: "platform", editor: "kubectl-edit"},
		"same":    {reason: "one entry has both, with the time of the edit", other: "kubectl-edit", editor: "kubectl-edit"},
		"sensitive": {
			reason: "the record is sealed", other: "kubectl-edit", editor: "kubectl-edit", metadata: ", annotations: {" + ownership.SensitiveAnnotation + `: "true"}`,
		},
		"warn":   {reason: "reverts begin after the edit", begin: setMode(v1alpha1.DriftWarn), end: setMode(v1alpha1.DriftCorrect), other: "kubectl-edit", editor: "kubectl-edit"},
		"ignore": {reason: "drift was ignored", begin: setMode(v1alpha1.DriftIgnore), end: setMode(v1alpha1.DriftCorrect), other: "kubectl-label", editor: "kubectl-label"},
		"suspended": {
			reason: "nothing was written", other: "kubectl-edit", editor: "kubectl-edit",
			begin: func(s *v1alpha1.VidraResourceSpec) { s.Suspend = true }, end: func(s *v1alpha1.VidraResourceSpec) { s.Suspend = false },
		},
		"rules": {
			reason: "the ignore rule is gone", other: "kubectl-edit", editor: "kubectl-edit",
			begin: func(s *v1alpha1.VidraResourceSpec) {
				s.Drift = &v1alpha1.DriftPolicy{Ignore: []v1alpha1.IgnoreRule{{Target: v1alpha1.IgnoreTarget{Kind: "ConfigMap"}, Managers: []string{"kubectl-edit"}}}}
			},
			end: func(s *v1alpha1.VidraResourceSpec) { s.Drift = nil },
		},
	}
	objs := map[string]*unstructured.Unstructured{}
	before := map[string]*unstructured.Unstructured{}
	for name, row := range rows {
		owner := ns + "-" + name
		manifest := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", labels: {team: web}" + row.metadata + "}\ndata: {greeting: hello}\n"
		newVidraResource(t, ns, manifest, named(owner))
		awaitReady(t, owner)
		objs[name] = declared(t, ns, manifest)[0]
		if row.begin != nil {
			changeSpec(t, owner, row.begin)
			await(t, func(c *assert.CollectT) {
				v := getVidraResource(c, owner)
				require.Equal(c, v.Generation, v.Status.ObservedGeneration)
			})
		}
		awaitOthersRecorded(t, owner, objs[name], func() {
			require.NoError(t, edit(objs[name], types.MergePatchType,
				`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}},"data":{"injected":"1"}}`, client.FieldOwner(row.other)), row.reason)
		})
		before[name] = get(t, objs[name])
	}
	stopOperator(t)
	for name, row := range rows {
		require.NoError(t, edit(objs[name], types.JSONPatchType, renamed, client.FieldOwner(row.editor)))
		if row.end != nil {
			changeSpec(t, ns+"-"+name, row.end)
		}
	}
	startOperator(t)
	for _, obj := range before {
		undone(t, obj)
	}
}

// TestUndoAfterRestartKeepsTheUnknown: where the status does not show what was there before the edit, fields of other managers stay,
// and what the edit removed is restored.
func TestUndoAfterRestartKeepsTheUnknown(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(labelled, parts))
	awaitReady(t, ns)
	page, web := declared(t, ns, labelled)[0], declaredObject(t, ns, parts, "Deployment", "parts")
	stopOperator(t)
	deployment := get(t, web)
	require.NoError(t, edit(page, types.MergePatchType, `{"metadata":{"labels":{"mine":"1"}}}`, client.FieldOwner("platform")))
	require.NoError(t, edit(web, types.MergePatchType, `{"metadata":{"labels":{"mine":"1"}}}`, client.FieldOwner("kubectl-edit")))

	// Two managers added labels while the operator was down, and it is not known which of them removed one. Of the data, one did.
	require.NoError(t, edit(page, types.JSONPatchType, renamed, client.FieldOwner("kubectl-edit")))
	startOperator(t)
	await(t, func(c *assert.CollectT) {
		live := get(c, page)
		require.Equal(c, map[string]string{"team": "web", "crew": "web", "mine": "1", v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue}, live.GetLabels())
		data, _, err := unstructured.NestedStringMap(live.Object, "data")
		require.NoError(c, err)
		require.Equal(c, map[string]string{"greeting": "hello"}, data)
	})
	awaitReady(t, ns)
	stopOperator(t)

	// An earlier version of Vidra recorded nothing. The union is undone all the same, because the API server refuses the object with it.
	v := getVidraResource(t, ns)
	for i := range v.Status.ManagedResources {
		v.Status.ManagedResources[i].Others = ""
	}
	require.NoError(t, admin.Status().Update(t.Context(), v))
	require.NoError(t, edit(page, types.JSONPatchType, `[{"op":"move","from":"/data/greeting","path":"/data/welcome"}]`, client.FieldOwner("kubectl-edit")))
	require.NoError(t, edit(web, types.JSONPatchType, `[{"op":"remove","path":"/metadata/annotations"},`+toHostPath[1:], client.FieldOwner("kubectl-edit")))
	startOperator(t)
	await(t, func(c *assert.CollectT) {
		data, _, err := unstructured.NestedStringMap(get(c, page).Object, "data")
		require.NoError(c, err)
		require.Equal(c, map[string]string{"greeting": "hello", "welcome": "hello"}, data)
		live := get(c, web)
		require.Equal(c, "1", live.GetLabels()["mine"], "metadata are not in the way")
		require.Empty(c, difference("", settled(deployment), settled(live)))
		volumes, _, err := unstructured.NestedSlice(live.Object, "spec", "template", "spec", "volumes")
		require.NoError(c, err)
		require.NotContains(c, volumes[0], "hostPath")
	})
	awaitReady(t, ns)
}

// TestRecordedOthersOfAnotherStatus: a record of another VidraResource or object shows nothing, as after the restore of a backup.
func TestRecordedOthersOfAnotherStatus(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, labelled)
	v := awaitReady(t, ns)
	page := declared(t, ns, labelled)[0]
	stopOperator(t)
	backup := v.DeepCopy()
	v.Finalizers = nil
	require.NoError(t, admin.Update(t.Context(), v))
	require.NoError(t, admin.Delete(t.Context(), v))
	restored := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: backup.Labels, Finalizers: backup.Finalizers}, Spec: backup.Spec}
	require.NoError(t, admin.Create(t.Context(), restored))
	restored.Status = backup.Status
	require.NoError(t, admin.Status().Update(t.Context(), restored))
	require.NoError(t, edit(page, types.MergePatchType, `{"metadata":{"labels":{"mine":"1"}}}`, client.FieldOwner("kubectl-edit")))
	require.NoError(t, edit(page, types.JSONPatchType, renamed, client.FieldOwner("kubectl-edit")))
	startOperator(t)
	await(t, func(c *assert.CollectT) {
		want := map[string]string{"team": "web", "mine": "1", "crew": "web", v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue}
		got := maps.Clone(get(c, page).GetLabels())
		require.Equal(c, want, got)
	})
	awaitReady(t, ns)
}
