package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestForceIsRememberedAcrossAKill kills the operator while an object is being deleted, to
// be created again. What takes its place meanwhile is not deleted for the same manifest,
// though it cannot be changed either.
func TestForceIsRememberedAcrossAKill(t *testing.T) {
	cluster.NeedsNodes(t)
	ns := newNamespace(t)
	before, after := "immutable: true\n"+configMap("page", "one"), "immutable: true\n"+configMap("page", "two")
	newVidraResource(t, ns, before, forced)
	awaitReady(t, ns)
	page := declaredObject(t, ns, before, "ConfigMap", "page")
	uid := get(t, page).GetUID()
	freeLater(t, page)
	require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":["example.com/wait"]}}`))
	setManifest(t, ns, after)
	await(t, func(c *assert.CollectT) { require.NotNil(c, get(c, page).GetDeletionTimestamp()) })
	v := getVidraResource(t, ns)
	recreated := entry(t, v, "ConfigMap", "page").Recreated
	require.NotNil(t, recreated, "it is written before the deletion")
	require.Equal(t, string(uid), recreated.UID)

	killOperator(t)
	require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":null}}`))
	awaitGone(t, page)
	require.NoError(t, edit(page, types.ApplyPatchType, fmt.Sprintf(
		`{"apiVersion":"v1","kind":"ConfigMap","immutable":true,"data":{"greeting":"three"},"metadata":{"name":"page","labels":{"managed-by":"vidra"},"annotations":{%q:%q}}}`,
		v1alpha1.OwnerAnnotationKey(ns), ns), client.FieldOwner(v1alpha1.FieldManager(ns))))
	other := get(t, page)
	mark := auditMark(t)
	startOperator(t)
	awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "data", "created again for this manifest before")
	require.Equal(t, other.GetUID(), get(t, page).GetUID())
	require.Empty(t, operatorSince(t, mark).ObjectsIn(ns).Only(verbIs("delete")), "once is once, for another operator, too")
}

// TestForceIsFinishedAfterAKill kills the operator after it has noted that an object is
// deleted, to be created again, and before the API server has it: that counts as not done.
func TestForceIsFinishedAfterAKill(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	ns := newNamespace(t)
	before, after := "immutable: true\n"+configMap("page", "one"), "immutable: true\n"+configMap("page", "two")
	newVidraResource(t, ns, before, forced)
	awaitReady(t, ns)
	page := declaredObject(t, ns, before, "ConfigMap", "page")
	uid := get(t, page).GetUID()
	stopOperator(t)
	proxy, through := proxied(t)
	killed := startAnother(t, through)
	stall := proxy.Inject(faultproxy.Match{Verb: "delete", Namespace: ns, Name: "page"}, faultproxy.Stall())
	setManifest(t, ns, after)
	await(t, func(c *assert.CollectT) { require.NotZero(c, stall.Hits()) })
	require.Equal(t, string(uid), entry(t, getVidraResource(t, ns), "ConfigMap", "page").Recreated.UID)
	require.NoError(t, killed.Kill())
	require.Equal(t, uid, get(t, page).GetUID())

	mark := auditMark(t)
	startOperator(t)
	awaitReady(t, ns)
	require.Equal(t, "two", greeting(t, page))
	requireCount(t, 1, func() requests { return operatorSince(t, mark).ObjectsIn(ns).Only(verbIs("delete")).Accepted() }, "once")
	setManifest(t, ns, "immutable: true\n"+configMap("page", "three"))
	await(t, func(c *assert.CollectT) {
		v := getVidraResource(c, ns)
		require.Equal(c, v.Generation, v.Status.ObservedGeneration)
		require.Equal(c, v1alpha1.ReasonApplied, condition(c, v, v1alpha1.ConditionReady).Reason)
	})
	require.NotEqual(t, string(uid), entry(t, getVidraResource(t, ns), "ConfigMap", "page").Recreated.UID, "another manifest counts anew")
}
