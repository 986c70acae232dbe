package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestMoveAfterAKill kills the operator at each write of a move of an object with other values, before the API server has it and after
// that. The next operator finishes the move: the uid survives, and no field of the former manifest stays.
//
// It is not parallel, because it stops the operator.
func TestMoveAfterAKill(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	status := func(name string) faultproxy.Match {
		return faultproxy.Match{Verb: "patch", Resource: v1alpha1.GroupVersion.WithResource("vidraresources"), Subresource: "status", Name: name}
	}
	page := func(ns string) faultproxy.Match {
		return faultproxy.Match{Verb: "patch", Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: ns, Name: "page"}
	}
	writes := map[string]struct {
		reason string
		match  func(ns, giver, taker string) faultproxy.Match
		// few and most are how many of these writes the test interrupts, and the long test.
		few, most int
	}{
		"object":       {"the applies of the new owner, and the release of the former one", func(ns, _, _ string) faultproxy.Match { return page(ns) }, 2, 4},
		"giver-status": {"the inventory of the former owner", func(_, giver, _ string) faultproxy.Match { return status(giver) }, 1, 3},
		"taker-status": {"the inventory of the new owner", func(_, _, taker string) faultproxy.Match { return status(taker) }, 1, 3},
	}
	killed := 0
	for kind, w := range writes {
		for after := range suite.Size(w.few, w.most) {
			for name, fault := range map[string]faultproxy.Fault{"before": faultproxy.Stall(), "after": faultproxy.Late()} {
				if name == "after" && kind != "object" && !suite.Long() {
					continue // the state is that of the next write
				}
				t.Run(fmt.Sprintf("%s-%d-%s", kind, after, name), func(t *testing.T) {
					ns := newNamespace(t)
					giver, taker := ns+"-giver", ns+"-taker"
					newVidraResource(t, ns, manifests(configMap("stays", giver), configMap("page", "hello")+"  dropped: soon\n"), named(giver))
					newVidraResource(t, ns, configMap("other", taker), named(taker))
					awaitReady(t, giver)
					awaitReady(t, taker)
					obj := declaredObject(t, ns, configMap("page", "goodbye"), "ConfigMap", "page")
					uid := get(t, obj).GetUID()
					stopOperator(t)
					proxy, through := proxied(t)
					moving := startAnother(t, through)
					match := w.match(ns, giver, taker)
					stall := proxy.Inject(match, fault)
					if after > 0 {
						proxy.Inject(match, faultproxy.Fault{}.Times(after))
					}
					t.Cleanup(func() {
						require.NoError(t, client.IgnoreNotFound(deleteVidraResource(context.Background(), taker)))
					})
					setManifest(t, giver, configMap("stays", giver))
					setManifest(t, taker, manifests(configMap("other", taker), configMap("page", "goodbye")))
					await(t, func(c *assert.CollectT) {
						live := get(c, obj)
						require.True(c, stall.Hits() > 0 || greeting(c, obj) == "goodbye" && len(appliedBy(live)) == 1, w.reason)
					})
					killed += min(stall.Hits(), 1)
					require.NoError(t, moving.Kill())
					startOperator(t)
					requireMoved(t, taker, obj, uid)
					awaitReady(t, taker)
					awaitReady(t, giver)
					live := get(t, obj)
					require.Equal(t, uid, live.GetUID())
					require.Equal(t, map[string]any{"greeting": "goodbye"}, live.Object["data"])
				})
			}
		}
	}
	require.Greater(t, killed, 3, "most of these writes happen")
}

// TestMoveWithoutEvents moves objects while their watch is silent: the release by the former owner is enough for the new one to apply them.
//
// It is not parallel, because it stops the operator.
func TestMoveWithoutEvents(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	stopOperator(t)
	proxy, through := proxied(t)
	startAnother(t, through)
	cases := map[string]struct {
		reason string
		move   func(t *testing.T, giver, taker string)
	}{
		"move": {"The object leaves one manifest and joins another.", func(t *testing.T, giver, taker string) {
			t.Helper()
			setManifest(t, taker, manifests(configMap("other", taker), configMap("page", "goodbye")))
			setManifest(t, giver, configMap("stays", giver))
		}},
		"rename": {"The former owner is deleted.", func(t *testing.T, giver, taker string) {
			t.Helper()
			require.NoError(t, deleteVidraResource(t.Context(), giver))
			setManifest(t, taker, manifests(configMap("other", taker), configMap("page", "goodbye")))
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			giver, taker := ns+"-giver", ns+"-taker"
			newVidraResource(t, ns, manifests(configMap("stays", giver), configMap("page", "hello")), named(giver))
			newVidraResource(t, ns, configMap("other", taker), named(taker))
			awaitReady(t, giver)
			awaitReady(t, taker)
			obj := declaredObject(t, ns, configMap("page", "goodbye"), "ConfigMap", "page")
			uid := get(t, obj).GetUID()
			muted := faultproxy.Match{Verb: "watch", Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}
			require.NotZero(t, proxy.MuteStreams(muted))
			defer proxy.CutStreams(muted)
			tc.move(t, giver, taker)
			requireMoved(t, taker, obj, uid)
			awaitSays(t, obj, "goodbye")
			require.NotZero(t, proxy.CutStreams(muted))
			awaitReady(t, taker)
			require.Equal(t, uid, get(t, obj).GetUID(), tc.reason)
		})
	}
}
