package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// waiting has Ready wait until the objects are healthy.
func waiting(v *v1alpha1.VidraResource) { v.Spec.Wait = true }

// setHealth gives an object the status of a controller that says Ready.
func setHealth(t *testing.T, obj *unstructured.Unstructured, ready metav1.ConditionStatus, message string) {
	t.Helper()
	setConditionOf(t, obj, "Ready", ready, message)
}

// setStalled gives an object the status of a controller that gives up.
func setStalled(t *testing.T, obj *unstructured.Unstructured) {
	t.Helper()
	setConditionOf(t, obj, "Stalled", metav1.ConditionTrue, "broken for good")
}

func setConditionOf(t *testing.T, obj *unstructured.Unstructured, kind string, is metav1.ConditionStatus, message string) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q,"reason":"Test","message":%q}]}}`, kind, is, message)
	live := obj.DeepCopy()
	require.NoError(t, admin.Status().Patch(t.Context(), live, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// TestHealth reports how healthy the objects are, and has Ready depend on it only with
// spec.wait. It costs no request about the objects.
func TestHealth(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]bool{"wait": true, "do not wait": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			crd, manifest := newStrictKind(t)
			newVidraResource(t, ns, manifests(configMap("c", "hello"), manifest), func(v *v1alpha1.VidraResource) { v.Spec.Wait = wait })
			awaitReady(t, ns)
			healthy := metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHealthy}
			awaitCondition(t, ns, healthy)
			thing := thingIn(crd, ns)

			mark := auditMark(t)
			setHealth(t, thing, metav1.ConditionFalse, "the disk is full")
			awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing},
				"Thing "+ns+"/thing", "the disk is full")
			if wait {
				v := awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "the disk is full")
				require.Equal(t, v1alpha1.DeployRunning, v.Status.DeployState)
			} else {
				awaitReady(t, ns)
			}
			setHealth(t, thing, metav1.ConditionTrue, "")
			awaitCondition(t, ns, healthy)
			awaitReady(t, ns)
			setStalled(t, thing)
			v := awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUnhealthy}, "broken for good")
			awaitEvent(t, v, "Warning", "Unhealthy", "Check", "Thing "+ns+"/thing", "broken for good")
			if wait {
				require.Equal(t, v1alpha1.DeployFailed, awaitNotReady(t, ns, v1alpha1.ReasonUnhealthy, "broken for good").Status.DeployState)
			}
			setHealth(t, thing, metav1.ConditionTrue, "")
			awaitCondition(t, ns, healthy)
			awaitEvent(t, v, "Normal", "Healthy", "Check")
			require.Empty(t, operatorSince(t, mark).ObjectsIn(ns), "health costs no request")
		})
	}
}

// TestWaitForDeployment waits for a rollout that the Deployment controller reports.
func TestWaitForDeployment(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, web, waiting)
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "Deployment "+ns+"/web", "InProgress")
	deployment := declaredObject(t, ns, web, "Deployment", "web")
	// No kubelet runs here: no other client writes that a Pod is ready.
	require.NoError(t, mergePatch(getVidraResource(t, ns), `{"spec":{"wait":false}}`))
	awaitReady(t, ns)
	requireInOrder(t, ns, deployment)
}

// TestHealthWithoutEvents knows the health that requests show.
func TestHealthWithoutEvents(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, web, withoutEvents)
	awaitReady(t, ns)
	await(t, func(c *assert.CollectT) {
		require.Equal(c, metav1.ConditionFalse, condition(c, getVidraResource(c, ns), v1alpha1.ConditionHealthy).Status)
	})
}

// TestHealthWhenEventsAreOnAgain: the watch of another VidraResource shows the objects already when events are switched on. The health is
// the one that the watch shows, and not that of the answer to the last apply.
func TestHealthWhenEventsAreOnAgain(t *testing.T) {
	t.Parallel()
	other, ns := newNamespace(t), newNamespace(t)
	crd, manifest := newStrictKind(t)
	newVidraResource(t, other, manifest)
	awaitReady(t, other)
	newVidraResource(t, ns, manifest, withoutEvents)
	awaitReady(t, ns)
	awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHealthy})
	setHealth(t, thingIn(crd, ns), metav1.ConditionFalse, "not yet")
	require.NoError(t, mergePatch(getVidraResource(t, ns), `{"spec":{"destination":{"reconcileOnEvents":true}}}`))
	awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing})
}

// TestHealthOfAnObjectThatReturns: an unhealthy object loses the label of the watch, and is healthy when it gets it back. Its health is that of the
// event that shows it again, also after reconciles that have read its health without the watch.
func TestHealthOfAnObjectThatReturns(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(t *testing.T, ns string){
		"AtOnce": func(*testing.T, string) {},
		"Later":  reconcileNow,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			crd, manifest := newStrictKind(t)
			newVidraResource(t, ns, manifest)
			awaitReady(t, ns)
			thing, healthy := thingIn(crd, ns), metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHealthy}
			awaitCondition(t, ns, healthy)
			setHealth(t, thing, metav1.ConditionFalse, "the disk is full")
			awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing}, "the disk is full")
			changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
			awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})

			label := func(value string) string {
				return fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, v1alpha1.ManagedByLabel, value)
			}
			require.NoError(t, mergePatch(thing, label("null")))
			awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDriftDetected}, "Thing")
			meanwhile(t, ns)
			setHealth(t, thing, metav1.ConditionTrue, "")
			require.NoError(t, mergePatch(thing, label(`"vidra"`)))
			awaitCondition(t, ns, healthy)
		})
	}
}
