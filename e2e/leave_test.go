package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestRestartLeavesWhatWasLeft restarts the operator and then changes a spec: what a
// policy or an annotation has left alone is left alone, also where the object with the
// annotation was deleted. A changed manifest is applied.
func TestRestartLeavesWhatWasLeft(t *testing.T) {
	ns := newNamespace(t)
	warned, glass := ns+"-warned", ns+"-glass"
	manifest := manifests(configMap("glass", "hello"), configMap("changed", "hello"), configMap("deleted", "hello"))
	newVidraResource(t, ns, configMap("warned", "hello"), named(warned), withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}))
	newVidraResource(t, ns, manifest, named(glass))
	awaitReady(t, warned)
	awaitReady(t, glass)
	one, two := declaredObject(t, ns, configMap("warned", ""), "ConfigMap", "warned"), declaredObject(t, ns, manifest, "ConfigMap", "glass")
	changed, deleted := declaredObject(t, ns, manifest, "ConfigMap", "changed"), declaredObject(t, ns, manifest, "ConfigMap", "deleted")
	require.NoError(t, mergePatch(one, `{"data":{"greeting":"mine"}}`))
	until := in(time.Hour)
	for _, exempt := range []*unstructured.Unstructured{two, changed, deleted} {
		annotate(t, exempt, until, "incident 42")
		awaitAnswer(t, glass, exempt, v1alpha1.BreakGlassAccepted, "incident 42")
		require.NoError(t, mergePatch(exempt, `{"data":{"greeting":"hotfix"}}`))
	}
	require.NoError(t, admin.Delete(t.Context(), deleted.DeepCopy()))
	awaitNotReady(t, warned, v1alpha1.ReasonDriftDetected)
	awaitNotReady(t, glass, v1alpha1.ReasonDriftDetected, "ConfigMap "+ns+"/glass: data.greeting", "ConfigMap "+ns+"/deleted: it was deleted")

	stopOperator(t)
	setManifest(t, glass, manifests(configMap("glass", "hello"), configMap("changed", "hello, world"), configMap("deleted", "hello")))
	mark := auditMark(t)
	startOperator(t)
	await(t, func(c *assert.CollectT) { require.Equal(c, "hello, world", greeting(c, changed)) })
	awaitNotReady(t, warned, v1alpha1.ReasonDriftDetected, "data.greeting")
	changeSpec(t, warned, func(spec *v1alpha1.VidraResourceSpec) { spec.Interval = &metav1.Duration{Duration: time.Hour} })
	awaitNotReady(t, warned, v1alpha1.ReasonDriftDetected, "data.greeting")
	awaitNotReady(t, glass, v1alpha1.ReasonDriftDetected, "ConfigMap "+ns+"/glass: data.greeting", "ConfigMap "+ns+"/deleted: it was deleted", "incident 42")
	awaitSilence(t)
	require.Len(t, operatorSince(t, mark).ObjectsIn(ns).Writes().Accepted(), 1, "the changed manifest")
	require.Equal(t, "mine", greeting(t, one))
	require.Equal(t, "hotfix", greeting(t, two))
	require.NoError(t, mergePatch(two, `{"metadata":{"annotations":{%q:null}}}`, v1alpha1.BreakGlassUntilAnnotation))
	await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, two)) })
	changeSpec(t, glass, acceptNoBreakGlass)
	awaitInOrder(t, glass, deleted)
	awaitReady(t, glass)
}

// TestSuspendedManifestIsTakenBack changes the manifest while suspended, and takes the
// change back: nothing is left of it, and what had drifted is reverted.
func TestSuspendedManifestIsTakenBack(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	both := manifests(configMap("page", "hello"), configMap("other", "hello"))
	newVidraResource(t, ns, both)
	awaitReady(t, ns)
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
	awaitReady(t, ns)
	other := declaredObject(t, ns, both, "ConfigMap", "other")
	require.NoError(t, mergePatch(other, `{"data":{"greeting":"mine"}}`))
	awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected, "data.greeting")
	setManifest(t, ns, configMap("page", "hi"))
	await(t, func(c *assert.CollectT) {
		require.Equal(c, v1alpha1.ReasonSuspended, condition(c, getVidraResource(c, ns), v1alpha1.ConditionReady).Reason)
	})
	setManifest(t, ns, both)
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = false })
	awaitReady(t, ns)
	awaitInOrder(t, ns, declared(t, ns, both)...)
}

