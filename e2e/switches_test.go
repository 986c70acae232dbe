package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestSuspendedDeletionWaits deletes a suspended VidraResource. Nothing is written until
// it is resumed, or its objects are to be left in place.
func TestSuspendedDeletionWaits(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		release func(*v1alpha1.VidraResourceSpec)
		stays   bool
	}{
		"Resume": {func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = false }, false},
		"Orphan": {func(spec *v1alpha1.VidraResourceSpec) { spec.DeletionPolicy = v1alpha1.DeletionOrphan }, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, configMap("page", "hello"))
			awaitReady(t, ns)
			page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
			changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
			awaitReady(t, ns)
			mark := auditMark(t)
			require.NoError(t, deleteVidraResource(t.Context(), ns))
			v := awaitNotReady(t, ns, v1alpha1.ReasonDeletionSuspended, "spec.suspend", "spec.deletionPolicy to Orphan")
			require.Equal(t, v1alpha1.DeployStale, v.Status.DeployState)
			awaitEvent(t, v, corev1.EventTypeWarning, "DeletionSuspended", "Prune", "spec.suspend", "spec.deletionPolicy to Orphan")
			require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
			require.Empty(t, operatorSince(t, mark).ObjectsIn(ns).Writes())
			require.Equal(t, "mine", greeting(t, page))

			changeSpec(t, ns, tt.release)
			awaitGone(t, v)
			if !tt.stays {
				awaitGone(t, page)
				return
			}
			live := get(t, page)
			require.Empty(t, appliedBy(live), "it is unmanaged")
			require.NotContains(t, live.GetLabels(), v1alpha1.ManagedByLabel)
			require.Equal(t, "mine", greeting(t, page), "and as it was")
		})
	}
}

// TestSuspendedDeletionWithoutObjects deletes a suspended VidraResource that has applied
// nothing: there is nothing to wait for.
func TestSuspendedDeletionWithoutObjects(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"), func(v *v1alpha1.VidraResource) { v.Spec.Suspend = true })
	v := awaitReason(t, ns, v1alpha1.ReasonSuspended)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
}

// TestSuspendedDeletionWithLostInventory deletes a suspended VidraResource whose status was lost while no operator ran, as a
// restore from a backup loses it: the objects that it applied stay. It is not parallel: it stops
// the operator.
func TestSuspendedDeletionWithLostInventory(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	uid := get(t, page).GetUID()
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
	awaitReady(t, ns)
	stopOperator(t)
	editStatus(t, ns, `{"status":{"managedResources":[],"objects":0}}`)
	require.NoError(t, deleteVidraResource(t.Context(), ns))

	for range 2 { // the second operator reads the inventory that the first one wrote
		startOperator(t)
		v := awaitNotReady(t, ns, v1alpha1.ReasonDeletionSuspended, "spec.suspend", "spec.deletionPolicy to Orphan")
		require.Len(t, v.Status.ManagedResources, 1)
		awaitSilence(t)
		live := get(t, page)
		require.Equal(t, uid, live.GetUID())
		require.Nil(t, live.GetDeletionTimestamp())
		stopOperator(t)
	}
	startOperator(t)
	v := getVidraResource(t, ns)
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = false })
	awaitGone(t, page)
	awaitGone(t, v)
}

// awaitReason waits until a VidraResource is not ready for a reason, whatever generation
// its status is of.
func awaitReason(t *testing.T, name, reason string) *v1alpha1.VidraResource {
	t.Helper()
	var v *v1alpha1.VidraResource
	await(t, func(c *assert.CollectT) {
		v = getVidraResource(c, name)
		require.Equal(c, reason, condition(c, v, v1alpha1.ConditionReady).Reason)
	})
	return v
}

// TestBreakGlassHoldsRemovals removes objects under break-glass from the manifest, and
// then deletes the VidraResource. They go when break-glass ends, or is not accepted any
// more, and so does the Namespace that they are in. What is left in place does not wait.
func TestBreakGlassHoldsRemovals(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	inner := ns + "-inner"
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + inner + "\n"
	within := strings.Replace(configMap("within", "hello"), "metadata:\n", "metadata:\n  namespace: "+inner+"\n", 1)
	rest := configMap("rest", "hello")
	all := manifests(rest, configMap("short", "hello"), configMap("kept", "hello"), namespace, within)
	newVidraResource(t, ns, all)
	v := awaitReady(t, ns)
	short, kept := declaredObject(t, ns, all, "ConfigMap", "short"), declaredObject(t, ns, all, "ConfigMap", "kept")
	last, inside := declaredObject(t, ns, all, "ConfigMap", "rest"), declaredObject(t, ns, all, "ConfigMap", "within")
	annotate(t, kept, in(time.Hour), "incident 43")
	annotate(t, inside, in(time.Hour), "incident 44")
	awaitAnswer(t, ns, kept, v1alpha1.BreakGlassAccepted)
	awaitAnswer(t, ns, inside, v1alpha1.BreakGlassAccepted)
	require.NoError(t, mergePatch(kept, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.KeepAnnotation))
	uid := get(t, inside).GetUID()
	until := time.Now().Add(25 * time.Second)
	annotate(t, short, until.Format(time.RFC3339), "incident 42")
	awaitAnswer(t, ns, short, v1alpha1.BreakGlassAccepted)

	setManifest(t, ns, rest)
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "ConfigMap "+ns+"/short: is to be removed, and is not before its break-glass ends", "incident 42",
		"ConfigMap "+inner+"/within: is to be removed", "Namespace "+inner+": is not removed before")
	require.NotEmpty(t, get(t, short))
	await(t, func(c *assert.CollectT) { require.Empty(c, appliedBy(get(c, kept)), "what stays anyway does not wait") })
	awaitGone(t, short)
	require.False(t, time.Now().Before(until.Truncate(time.Second)))

	annotate(t, last, in(time.Hour), "incident 45")
	awaitAnswer(t, ns, last, v1alpha1.BreakGlassAccepted)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "ConfigMap "+ns+"/rest: is to be removed", "incident 45")
	require.Equal(t, uid, get(t, inside).GetUID())
	changeSpec(t, ns, acceptNoBreakGlass)
	awaitGoneFor(t, 2*patience, v) // Kubernetes empties the Namespace first
	awaitGone(t, last)
	awaitGone(t, inside)
}

