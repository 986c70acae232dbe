package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestRemovalWithAStaleCache has an operator remove an object while its cache of VidraResources is behind: the object stays, as the
// API server has another VidraResource, or a later spec, than the cache.
func TestRemovalWithAStaleCache(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	tests := map[string]struct {
		reason string
		// removes has the operator remove the page, before the cache is behind, and restores creates the wish for it afterwards.
		removes, restores func(t *testing.T, ns, one string)
	}{
		"a later spec": {
			"the manifest has the object again",
			func(t *testing.T, _, one string) { setManifest(t, one, configMap("stays", one)) },
			func(t *testing.T, _, one string) {
				setManifest(t, one, manifests(configMap("stays", one), configMap("page", "hello")))
			},
		},
		"another VidraResource of the name": {
			"the finalizer of the former one was removed by hand",
			func(t *testing.T, _, one string) { require.NoError(t, deleteVidraResource(t.Context(), one)) },
			func(t *testing.T, ns, one string) {
				former := getVidraResource(t, one)
				require.NoError(t, mergePatch(former, `{"metadata":{"finalizers":null}}`))
				awaitGone(t, former)
				require.NoError(t, admin.Create(t.Context(), vidraResourceOf(one, ns, manifests(configMap("stays", one), configMap("page", "hello")))))
				t.Cleanup(func() { _ = deleteVidraResource(context.Background(), one) })
			},
		},
		"suspended": {
			"the user stops the removal",
			func(t *testing.T, _, one string) { setManifest(t, one, configMap("stays", one)) },
			func(t *testing.T, _, one string) {
				require.NoError(t, mergePatch(getVidraResource(t, one), `{"spec":{"suspend":true}}`))
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			one, two := ns+"-one", ns+"-two"
			stopOperator(t)
			proxy, through := proxied(t)
			startAnother(t, through)
			newVidraResource(t, ns, manifests(configMap("stays", one), configMap("page", "hello")), named(one))
			newVidraResource(t, ns, "kind: [\n# ConfigMap page", named(two))
			awaitReady(t, one)
			awaitNotReady(t, two, v1alpha1.ReasonManifestInvalid)
			page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
			uid := get(t, page).GetUID()
			tt.removes(t, ns, one)
			awaitReason(t, one, v1alpha1.ReasonProgressing)
			await(t, func(c *assert.CollectT) { // the other one holds the removal
				require.Contains(c, condition(c, getVidraResource(c, one), v1alpha1.ConditionReady).Message, "VidraResource "+two)
			})

			watches := faultproxy.Match{Verb: "watch", Resource: v1alpha1.GroupVersion.WithResource("vidraresources")}
			stall := proxy.Inject(watches, faultproxy.Stall())
			proxy.Down()
			require.NoError(t, proxy.Up())
			await(t, func(c *assert.CollectT) { require.NotZero(c, stall.Hits()) })
			tt.restores(t, ns, one)
			setManifest(t, two, configMap("other", two))
			require.Never(t, func() bool { return get(t, page).GetUID() != uid || get(t, page).GetDeletionTimestamp() != nil }, 15*time.Second, time.Second, tt.reason)
			stall.Remove()
			awaitReady(t, two)
			require.Equal(t, uid, get(t, page).GetUID(), tt.reason)
		})
	}
}

// TestRemovalWithAStaleSource has an operator remove an object while the watch of a ConfigMap with a part of a manifest is behind: the object stays, as
// the ConfigMap has the object again.
func TestRemovalWithAStaleSource(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	for name, receives := range map[string]bool{"its own": false, "of its receiver": true} {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			one, two, other := ns+"-one", ns+"-two", ns+"-other"
			stopOperator(t)
			proxy, through := proxied(t)
			startAnother(t, through)
			parts := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"m": configMap("page", "hello")}}
			if receives {
				parts.Data["m"] = configMap("rest", "hello")
				require.NoError(t, admin.Create(t.Context(), parts))
				newVidraResource(t, ns, manifests(configMap("stays", one), configMap("page", "hello")), named(one))
				newVidraResource(t, ns, "", named(other), fromParts(partIn("ConfigMap", "parts", "m")))
				awaitReady(t, other)
			} else {
				require.NoError(t, admin.Create(t.Context(), parts))
				newVidraResource(t, ns, configMap("stays", one), named(one), fromParts(partIn("ConfigMap", "parts", "m")))
			}
			newVidraResource(t, ns, "kind: [\n# ConfigMap page", named(two))
			awaitReady(t, one)
			awaitNotReady(t, two, v1alpha1.ReasonManifestInvalid)
			page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
			uid := get(t, page).GetUID()
			if receives {
				setManifest(t, one, configMap("stays", one))
			} else {
				require.NoError(t, mergePatch(parts, `{"data":{"m":%q}}`, configMap("rest", "hello")))
			}
			awaitReason(t, one, v1alpha1.ReasonProgressing)
			await(t, func(c *assert.CollectT) { // the invalid one holds the removal
				require.Contains(c, condition(c, getVidraResource(c, one), v1alpha1.ConditionReady).Message, "VidraResource "+two)
			})

			proxy.MuteStreams(faultproxy.Match{Verb: "watch", Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Parameter: "fieldSelector"})
			require.NoError(t, mergePatch(parts, `{"data":{"m":%q}}`, manifests(configMap("rest", "hello"), configMap("page", "hello"))))
			setManifest(t, two, configMap("other", two))
			awaitReady(t, two)
			require.Never(t, func() bool { return get(t, page).GetUID() != uid || get(t, page).GetDeletionTimestamp() != nil }, 15*time.Second, time.Second)
		})
	}
}
