package remote

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/cluster"
)

// destination is the remote API server under a URL of its own, with a namespace.
type destination struct {
	// name is that of the namespace there and of the Secret here.
	name string
	// config reaches it. Its Host is the URL.
	config *rest.Config
	// user is who Vidra is there.
	user string
}

// url is what a VidraResource calls the destination.
func (d destination) url() string { return d.config.Host }

// newDestination is the remote API server behind a proxy, and a Secret with a
// kubeconfig for that.
func newDestination(t *testing.T) (destination, *faultproxy.Proxy) {
	t.Helper()
	d := destination{name: unique(t)}
	t.Cleanup(func() { deleteKubeconfig(t, d.name) })
	d.user = "vidra-" + d.name
	upstream, err := there.UserConfig(d.user, "system:masters")
	require.NoError(t, err)
	proxy, err := faultproxy.Start(upstream)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	d.config = proxy.Config()
	there.MakeNamespace(t, d.name)
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	return d, proxy
}

// newAccountDestination is the remote API server behind a forwarder, to be reached with
// a token of a ServiceAccount that may do everything. There is no Secret.
func newAccountDestination(t *testing.T) (destination, *testenv.Forwarder) {
	t.Helper()
	d := destination{name: unique(t)}
	t.Cleanup(func() { deleteKubeconfig(t, d.name) })
	forwarder, err := there.Forward()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, forwarder.Close()) })
	there.MakeNamespace(t, d.name)
	d.user = suite.UserOf(d.name, "vidra")
	there.newAccount(t, d.name, "vidra")
	require.NoError(t, there.Admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: d.name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: d.name, Name: "vidra"}},
	}))
	d.config = rest.AnonymousClientConfig(there.Config)
	d.config.Host, d.config.BearerToken = forwarder.URL, token(t, d.name, "vidra")
	return d, forwarder
}

// newAccount makes a ServiceAccount.
func (s site) newAccount(t *testing.T, namespace, name string) {
	t.Helper()
	require.NoError(t, s.Admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
}

// grant lets a ServiceAccount do with resources of its namespace what Vidra does.
func (s site) grant(t *testing.T, namespace, account string, resources ...string) {
	t.Helper()
	s.GrantRule(t, namespace, account, rbacv1.PolicyRule{
		APIGroups: []string{"*"}, Resources: resources, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
	})
}

// token is a new token of a ServiceAccount there.
func token(t *testing.T, namespace, account string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	require.NoError(t, there.Admin.SubResource("token").Create(t.Context(), of, request))
	return request.Status.Token
}

// withToken is the configuration with another token.
func withToken(config *rest.Config, token string) *rest.Config {
	config = rest.CopyConfig(config)
	config.BearerToken = token
	return config
}

func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	text, err := testenv.Kubeconfig(config)
	require.NoError(t, err)
	return string(text)
}

// setKubeconfig has a Secret hold a kubeconfig. That of a destination is deleted after
// the VidraResources that need it.
func setKubeconfig(t *testing.T, name, kubeconfig string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: testenv.OperatorNamespace, Name: name, Labels: map[string]string{cluster.KubeconfigLabel: ""},
	}}
	if here.Exists(t, secret) {
		here.edit(t, secret, `{"stringData":{"kubeconfig":%q}}`, kubeconfig)
		return
	}
	secret.StringData = map[string]string{"kubeconfig": kubeconfig}
	require.NoError(t, here.Admin.Create(t.Context(), secret))
}

// deleteKubeconfig deletes a Secret with a kubeconfig.
func deleteKubeconfig(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, client.IgnoreNotFound(here.Admin.Delete(context.Background(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: name},
	})))
}

// requireOnePatch requires that the user sent one PATCH since mark, and nothing else,
// about objects in a namespace.
func (s site) requireOnePatch(t *testing.T, mark testenv.AuditMark, user, namespace string) {
	t.Helper()
	var sent suite.Requests
	await(t, func(c *assert.CollectT) {
		sent = s.RequestsBy(t, mark, user).ObjectsIn(namespace)
		require.NotEmpty(c, sent)
	})
	require.Equal(t, 1, len(sent), "%s", sent) //nolint:testifylint // Len would print the requests as they are in memory
	require.Equal(t, "patch", sent[0].Verb)
}
