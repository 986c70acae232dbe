package remote

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// requireSecret requires that nothing which Vidra writes has any of the texts in it.
func requireSecret(t *testing.T, name string, texts ...string) {
	t.Helper()
	status, err := json.Marshal(getVidraResource(t, name).Status)
	require.NoError(t, err)
	all := &eventsv1.EventList{}
	require.NoError(t, here.Admin.List(t.Context(), all))
	notes, err := json.Marshal(all)
	require.NoError(t, err)
	for _, text := range texts {
		require.Greater(t, len(text), 5)
		for where, written := range map[string]string{"status": string(status), "Events": string(notes), "log": operatorLog(t)} {
			require.False(t, strings.Contains(written, text), "%q is in the %s", text, where) //nolint:testifylint // NotContains would print the log
		}
	}
}

// TestRotation replaces a token that is no good any more, and a good one by a wrong one.
func TestRotation(t *testing.T) {
	t.Parallel()
	d, _ := newAccountDestination(t)
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	awaitReady(t, d.name)

	// A token is of one account, and that is gone.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: d.name, Name: "vidra"}}
	require.NoError(t, there.Admin.Delete(t.Context(), account))
	there.newAccount(t, d.name, "vidra")
	renewed := token(t, d.name, "vidra")
	setKubeconfig(t, d.name, kubeconfig(t, withToken(d.config, renewed)))
	there.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"changed"}}`)
	there.awaitSays(t, d.name, "page", "hello")
	awaitReady(t, d.name)

	wrong := "wrong-" + d.name
	setKubeconfig(t, d.name, kubeconfig(t, withToken(d.config, wrong)))
	edits := 0
	await(t, func(c *assert.CollectT) {
		if there.says(c, d.name, "page") == "hello" { // the last edit was reverted before the Secret was read
			edits++
			there.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"changed again %d"}}`, edits)
		}
		require.Equal(c, v1alpha1.ReasonDestinationUnreachable, meta.FindStatusCondition(getVidraResource(t, d.name).Status.Conditions, v1alpha1.ConditionReady).Reason)
	})
	v := awaitUnreachable(t, d.name, "401", "Secret "+testenv.OperatorNamespace+"/"+d.name, "renew the credentials")
	require.Equal(t, v1alpha1.DeployFailed, v.Status.DeployState)
	awaitEvent(t, v, corev1.EventTypeWarning, v1alpha1.ReasonDestinationUnreachable, "", "401")

	last := token(t, d.name, "vidra")
	setKubeconfig(t, d.name, kubeconfig(t, withToken(d.config, last)))
	there.awaitSays(t, d.name, "page", "hello")
	awaitReady(t, d.name)
	awaitEvent(t, v, corev1.EventTypeNormal, "DestinationRestored", "", "answers again")
	requireSecret(t, d.name, d.config.BearerToken, renewed, wrong, last)
}

// TestKubeconfigOfNoUse has Secrets with which the destination cannot be reached.
func TestKubeconfigOfNoUse(t *testing.T) {
	t.Parallel()
	const password = "hunter2-hunter2"
	user := func(d destination, fields string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\n"+
			"clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]\n"+
			"users: [{name: u, user: %s}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n", d.url(), fields)
	}
	tests := map[string]struct {
		reason string
		// spoil makes the Secrets.
		spoil func(t *testing.T, d destination)
		says  []string
	}{
		"missing": {
			reason: "it says which Secret to create",
			spoil:  func(*testing.T, destination) {},
			says:   []string{"no Secret with the label cluster-kubeconfig", "in namespace vidra-system", "create one"},
		},
		"two": {
			reason: "nothing is guessed",
			spoil: func(t *testing.T, d destination) {
				setKubeconfig(t, d.name, kubeconfig(t, d.config))
				setKubeconfig(t, d.name+"-other", kubeconfig(t, d.config))
			},
			says: []string{"more than one Secret", "-other", "keep the label"},
		},
		"exec": {
			reason: "no program is run",
			spoil: func(t *testing.T, d destination) {
				setKubeconfig(t, d.name, user(d, `{exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [`+password+`], interactiveMode: Never}}`))
			},
			says: []string{"exec", "runs no program", "use token or client-certificate-data"},
		},
		"file": {
			reason: "no file is read",
			spoil: func(t *testing.T, d destination) {
				setKubeconfig(t, d.name, user(d, `{tokenFile: /var/run/`+password+`}`))
			},
			says: []string{"tokenFile", "reads no file", "use token"},
		},
		"insecure": {
			reason: "no proxy on the way reads the credentials",
			spoil:  func(t *testing.T, d destination) { setKubeconfig(t, d.name, user(d, `{token: `+password+`}`)) },
			says:   []string{"insecure-skip-tls-verify", "--allow-insecure-kubeconfigs"},
		},
		"proxy": {
			reason: "no other host is connected to",
			spoil: func(t *testing.T, d destination) {
				text := strings.Replace(user(d, `{token: `+password+`}`), "insecure-skip-tls-verify: true", "proxy-url: "+d.url(), 1)
				setKubeconfig(t, d.name, text)
			},
			says: []string{"proxy-url", "--allow-kubeconfig-proxies"},
		},
		"not yaml": {
			reason: "what it is of cannot be known",
			spoil: func(t *testing.T, d destination) {
				setKubeconfig(t, d.name, "token: "+password+"\n\t- x: [")
			},
			says: []string{"no Secret with the label", "not read: vidra-system/kubeconfigofnouse", "not YAML"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, forwarder := newAccountDestination(t)
			tt.spoil(t, d)
			newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
			v := awaitUnreachable(t, d.name, tt.says...)
			require.Empty(t, v.Status.ManagedResources)
			awaitEvent(t, v, corev1.EventTypeWarning, v1alpha1.ReasonDestinationUnreachable, "", tt.says[0])
			require.Zero(t, forwarder.Connections(), tt.reason)

			deleteKubeconfig(t, d.name+"-other")
			setKubeconfig(t, d.name, kubeconfig(t, d.config))
			awaitReady(t, d.name)
			there.awaitSays(t, d.name, "page", "hello")
			awaitEvent(t, v, corev1.EventTypeNormal, "DestinationRestored", "", "answers again")
			requireSecret(t, d.name, password, d.config.BearerToken)
		})
	}
}

