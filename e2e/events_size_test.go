package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestEventsOfTheSizeLimit: a VidraResource that is nearly too large has an Event before it is, and so has its end.
func TestEventsOfTheSizeLimit(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	half := strings.Repeat("x", 530<<10)
	newVidraResource(t, ns, manifests(configMap("a", half), configMap("b", half)))
	v := awaitReady(t, ns)
	awaitEvent(t, v, corev1.EventTypeWarning, "NearSizeLimit", "Apply", "the VidraResource takes more than 80 % of the 1400000 bytes")
	awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionWarnings, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNearSizeLimit})
	setManifest(t, ns, configMap("a", half))
	awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", "No longer the case: the VidraResource takes more than 80 %")
}
