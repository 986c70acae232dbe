package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestFormerOwnerWithoutItsFinalizer removes the finalizer of a VidraResource by hand, which leaves its objects as they are: no event of the object
// shows that to the VidraResource that waits for its release.
func TestFormerOwnerWithoutItsFinalizer(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	first := ns + "-first"
	newVidraResource(t, ns, configMap("page", "mine"), named(first))
	awaitReady(t, first)
	require.NoError(t, mergePatch(getVidraResource(t, first), `{"spec":{"suspend":true}}`))
	require.NoError(t, admin.Delete(t.Context(), getVidraResource(t, first)))
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "releases it")
	time.Sleep(20 * time.Second) // longer than the attempts of a backoff
	require.NoError(t, mergePatch(getVidraResource(t, first), `{"metadata":{"finalizers":null}}`))
	awaitReady(t, ns)
}