// TestProblemsEndWhileSuspended corrects a manifest, and takes objects from it that were refused, in the write that suspends: their problems are over.
func TestProblemsEndWhileSuspended(t *testing.T) {
	t.Parallel()
	page := configMap("page", "hello")
	for name, tc := range map[string]struct {
		broken string
		reason string
	}{
		"Unreadable": {manifests(page, page), v1alpha1.ReasonManifestInvalid},
		"NoKind":     {manifests(page, "apiVersion: none.example.com/v1\nkind: None\nmetadata: {name: none}"), v1alpha1.ReasonKindUnavailable},
		"Refused":    {manifests(page, "apiVersion: v1\nkind: Service\nmetadata: {name: refused}\nspec: {ports: [{port: 70000}]}"), v1alpha1.ReasonManifestInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, tc.broken)
			awaitNotReady(t, ns, tc.reason)
			changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Manifest, spec.Suspend = page, true })
			await(t, func(c *assert.CollectT) {
				v := getVidraResource(c, ns)
				require.True(c, meta.IsStatusConditionTrue(v.Status.Conditions, v1alpha1.ConditionSuspended))
				for _, p := range v.Status.Problems {
					require.NotEqual(c, tc.reason, p.Reason, p.Message)
				}
			})
		})
	}
}

