package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The first operator wrote with Create and Update, as the field manager that its
// binary was named after.
const firstOperator = "manager"

// upgraded is a manifest that the first operator had.
const upgraded = web + `
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: leaver
data:
  greeting: hello
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: web
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: web
rules:
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get]
`

// leftByFirstOperator makes a VidraResource and its objects as the first operator left
// them. The operator must not run.
func leftByFirstOperator(t *testing.T, ns, manifest string, owners ...string) []*unstructured.Unstructured {
	t.Helper()
	objs := declared(t, ns, manifest)
	for _, obj := range objs {
		obj = obj.DeepCopy()
		labels := obj.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[v1alpha1.ManagedByLabel] = v1alpha1.ManagedByValue
		obj.SetLabels(labels)
		obj.SetAnnotations(map[string]string{v1alpha1.OwnerAnnotation: strings.Join(owners, ",")})
		require.NoError(t, admin.Create(t.Context(), obj, client.FieldOwner(firstOperator)))
		// It updated what it had created.
		obj.SetResourceVersion("")
		require.NoError(t, admin.Update(t.Context(), obj, client.FieldOwner(firstOperator)))
	}
	for _, owner := range owners {
		newVidraResourceOfFirstOperator(t, ns, owner, objs)
	}
	return objs
}

// newVidraResourceOfFirstOperator makes a VidraResource as the first operator left it.
func newVidraResourceOfFirstOperator(t *testing.T, ns, name string, objs []*unstructured.Unstructured) {
	t.Helper()
	documents := make([]string, 0, len(objs))
	for _, obj := range objs {
		plain := obj.DeepCopy()
		plain.SetNamespace("")
		encoded, err := json.Marshal(plain.Object)
		require.NoError(t, err)
		documents = append(documents, string(encoded))
	}
	at := metav1.NewTime(time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC))
	v := newVidraResource(t, ns, strings.Join(documents, "\n---\n"), named(name), func(v *v1alpha1.VidraResource) {
		v.Finalizers = []string{v1alpha1.Finalizer}
		v.Spec.Destination.Server = v1alpha1.LocalServer
		v.Spec.ReconciledAt, v.Spec.Drift = &at, nil
	})
	for _, obj := range objs {
		v.Status.ManagedResources = append(v.Status.ManagedResources, v1alpha1.ManagedResourceStatus{
			Kind: obj.GetKind(), APIVersion: obj.GetAPIVersion(), Name: obj.GetName(), Namespace: obj.GetNamespace(),
		})
	}
	v.Status.DeployState, v.Status.LastSyncTime = v1alpha1.DeploySucceeded, &at
	require.NoError(t, admin.Status().Update(t.Context(), v, client.FieldOwner(firstOperator)))
}

// plain is an object without what Vidra may change when it takes an object over.
func plain(live *unstructured.Unstructured) map[string]any {
	live = live.DeepCopy()
	live.SetManagedFields(nil)
	live.SetResourceVersion("")
	if live.GetKind() == "Deployment" { // an annotation counts as a new generation of it
		live.SetGeneration(0)
		unstructured.RemoveNestedField(live.Object, "status") // its controller has the say in that
	}
	annotations := live.GetAnnotations()
	for key := range annotations {
		if v1alpha1.IsOwnerAnnotation(key) {
			delete(annotations, key)
		}
	}
	live.SetAnnotations(annotations)
	if len(annotations) == 0 {
		unstructured.RemoveNestedField(live.Object, "metadata", "annotations")
	}
	return live.Object
}

// awaitRevision waits until the controller of a Deployment has said which revision it
// is: it writes nothing else but its status.
func awaitRevision(t *testing.T, deployment *unstructured.Unstructured) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		require.Contains(c, get(c, deployment).GetAnnotations(), "deployment.kubernetes.io/revision")
	})
}

