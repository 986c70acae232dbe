package e2e

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// sharing is a manifest with a Namespace, which has a label, and a ConfigMap
// in it.
func sharing(namespace, labels, page string) string {
	return manifests(fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n  labels: {%s}\n", namespace, labels),
		configMap(page, "hello"))
}

// TestSharedNamespace has two VidraResources that agree on a Namespace: they own
// it together, and the last one takes it along.
func TestSharedNamespace(t *testing.T) {
	t.Parallel()
	ns := unique(t)
	one, two := ns+"-one", ns+"-two"
	manifestOne, manifestTwo := sharing(ns, "team: web, one: here", "one"), sharing(ns, "team: web, two: here", "two")
	first := newVidraResource(t, ns, manifestOne, named(one))
	awaitReady(t, one)
	second := newVidraResource(t, ns, manifestTwo, named(two))
	awaitReady(t, two)
	namespaceOne := declaredObject(t, ns, manifestOne, "Namespace", ns)
	namespaceTwo := declaredObject(t, ns, manifestTwo, "Namespace", ns)
	requireInOrder(t, one, namespaceOne)
	live := requireInOrder(t, two, namespaceTwo)
	require.ElementsMatch(t, []string{"vidra/" + one, "vidra/" + two}, appliedBy(live))

	// An edit of what both own is reverted, and they do not fight over it.
	mark := auditMark(t)
	for i := range 3 {
		require.NoError(t, mergePatch(namespaceOne, `{"metadata":{"labels":{"team":"other-%d"}}}`, i))
		awaitInOrder(t, one, namespaceOne)
		awaitInOrder(t, two, namespaceTwo)
	}
	awaitReady(t, one)
	awaitReady(t, two)
	patches := operatorSince(t, mark).Only(nameIs(ns)).Only(verbIs("patch"))
	require.LessOrEqual(t, len(patches), 3*4, "%s", patches)

	require.NoError(t, deleteVidraResource(t.Context(), one))
	awaitGone(t, first)
	awaitGone(t, declaredObject(t, ns, manifestOne, "ConfigMap", "one"))
	live = requireInOrder(t, two, namespaceTwo)
	require.Equal(t, []string{"vidra/" + two}, appliedBy(live))
	require.NotContains(t, live.GetLabels(), "one", "what only the first one owned goes with it")
	require.NotContains(t, live.GetAnnotations(), v1alpha1.OwnerAnnotationKey(one))
	requireInOrder(t, two, declaredObject(t, ns, manifestTwo, "ConfigMap", "two"))
	awaitEvent(t, first, corev1.EventTypeNormal, "Pruned", "Prune", "Released to their other owners: Namespace "+ns)
	awaitReady(t, two)
	require.NoError(t, mergePatch(namespaceTwo, `{"metadata":{"labels":{"team":"other"}}}`))
	awaitInOrder(t, two, namespaceTwo)

	require.NoError(t, deleteVidraResource(t.Context(), two))
	awaitGoneFor(t, 2*patience, second) // and the Namespace before, which Kubernetes empties first
	awaitGone(t, namespaceTwo)
}

// TestSharedNamespaceLeavesTheManifest prunes an object that another
// VidraResource owns, too.
func TestSharedNamespaceLeavesTheManifest(t *testing.T) {
	t.Parallel()
	ns := unique(t)
	one, two := ns+"-one", ns+"-two"
	newVidraResource(t, ns, sharing(ns, "team: web", "two"), named(two))
	awaitReady(t, two)
	newVidraResource(t, ns, sharing(ns, "team: web", "one"), named(one))
	v := awaitReady(t, one)
	uid := entry(t, v, "Namespace", ns).UID
	setManifest(t, one, configMap("one", "hello"))
	v = awaitReady(t, one)
	require.Len(t, v.Status.ManagedResources, 1)
	live := requireInOrder(t, two, declaredObject(t, ns, sharing(ns, "team: web", "two"), "Namespace", ns))
	require.Equal(t, uid, string(live.GetUID()), "it was not deleted and created again")
	require.Equal(t, []string{"vidra/" + two}, appliedBy(live))
}

