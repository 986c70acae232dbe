package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// blockedAfter is how long an object is terminating until its deletion counts as blocked, and until it is read again then.
const blockedAfter = 75 * time.Second

// heldBack is a ConfigMap with a finalizer that no controller removes.
func heldBack(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n  finalizers: [example.com/wait]\n"
}

// freeLater removes the finalizers of an object at the latest when the test ends.
func freeLater(t *testing.T, obj *unstructured.Unstructured) {
	t.Helper()
	t.Cleanup(func() { _ = mergePatch(obj, `{"metadata":{"finalizers":null}}`) }) // it is gone if all went well
}

// TestEventsOfABlockedRemoval: an object that left the manifest and is terminating is an Event when that has taken long,
// with its finalizer, and so is the end of that.
func TestEventsOfABlockedRemoval(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(configMap("stays", "hello"), heldBack("held")))
	v := awaitReady(t, ns)
	held := declaredObject(t, ns, heldBack("held"), "ConfigMap", "held")
	freeLater(t, held)
	setManifest(t, ns, configMap("stays", "hello"))
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "is being deleted, and waits for its finalizers (example.com/wait)")
	require.Empty(t, withReason(eventsAbout(t, v), "DeletionBlocked"), "it has just begun")
	const text = "is being deleted, and waits for its finalizers (example.com/wait)"
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		all := withReason(eventsAbout(c, v), "DeletionBlocked")
		require.Equal(c, 1, sum(all))
		require.Equal(c, "ConfigMap "+ns+"/held: "+text, all[0].Note)
	}, blockedAfter, time.Second)
	awaitNotReady(t, ns, v1alpha1.ReasonDeletionBlocked, "ConfigMap "+ns+"/held", "example.com/wait")
	require.NoError(t, mergePatch(held, `{"metadata":{"finalizers":null}}`))
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Removed ConfigMap "+ns+"/held")
	awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Prune", "No longer the case: ConfigMap "+ns+"/held: "+text)
	awaitReady(t, ns)
}

// TestEventsOfTheDeletion: the start of a deletion is an Event, and so is each object that blocks it, and the
// finalizer of another controller that the VidraResource has when its objects are gone.
func TestEventsOfTheDeletion(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(configMap("goes", "hello"), heldBack("held")))
	v := awaitReady(t, ns)
	held := declaredObject(t, ns, heldBack("held"), "ConfigMap", "held")
	freeLater(t, held)
	require.NoError(t, mergePatch(v, `{"metadata":{"finalizers":[%q,"example.com/audit"]}}`, v.Finalizers[0]))
	t.Cleanup(func() { _ = mergePatch(v, `{"metadata":{"finalizers":null}}`) }) // it is gone if all went well
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitEvent(t, v, corev1.EventTypeNormal, "DeletionStarted", "Prune", "VidraResource "+ns+" is being deleted: its objects (2) are removed")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.Equal(c, 1, sum(withReason(eventsAbout(c, v), "DeletionBlocked")))
	}, blockedAfter, time.Second)
	awaitEvent(t, v, corev1.EventTypeWarning, "DeletionBlocked", "Prune", "ConfigMap "+ns+"/held", "example.com/wait")
	require.NoError(t, mergePatch(held, `{"metadata":{"finalizers":null}}`))
	awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Prune", "ConfigMap "+ns+"/held")
	awaitEvent(t, v, corev1.EventTypeWarning, "DeletionBlocked", "Prune", "finalizers of other controllers (example.com/audit)")
	require.Equal(t, []string{"example.com/audit"}, getVidraResource(t, ns).Finalizers)
	awaitNotReady(t, ns, v1alpha1.ReasonDeletionBlocked, "example.com/audit")
	require.Equal(t, 1, sum(withReason(eventsAbout(t, v), "DeletionStarted")))
}

// TestEventsOfADeletionThatOrphans: the Event of its start names the policy.
func TestEventsOfADeletionThatOrphans(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	v := awaitReady(t, ns)
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.DeletionPolicy = v1alpha1.DeletionOrphan })
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	awaitEvent(t, v, corev1.EventTypeNormal, "DeletionStarted", "Prune", "its objects (1) are left in place, as spec.deletionPolicy says")
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Left in place, unmanaged: ConfigMap "+ns+"/page")
}

