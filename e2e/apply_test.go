package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

func TestApply(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	before := time.Now().Truncate(time.Second)
	newVidraResource(t, ns, web)
	v := awaitReady(t, ns)

	objs := declared(t, ns, web)
	require.Len(t, v.Status.ManagedResources, len(objs))
	require.EqualValues(t, len(objs), v.Status.Objects)
	for _, obj := range objs {
		live := requireInOrder(t, ns, obj)
		require.Equal(t, []string{"vidra/" + ns}, appliedBy(live), "one field manager for each VidraResource")
		e := entry(t, v, obj.GetKind(), obj.GetName())
		require.Equal(t, obj.GetAPIVersion(), e.APIVersion)
		require.Equal(t, ns, e.Namespace)
		require.Equal(t, string(live.GetUID()), e.UID)
		require.NotEmpty(t, e.Digest)
		require.Equal(t, v1alpha1.ObjectApplied, e.State)
	}

	require.Equal(t, v1alpha1.DeploySucceeded, v.Status.DeployState)
	require.Empty(t, v.Status.LastError)
	require.Contains(t, v.Finalizers, v1alpha1.Finalizer)
	require.Equal(t, "All objects are applied (4)", condition(t, v, v1alpha1.ConditionReady).Message)
	watching := condition(t, v, v1alpha1.ConditionWatching)
	require.Equal(t, metav1.ConditionTrue, watching.Status)
	require.Equal(t, v1alpha1.ReasonSynced, watching.Reason)
	drifted := condition(t, v, v1alpha1.ConditionDrifted)
	require.Equal(t, metav1.ConditionFalse, drifted.Status)
	require.Equal(t, v1alpha1.ReasonInSync, drifted.Reason)
	require.Len(t, v.Status.Conditions, 4, "Reconciling and Stalled are there while they are true")
	require.NotNil(t, v.Status.LastSyncTime)
	require.WithinRange(t, v.Status.LastSyncTime.Time, before, time.Now())

	awaitEvent(t, v, corev1.EventTypeNormal, "Applied", "Apply", "4 created, 0 changed")
}

func TestApplyChangedManifest(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(configMap("a", "hello"), configMap("b", "hello")))
	v := awaitReady(t, ns)
	uid := entry(t, v, "ConfigMap", "a").UID

	changed := manifests(configMap("a", "hi"), configMap("b", "hello"), configMap("c", "hello"))
	setManifest(t, ns, changed)
	v = awaitReady(t, ns)
	require.EqualValues(t, 2, v.Status.ObservedGeneration)
	require.Len(t, v.Status.ManagedResources, 3)
	require.Equal(t, uid, entry(t, v, "ConfigMap", "a").UID, "it is changed, not replaced")
	for _, obj := range declared(t, ns, changed) {
		requireInOrder(t, ns, obj)
	}
	awaitEvent(t, v, corev1.EventTypeNormal, "Applied", "Apply", "1 created, 1 changed")
}

// TestChangesCostWhatTheyChange counts the requests of a manifest of 20 objects: a PATCH for each
// that is new. When 10 change, it is a PATCH for each of them, and one of the status. Where the machine is busy and a watch
// late to see them, the status says that first: then it is tried once more.
func TestChangesCostWhatTheyChange(t *testing.T) {
	t.Parallel()
	const objects, changed, rounds, statuses = 20, 10, 5, 4
	ns := newNamespace(t)
	manifest := func(greeting string) string {
		var documents []string
		for i := range objects {
			if i == changed {
				greeting = "hello"
			}
			documents = append(documents, configMap(fmt.Sprintf("c-%d", i), greeting))
		}
		return manifests(documents...)
	}
	mark, start := auditMark(t), time.Now()
	newVidraResource(t, ns, manifest("hello"))
	awaitReady(t, ns)
	created := operatorSince(t, mark).After(start).ObjectsIn(ns)
	require.Len(t, created, objects, "%s", created)
	require.Len(t, created.Only(verbIs("patch")), objects, "%s", created)
	once := false
	for round := 0; round < rounds && !once; round++ {
		next := manifest(fmt.Sprintf("changed %d", round))
		mark, start := auditMark(t), time.Now()
		setManifest(t, ns, next)
		awaitReady(t, ns)
		for _, object := range declared(t, ns, next) {
			requireInOrder(t, ns, object)
		}
		sent := operatorSince(t, mark).After(start)
		require.Len(t, sent.ObjectsIn(ns), changed, "%s", sent)
		require.Len(t, sent.ObjectsIn(ns).Only(verbIs("patch")), changed, "%s", sent)
		told := sent.On("vidraresources", "", ns)
		require.LessOrEqual(t, len(told), statuses, "%s", sent)
		once = len(told) == 1
	}
	require.True(t, once, "one request reports all")
}