// TestBreakGlassTakenBackIntoTheManifest removes an object under break-glass from the
// manifest and brings it back: it is watched and reverted as before.
func TestBreakGlassTakenBackIntoTheManifest(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	both := manifests(configMap("page", "hello"), configMap("rest", "hello"))
	newVidraResource(t, ns, both)
	awaitReady(t, ns)
	page := declaredObject(t, ns, both, "ConfigMap", "page")
	annotate(t, page, in(time.Hour), "incident 42")
	awaitAnswer(t, ns, page, v1alpha1.BreakGlassAccepted)
	setManifest(t, ns, configMap("rest", "hello"))
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "incident 42")
	setManifest(t, ns, both)
	awaitReady(t, ns)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"hotfix"}}`))
	awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected, "data.greeting", "incident 42")
	require.NoError(t, mergePatch(page, `{"metadata":{"annotations":{%q:null}}}`, v1alpha1.BreakGlassUntilAnnotation))
	awaitInOrder(t, ns, page)
}

// TestForceSparesWhatIsToStay has spec.force delete and create an object again whose
// annotations forbid that: keep, in the cluster or in the manifest, and break-glass.
func TestForceSparesWhatIsToStay(t *testing.T) {
	t.Parallel()
	cluster.NeedsAuditLog(t)
	immutable := func(greeting string) string { return "immutable: true\n" + configMap("page", greeting) }
	annotated := func(greeting, key string) string {
		return strings.Replace(immutable(greeting), "metadata:\n", "metadata:\n  annotations: {"+key+`: "true"}`+"\n", 1)
	}
	keep := `{"metadata":{"annotations":{"` + v1alpha1.KeepAnnotation + `":%s}}}`
	glass := `{"metadata":{"annotations":{"` + v1alpha1.BreakGlassUntilAnnotation + `":%s,"` + v1alpha1.BreakGlassReasonAnnotation + `":"incident 42"}}}`
	tests := map[string]struct {
		// set and unset are the edits of the object.
		set, unset    string
		before, after string
		part          string
		release       func(t *testing.T, ns string)
	}{
		"Keep": {set: strings.Replace(keep, "%s", `"true"`, 1), unset: strings.Replace(keep, "%s", "null", 1), before: immutable("one"), after: immutable("two"), part: v1alpha1.KeepAnnotation},
		"KeepInTheManifest": {
			before: annotated("one", v1alpha1.KeepAnnotation), after: annotated("two", v1alpha1.KeepAnnotation), part: v1alpha1.KeepAnnotation,
			release: func(t *testing.T, ns string) {
				t.Helper()
				setManifest(t, ns, immutable("two"))
				require.NoError(t, edit(declaredObject(t, ns, immutable("two"), "ConfigMap", "page"), "application/merge-patch+json", strings.Replace(keep, "%s", "null", 1)))
			},
		},
		"BreakGlass": {set: strings.Replace(glass, "%s", `"`+in(time.Hour)+`"`, 1), unset: strings.Replace(glass, "%s", "null", 1), before: immutable("one"), after: immutable("two"), part: "incident 42"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, tt.before, forced)
			awaitReady(t, ns)
			page := declaredObject(t, ns, tt.before, "ConfigMap", "page")
			uid := get(t, page).GetUID()
			if tt.set != "" {
				require.NoError(t, edit(page, "application/merge-patch+json", tt.set))
			}
			mark := auditMark(t)
			setManifest(t, ns, tt.after)
			awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "data", tt.part)
			require.Equal(t, uid, get(t, page).GetUID())
			require.Empty(t, operatorSince(t, mark).ObjectsIn(ns).Only(verbIs("delete")))
			if tt.release != nil {
				tt.release(t, ns)
			} else {
				require.NoError(t, edit(page, "application/merge-patch+json", tt.unset))
				changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Interval = &metav1.Duration{Duration: time.Hour} })
			}
			awaitReady(t, ns)
			require.NotEqual(t, uid, get(t, page).GetUID())
			require.Equal(t, "two", greeting(t, page))
		})
	}
}
