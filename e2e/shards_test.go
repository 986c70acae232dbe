package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The tests of this file run the operators of several shards, so none of them is parallel: see the
// variable operator.

// shardKey is the label by which the tests divide the VidraResources. The shard of the others is the main one.
const (
	shardKey = "sharding.fluxcd.io/key"
	shardOne = v1alpha1.Shard(shardKey + "=one")
	shardTwo = v1alpha1.Shard(shardKey + "=two")
	mainOne  = v1alpha1.Shard("!" + shardKey)
)

const manyShards = "it starts the operators of several shards"

// startShard starts an operator of a shard.
func startShard(t *testing.T, of v1alpha1.Shard, more ...string) *testenv.Operator {
	t.Helper()
	return startAnother(t, append(more, "--watch-label-selector="+string(of))...)
}

// inShard gives a VidraResource the label of a shard.
func inShard(value string) func(*v1alpha1.VidraResource) {
	return func(v *v1alpha1.VidraResource) { v.Labels = map[string]string{shardKey: value} }
}

// removeVidraResource deletes a VidraResource and waits until it is gone: the operators of its shard are
// stopped before what a test made is removed.
func removeVidraResource(t *testing.T, name string) {
	t.Helper()
	v := getVidraResource(t, name)
	require.NoError(t, deleteVidraResource(t.Context(), name))
	awaitGone(t, v)
}

// requireShards requires that exactly the labels of these shards are on an object.
func requireShards(t require.TestingT, obj client.Object, shards ...v1alpha1.Shard) {
	var want, found []string
	for _, shard := range shards {
		want = append(want, v1alpha1.Installation("").ShardLabelKey(shard))
	}
	for key := range get(t, obj).GetLabels() {
		if v1alpha1.IsShardLabel(key) {
			found = append(found, key)
		}
	}
	require.ElementsMatch(t, want, found)
}

// awaitShard waits until the status of a VidraResource has exactly these shards.
func awaitShard(t *testing.T, name string, shards ...string) *v1alpha1.VidraResource {
	t.Helper()
	var v *v1alpha1.VidraResource
	await(t, func(c *assert.CollectT) {
		v = getVidraResource(c, name)
		require.Equal(c, shards, v.Status.Shards)
	})
	return v
}

// watchedConfigMaps is how many ConfigMaps an operator watches.
func watchedConfigMaps(t require.TestingT, o *testenv.Operator) (n int) {
	for series, value := range suite.Metrics(t, o) {
		if strings.HasPrefix(series, "vidra_watch_objects{") && strings.Contains(series, `resource="configmaps"`) {
			n += int(value)
		}
	}
	return n
}

// TestShards runs three shards, one of them with two replicas. Each reconciles its VidraResources and
// watches their objects only.
func TestShards(t *testing.T) {
	needsOwnControlPlane(t, manyShards)
	ns := newNamespace(t)
	stopOperator(t)
	shards := map[string]v1alpha1.Shard{ns + "-one": shardOne, ns + "-two": shardTwo, ns: mainOne}
	labels := map[string]string{ns + "-one": "one", ns + "-two": "two"}
	operators := map[string]*testenv.Operator{}
	for name, shard := range shards {
		operators[name] = startShard(t, shard, electing()...)
		newVidraResource(t, ns, configMap(name, "hello"), named(name), func(v *v1alpha1.VidraResource) {
			if label := labels[name]; label != "" {
				inShard(label)(v)
			}
		})
	}
	for name, shard := range shards {
		v := awaitReady(t, name)
		require.Equal(t, []string{string(shard)}, v.Status.Shards)
		page := declared(t, ns, configMap(name, "hello"))[0]
		requireShards(t, page, shard)
		require.True(t, leads(t, operators[name]))
		require.Equal(t, 1, watchedConfigMaps(t, operators[name]), "the objects of the other shards are not watched")
		lease := &coordinationv1.Lease{}
		require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: leaseName.Namespace, Name: shard.Name() + ".shard." + leaseName.Name}, lease))
		require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
		awaitSays(t, page, "hello")
		require.NoError(t, mergePatch(page, `{"metadata":{"labels":{%q:null}}}`, v1alpha1.Installation("").ShardLabelKey(shard)))
		await(t, func(c *assert.CollectT) { requireShards(c, page, shard) }, "the label is restored, too")
		awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", v1alpha1.Installation("").ShardLabelKey(shard), "had been removed")
	}
	replica := startShard(t, v1alpha1.Shard(shardKey+" in (one)"), electing()...)
	require.NoError(t, operators[ns+"-one"].Stop(stopTimeout))
	awaitLeads(t, replica)
	page := declared(t, ns, configMap(ns+"-one", "hello"))[0]
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitSays(t, page, "hello")
	removeVidraResource(t, ns+"-one") // its operator ends before what the test began with it
}

