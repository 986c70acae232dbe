package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The tests of this file run the operators of several shards, so none of them is parallel: see the
// variable operator.

// move gives a VidraResource to another shard. value is JSON.
func move(t *testing.T, name, value string) {
	t.Helper()
	require.NoError(t, mergePatch(getVidraResource(t, name), `{"metadata":{"labels":{%q:%s}}}`, shardKey, value))
}

// TestVidraResourceChangesTheShard moves a VidraResource from shard to shard, with edits before, during and after
// the moves. Nothing is written to its objects but the label, no edit is lost, and nothing is deleted.
func TestVidraResourceChangesTheShard(t *testing.T) {
	needsOwnControlPlane(t, manyShards)
	ns := newNamespace(t)
	one := startShard(t, shardOne)
	manifest := manifests(web, configMap("other", "hello"))
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)
	deployment := declaredObject(t, ns, manifest, "Deployment", "web")
	all := declared(t, ns, manifest)
	page := declaredObject(t, ns, manifest, "ConfigMap", "page")
	stopOperator(t)

	uids := map[string]string{}
	for _, obj := range all {
		live := get(t, obj)
		uids[obj.GetKind()+obj.GetName()] = string(live.GetUID())
	}
	mark := auditMark(t)
	move(t, ns, `"one"`)
	v := awaitShard(t, ns, string(shardOne))
	awaitReady(t, ns)
	awaitSilence(t)
	for _, obj := range all {
		requireShards(t, obj, shardOne)
		require.Equal(t, uids[obj.GetKind()+obj.GetName()], string(get(t, obj).GetUID()))
	}
	writes := operatorSince(t, mark).ObjectsIn(ns).Writes()
	require.Len(t, writes, len(all), "one write for each object: %s", writes)
	require.Empty(t, eventsAbout(t, v, "DriftCorrected"))

	// No operator of the shard runs yet.
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitSays(t, page, "hello")
	move(t, ns, `"two"`)
	await(t, func(c *assert.CollectT) { require.Zero(c, metric(c, one, "vidra_watch_owners{")) }, "the shard one has forgotten it")
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	require.NoError(t, mergePatch(deployment, `{"spec":{"replicas":7}}`))
	require.NoError(t, admin.Delete(t.Context(), declared(t, ns, configMap("other", "hello"))[0]))
	require.Equal(t, []string{string(shardOne)}, getVidraResource(t, ns).Status.Shards, "of which the status and the labels do not agree")
	two := startShard(t, shardTwo)
	awaitShard(t, ns, string(shardTwo))
	awaitInOrder(t, ns, all...)
	for _, obj := range all {
		requireShards(t, obj, shardTwo)
	}
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "ConfigMap", "page", "data.greeting")
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "Deployment", "web", "replicas")

	// Edits while it moves forth and back.
	for i := range 6 {
		move(t, ns, []string{`"one"`, `"two"`}[i%2])
		require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine %d"}}`, i))
		require.NoError(t, mergePatch(deployment, `{"spec":{"replicas":%d}}`, i+10))
		if i%3 == 2 {
			awaitInOrder(t, ns, page, deployment)
		}
	}
	awaitShard(t, ns, string(shardTwo))
	awaitInOrder(t, ns, all...)
	awaitReady(t, ns)
	for _, obj := range all {
		requireShards(t, obj, shardTwo)
		if obj.GetName() != "other" {
			require.Equal(t, uids[obj.GetKind()+obj.GetName()], string(get(t, obj).GetUID()))
		}
	}
	await(t, func(c *assert.CollectT) {
		require.Zero(c, watchedConfigMaps(c, one))
		require.Equal(c, 2, watchedConfigMaps(c, two))
	})

	// Back to an operator without shards.
	require.NoError(t, two.Stop(stopTimeout))
	require.NoError(t, one.Stop(stopTimeout))
	startOperator(t)
	move(t, ns, "null")
	await(t, func(c *assert.CollectT) {
		require.Empty(c, getVidraResource(c, ns).Status.Shards)
		for _, obj := range all {
			requireShards(c, obj)
		}
	})
	awaitReady(t, ns)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitSays(t, page, "hello")
}

