package remote

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestCreatedTogether creates a VidraResource and then the Secret with the kubeconfig of its destination, as a client does that applies
// both: no Warning says that there is no kubeconfig. Where it does not come, one does, soon.
func TestCreatedTogether(t *testing.T) {
	t.Parallel()
	d, _ := newDestination(t)
	deleteKubeconfig(t, d.name)
	await(t, func(c *assert.CollectT) { require.False(c, here.Exists(c, secretOf(d))) })
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	v := awaitReady(t, d.name)
	require.Empty(t, eventsAbout(t, v, v1alpha1.ReasonDestinationUnreachable))
	there.awaitSays(t, d.name, "page", "hello")

	deleteKubeconfig(t, d.name)
	v = awaitUnreachable(t, d.name)
	require.Contains(t, meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady).Message, "no Secret with the label")
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	awaitReady(t, d.name)

	never := newVidraResource(t, "https://"+d.name+".example.com", d.name, greeting("page", "hello"), named(d.name+"-never"))
	awaitUnreachable(t, never.Name, "no Secret with the label")
	awaitEvent(t, never, corev1.EventTypeWarning, v1alpha1.ReasonDestinationUnreachable, "", "no Secret with the label")
}

// TestRevokedToken has the API server of a destination refuse a token: the condition names the answer, the Secret and what to do, and
// a new token ends it.
func TestRevokedToken(t *testing.T) {
	t.Parallel()
	d, _ := newAccountDestination(t)
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	awaitReady(t, d.name)
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = d.name, "vidra"
	require.NoError(t, there.Admin.Delete(t.Context(), account)) // its tokens are of no use any more
	edits := 0
	await(t, func(c *assert.CollectT) { // the API server accepts them for some seconds, and no request is sent at rest
		if there.says(c, d.name, "page") == "hello" {
			edits++
			there.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"changed %d"}}`, edits)
		}
		require.Equal(c, v1alpha1.ReasonDestinationUnreachable, meta.FindStatusCondition(getVidraResource(t, d.name).Status.Conditions, v1alpha1.ConditionReady).Reason)
	})
	v := awaitUnreachable(t, d.name, "401", "Secret "+secretOf(d).Namespace+"/"+d.name, "renew the credentials")
	awaitEvent(t, v, corev1.EventTypeWarning, v1alpha1.ReasonDestinationUnreachable, "", "401")
	there.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"changed"}}`)
	require.Equal(t, "changed", there.says(t, d.name, "page"))
	there.newAccount(t, d.name, "vidra")
	renewed := token(t, d.name, "vidra")
	setKubeconfig(t, d.name, kubeconfig(t, withToken(d.config, renewed)))
	there.awaitSays(t, d.name, "page", "hello")
	awaitReady(t, d.name)
	requireSecret(t, d.name, d.config.BearerToken, renewed)
}