// TestObjectOfTwoShards has VidraResources of two shards own an object together. Both revert edits of their
// fields, and the object stays until the last one releases it.
func TestObjectOfTwoShards(t *testing.T) {
	needsOwnControlPlane(t, manyShards)
	ns := newNamespace(t)
	stopOperator(t)
	startShard(t, shardOne)
	two := startShard(t, shardTwo)
	shared := func(field string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"page"},"data":{"` + field + `":"hello"}}`
	}
	first, second := ns+"-one", ns+"-two"
	newVidraResource(t, ns, manifests(shared("one"), configMap("other", "hello")), named(first), inShard("one"))
	awaitReady(t, first)
	newVidraResource(t, ns, shared("two"), named(second), inShard("two"))
	awaitReady(t, second)
	page := declared(t, ns, shared("one"))[0]
	requireShards(t, page, shardOne, shardTwo)
	data := func(t require.TestingT) map[string]string {
		live := &corev1.ConfigMap{}
		require.NoError(t, admin.Get(context.Background(), client.ObjectKeyFromObject(page), live))
		return live.Data
	}
	both := map[string]string{"one": "hello", "two": "hello"}
	for _, change := range []string{`{"data":{"one":"mine"}}`, `{"data":{"two":"mine"}}`, `{"data":{"one":null,"two":"mine"}}`} {
		require.NoError(t, mergePatch(page, "%s", change))
		await(t, func(c *assert.CollectT) { require.Equal(c, both, data(c)) }, change)
	}
	require.NoError(t, mergePatch(page, `{"metadata":{"labels":null}}`))
	await(t, func(c *assert.CollectT) { requireShards(c, page, shardOne, shardTwo) })
	require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
	await(t, func(c *assert.CollectT) {
		requireShards(c, page, shardOne, shardTwo)
		require.Equal(c, both, data(c))
	})
	uid := get(t, page).GetUID()

	setManifest(t, first, configMap("other", "hello")) // the first shard prunes it
	await(t, func(c *assert.CollectT) { requireShards(c, page, shardTwo) })
	awaitReady(t, first)
	require.Equal(t, map[string]string{"two": "hello"}, data(t))
	require.Equal(t, uid, get(t, page).GetUID(), "the other shard has it")
	require.NoError(t, mergePatch(page, `{"data":{"two":"mine"}}`))
	await(t, func(c *assert.CollectT) { require.Equal(c, "hello", data(c)["two"]) })

	setManifest(t, first, manifests(shared("one"), configMap("other", "hello")))
	await(t, func(c *assert.CollectT) { require.Equal(c, both, data(c)) })
	setManifest(t, first, manifests(shared("two"), configMap("other", "hello"))) // the same field, with the same value
	awaitReady(t, first)
	setManifest(t, first, manifests(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"page"},"data":{"two":"other"}}`, configMap("other", "hello")))
	awaitNotReady(t, first, v1alpha1.ReasonOwnershipConflict, "VidraResource "+second, "data.two")
	require.NoError(t, deleteVidraResource(t.Context(), first))
	await(t, func(c *assert.CollectT) { requireShards(c, page, shardTwo) })
	require.NoError(t, two.Stop(stopTimeout))
	startShard(t, shardTwo)
	removeVidraResource(t, second)
	awaitGone(t, page)
}

// TestEditInAShardGivesTheObjectToNobodyElse edits an object of a VidraResource that is suspended, and that one of another shard wants with other
// values: the edit gives it nothing.
func TestEditInAShardGivesTheObjectToNobodyElse(t *testing.T) {
	needsOwnControlPlane(t, manyShards)
	stopOperator(t)
	startShard(t, shardOne)
	startShard(t, shardTwo)
	for name, body := range map[string]string{"value": `{"data":{"greeting":"edited"},"metadata":{"labels":{"team":null}}}`, "owner mark": `{"metadata":{"annotations":null}}`} {
		t.Run(name, func(t *testing.T) {
			requireEditGivesNothing(t, body, true, inShard)
		})
	}
}

