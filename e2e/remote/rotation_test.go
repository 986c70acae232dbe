package remote

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// TestRotationIsReported: another good kubeconfig for a destination is an Event, and one that is written again as it
// was is none. The Event has no credentials.
func TestRotationIsReported(t *testing.T) {
	t.Parallel()
	d, _ := newAccountDestination(t)
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	v := awaitReady(t, d.name)
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	renewed := token(t, d.name, "vidra")
	setKubeconfig(t, d.name, kubeconfig(t, withToken(d.config, renewed)))
	awaitEvent(t, v, corev1.EventTypeNormal, "KubeconfigChanged", "Connect",
		"VidraResource "+d.name+" uses the changed kubeconfig in Secret "+testenv.OperatorNamespace+"/"+d.name+" for its destination "+d.url())
	require.Len(t, eventsAbout(t, v, "KubeconfigChanged"), 1)
	awaitReady(t, d.name)
	requireSecret(t, d.name, d.config.BearerToken, renewed)
}

// TestRotationWhileStopped: a kubeconfig that is rotated while no operator runs is one Event of the next operator. The
// status has no digest that a reader can compare with one of his own.
func TestRotationWhileStopped(t *testing.T) {
	d, _ := newAccountDestination(t)
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	v := awaitReady(t, d.name)
	require.Regexp(t, "^h1:", v.Status.KubeconfigDigest, "it is sealed")
	killOperator(t)
	setKubeconfig(t, d.name, kubeconfig(t, withToken(d.config, token(t, d.name, "vidra"))))
	require.NoError(t, launch(t.Context()))
	awaitEvent(t, v, corev1.EventTypeNormal, "KubeconfigChanged", "Connect", "VidraResource "+d.name+" uses the changed kubeconfig")

	killOperator(t)
	require.NoError(t, launch(t.Context()))
	setManifest(t, d.name, greeting("page", "hi"))
	awaitReady(t, d.name)
	require.Len(t, eventsAbout(t, v, "KubeconfigChanged"), 1, "a restart alone is no rotation")
}
