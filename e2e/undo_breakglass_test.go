package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestUndoAfterBreakGlass edits the structure of an object that has a break-glass annotation: the
// whole edit is reported, and nothing is written. When the exemption ends, the edit is undone
// whole.
func TestUndoAfterBreakGlass(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		end    func(t *testing.T, ns string, obj *unstructured.Unstructured)
	}{
		"annotations removed": {
			reason: "the user ends it",
			end: func(t *testing.T, _ string, obj *unstructured.Unstructured) {
				require.NoError(t, mergePatch(obj, `{"metadata":{"annotations":{%q:null,%q:null}}}`, v1alpha1.BreakGlassUntilAnnotation, v1alpha1.BreakGlassReasonAnnotation))
			},
		},
		"no longer accepted": {
			reason: "the author ends it, and the annotations, which are unmanaged, stay",
			end: func(t *testing.T, ns string, _ *unstructured.Unstructured) {
				changeSpec(t, ns, acceptNoBreakGlass)
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, parts)
			v := awaitReady(t, ns)
			web := declaredObject(t, ns, parts, "Deployment", "parts")
			before := get(t, web)
			annotate(t, web, in(time.Hour), "incident 42")
			awaitAnswer(t, ns, web, v1alpha1.BreakGlassAccepted, "incident 42")
			mark := auditMark(t)
			require.NoError(t, jsonPatch(web, "%s", `[{"op":"replace","path":"/spec/template/spec/containers/0/name","value":"www"},`+toHostPath[1:]))
			awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", "incident 42",
				`containers[name="www"] was added as`, `volumes[name="data"].emptyDir was removed and should be {}, removed by "person"`,
				`volumes[name="data"].hostPath was added as {"path":"/","type":""} and should not be there, added by "person"`)
			awaitCondition(t, ns, drifts(metav1.ConditionTrue, v1alpha1.ReasonDriftDetected), "emptyDir", "hostPath", "incident 42")
			for _, sent := range operatorSince(t, mark).On("deployments", ns, "parts").Writes() {
				require.Contains(t, sent.RequestURI, "dryRun=All", "%s: nothing is written meanwhile", tt.reason)
			}

			tt.end(t, ns, web)
			for _, annotation := range []string{v1alpha1.BreakGlassUntilAnnotation, v1alpha1.BreakGlassReasonAnnotation} {
				if value, stays := get(t, web).GetAnnotations()[annotation]; stays {
					require.NoError(t, unstructured.SetNestedField(before.Object, value, "metadata", "annotations", annotation))
				}
			}
			undone(t, before)
			awaitReady(t, ns)
			awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", `hostPath; "person" had added it`, `containers[name="www"]; "person" had added it`)
		})
	}
}
