package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const autoscaler = `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: parts
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: parts}
  minReplicas: 1
  maxReplicas: 3
  metrics:
  - type: Resource
    resource:
      name: memory
      target: {type: Utilization, averageUtilization: 50}
`

// TestUndoThroughAnotherVersion edits an autoscaler through autoscaling/v1, which has another path
// for the metrics that the manifest names: they are as before, and what v1 added is gone.
func TestUndoThroughAnotherVersion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ reason, edit string }{
		"metric added":     {"an atomic list in v2, a field in v1", `{"spec":{"targetCPUUtilizationPercentage":80}}`},
		"bound and metric": {"beside a value", `{"spec":{"targetCPUUtilizationPercentage":80,"maxReplicas":9}}`},
		"bound removed":    {"beside a removed field", `{"spec":{"targetCPUUtilizationPercentage":80,"minReplicas":null}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			v := newVidraResource(t, ns, autoscaler)
			awaitReady(t, ns)
			obj := declaredObject(t, ns, autoscaler, "HorizontalPodAutoscaler", "parts")
			before := get(t, obj)
			old := obj.DeepCopy()
			old.SetGroupVersionKind(schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "HorizontalPodAutoscaler"})
			require.NoError(t, edit(old, types.MergePatchType, tt.edit, client.FieldOwner("person")))
			awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "spec.metrics")
			undone(t, before)
			t.Log(tt.reason)
		})
	}
}

// TestSharedAutoscalerInTwoVersions has two VidraResources own one autoscaler in two versions with another path for a value on which they agree. Edits through
// both are reverted, the object stays until its last owner is deleted, and a different value is a conflict.
func TestSharedAutoscalerInTwoVersions(t *testing.T) {
	t.Parallel()
	const (
		v1 = "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: parts}\nspec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: parts}\n" +
			"  minReplicas: 1\n  maxReplicas: 3\n  targetCPUUtilizationPercentage: 50\n"
		v2 = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: parts}\nspec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: parts}\n" +
			"  minReplicas: 1\n  maxReplicas: 3\n  metrics:\n  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}\n"
	)
	for name, texts := range map[string][2]string{"v2 stays": {v1, v2}, "v1 stays": {v2, v1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			leaves, stays := ns+"-leaves", ns+"-stays"
			first := newVidraResource(t, ns, texts[0], named(leaves))
			awaitReady(t, leaves)
			newVidraResource(t, ns, texts[1], named(stays))
			awaitReady(t, stays)
			one, other := declaredObject(t, ns, texts[0], "HorizontalPodAutoscaler", "parts"), declaredObject(t, ns, texts[1], "HorizontalPodAutoscaler", "parts")
			uid := get(t, other).GetUID()
			edits := map[string]string{"autoscaling/v1": `{"spec":{"targetCPUUtilizationPercentage":80}}`, "autoscaling/v2": `{"spec":{"maxReplicas":9,"metrics":null}}`}
			for _, obj := range []*unstructured.Unstructured{one, other} {
				require.NoError(t, mergePatch(obj, "%s", edits[obj.GetAPIVersion()]))
				awaitInOrder(t, leaves, one)
				awaitInOrder(t, stays, other)
			}
			awaitReady(t, leaves)
			awaitReady(t, stays)

			setManifest(t, stays, strings.Replace(texts[1], "50", "60", 1))
			awaitNotReady(t, stays, v1alpha1.ReasonOwnershipConflict, "VidraResource "+leaves, "spec.")
			requireInOrder(t, leaves, one)
			require.NoError(t, deleteVidraResource(t.Context(), leaves))
			awaitGone(t, first)
			awaitReady(t, stays)
			require.Equal(t, uid, get(t, other).GetUID())
			require.Equal(t, []string{"vidra/" + stays}, appliedBy(get(t, other)))
			require.NoError(t, deleteVidraResource(t.Context(), stays))
			awaitGone(t, other)
		})
	}
}