// TestSharedNamespaceInDisagreement has two VidraResources that want another
// value of one label. The first one keeps it, the second one says who does, and
// neither reverts the other.
func TestSharedNamespaceInDisagreement(t *testing.T) {
	t.Parallel()
	ns := unique(t)
	one, two := ns+"-one", ns+"-two"
	manifestOne, manifestTwo := sharing(ns, "team: one", "one"), sharing(ns, "team: two", "two")
	newVidraResource(t, ns, manifestOne, named(one))
	awaitReady(t, one)
	mark := auditMark(t)
	second := newVidraResource(t, ns, manifestTwo, named(two))
	v := awaitNotReady(t, two, v1alpha1.ReasonOwnershipConflict, "Namespace "+ns, "VidraResource "+one, "metadata.labels.team")
	awaitEvent(t, v, corev1.EventTypeWarning, "OwnershipConflict", "Apply", "VidraResource "+one, "metadata.labels.team")
	requireInOrder(t, two, declaredObject(t, ns, manifestTwo, "ConfigMap", "two"))

	// The second one tries again until it knows that the first one still has the field, and changes nothing.
	const tries = 3
	refused := func() requests {
		// The first attempt is followed by a mark that the object is wanted here, too.
		return operatorSince(t, mark).On("namespaces", ns, ns).Only(verbIs("patch")).Only(func(r request) bool { return r.Code != 200 })
	}
	require.Never(t, func() bool { return len(refused()) > tries }, 15*time.Second, time.Second, "its backoff would have it tried five times")
	for _, attempt := range refused() {
		require.Equal(t, 409, attempt.Code, "%s", refused())
	}
	requireInOrder(t, one, declaredObject(t, ns, manifestOne, "Namespace", ns))
	awaitReady(t, one)

	setManifest(t, one, sharing(ns, "", "one"))
	awaitReady(t, one)
	awaitReady(t, two)
	requireInOrder(t, two, declaredObject(t, ns, manifestTwo, "Namespace", ns))
	awaitEvent(t, second, corev1.EventTypeNormal, "Recovered", "Apply", "VidraResource "+one)
}

// TestEditGivesTheObjectToNobodyElse edits an object that one VidraResource owns while another one wants another value of it. The edit is
// reverted by the owner, also if that is suspended or down at the time of the edit: the other one gets nothing.
func TestEditGivesTheObjectToNobodyElse(t *testing.T) {
	t.Parallel()
	edits := map[string]string{
		"value": `{"data":{"greeting":"edited"}}`, "removed": `{"data":{"greeting":null}}`, "other field": `{"metadata":{"labels":{"team":"edited"}}}`,
		"both": `{"data":{"greeting":"edited"},"metadata":{"labels":{"team":null}}}`, "owner mark": `{"metadata":{"annotations":null}}`,
	}
	for name, body := range edits {
		for _, suspended := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, suspended: %t", name, suspended), func(t *testing.T) {
				t.Parallel()
				requireEditGivesNothing(t, body, suspended, nil)
			})
		}
	}
}