// TestSuspendedManifestIsNoEdit edits an object whose next manifest waits for the end of a suspension. The report has the edit alone, and keeps it: the values
// of the former manifest are no change of anybody.
func TestSuspendedManifestIsNoEdit(t *testing.T) {
	t.Parallel()
	page := func(kind, value, more string) string {
		return "apiVersion: v1\nkind: " + kind + "\nmetadata: {name: page}\ndata: {kept: YQ==, value: " + value + more + "}\n"
	}
	for _, kind := range []string{"ConfigMap", "Secret"} {
		for name, tc := range map[string]struct {
			before, after string
			editedBefore  bool
		}{
			"Added": {after: ", more: bW9y"}, "Dropped": {before: ", more: bW9y"},
			"AddedAfterTheEdit": {after: ", more: bW9y", editedBefore: true}, "DroppedAfterTheEdit": {before: ", more: bW9y", editedBefore: true},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				ns := newNamespace(t)
				drift := v1alpha1.DriftPolicy{}
				if tc.editedBefore {
					drift.Mode = v1alpha1.DriftWarn
				}
				newVidraResource(t, ns, page(kind, "b25l", tc.before), withDrift(drift))
				awaitReady(t, ns)
				edit := func() {
					require.NoError(t, mergePatch(declaredObject(t, ns, page(kind, "b25l", ""), kind, "page"), `{"data":{"kept":"ZWRpdGVk"}}`))
				}
				if tc.editedBefore {
					edit()
					awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected)
				}
				changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) {
					spec.Manifest, spec.Suspend = page(kind, "dHdv", tc.after), true
				})
				await(t, func(c *assert.CollectT) {
					require.True(c, meta.IsStatusConditionTrue(getVidraResource(c, ns).Status.Conditions, v1alpha1.ConditionSuspended))
				})
				if !tc.editedBefore {
					edit()
				}
				for _, request := range []string{"", "again", "once more"} {
					if request != "" {
						require.NoError(t, mergePatch(getVidraResource(t, ns), `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ReconcileRequestedAtAnnotation, request))
					}
					await(t, func(c *assert.CollectT) {
						v := getVidraResource(c, ns)
						require.Equal(c, request, v.Status.LastHandledReconcileAt)
						drifted := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionDrifted)
						require.NotNil(c, drifted)
						require.Contains(c, drifted.Message, "data.kept")
						require.NotContains(c, drifted.Message, "data.value")
						require.NotContains(c, drifted.Message, "data.more")
					})
				}
				for _, e := range getVidraResource(t, ns).Status.History {
					require.NotContains(t, e.Manager, v1alpha1.FieldManagerPrefix, e.Message)
					require.NotContains(t, e.Message, "data.value")
				}
			})
		}
	}
}

// TestLostLabelWhileLeft strips the label by which an object is watched while it is
// left alone: that is told as what it is, and an ignored field keeps its value.
func TestLostLabelWhileLeft(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, web, ignoring(v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Kind: "Deployment"}, Paths: []string{"/spec/replicas", "/metadata/labels"}}))
	v := awaitReady(t, ns)
	deployment, page := declaredObject(t, ns, web, "Deployment", "web"), declaredObject(t, ns, web, "ConfigMap", "page")
	require.NoError(t, mergePatch(deployment, `{"spec":{"replicas":7}}`))
	require.NoError(t, mergePatch(deployment, `{"metadata":{"labels":{"managed-by":null,"app":"mine"}}}`))
	await(t, func(c *assert.CollectT) { require.Equal(c, "vidra", get(c, deployment).GetLabels()["managed-by"]) })
	require.EqualValues(t, 7, replicas(t, deployment))
	require.Equal(t, "mine", get(t, deployment).GetLabels()["app"])

	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Drift.Mode = v1alpha1.DriftWarn })
	awaitReady(t, ns)
	require.NoError(t, mergePatch(page, `{"metadata":{"labels":{"managed-by":null}}}`))
	awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", "ConfigMap "+ns+"/page", "managed-by", "removed")
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Drift.Mode = v1alpha1.DriftCorrect })
	awaitInOrder(t, ns, page)
}

// TestIgnoredPathInLists leaves a field of an item whose key the API server completes,
// and one of a map that can only be had as a whole.
func TestIgnoredPathInLists(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, web)
	awaitReady(t, ns)
	service := declaredObject(t, ns, web, "Service", "web")
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) {
		spec.Drift = &v1alpha1.DriftPolicy{Ignore: []v1alpha1.IgnoreRule{{Paths: []string{"/spec/ports/0/targetPort", "/spec/selector/app"}}}}
	})
	awaitReady(t, ns)
	live := &corev1.Service{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(service), live))
	require.Equal(t, 8080, live.Spec.Ports[0].TargetPort.IntValue(), "its value stays")
	require.Equal(t, map[string]string{"app": "web"}, live.Spec.Selector)
	patch := `{"spec":{"selector":{"app":"green"},"ports":[{"name":"http","port":80,"targetPort":9090}]}}`
	require.NoError(t, edit(service, "application/strategic-merge-patch+json", patch))
	require.NoError(t, edit(service, "application/strategic-merge-patch+json", `{"spec":{"ports":[{"port":80,"name":"renamed"}]}}`))
	await(t, func(c *assert.CollectT) {
		require.NoError(c, admin.Get(t.Context(), client.ObjectKeyFromObject(service), live))
		require.Equal(c, "http", live.Spec.Ports[0].Name, "this is reverted")
	})
	require.Equal(t, 9090, live.Spec.Ports[0].TargetPort.IntValue())
	require.Equal(t, map[string]string{"app": "green"}, live.Spec.Selector)
	setManifest(t, ns, manifests(web, configMap("more", "hello")))
	awaitReady(t, ns)
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(service), live))
	require.Equal(t, map[string]string{"app": "green"}, live.Spec.Selector)
}

// TestLongReasons: what a user wrote into an annotation or a rule does not make the
// status too large to be written.
func TestLongReasons(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	long := strings.Repeat("long", 200)
	var paths []string
	for i := range 40 {
		paths = append(paths, "/"+long+strings.Repeat("x", i))
	}
	newVidraResource(t, ns, configMap("page", "hello"), ignoring(v1alpha1.IgnoreRule{Paths: paths}))
	v := awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	annotate(t, page, time.Now().Add(time.Hour).Format(time.RFC3339), strings.Repeat(long, 50))
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"hotfix"}}`))
	awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected, "data.greeting")
	changeSpec(t, ns, acceptNoBreakGlass)
	awaitInOrder(t, ns, page)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
}