// TestVidraResourceReturnsToTheShard moves a VidraResource to another shard, which creates an object, and back, with a manifest
// without that object, before a worker of the first shard has noticed that. The object is pruned.
func TestVidraResourceReturnsToTheShard(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	ns := newNamespace(t)
	stopOperator(t)
	proxy, _ := startProxied(t, "--watch-label-selector="+string(shardOne), "--workers=1")
	two := startShard(t, shardTwo)
	newVidraResource(t, ns, configMap("page", "hello"), inShard("one"))
	awaitReady(t, ns)
	busy, holder := faultproxy.Match{Verb: "patch", Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Name: "busy"}, ns+"-busy"
	stalled := proxy.Inject(busy, faultproxy.Stall())
	newVidraResource(t, ns, configMap("busy", "hello"), named(holder), inShard("one"))
	await(t, func(c *assert.CollectT) { require.NotZero(c, stalled.Hits()) }, "the worker of the shard one is busy")

	page, extra := declared(t, ns, configMap("page", "hello"))[0], declared(t, ns, configMap("extra", "hello"))[0]
	both := manifests(configMap("page", "hello"), configMap("extra", "hello"))
	change := func(shard, manifest string) {
		require.NoError(t, mergePatch(getVidraResource(t, ns), `{"metadata":{"labels":{%q:%q}},"spec":{"manifest":%q}}`, shardKey, shard, manifest))
	}
	change("two", both)
	awaitShard(t, ns, string(shardTwo))
	require.Len(t, awaitReady(t, ns).Status.ManagedResources, 2)
	change("one", configMap("page", "hello"))
	await(t, func(c *assert.CollectT) { require.Zero(c, metric(c, two, "vidra_watch_owners{")) }, "the event has come")
	stalled.Remove()
	awaitGone(t, extra)
	v := awaitShard(t, ns, string(shardOne))
	awaitReady(t, ns)
	require.Len(t, getVidraResource(t, ns).Status.ManagedResources, 1)
	requireShards(t, page, shardOne)
	require.Empty(t, eventsAbout(t, v, "DriftCorrected"), "the other shard is no other writer")
	removeVidraResource(t, holder)
	removeVidraResource(t, ns)
}

// TestDriftThatStaysChangesTheShard moves a VidraResource whose drift is only reported: the move does not revert it.
func TestDriftThatStaysChangesTheShard(t *testing.T) {
	needsOwnControlPlane(t, manyShards)
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"), withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}))
	awaitReady(t, ns)
	page := declared(t, ns, configMap("page", "hello"))[0]
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected, "data.greeting")
	stopOperator(t)
	startShard(t, shardOne)
	move(t, ns, `"one"`)
	awaitShard(t, ns, string(shardOne))
	await(t, func(c *assert.CollectT) { requireShards(c, page, shardOne) })
	awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected, "data.greeting")
	require.Equal(t, "mine", greeting(t, page))
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"hello"}}`))
	awaitReady(t, ns) // which the watch of the shard has shown
	removeVidraResource(t, ns)
}

// TestStalledVidraResourceChangesTheShard moves a VidraResource whose manifest is invalid, twice. Once it is valid again, its
// objects have the label of the new shard, and the label that they did not have is no drift.
func TestStalledVidraResourceChangesTheShard(t *testing.T) {
	needsOwnControlPlane(t, manyShards)
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"), withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}))
	awaitReady(t, ns)
	page := declared(t, ns, configMap("page", "hello"))[0]
	stopOperator(t)
	startShard(t, shardOne)
	startShard(t, shardTwo)
	for value, shard := range map[string]v1alpha1.Shard{`"one"`: shardOne, `"two"`: shardTwo} {
		setManifest(t, ns, "{")
		move(t, ns, value)
		awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid)
		setManifest(t, ns, configMap("page", "hello"))
		v := awaitReady(t, ns)
		require.Equal(t, []string{string(shard)}, v.Status.Shards)
		requireShards(t, page, shard)
		require.Empty(t, eventsAbout(t, v, "DriftDetected"))
	}
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected, "data.greeting")
	removeVidraResource(t, ns)
}