// TestFirstApplyWritesTwice: until it is Ready, the operator writes a new VidraResource with few objects twice: the finalizer
// with the first inventory, and the status. A status before reports an apply that takes longer than a second: then the test
// tries once more.
func TestFirstApplyWritesTwice(t *testing.T) {
	t.Parallel()
	manifest := manifests(configMap("one", "hello"), configMap("two", "hello")) // no controller adds fields that a later status records
	first := newNamespace(t)
	newVidraResource(t, first, manifest) // the watch of the kind begins with it
	awaitReady(t, first)
	for range 5 {
		ns := newNamespace(t)
		mark, start := auditMark(t), time.Now()
		newVidraResource(t, ns, manifest)
		v := awaitReady(t, ns)
		require.Contains(t, v.Annotations, v1alpha1.FirstInventoryAnnotation)
		var sent requests
		await(t, func(c *assert.CollectT) { // the last one is noted when it is answered
			sent = operatorSince(t, mark).After(start)
			require.GreaterOrEqual(c, len(sent.On("vidraresources", "", ns).Writes()), 2, "%s", sent)
		})
		require.Len(t, sent.ObjectsIn(ns).Writes(), len(declared(t, ns, manifest)), "%s", sent)
		writes := sent.On("vidraresources", "", ns).Writes()
		if len(writes) == 2 {
			return
		}
		require.Len(t, writes, 3, "%s", writes)
		require.Greater(t, writes[1].Time.Sub(writes[0].Time), time.Second, "a status reports an apply of more than a second: %s", writes)
	}
}

