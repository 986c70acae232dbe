package e2e

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The tests of this file run several operators, so none of them is parallel: see the variable operator. The moves of one test are.

// side is one of the two operators between which objects move.
type side struct {
	// label gives a VidraResource to the operator, and manager is the field manager of one of its VidraResources.
	label   func(*v1alpha1.VidraResource)
	manager func(name string) string
}

// moveBetween moves objects from VidraResources of one operator to those of another one, and back: the uids survive.
func moveBetween(t *testing.T, sides map[string]side) {
	t.Helper()
	moves := map[string]struct {
		reason string
		was    string
		kind   string
		// move moves the object from giver to the VidraResource of taker.
		move func(t *testing.T, giver string, taker *v1alpha1.VidraResource)
	}{
		"giver-first": {
			"The former owner is written first.", configMap("page", "hello") + "  dropped: soon\n", "ConfigMap",
			func(t *testing.T, giver string, taker *v1alpha1.VidraResource) {
				t.Helper()
				setManifest(t, giver, configMap("stays", giver))
				setManifest(t, taker.Name, taker.Spec.Manifest)
			},
		},
		"taker-first": {
			"The new owner is written first.", configMap("page", "hello") + "  dropped: soon\n", "ConfigMap",
			func(t *testing.T, giver string, taker *v1alpha1.VidraResource) {
				t.Helper()
				setManifest(t, taker.Name, taker.Spec.Manifest)
				setManifest(t, giver, configMap("stays", giver))
			},
		},
		"claim": {
			"The data of a claim is lost with it.", claimOf("page", "one"), "PersistentVolumeClaim",
			func(t *testing.T, giver string, taker *v1alpha1.VidraResource) {
				t.Helper()
				setManifest(t, giver, configMap("stays", giver))
				setManifest(t, taker.Name, taker.Spec.Manifest)
			},
		},
		"rename": {
			"The former owner is deleted, and the new one is created in the same apply.", configMap("page", "hello"), "ConfigMap",
			func(t *testing.T, giver string, taker *v1alpha1.VidraResource) {
				t.Helper()
				require.NoError(t, deleteVidraResource(t.Context(), taker.Name))
				awaitGone(t, taker.DeepCopy())
				require.NoError(t, deleteVidraResource(t.Context(), giver))
				require.NoError(t, admin.Create(t.Context(), taker.DeepCopy()))
				awaitGone(t, vidraResourceOf(giver, "", ""))
			},
		},
	}
	t.Run("moves", func(t *testing.T) {
		for from, giving := range sides {
			for to, taking := range sides {
				for name, m := range moves {
					if from == to {
						continue
					}
					t.Run(from+"/"+name, func(t *testing.T) {
						t.Parallel()
						ns := newNamespace(t)
						giver, taker := ns+"-giver", ns+"-taker"
						is := map[string]string{"ConfigMap": configMap("page", "goodbye"), "PersistentVolumeClaim": claimOf("page", "two")}[m.kind]
						newVidraResource(t, ns, manifests(configMap("stays", giver), m.was), named(giver), giving.label)
						newVidraResource(t, ns, configMap("other", taker), named(taker), taking.label)
						awaitReady(t, giver)
						awaitReady(t, taker)
						page := declaredObject(t, ns, is, m.kind, "page")
						uid := get(t, page).GetUID()
						t.Cleanup(func() { // it may have been created again
							require.NoError(t, client.IgnoreNotFound(deleteVidraResource(context.Background(), taker)))
							awaitGone(t, vidraResourceOf(taker, ns, ""))
						})
						moved := vidraResourceOf(taker, ns, manifests(configMap("other", taker), is))
						taking.label(moved)
						m.move(t, giver, moved)
						requireMovedTo(t, taking.manager(taker), page, uid)
						awaitReady(t, taker)
						live := get(t, page)
						require.Equal(t, uid, live.GetUID(), m.reason)
						_, dropped, err := unstructured.NestedString(live.Object, "data", "dropped")
						require.NoError(t, err)
						require.False(t, dropped, "a field of the former manifest stays")
						if m.kind == "ConfigMap" {
							require.Equal(t, "goodbye", greeting(t, page))
							require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
							awaitSays(t, page, "goodbye")
						}
						if name != "rename" {
							awaitReady(t, giver)
						}
					})
				}
			}
		}
	})
}

// requireMovedTo requires that an object gets one field manager of Vidra, and was neither deleted nor created again.
func requireMovedTo(t *testing.T, manager string, obj *unstructured.Unstructured, uid types.UID) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		live := get(c, obj)
		require.Equal(c, uid, live.GetUID(), "it was deleted and created again")
		require.Nil(c, live.GetDeletionTimestamp())
		require.Equal(c, []string{manager}, appliedBy(live))
	})
}

// TestMoveBetweenShards moves objects between VidraResources that the operators of two shards reconcile.
func TestMoveBetweenShards(t *testing.T) {
	needsOwnControlPlane(t, manyShards)
	stopOperator(t)
	startShard(t, shardOne)
	startShard(t, shardTwo)
	moveBetween(t, map[string]side{
		"one": {inShard("one"), v1alpha1.Installation("").FieldManager},
		"two": {inShard("two"), v1alpha1.Installation("").FieldManager},
	})
}

// TestMoveBetweenInstallations moves objects between VidraResources of two installations.
func TestMoveBetweenInstallations(t *testing.T) {
	startEast(t)
	moveBetween(t, map[string]side{
		"default": {func(*v1alpha1.VidraResource) {}, v1alpha1.Installation("").FieldManager},
		"east":    {of(east), east.FieldManager},
	})
}