// TestShardsOverlap runs two shards that both match a VidraResource, and an operator without a shard. They do no harm:
// they agree on the labels of the objects, and write nothing while nothing changes.
func TestShardsOverlap(t *testing.T) {
	needsOwnControlPlane(t, manyShards)
	ns := newNamespace(t)
	stopOperator(t)
	wide := v1alpha1.Shard(shardKey)
	startShard(t, shardOne)
	newVidraResource(t, ns, web, inShard("one"))
	awaitReady(t, ns)
	startShard(t, wide)
	shards := []string{string(wide), string(shardOne)}
	slices.Sort(shards)
	awaitShard(t, ns, shards...)
	all := declared(t, ns, web)
	requireBoth := func() {
		await(t, func(c *assert.CollectT) {
			for _, obj := range all {
				requireShards(c, obj, shardOne, wide)
			}
		})
	}
	requireBoth()
	awaitSilence(t)
	startAnother(t)
	awaitSilence(t)
	awaitShard(t, ns, shards...)
	requireBoth()
	page := declaredObject(t, ns, web, "ConfigMap", "page")
	for range 5 {
		require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
		awaitSays(t, page, "hello")
	}
	awaitSilence(t)
	requireBoth()
	awaitReady(t, ns)
	removeVidraResource(t, ns)
	for _, obj := range all {
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopy())
		require.True(t, apierrors.IsNotFound(err), "%s: %v", obj.GetName(), err)
	}
}

// TestUnselected gives a VidraResource the label of a shard that no operator has, and then starts that operator. Until then, the other
// operators report the VidraResource: also one that another operator had reconciled before.
func TestUnselected(t *testing.T) {
	needsOwnControlPlane(t, manyShards)
	ns := newNamespace(t)
	stopOperator(t)
	others := []*testenv.Operator{startShard(t, mainOne, electing()...), startShard(t, shardOne, electing()...)}
	for _, o := range others {
		awaitWatched(t, o, 1)
	}
	lost, moved := ns+"-new", ns+"-moved"
	newVidraResource(t, ns, configMap("moved", "hello"), named(moved), inShard("one"))
	awaitReady(t, moved)
	newVidraResource(t, ns, configMap("new", "hello"), named(lost), inShard("two"))
	series := func(name string) string { return fmt.Sprintf(`vidra_resource_unselected{name=%q}`, name) }
	reported := func(t require.TestingT, name string, want bool) {
		for _, o := range others {
			_, is := suite.Metrics(t, o)[series(name)]
			require.Equal(t, want, is, name)
		}
	}
	await(t, func(c *assert.CollectT) { reported(c, lost, true) })
	reported(t, moved, false)
	require.NoError(t, mergePatch(getVidraResource(t, moved), `{"metadata":{"labels":{%q:"two"}}}`, shardKey))
	await(t, func(c *assert.CollectT) { reported(c, moved, true) })
	startShard(t, shardTwo, electing()...)
	awaitReady(t, lost)
	awaitReady(t, moved)
	await(t, func(c *assert.CollectT) {
		reported(c, lost, false)
		reported(c, moved, false)
	})
	for _, name := range []string{lost, moved} {
		removeVidraResource(t, name)
	}
}

// TestSelectorOfAShardIsRepeated refuses the first write of the label selector of a shard to its Lease. Without it, no operator would report a
// VidraResource as unselected for as long as this one leads.
func TestSelectorOfAShardIsRepeated(t *testing.T) {
	needsOwnControlPlane(t, manyShards)
	stopOperator(t)
	of := v1alpha1.Shard(shardKey + "=" + unique(t))
	proxy, through := proxied(t)
	refused := proxy.Inject(faultproxy.Match{Verb: "patch", Resource: coordinationv1.SchemeGroupVersion.WithResource("leases")},
		faultproxy.Status(apierrors.NewServiceUnavailable("overloaded")).Times(1))
	shard := startShard(t, of, electing(through)...)
	awaitLeads(t, shard)
	await(t, func(c *assert.CollectT) {
		require.Equal(c, 1, refused.Hits())
		leases := &coordinationv1.LeaseList{}
		require.NoError(c, admin.List(t.Context(), leases, client.InNamespace(leaseName.Namespace)))
		require.True(c, slices.ContainsFunc(leases.Items, func(l coordinationv1.Lease) bool {
			return l.Annotations["infrahub.operators.com/shard-selector"] == string(of)
		}))
	})
}