// TestUpgradeFromFirstOperator starts the operator on what the first one left behind.
// Nothing changes in any object, and from then on all is as if Vidra had made them. It
// is not parallel: it starts and stops the operator.
func TestUpgradeFromFirstOperator(t *testing.T) {
	ns := newNamespace(t)
	stopOperator(t)
	objs := leftByFirstOperator(t, ns, upgraded, ns)
	awaitRevision(t, declaredObject(t, ns, upgraded, "Deployment", "web"))
	before := make([]*unstructured.Unstructured, len(objs))
	for i, obj := range objs {
		before[i] = get(t, obj)
		require.Empty(t, appliedBy(before[i]))
	}

	startOperator(t)
	v := awaitReady(t, ns)
	require.Len(t, v.Status.ManagedResources, len(objs))
	require.EqualValues(t, 1, v.Generation, "the operator does not write to the spec")
	for i, obj := range objs {
		live := requireInOrder(t, ns, obj)
		require.Equal(t, before[i].GetUID(), live.GetUID())
		require.Equal(t, plain(before[i]), plain(live))
		e := entry(t, v, obj.GetKind(), obj.GetName())
		require.Equal(t, string(live.GetUID()), e.UID)
		require.Equal(t, v1alpha1.ObjectApplied, e.State)
		require.NotContains(t, managersOf(live), firstOperator)
	}
	require.Empty(t, withReason(eventsAbout(t, v), "DriftCorrected"))

	// What a user changes is reverted.
	page := declaredObject(t, ns, upgraded, "ConfigMap", "page")
	deployment := declaredObject(t, ns, upgraded, "Deployment", "web")
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine","more":"stays"}}`))
	require.NoError(t, mergePatch(deployment, `{"spec":{"replicas":3}}`))
	awaitInOrder(t, ns, page, deployment)

	// What leaves the manifest leaves the object, although the first operator wrote it, too.
	changed := strings.NewReplacer(
		"\n  farewell: goodbye", "",
		"  labels:\n    app: web\ndata:", "data:",
		"  - name: http\n    port: 80\n    targetPort: 8080\n", "  - name: https\n    port: 443\n    targetPort: 8443\n",
		"      - name: web\n        image: registry.invalid/web:1\n", "      - name: other\n        image: registry.invalid/web:2\n",
	).Replace(upgraded)
	changed = strings.Replace(changed, configMap("leaver", "hello"), configMap("comer", "hello"), 1)
	setManifest(t, ns, changed)
	awaitReady(t, ns)
	awaitGone(t, declaredObject(t, ns, upgraded, "ConfigMap", "leaver"))
	for _, obj := range declared(t, ns, changed) {
		requireInOrder(t, ns, obj)
	}
	cm := &corev1.ConfigMap{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(page), cm))
	require.Equal(t, map[string]string{"greeting": "hello", "more": "stays"}, cm.Data)
	require.Equal(t, map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue}, cm.Labels)

	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	for _, obj := range append(objs, declared(t, ns, changed)...) {
		awaitGone(t, obj)
	}
}

// managersOf lists the field managers of what is not a subresource.
func managersOf(live *unstructured.Unstructured) []string {
	var managers []string
	for _, e := range live.GetManagedFields() {
		if e.Subresource == "" {
			managers = append(managers, e.Manager)
		}
	}
	return managers
}

// TestReturnFromFirstOperator starts the operator on a status of its own that the first operator wrote since: that drops the fields that it lacks, such as
// the UIDs of the inventory. No Event counts an existing object as created. It is not parallel: it starts and stops the operator.
func TestReturnFromFirstOperator(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	v := awaitReady(t, ns)
	stopOperator(t) // it writes its Events
	applied := len(withReason(eventsAbout(t, v), "Applied"))
	require.Equal(t, 1, applied)
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(v), v))
	v.Status = v1alpha1.VidraResourceStatus{LastSyncTime: new(metav1.NewTime(time.Now().Add(time.Minute))), ManagedResources: v.Status.ManagedResources}
	for i, e := range v.Status.ManagedResources {
		v.Status.ManagedResources[i] = v1alpha1.ManagedResourceStatus{APIVersion: e.APIVersion, Kind: e.Kind, Namespace: e.Namespace, Name: e.Name}
	}
	require.NoError(t, admin.Status().Update(t.Context(), v))

	startOperator(t)
	v = awaitReady(t, ns)
	require.NotEmpty(t, v.Status.ManagedResources[0].UID)
	stopOperator(t) // it writes its Events
	startOperator(t)
	require.Len(t, withReason(eventsAbout(t, v), "Applied"), applied)
}

// TestUpgradeOfSharedObject takes over an object that the first operator made for two
// VidraResources, and that a third party with the same field manager has written to.
func TestUpgradeOfSharedObject(t *testing.T) {
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	stopOperator(t)
	objs := leftByFirstOperator(t, ns, configMap("page", "hello"), one, two)
	page := objs[0]
	require.NoError(t, edit(page, "application/merge-patch+json", `{"metadata":{"annotations":{"example.com/other":"stays"}}}`, client.FieldOwner(firstOperator)))
	before := get(t, page)

	startOperator(t)
	awaitReady(t, one)
	awaitReady(t, two)
	live := requireInOrder(t, one, page)
	requireInOrder(t, two, page)
	require.Equal(t, plain(before), plain(live))
	require.NotContains(t, managersOf(live), firstOperator)

	require.NoError(t, deleteVidraResource(t.Context(), one))
	await(t, func(c *assert.CollectT) { require.Equal(c, []string{"vidra/" + two}, appliedBy(get(c, page))) })
	require.Equal(t, before.GetUID(), requireInOrder(t, two, page).GetUID())
	require.NoError(t, deleteVidraResource(t.Context(), two))
	awaitGone(t, page)
}

// TestUpgradeLeavesOthersAlone has an object with the same field manager that does not
// name the VidraResource in the way of the first operator: what it owns is its own.
func TestUpgradeLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "page", Namespace: ns}, Data: map[string]string{"greeting": "hello"}}
	require.NoError(t, admin.Create(context.Background(), other, client.FieldOwner(firstOperator)))
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	require.Contains(t, managersOf(get(t, other)), firstOperator, fmt.Sprint(get(t, other).GetManagedFields()))
}
