package remote

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// exchange is a URL that leads to one of the two clusters, with the kubeconfig of that.
type exchange struct {
	destination
	forwarder *testenv.Forwarder
}

func newExchange(t *testing.T) exchange {
	t.Helper()
	d, forwarder := newAccountDestination(t)
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	here.MakeNamespace(t, d.name)
	return exchange{d, forwarder}
}

// toHere has the URL lead to the cluster of the VidraResources, and toThere to the other one.
func (x exchange) toHere(t *testing.T) {
	t.Helper()
	require.NoError(t, x.forwarder.Redirect(here.Env))
	config := rest.CopyConfig(here.Config)
	config.Host = x.url()
	setKubeconfig(t, x.name, kubeconfig(t, config))
}

func (x exchange) toThere(t *testing.T) {
	t.Helper()
	require.NoError(t, x.forwarder.Redirect(there.Env))
	setKubeconfig(t, x.name, kubeconfig(t, x.config))
}

func clusterUID(t require.TestingT, s site) string {
	return string(s.uidOf(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}))
}

// TestReceiverAtAReplacedCluster moves an object to a VidraResource whose URL leads to the cluster of the object since its kubeconfig changed:
// what was known of the cluster of the former kubeconfig permits no deletion.
func TestReceiverAtAReplacedCluster(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		// away has the URL not answer with the new kubeconfig.
		away bool
		// back has the URL lead to the former cluster once more.
		back bool
	}{
		"Known": {reason: "The cluster of the former kubeconfig was asked for a moment ago."},
		"Away":  {reason: "The status has the UID of the former cluster.", away: true},
		"Back":  {reason: "The URL leads to the first cluster again.", back: true},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newExchange(t)
			if tt.back {
				newVidraResource(t, x.url(), x.name, greeting("known", "hello"), named(x.name+"-known"))
				awaitReady(t, x.name+"-known")
			}
			x.toHere(t)
			first, _ := anotherURL(t, there)
			one, two := x.name+"-one", x.name+"-two"
			newVidraResource(t, first, x.name, manifests(greeting("stays", "hello"), greeting("page", "hello")), named(one))
			newVidraResource(t, x.url(), x.name, greeting("other", "hello"), named(two))
			awaitReady(t, one)
			await(t, func(c *assert.CollectT) {
				require.Equal(c, clusterUID(c, here), getVidraResource(c, two).Status.ClusterUID)
			})
			page := configMap(x.name, "page")
			uid := there.uidOf(t, page)
			patchSpec(t, two, `{"spec":{"suspend":true}}`)
			awaitCondition(t, two, metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
			setManifest(t, two, manifests(greeting("other", "hello"), greeting("page", "goodbye")))
			x.toThere(t)
			if tt.away {
				require.NoError(t, x.forwarder.Close())
			}
			setManifest(t, one, greeting("stays", "hello"))
			awaitNotReady(t, one, v1alpha1.ReasonProgressing, "ConfigMap "+x.name+"/page", "VidraResource "+two)
			require.Equal(t, uid, there.uidOf(t, page), tt.reason)
			if tt.away { // the object is left in place after a minute
				patchSpec(t, two, `{"spec":{"suspend":false,"deletionPolicy":"Orphan"}}`)
				return
			}
			patchSpec(t, two, `{"spec":{"suspend":false}}`)
			there.requireMoved(t, two, page, uid)
			awaitReady(t, two)
			there.awaitSays(t, x.name, "page", "goodbye")
			require.Equal(t, uid, there.uidOf(t, page), tt.reason)
		})
	}
}

// TestFormerClusterKeepsItsObjects has the URL of a destination lead to another cluster and back. The objects of the former cluster stay there, and an
// Event names them; the other cluster has objects of the same names that Vidra does not own.
func TestFormerClusterKeepsItsObjects(t *testing.T) {
	t.Parallel()
	x := newExchange(t)
	foreign := configMap(x.name, "page")
	foreign.Data = map[string]string{"greeting": "mine"}
	require.NoError(t, here.Admin.Create(t.Context(), foreign))
	v := newVidraResource(t, x.url(), x.name, manifests(greeting("page", "hello"), greeting("stays", "hello"), greeting("dropped", "hello")))
	awaitReady(t, x.name)
	uids := map[string]any{}
	for _, name := range []string{"page", "stays", "dropped"} {
		uids[name] = there.uidOf(t, configMap(x.name, name))
	}
	requireUnchanged := func() {
		for name, uid := range uids {
			require.Equal(t, uid, there.uidOf(t, configMap(x.name, name)), name)
		}
		live := here.Get(t, configMap(x.name, "page"))
		require.Equal(t, foreign.UID, live.GetUID())
		require.Nil(t, live.GetDeletionTimestamp())
	}

	x.toHere(t)
	awaitEvent(t, v, corev1.EventTypeNormal, "KubeconfigChanged", "Connect", "has another cluster as its destination", "stay there, unmanaged",
		"ConfigMap "+x.name+"/dropped, ConfigMap "+x.name+"/page, ConfigMap "+x.name+"/stays")
	awaitNotReady(t, x.name, v1alpha1.ReasonAdoptionRefused, "ConfigMap "+x.name+"/page")
	here.awaitSays(t, x.name, "stays", "hello")
	requireUnchanged()

	// An object that the manifest drops there is the one of that cluster.
	setManifest(t, x.name, manifests(greeting("page", "hello"), greeting("stays", "hello")))
	here.AwaitGone(t, configMap(x.name, "dropped"))
	requireUnchanged()

	// Back again, Vidra applies the objects that it has applied before.
	x.toThere(t)
	awaitReady(t, x.name)
	requireUnchanged()
	there.edit(t, configMap(x.name, "page"), `{"data":{"greeting":"changed"}}`)
	there.awaitSays(t, x.name, "page", "hello")
	require.Equal(t, "hello", here.says(t, x.name, "stays"))

	// The deletion begins while the kubeconfig changes once more: in the other cluster, the foreign object stays.
	x.toHere(t)
	remove(t, getVidraResource(t, x.name))
	here.AwaitGoneFor(t, 2*patience, v)
	requireUnchanged()
}

// TestIdentityUnknownAfterARotation changes the kubeconfig of a destination that then does not say which cluster it is: nothing is written until it does.
func TestIdentityUnknownAfterARotation(t *testing.T) {
	t.Parallel()
	d, proxy := newDestination(t)
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	require.Equal(t, clusterUID(t, there), awaitReady(t, d.name).Status.ClusterUID)
	failing := proxy.Inject(faultproxy.Match{Resource: corev1.SchemeGroupVersion.WithResource("namespaces")}, faultproxy.Status(apierrors.NewInternalError(errors.New("injected"))))
	rotated := rest.CopyConfig(d.config)
	rotated.BearerToken = "rotated"
	setKubeconfig(t, d.name, kubeconfig(t, rotated))
	awaitUnreachable(t, d.name, "has another kubeconfig, and it is not known whether it is the same cluster", "injected")
	there.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"changed"}}`)
	require.Never(t, func() bool { return there.says(t, d.name, "page") == "hello" }, 2*time.Second, 10*poll)
	require.NotZero(t, failing.Hits())
	failing.Remove()
	there.awaitSays(t, d.name, "page", "hello")
	awaitReady(t, d.name)
}
