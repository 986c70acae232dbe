package remote

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// anotherURL is a second URL of a site, with a kubeconfig of its own.
func anotherURL(t *testing.T, s site) (string, *faultproxy.Proxy) {
	t.Helper()
	name := unique(t) + "-url"
	upstream, err := s.UserConfig("vidra-"+name, "system:masters")
	require.NoError(t, err)
	proxy, err := faultproxy.Start(upstream)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	t.Cleanup(func() { deleteKubeconfig(t, name) })
	setKubeconfig(t, name, kubeconfig(t, proxy.Config()))
	return proxy.Config().Host, proxy
}

// uidOf returns the UID of an object.
func (s site) uidOf(t require.TestingT, obj client.Object) types.UID {
	live := s.Get(t, obj)
	return live.GetUID()
}

// requireMoved requires that an object became that of a VidraResource, and was neither deleted nor created again.
func (s site) requireMoved(t *testing.T, to string, obj *corev1.ConfigMap, uid types.UID) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		live := s.Get(c, obj)
		require.Equal(c, uid, live.GetUID(), "it was deleted and created again")
		require.Contains(c, live.GetAnnotations(), v1alpha1.OwnerAnnotationKey(to))
		require.Len(c, v1alpha1.OwnersNamed(live.GetAnnotations()), 1)
		for _, entry := range live.GetManagedFields() {
			if entry.Operation == metav1.ManagedFieldsOperationApply {
				require.Equal(c, v1alpha1.FieldManager(to), entry.Manager)
			}
		}
	})
}

// TestMoveBetweenURLs moves an object between two VidraResources whose destinations are URLs of one cluster: its UID survives.
func TestMoveBetweenURLs(t *testing.T) {
	drop := func(t *testing.T, one string) { setManifest(t, one, greeting("stays", "hello")) }
	gets := func(t *testing.T, two string) {
		setManifest(t, two, manifests(greeting("other", "hello"), greeting("page", "goodbye")))
	}
	cases := map[string]struct {
		reason string
		// local has the first VidraResource at the cluster that Vidra runs in, by its default URL.
		local bool
		// weak has the kubeconfig of the second URL without the right to read the Namespace kube-system.
		weak bool
		move func(t *testing.T, one, two string, proxy *faultproxy.Proxy)
	}{
		"GiverFirst": {"The former owner is written first.", false, false, func(t *testing.T, one, two string, _ *faultproxy.Proxy) {
			drop(t, one)
			gets(t, two)
		}},
		"ReceiverFirst": {"The new owner is written first.", false, false, func(t *testing.T, one, two string, _ *faultproxy.Proxy) {
			gets(t, two)
			drop(t, one)
		}},
		"Rename": {"The former owner is deleted.", false, false, func(t *testing.T, one, two string, _ *faultproxy.Proxy) {
			require.NoError(t, here.DeleteVidraResource(t.Context(), one))
			gets(t, two)
		}},
		"OwnCluster": {"The default destination and the URL of the own cluster.", true, false, func(t *testing.T, one, two string, _ *faultproxy.Proxy) {
			drop(t, one)
			gets(t, two)
		}},
		"NoRightOnKubeSystem": {"The UID of the object identifies it.", false, true, func(t *testing.T, one, two string, _ *faultproxy.Proxy) {
			drop(t, one)
			gets(t, two)
		}},
		"Away": {"The other URL does not answer during the move.", false, false, func(t *testing.T, one, two string, proxy *faultproxy.Proxy) {
			proxy.Down()
			awaitUnreachable(t, two)
			gets(t, two)
			drop(t, one)
			awaitNotReady(t, one, v1alpha1.ReasonProgressing, "ConfigMap", "page", "VidraResource "+two)
			require.NoError(t, proxy.Up())
		}},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, ns := there, unique(t)
			first := ""
			if tt.local {
				at = here
			} else {
				first, _ = anotherURL(t, at)
			}
			at.MakeNamespace(t, ns)
			second, proxy := anotherURL(t, at)
			if tt.weak {
				second = weakURL(t, at, ns)
			}
			one, two := ns+"-one", ns+"-two"
			newVidraResource(t, first, ns, manifests(greeting("stays", "hello"), greeting("page", "hello")), named(one))
			newVidraResource(t, second, ns, greeting("other", "hello"), named(two))
			awaitReady(t, one)
			awaitReady(t, two)
			page := configMap(ns, "page")
			uid := at.uidOf(t, page)
			tt.move(t, one, two, proxy)
			at.requireMoved(t, two, page, uid)
			awaitReady(t, two)
			at.awaitSays(t, ns, "page", "goodbye")
			require.Equal(t, uid, at.uidOf(t, page), tt.reason)
		})
	}
}

