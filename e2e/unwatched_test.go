package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// awaitWatched waits until the metric of an operator reports whether it watches the VidraResources.
func awaitWatched(t *testing.T, o *testenv.Operator, want int) {
	t.Helper()
	await(t, func(c *assert.CollectT) { require.Equal(c, want, metric(c, o, "vidra_resources_watched")) })
}

// TestVidraResourcesAreUnwatched takes the right to watch VidraResources from an operator, which is ready and reports nothing else. Its metric shows
// that, although it watches VidraResources in a manifest, and the end of it.
func TestVidraResourcesAreUnwatched(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	stopOperator(t)
	ns := newNamespace(t)
	proxy, through := proxied(t)
	other := startAnother(t, through)
	awaitWatched(t, other, 1)
	newVidraResource(t, ns, "apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata: {name: "+ns+"-nested}\nspec: {manifest: \"{}\", suspend: true}\n")
	awaitReady(t, ns)
	own := faultproxy.Match{Resource: v1alpha1.Resource, Where: func(r faultproxy.Request) bool { return !r.Query.Has("labelSelector") }}
	refused := proxy.Inject(own, faultproxy.Status(apierrors.NewForbidden(v1alpha1.Resource.GroupResource(), "", nil)))
	require.NotZero(t, proxy.CloseStreams(own))
	awaitWatched(t, other, 0)
	refused.Remove()
	awaitWatched(t, other, 1)
	removeVidraResource(t, ns)
}
