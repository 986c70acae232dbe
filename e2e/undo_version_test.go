package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