// TestEventsOfAnotherKind: an object of the manifest whose kind or version changed is an Event, which has both.
func TestEventsOfAnotherKind(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	scaler := func(version string) string {
		return "apiVersion: autoscaling/" + version + "\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: web\nspec:\n  maxReplicas: 3\n" +
			"  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n"
	}
	secret := "apiVersion: v1\nkind: Secret\nmetadata:\n  name: page\n"
	newVidraResource(t, ns, manifests(configMap("page", "hello"), scaler("v1")))
	v := awaitReady(t, ns)
	setManifest(t, ns, manifests(secret, scaler("v2")))
	version := awaitEvent(t, v, corev1.EventTypeNormal, "KindChanged", "Apply",
		"HorizontalPodAutoscaler "+ns+"/web is in the manifest as autoscaling/v2 now, and was autoscaling/v1 before")
	require.Equal(t, "web", version.Related.Name)
	kind := awaitEvent(t, v, corev1.EventTypeNormal, "KindChanged", "Apply",
		"Secret "+ns+"/page is in the manifest as v1 Secret now, and was v1 ConfigMap before, which is another object")
	require.Equal(t, "Secret", kind.Related.Kind)
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "ConfigMap "+ns+"/page")
	awaitReady(t, ns)
	setManifest(t, ns, manifests(secret, scaler("v2"), configMap("more", "hello")))
	awaitEvent(t, v, corev1.EventTypeNormal, "Applied", "Apply", "1 created", "ConfigMap "+ns+"/more")
	require.Equal(t, 2, sum(withReason(eventsAbout(t, v), "KindChanged")))
}

// TestEventsOfUnmatchedIgnoreRules: each rule without an effect is an Event, and so is its end.
func TestEventsOfUnmatchedIgnoreRules(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	rule := func(kind string) v1alpha1.IgnoreRule {
		return v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Kind: kind}, Paths: []string{"/spec/replicas"}}
	}
	newVidraResource(t, ns, web, ignoring(rule("Deployment"), rule("StatefulSet")))
	v := awaitReady(t, ns)
	awaitEvent(t, v, corev1.EventTypeWarning, "UnmatchedIgnoreRules", "Apply", "Nothing in the manifest is matched by spec.drift.ignore[1]")
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Interval = &metav1.Duration{Duration: time.Hour} })
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Drift.Ignore = spec.Drift.Ignore[:1] })
	awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", "No longer the case: Nothing in the manifest is matched by spec.drift.ignore[1]")
	require.Equal(t, 1, sum(withReason(eventsAbout(t, v), "UnmatchedIgnoreRules")))
}

// TestEventsOfABlockedDeletion: an object of the manifest that another client deleted, and that the finalizer of another
// controller keeps, is an Event with the finalizer when that has taken long, and so is its end.
func TestEventsOfABlockedDeletion(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("stays", "hello")))
	v := awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":["example.com/wait"]}}`))
	freeLater(t, page)
	require.NoError(t, admin.Delete(t.Context(), page))
	healthy := metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing}
	const waits = "waits for its finalizers (example.com/wait)"
	awaitCondition(t, ns, healthy, "ConfigMap "+ns+"/page: Terminating: "+waits)
	require.Empty(t, withReason(eventsAbout(t, v), "DeletionBlocked"), "it has just begun")
	text := "ConfigMap " + ns + "/page: is being deleted, and " + waits
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		all := withReason(eventsAbout(c, v), "DeletionBlocked")
		require.Equal(c, 1, sum(all))
		require.Equal(c, text, all[0].Note)
	}, blockedAfter, time.Second)
	healthy.Reason = v1alpha1.ReasonDeletionBlocked
	awaitCondition(t, ns, healthy, text)
	awaitReady(t, ns)
	require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":null}}`))
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "ConfigMap "+ns+"/page: created it again after it had been deleted")
	awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Prune", "No longer the case: "+text)
	awaitEvent(t, v, corev1.EventTypeNormal, "Healthy", "Check", "All objects of VidraResource "+ns+" are healthy")
	healthy.Status, healthy.Reason = metav1.ConditionTrue, v1alpha1.ReasonHealthy
	awaitCondition(t, ns, healthy)
	require.Equal(t, 1, sum(withReason(eventsAbout(t, v), "DeletionBlocked")))
}
