package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestResync has a VidraResource that does not want to hear of events: changes
// are found when its interval has passed, and not before.
func TestResync(t *testing.T) {
	t.Parallel()
	const interval = 10 * time.Second // the shortest that is allowed
	ns := newNamespace(t)
	newVidraResource(t, ns, web, withoutEvents, every(interval))
	v := awaitReady(t, ns)
	watching := condition(t, v, v1alpha1.ConditionWatching)
	require.Equal(t, metav1.ConditionFalse, watching.Status)
	require.Equal(t, v1alpha1.ReasonEventsOff, watching.Reason)

	page := declaredObject(t, ns, web, "ConfigMap", "page")
	deployment := declaredObject(t, ns, web, "Deployment", "web")
	mark := auditMark(t)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"changed"}}`))
	require.NoError(t, admin.Delete(t.Context(), deployment.DeepCopy()))
	awaitInOrder(t, ns, page, deployment)
	requireCount(t, 2, func() requests { return operatorSince(t, mark).ObjectsIn(ns).Writes() }, "what is in order is not written")
	awaitEvent(t, v, "Normal", "DriftCorrected", "Restore", "data.greeting", "changed")
	awaitEvent(t, v, "Normal", "DriftCorrected", "Restore", "Deployment", "had been deleted")
}
