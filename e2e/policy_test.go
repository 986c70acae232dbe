package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// withDrift gives a VidraResource a policy for drift.
func withDrift(policy v1alpha1.DriftPolicy) func(*v1alpha1.VidraResource) {
	return func(v *v1alpha1.VidraResource) { v.Spec.Drift = &policy }
}

// changeSpec edits the spec of a VidraResource.
func changeSpec(t *testing.T, name string, edit func(*v1alpha1.VidraResourceSpec)) {
	t.Helper()
	v := getVidraResource(t, name)
	before := v.DeepCopy()
	edit(&v.Spec)
	require.NoError(t, admin.Patch(t.Context(), v, client.MergeFrom(before)))
}

// drifts is the condition that reports drift.
func drifts(status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionDrifted, Status: status, Reason: reason}
}

// writtenIn are the objects of a namespace that the operator has written to since
// mark.
func writtenIn(t *testing.T, ns string, mark func() requests) requests {
	t.Helper()
	return mark().ObjectsIn(ns).Writes()
}

// TestDriftIsReported has a VidraResource that only warns, and one that is
// suspended. What was changed stays, is said once, and is put right when the
// policy ends.
func TestDriftIsReported(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		begin, end func(*v1alpha1.VidraResourceSpec)
		why        string
	}{
		"Warn": {
			func(spec *v1alpha1.VidraResourceSpec) { spec.Drift = &v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn} },
			func(spec *v1alpha1.VidraResourceSpec) { spec.Drift = nil }, "spec.drift.mode is Warn",
		},
		"Suspend": {
			func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true },
			func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = false }, "spec.suspend is true",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			manifest := manifests(web, configMap("fence", "hello"))
			newVidraResource(t, ns, manifest, func(v *v1alpha1.VidraResource) { v.Spec.Drift = nil })
			awaitReady(t, ns)
			changeSpec(t, ns, tt.begin)
			awaitReady(t, ns)
			deployment, page := declaredObject(t, ns, manifest, "Deployment", "web"), declaredObject(t, ns, manifest, "ConfigMap", "page")

			mark := auditMark(t)
			require.NoError(t, mergePatch(deployment, `{"spec":{"replicas":3}}`))
			require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
			awaitCondition(t, ns, drifts(metav1.ConditionTrue, "DriftDetected"),
				"Deployment "+ns+"/web: spec.replicas is 3 and should be 1", "ConfigMap "+ns+"/page: it was deleted", tt.why)
			v := awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected)
			require.Equal(t, v1alpha1.ObjectDrifted, entry(t, v, "Deployment", "web").State)
			awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", "Deployment "+ns+"/web", "spec.replicas is 3 and should be 1", person)
			awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", "ConfigMap "+ns+"/page: it was deleted", tt.why)

			// Status updates of what has drifted are nothing new; another edit is.
			status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"observedGeneration":7}}`))
			require.NoError(t, admin.Status().Patch(t.Context(), deployment.DeepCopy(), status))
			require.NoError(t, mergePatch(deployment, `{"spec":{"replicas":4}}`))
			awaitCondition(t, ns, drifts(metav1.ConditionTrue, "DriftDetected"), "spec.replicas is 4 and should be 1")
			require.Empty(t, writtenIn(t, ns, func() requests { return operatorSince(t, mark) }))

			// Put right by hand, it is in order.
			require.NoError(t, mergePatch(deployment, `{"spec":{"replicas":1}}`))
			await(t, func(c *assert.CollectT) {
				require.Equal(c, v1alpha1.ObjectApplied, entry(c, getVidraResource(c, ns), "Deployment", "web").State)
			})
			require.NoError(t, mergePatch(deployment, `{"spec":{"replicas":5}}`))
			awaitCondition(t, ns, drifts(metav1.ConditionTrue, "DriftDetected"), "spec.replicas is 5 and should be 1")

			changeSpec(t, ns, tt.end)
			v = awaitReady(t, ns)
			awaitInOrder(t, ns, declared(t, ns, manifest)...)
			awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "reverted spec.replicas to 1")
			require.Equal(t, metav1.ConditionFalse, condition(t, v, v1alpha1.ConditionDrifted).Status)
		})
	}
}

// TestDriftIsReportedOnceAcrossRestarts stops the operator while an object is left
// as a user changed it.
func TestDriftIsReportedOnceAcrossRestarts(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"), withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}))
	v := awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"hi"}}`))
	awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected, "data.greeting")
	awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", "data.greeting")
	stopOperator(t)
	startOperator(t)
	await(t, func(c *assert.CollectT) { require.Positive(c, reconciles(t)) })
	awaitSilence(t)
	awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected, "data.greeting")
	told := withReason(eventsAbout(t, v), "DriftDetected")
	require.Len(t, told, 1)
	require.Nil(t, told[0].Series, "it was told before")
}

// TestDriftIsIgnored has a VidraResource that neither reverts nor reports what was
// changed, until its mode changes.
func TestDriftIsIgnored(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	manifest := manifests(configMap("page", "hello"), configMap("gone", "hello"))
	newVidraResource(t, ns, manifest, withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftIgnore}))
	v := awaitReady(t, ns)
	mark := auditMark(t)
	page, gone := declaredObject(t, ns, manifest, "ConfigMap", "page"), declaredObject(t, ns, manifest, "ConfigMap", "gone")
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"hi"}}`))
	require.NoError(t, admin.Delete(t.Context(), gone.DeepCopy()))
	require.Never(t, func() bool { return len(operatorSince(t, mark).ObjectsIn(ns).Writes()) > 0 }, time.Second, 100*time.Millisecond)
	require.Empty(t, withReason(eventsAbout(t, v), "DriftDetected"))
	awaitReady(t, ns)
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Drift.Mode = v1alpha1.DriftCorrect })
	awaitInOrder(t, ns, page, gone)
}

// TestSuspendedManifestWaits changes the manifest of a suspended VidraResource.
func TestSuspendedManifestWaits(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	before, after := manifests(configMap("page", "hello"), configMap("leaves", "hello")), manifests(configMap("page", "hi"), configMap("comes", "hello"))
	newVidraResource(t, ns, before)
	v := awaitReady(t, ns)
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
	awaitReady(t, ns)
	awaitEvent(t, v, corev1.EventTypeNormal, "Suspended", "Suspend")
	mark := auditMark(t)
	setManifest(t, ns, after)
	await(t, func(c *assert.CollectT) {
		v = getVidraResource(c, ns)
		ready := condition(c, v, v1alpha1.ConditionReady)
		require.Equal(c, v1alpha1.ReasonSuspended, ready.Reason, ready.Message)
		require.Less(c, v.Status.ObservedGeneration, v.Generation, "the manifest is not applied")
	})
	require.Empty(t, writtenIn(t, ns, func() requests { return operatorSince(t, mark) }))
	awaitInOrder(t, ns, declared(t, ns, before)...)

	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = false })
	v = awaitReady(t, ns)
	awaitInOrder(t, ns, declared(t, ns, after)...)
	awaitGone(t, declaredObject(t, ns, before, "ConfigMap", "leaves"))
	awaitEvent(t, v, corev1.EventTypeNormal, "Resumed", "Suspend")
	require.Nil(t, meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionSuspended))
}

// greeting is what a ConfigMap says.
func greeting(t require.TestingT, obj client.Object) string {
	cm := &corev1.ConfigMap{}
	require.NoError(t, admin.Get(context.Background(), client.ObjectKeyFromObject(obj), cm))
	return cm.Data["greeting"]
}
