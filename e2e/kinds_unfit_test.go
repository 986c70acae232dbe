package e2e

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestKindThatCannotBeKept names kinds that the API server serves, but of which nothing
// can be applied. Who wrote that is told so, and the rest of the manifest is applied.
func TestKindThatCannotBeKept(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ reason, manifest, kind, lacks string }{
		"review": {
			reason:   "it can only be created, and is not stored",
			manifest: "apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\nmetadata:\n  name: me\nspec:\n  resourceAttributes: {verb: get, resource: pods}\n",
			kind:     "SelfSubjectAccessReview of authorization.k8s.io/v1", lacks: "get, patch, delete",
		},
		"component status": {
			reason:   "it can only be read",
			manifest: "apiVersion: v1\nkind: ComponentStatus\nmetadata:\n  name: etcd-0\n",
			kind:     "ComponentStatus of v1", lacks: "patch, delete",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, manifests(configMap("first", "hello"), tt.manifest, configMap("last", "hello")))
			v := awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, tt.kind, tt.lacks, "take it out of the manifest")
			require.Equal(t, v1alpha1.DeployFailed, v.Status.DeployState, tt.reason)
			require.Len(t, v.Status.ManagedResources, 2)
			awaitEvent(t, v, corev1.EventTypeWarning, "ManifestInvalid", "Apply", tt.kind)
			for _, other := range []string{"first", "last"} {
				page := declared(t, ns, configMap(other, "hello"))[0]
				requireInOrder(t, ns, page)
				require.NoError(t, mergePatch(page, `{"data":{"greeting":"changed"}}`))
				awaitInOrder(t, ns, page)
			}

			setManifest(t, ns, configMap("last", "hello"))
			awaitReady(t, ns)
			awaitGone(t, declared(t, ns, configMap("first", "hello"))[0])
			require.Empty(t, withReason(eventsAbout(t, v), "KindUnavailable"))
		})
	}
}

// TestKindThatIsGoing applies an object of a kind whose CustomResourceDefinition is stuck
// in its deletion, and is installed again afterwards.
func TestKindThatIsGoing(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd, manifest := newKind(t)
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	stuck := thingIn(crd, ns)
	stuck.SetName("stuck")
	stuck.SetFinalizers([]string{"example.com/stays"})
	await(t, func(c *assert.CollectT) { require.NoError(c, admin.Create(context.Background(), stuck.DeepCopy())) })
	require.NoError(t, admin.Delete(t.Context(), crd.DeepCopy()))
	await(t, func(c *assert.CollectT) { require.NotNil(c, get(c, stuck).GetDeletionTimestamp()) })
	newVidraResource(t, ns, manifests(configMap("page", "hello"), manifest))
	v := awaitNotReady(t, ns, v1alpha1.ReasonKindUnavailable, "Thing", "is terminating")
	require.Equal(t, v1alpha1.DeployPending, v.Status.DeployState)
	requireInOrder(t, ns, declared(t, ns, configMap("page", "hello"))[0])

	require.NoError(t, mergePatch(stuck, `{"metadata":{"finalizers":null}}`))
	awaitGone(t, crd)
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	awaitReady(t, ns)
	requireWatched(t, ns, thingIn(crd, ns))
	require.Empty(t, withReason(eventsAbout(t, v), "ManifestInvalid"))
}