// requireEditGivesNothing has two VidraResources want different values of an object, which one of them owns, and edits the object. Shards gives each its
// shard; optional.
func requireEditGivesNothing(t *testing.T, body string, suspended bool, shards func(name string) func(*v1alpha1.VidraResource)) {
	t.Helper()
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	labelled := func(greeting string) string {
		return strings.Replace(configMap("page", greeting), "metadata:\n", "metadata:\n  labels: {team: "+greeting+"}\n", 1)
	}
	if shards == nil {
		shards = func(string) func(*v1alpha1.VidraResource) { return func(*v1alpha1.VidraResource) {} }
	}
	newVidraResource(t, ns, labelled("one"), named(one), shards("one"))
	awaitReady(t, one)
	newVidraResource(t, ns, labelled("two"), named(two), shards("two"))
	awaitNotReady(t, two, v1alpha1.ReasonOwnershipConflict, "VidraResource "+one)
	page := declaredObject(t, ns, labelled("one"), "ConfigMap", "page")
	for i := range 5 {
		require.NoError(t, mergePatch(getVidraResource(t, one), `{"spec":{"suspend":%t}}`, suspended))
		if suspended {
			awaitCondition(t, one, metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
		}
		require.NoError(t, mergePatch(page, "%s", body))
		request := fmt.Sprint(i)
		require.NoError(t, mergePatch(getVidraResource(t, two), `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ReconcileRequestedAtAnnotation, request))
		await(t, func(c *assert.CollectT) {
			require.Equal(c, request, getVidraResource(c, two).Status.LastHandledReconcileAt)
		})
		require.NotEqual(t, "two", greeting(t, page))
		require.NoError(t, mergePatch(getVidraResource(t, one), `{"spec":{"suspend":false}}`))
		awaitInOrder(t, one, page)
	}
	awaitReady(t, one)
	awaitNotReady(t, two, v1alpha1.ReasonOwnershipConflict, "VidraResource "+one)
	requireInOrder(t, one, page)
}

// TestOwnerWithoutEventsKeepsItsValues applies an object by a VidraResource without events, and has another one want another value of it before the status
// lists the apply: the first one keeps its values.
func TestOwnerWithoutEventsKeepsItsValues(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	var release atomic.Bool
	startWebhookOn(t, []string{"configmaps", "vidraresources/status"}, ns, false, func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if release.Load() || r.Name != one || !bytes.Contains(r.Object.Raw, []byte(`"digest"`)) {
			return nil
		}
		return refused("the test releases it later")
	}, one)
	newVidraResource(t, ns, configMap("page", "one"), named(one), withoutEvents)
	page := declaredObject(t, ns, configMap("page", "one"), "ConfigMap", "page")
	await(t, func(c *assert.CollectT) { require.Equal(c, "one", greeting(c, page)) })
	newVidraResource(t, ns, configMap("page", "two"), named(two))
	awaitNotReady(t, two, v1alpha1.ReasonOwnershipConflict, "VidraResource "+one)
	release.Store(true)
	awaitReady(t, one)
	require.Equal(t, "one", greeting(t, page))
}

// TestF31WinnerIsDeleted has two VidraResources that want another value, and deletes the
// one whose value stands: the other one gets its way, and the object stays all the while.
func TestF31WinnerIsDeleted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	first := newVidraResource(t, ns, configMap("page", "one"), named(one))
	awaitReady(t, one)
	newVidraResource(t, ns, configMap("page", "two"), named(two))
	awaitNotReady(t, two, v1alpha1.ReasonOwnershipConflict, "VidraResource "+one, "data.greeting")
	page := declaredObject(t, ns, configMap("page", "two"), "ConfigMap", "page")
	require.Equal(t, "one", greeting(t, page))
	uid := get(t, page).GetUID()

	require.NoError(t, deleteVidraResource(t.Context(), one))
	awaitGone(t, first)
	awaitReady(t, two)
	live := requireInOrder(t, two, page)
	require.Equal(t, uid, live.GetUID(), "it was not deleted and created again")
	require.Equal(t, []string{"vidra/" + two}, appliedBy(live))
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitInOrder(t, two, page)
}

// TestF31NamespaceOfTheLoser deletes, of two VidraResources that want another label of a
// Namespace, the one whose label stands: what the other one has in it lives on.
func TestF31NamespaceOfTheLoser(t *testing.T) {
	t.Parallel()
	ns := unique(t)
	one, two := ns+"-one", ns+"-two"
	first := newVidraResource(t, ns, sharing(ns, "team: one", "one"), named(one))
	awaitReady(t, one)
	newVidraResource(t, ns, sharing(ns, "team: two", "two"), named(two))
	awaitNotReady(t, two, v1alpha1.ReasonOwnershipConflict, "VidraResource "+one, "metadata.labels.team")
	page := declaredObject(t, ns, sharing(ns, "team: two", "two"), "ConfigMap", "two")
	uid := get(t, page).GetUID()
	require.NoError(t, deleteVidraResource(t.Context(), one))
	awaitGone(t, first)
	awaitReady(t, two)
	requireInOrder(t, two, declaredObject(t, ns, sharing(ns, "team: two", "two"), "Namespace", ns))
	require.Equal(t, uid, get(t, page).GetUID(), "it went with its Namespace")
}

// TestF31LoserIsDeleted deletes, of two VidraResources that want another value, the one
// that did not get its way: of the object it takes its mark alone.
func TestF31LoserIsDeleted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	newVidraResource(t, ns, configMap("page", "one"), named(one))
	awaitReady(t, one)
	page := declaredObject(t, ns, configMap("page", "one"), "ConfigMap", "page")
	uid := get(t, page).GetUID()
	second := newVidraResource(t, ns, configMap("page", "two"), named(two))
	awaitNotReady(t, two, v1alpha1.ReasonOwnershipConflict, "VidraResource "+one)
	require.NoError(t, deleteVidraResource(t.Context(), two))
	awaitGone(t, second)
	live := requireInOrder(t, one, page)
	require.Equal(t, uid, live.GetUID())
	require.Equal(t, []string{"vidra/" + one}, appliedBy(live))
	require.NotContains(t, live.GetAnnotations(), v1alpha1.OwnerAnnotationKey(two))
	awaitReady(t, one)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitInOrder(t, one, page)
}

// TestF31BothAreDeleted deletes two VidraResources at the same time that own objects
// together, in agreement: the objects go with the last one, and none waits for the other.
func TestF31BothAreDeleted(t *testing.T) {
	t.Parallel()
	const many = 20
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	var documents []string
	for i := range many {
		documents = append(documents, configMap(fmt.Sprintf("page-%02d", i), "hello"))
	}
	first := newVidraResource(t, ns, manifests(documents...), named(one))
	awaitReady(t, one)
	second := newVidraResource(t, ns, manifests(documents...), named(two))
	awaitReady(t, two)
	require.NoError(t, deleteVidraResource(t.Context(), one))
	require.NoError(t, deleteVidraResource(t.Context(), two))
	awaitGone(t, first)
	awaitGone(t, second)
	require.Zero(t, countPages(t, ns))
}

// TestCopiedMarks has an object whose label and annotation a user copied from
// a managed one, as `kubectl get -o yaml` into another file does. It is in no
// manifest, so it is unmanaged.
func TestCopiedMarks(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, web)
	awaitReady(t, ns)
	page := declaredObject(t, ns, web, "ConfigMap", "page")
	copied := &unstructured.Unstructured{Object: page.DeepCopy().Object}
	copied.SetName("copy")
	copied.SetLabels(map[string]string{"managed-by": "vidra"})
	copied.SetAnnotations(get(t, page).GetAnnotations())

	mark := auditMark(t)
	require.NoError(t, admin.Create(t.Context(), copied))
	require.NoError(t, mergePatch(copied, `{"data":{"greeting":"mine"}}`))
	for i := range 2 {
		require.NoError(t, mergePatch(page, `{"data":{"greeting":"changed %d"}}`, i))
		awaitInOrder(t, ns, page)
	}
	require.Empty(t, operatorSince(t, mark).ObjectsIn(ns).Only(nameIs("copy")))
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, page)
	require.NoError(t, admin.Delete(t.Context(), copied), "it is still there")
}

// TestSharedFieldChanges has VidraResources that own an object together change a field of it to the same value: none of them keeps the
// old value, in each order. Those that disagree are told so.
func TestSharedFieldChanges(t *testing.T) {
	t.Parallel()
	web := func(image string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: page}\nspec:\n  replicas: 0\n  selector: {matchLabels: {app: page}}\n  template:\n" +
			"    metadata: {labels: {app: page}}\n    spec:\n      containers:\n      - {name: init, image: same}\n      - {name: web, image: " + image + "}\n"
	}
	page := func(says string) string { return configMap("page", says) }
	tests := map[string]struct {
		reason, kind string
		owners       int
		manifest     func(value string) string
		// last is the value that the last owner wants; the others want "goodbye".
		last string
	}{
		"two":      {"both change at once", "ConfigMap", 2, page, "goodbye"},
		"three":    {"all three change at once", "ConfigMap", 3, page, "goodbye"},
		"item":     {"the field is in an item of a list with keys", "Deployment", 2, web, "goodbye"},
		"disagree": {"the owners want other values", "ConfigMap", 2, page, "adieu"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			var names []string
			for i := range tt.owners {
				names = append(names, fmt.Sprintf("%s-%d", ns, i))
				newVidraResource(t, ns, tt.manifest("hello"), named(names[i]))
				awaitReady(t, names[i])
			}
			object := declaredObject(t, ns, tt.manifest("goodbye"), tt.kind, "page")
			uid := get(t, object).GetUID()
			for i, name := range names {
				value := "goodbye"
				if i == tt.owners-1 {
					value = tt.last
				}
				setManifest(t, name, tt.manifest(value))
			}
			if tt.last != "goodbye" {
				awaitNotReady(t, names[1], v1alpha1.ReasonOwnershipConflict, "VidraResource "+names[0], "data.greeting")
				return
			}
			for _, name := range names {
				awaitReady(t, name)
				requireInOrder(t, name, object)
			}
			require.Equal(t, uid, get(t, object).GetUID(), tt.reason)
		})
	}
}

// TestSharedObjectUnderAPolicy: an owner that a policy forbids to remove its fields keeps them until the policy is gone, as it keeps an object that it may
// not delete. The answer is the same as for an object that is invalid without the fields.
func TestSharedObjectUnderAPolicy(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	shared := func(key string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {" + key + ": hello}\n"
	}
	newVidraResource(t, ns, shared("one"), named(one))
	awaitReady(t, one)
	newVidraResource(t, ns, shared("two"), named(two))
	awaitReady(t, two)
	meta := metav1.ObjectMeta{Name: ns}
	policy := &registrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: registrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &registrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
			ResourceRules: []registrationv1.NamedRuleWithOperations{{RuleWithOperations: registrationv1.RuleWithOperations{
				Operations: []registrationv1.OperationType{registrationv1.Update},
				Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}}},
		},
		Validations: []registrationv1.Validation{{Expression: "object.metadata.name != 'shared' || 'one' in object.data"}},
	}}
	binding := &registrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: registrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: ns, ValidationActions: []registrationv1.ValidationAction{registrationv1.Deny},
	}}
	require.NoError(t, admin.Create(t.Context(), policy))
	require.NoError(t, admin.Create(t.Context(), binding))
	t.Cleanup(func() {
		_ = admin.Delete(context.Background(), binding)
		_ = admin.Delete(context.Background(), policy)
	})
	object := declaredObject(t, ns, shared("one"), "ConfigMap", "shared")
	await(t, func(c *assert.CollectT) { // the API server takes a moment
		err := admin.Patch(context.Background(), object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"data":{"one":null}}`)), client.DryRunAll)
		require.ErrorContains(c, err, "denied request")
	})
	setManifest(t, one, configMap("other", "hello"))
	awaitNotReady(t, one, v1alpha1.ReasonPruneFailed, "denied request")
	require.ElementsMatch(t, []string{"vidra/" + one, "vidra/" + two}, appliedBy(get(t, object)))

	require.NoError(t, admin.Delete(t.Context(), binding))
	awaitReady(t, one)
	live := get(t, object)
	require.Equal(t, []string{"vidra/" + two}, appliedBy(live))
	require.Equal(t, map[string]any{"two": "hello"}, live.Object["data"])
}