// TestServiceAccount writes there as the account that the VidraResource names, and
// notices when that account is granted what it was refused.
func TestServiceAccount(t *testing.T) {
	t.Parallel()
	d, _ := newAccountDestination(t)
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	there.newAccount(t, d.name, "deployer")
	there.grant(t, d.name, "deployer", "configmaps")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.name, Name: "denied"}}
	mark := there.AuditMark(t)
	newVidraResource(t, d.url(), d.name, manifests(greeting("page", "hello"), "apiVersion: v1\nkind: Secret\nmetadata:\n  name: denied\n"),
		func(v *v1alpha1.VidraResource) { v.Spec.ServiceAccountName = "deployer" })
	deployer := suite.UserOf(d.name, "deployer")
	v := awaitNotReady(t, d.name, v1alpha1.ReasonApplyFailed, "Secret "+d.name+"/denied", deployer)
	awaitEvent(t, v, corev1.EventTypeWarning, v1alpha1.ReasonApplyFailed, "", deployer)
	require.Equal(t, "hello", there.says(t, d.name, "page"))

	there.grant(t, d.name, "deployer", "secrets")
	awaitReady(t, d.name)
	require.True(t, there.Exists(t, secret))
	there.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"changed"}}`)
	there.awaitSays(t, d.name, "page", "hello")
	remove(t, v)
	here.AwaitGone(t, v)
	require.False(t, there.Exists(t, secret))
	require.False(t, there.Exists(t, configMap(d.name, "page")))
	written := there.RequestsBy(t, mark, d.user).Writes()
	require.NotEmpty(t, written)
	for _, r := range written {
		require.Equal(t, deployer, r.As, "%s", r.RequestURI)
	}
}

// TestServiceAccountThatMayNotBeImpersonated names who is refused: Vidra there.
func TestServiceAccountThatMayNotBeImpersonated(t *testing.T) {
	t.Parallel()
	d, _ := newAccountDestination(t)
	there.newAccount(t, d.name, "weak")
	there.grant(t, d.name, "weak", "configmaps")
	setKubeconfig(t, d.name, kubeconfig(t, withToken(d.config, token(t, d.name, "weak"))))
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"),
		func(v *v1alpha1.VidraResource) { v.Spec.ServiceAccountName = "deployer" })
	awaitNotReady(t, d.name, v1alpha1.ReasonApplyFailed,
		suite.UserOf(d.name, "weak"), "impersonate")
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	there.newAccount(t, d.name, "deployer")
	there.grant(t, d.name, "deployer", "configmaps")
	awaitReady(t, d.name)
}

// TestSecretInAnotherNamespace has a Secret where Vidra does not look for one: who may
// write there must not give Vidra a cluster.
func TestSecretInAnotherNamespace(t *testing.T) {
	t.Parallel()
	d, forwarder := newAccountDestination(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: d.name, Labels: map[string]string{"cluster-kubeconfig": ""}},
		StringData: map[string]string{"kubeconfig": kubeconfig(t, d.config)},
	}
	require.NoError(t, here.Admin.Create(t.Context(), secret))
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	awaitUnreachable(t, d.name, "no Secret", "in namespace "+testenv.OperatorNamespace)
	require.Zero(t, forwarder.Connections())
	require.NoError(t, here.Admin.Delete(t.Context(), secret))
}
