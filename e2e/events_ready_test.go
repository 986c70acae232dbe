package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestEventsOfTheFirstReady: that Ready became True is an Event the first time, however long that took, and none
// after a later problem or a restart. It is not parallel because it restarts the operator.
func TestEventsOfTheFirstReady(t *testing.T) {
	ns := newNamespace(t)
	away := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: away\n  namespace: " + ns + "-none\n"
	newVidraResource(t, ns, manifests(configMap("page", "hello"), away))
	v := awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed)
	awaitEvent(t, v, corev1.EventTypeWarning, "ApplyFailed", "Apply", ns+"-none/away")
	require.Empty(t, withReason(eventsAbout(t, v), "Ready"))
	require.Nil(t, v.Status.FirstReadyTime)

	setManifest(t, ns, configMap("page", "hello"))
	awaitEvent(t, v, corev1.EventTypeNormal, "Ready", "Check", "VidraResource "+ns+" is Ready for the first time: All objects are applied (1)")
	first := awaitReady(t, ns).Status.FirstReadyTime
	require.NotNil(t, first)

	setManifest(t, ns, manifests(configMap("page", "hello"), away))
	awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed)
	stopOperator(t)
	startOperator(t)
	setManifest(t, ns, configMap("page", "hello, again"))
	require.Equal(t, first, awaitReady(t, ns).Status.FirstReadyTime)
	awaitEvent(t, v, corev1.EventTypeNormal, "Applied", "Apply", "0 created, 1 changed")
	awaitSilence(t)
	require.Equal(t, 1, sum(withReason(eventsAbout(t, v), "Ready")))
}