// weakURL is a URL of a site, with the rights on the ConfigMaps of one namespace alone.
func weakURL(t *testing.T, s site, ns string) string {
	t.Helper()
	forwarder, err := s.Forward()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, forwarder.Close()) })
	s.newAccount(t, ns, "vidra")
	s.grant(t, ns, "vidra", "configmaps")
	config := withToken(s.Config, token(t, ns, "vidra"))
	config.CertData, config.KeyData, config.CertFile, config.KeyFile = nil, nil, "", ""
	config.Host = forwarder.URL
	name := ns + "-weak"
	t.Cleanup(func() { deleteKubeconfig(t, name) })
	setKubeconfig(t, name, kubeconfig(t, config))
	here.edit(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: name}},
		`{"metadata":{"annotations":{"vidraresource.infrahub.operators.com/allowed-namespaces":%q}}}`, ns)
	return forwarder.URL
}

// TestSharedByURLs has two VidraResources at two URLs of one cluster own an object and its Namespace together: what one of them
// removes stays for the other one, and a Namespace that holds objects of the other one is not deleted.
func TestSharedByURLs(t *testing.T) {
	t.Parallel()
	first, _ := anotherURL(t, there)
	second, _ := anotherURL(t, there)
	home, ns := unique(t), unique(t)+"-in"
	there.MakeNamespace(t, home)
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + ns + "\n"
	one, two := home+"-one", home+"-two"
	newVidraResource(t, first, home, manifests(greeting("page", "hello"), greeting("stays", "hello"), namespace), named(one))
	awaitReady(t, one)
	newVidraResource(t, second, ns, manifests(greeting("inside", "hello"),
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: page\n  namespace: "+home+"\ndata:\n  greeting: hello\n"), named(two))
	awaitReady(t, two)
	page, inside := configMap(home, "page"), configMap(ns, "inside")
	uid, uidInside := there.uidOf(t, page), there.uidOf(t, inside)
	setManifest(t, one, greeting("stays", "hello"))
	there.requireMoved(t, two, page, uid)
	awaitNotReady(t, one, v1alpha1.ReasonDeletionBlocked, "Namespace "+ns, "it holds ConfigMap "+ns+"/inside of VidraResource "+two)
	require.Equal(t, uidInside, there.uidOf(t, inside))
	require.NoError(t, here.DeleteVidraResource(t.Context(), two))
	here.AwaitGoneFor(t, 2*patience, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: two}})
	here.AwaitReadyFor(t, 2*patience, one)
	there.AwaitGone(t, page)
}

// TestSameNameElsewhere removes an object while VidraResources have objects of its name in their manifests at other clusters: these are
// other objects. A cluster whose identity is not known delays the removal, and the status names its VidraResource.
func TestSameNameElsewhere(t *testing.T) {
	t.Parallel()
	ns := unique(t)
	here.MakeNamespace(t, ns)
	there.MakeNamespace(t, ns)
	at, _ := anotherURL(t, there)
	one, two := ns+"-one", ns+"-two"
	newVidraResource(t, "", ns, manifests(greeting("page", "hello"), greeting("stays", "hello")), named(one))
	newVidraResource(t, at, ns, greeting("page", "hello"), named(two))
	awaitReady(t, one)
	v := awaitReady(t, two)
	kubeSystem := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	require.Equal(t, string(there.uidOf(t, kubeSystem)), v.Status.ClusterUID)
	uid := there.uidOf(t, configMap(ns, "page"))
	setManifest(t, one, greeting("stays", "hello"))
	here.AwaitGone(t, configMap(ns, "page"))
	awaitReady(t, one)
	require.Equal(t, uid, there.uidOf(t, configMap(ns, "page")))

	setManifest(t, one, manifests(greeting("page", "hello"), greeting("stays", "hello")))
	awaitReady(t, one)
	three := ns + "-three"
	newVidraResource(t, "https://127.0.0.1:1", ns, greeting("page", "hello"), named(three), suite.Orphaning)
	awaitUnreachable(t, three)
	setManifest(t, one, greeting("stays", "hello"))
	awaitNotReady(t, one, v1alpha1.ReasonProgressing, "ConfigMap "+ns+"/page", "is not removed before it is known whether the destination https://127.0.0.1:1 of VidraResource "+three)
	require.NotEmpty(t, here.uidOf(t, configMap(ns, "page")))
	require.NoError(t, here.DeleteVidraResource(context.Background(), three))
	here.AwaitGone(t, configMap(ns, "page"))
	awaitReady(t, one)
}