// TestApplyManifestOfFirstOperator applies what users have in their
// repositories today.
func TestApplyManifestOfFirstOperator(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	manifest := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"greeting":"hello"}}`
	at := metav1.NewTime(time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC))
	newVidraResource(t, ns, manifest, func(v *v1alpha1.VidraResource) {
		v.Spec.Destination.Server = "https://kubernetes.default.svc"
		v.Spec.ReconciledAt = &at
	})
	v := awaitReady(t, ns)
	requireInOrder(t, ns, declared(t, ns, manifest)[0])
	require.True(t, v.Spec.ReconciledAt.Equal(&at), "the operator does not write to the spec")
	require.EqualValues(t, 1, v.Generation)
	require.Equal(t, "2025-06-01T12:00:00Z", v.Status.LastHandledReconcileAt, "it requests a reconcile")
}

// TestApplyTakesOverFromFirstOperator has an object that the first operator
// made: it wrote a label, an annotation and no managedFields of ours.
func TestApplyTakesOverFromFirstOperator(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	old := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: "c", Namespace: ns,
			Labels:      map[string]string{"managed-by": "vidra"},
			Annotations: map[string]string{v1alpha1.OwnerAnnotation: "another-manager," + ns},
		},
		Data: map[string]string{"greeting": "hello", "extra": "kept"},
	}
	require.NoError(t, admin.Create(t.Context(), old))

	manifest := configMap("c", "hello")
	newVidraResource(t, ns, manifest)
	v := awaitReady(t, ns)
	live := requireInOrder(t, ns, declared(t, ns, manifest)[0])
	require.Equal(t, old.UID, live.GetUID())
	require.Equal(t, string(old.UID), entry(t, v, "ConfigMap", "c").UID)
	require.Empty(t, difference("", map[string]any{"data": map[string]any{"extra": "kept"}}, live.Object))

	require.NoError(t, mergePatch(old, `{"data":{"greeting":"changed"}}`))
	awaitInOrder(t, ns, declared(t, ns, manifest)[0])
}

func TestForeignObjectIsLeftAlone(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	foreign := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "foreign", Namespace: ns},
		Data:       map[string]string{"greeting": "mine"},
	}
	require.NoError(t, admin.Create(t.Context(), foreign))
	manifest := manifests(configMap("foreign", "hello"), configMap("ours", "hello"))
	newVidraResource(t, ns, manifest)

	v := awaitNotReady(t, ns, v1alpha1.ReasonAdoptionRefused, "ConfigMap "+ns+"/foreign", "Vidra does not manage it",
		`data.greeting is "mine" and should be "hello"`)
	awaitEvent(t, v, corev1.EventTypeWarning, "AdoptionRefused", "Apply", "foreign", "data.greeting")
	requireInOrder(t, ns, declaredObject(t, ns, manifest, "ConfigMap", "ours"))
	require.Len(t, v.Status.ManagedResources, 1, "what is not ours is not in the inventory")

	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	require.Equal(t, foreign.ResourceVersion, get(t, foreign).GetResourceVersion(), "it was never touched")
}

func TestForeignObjectThatGoesAwayIsApplied(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: ns}}
	require.NoError(t, admin.Create(t.Context(), foreign))
	newVidraResource(t, ns, configMap("c", "hello"))
	v := awaitNotReady(t, ns, v1alpha1.ReasonAdoptionRefused, "Vidra does not manage it")
	require.NoError(t, admin.Delete(t.Context(), foreign))
	awaitReady(t, ns)
	requireInOrder(t, ns, declared(t, ns, configMap("c", "hello"))[0])
	awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", "does not manage it")
}

// TestStages applies a manifest that is written the wrong way round: each stage begins
// when the one before has ended, so that nothing is refused for want of another, and a
// webhook does not refuse what comes with it. Removal goes the other way.
func TestStages(t *testing.T) {
	t.Parallel()
	ns := unique(t) // the manifest makes it
	objs := []string{
		strings.ReplaceAll(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: <ns>}
webhooks:
- name: none.<ns>.example.com
  clientConfig: {url: "https://127.0.0.1:1/"}
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: <ns>}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
`, "<ns>", ns),
		configMap("a", "hello"), configMap("b", "hello"),
		fmt.Sprintf("{apiVersion: %s.example.com/v1, kind: Thing, metadata: {name: thing}}", ns),
		fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %s}, rules: []}", ns),
		editedObject("CustomResourceDefinition", ns, ""),
		fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", ns),
	}
	stages := [][]string{
		{"namespaces"}, {"customresourcedefinitions"}, {"clusterroles"}, {"configmaps", "things"}, {"validatingwebhookconfigurations"},
	}
	inOrder := func(verb string, mark testenv.AuditMark) {
		var before time.Time
		for _, resources := range stages {
			sent := operatorSince(t, mark).Only(verbIs(verb)).Only(func(r request) bool {
				return slices.Contains(resources, r.Resource) && r.Code < 300 && (strings.Contains(r.Name, ns) || r.Namespace == ns)
			})
			require.NotEmpty(t, sent, "%v", resources)
			for _, r := range sent {
				require.False(t, r.Time.Before(before), "%s %s is ahead of the stage before", verb, r.Resource)
			}
			before = sent[len(sent)-1].Time
		}
	}
	mark := auditMark(t)
	newVidraResource(t, ns, manifests(objs...))
	v := awaitReady(t, ns)
	require.Len(t, v.Status.ManagedResources, len(objs))
	require.Empty(t, withReason(eventsAbout(t, v), "ApplyFailed"))
	inOrder("patch", mark)

	mark = auditMark(t)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	slices.Reverse(stages)
	inOrder("delete", mark)
}
