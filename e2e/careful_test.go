package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The tests of this file are about what looks like a reason to delete an object, or to
// say that all is well, and is none.

// TestDiscoveryThatFailsDeletesNothing has the API server not say how a kind is served,
// once, as Vidra starts. The object of that kind is cluster-scoped, and the manifest
// names a namespace all the same, as many charts do.
func TestDiscoveryThatFailsDeletesNothing(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	ns := newNamespace(t)
	class := fmt.Sprintf("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata:\n  name: %s\n  namespace: %s\nvalue: 7\n", ns, ns)
	newVidraResource(t, ns, manifests(configMap("c", "hello"), class))
	v := awaitReady(t, ns)
	uid := entry(t, v, "PriorityClass", ns).UID
	stopOperator(t)

	proxy, err := faultproxy.Start(env.Config)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	failing := proxy.Inject(faultproxy.Match{Verb: faultproxy.Discovery, PathPrefix: "/apis/scheduling.k8s.io/v1"},
		faultproxy.Status(apierrors.NewInternalError(fmt.Errorf("not now"))).Times(1))
	mark := auditMark(t)
	started, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary, Config: proxy.Config()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, started.Stop(stopTimeout)) })
	await(t, func(c *assert.CollectT) { require.Equal(c, 1, failing.Hits()) })
	setManifest(t, ns, manifests(configMap("c", "changed"), class))
	v = awaitReady(t, ns)
	require.Equal(t, uid, entry(t, v, "PriorityClass", ns).UID)
	all, err := env.AuditSince(mark)
	require.NoError(t, err)
	require.Empty(t, requests(all).Only(verbIs("delete")).Only(nameIs(ns)))
}

// TestForceDoesNotHealByDeleting has a user set a field that is in the way of ours, and
// the manifest change what a default of the API server is in the way of. Neither is
// immutable, although a new object would be accepted, and neither deletes the object.
func TestForceDoesNotHealByDeleting(t *testing.T) {
	t.Parallel()
	recreate := strings.Replace(web, "  replicas: 1\n", "  replicas: 1\n  strategy: {type: Recreate}\n", 1)
	t.Run("edit", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		newVidraResource(t, ns, recreate, forced)
		awaitReady(t, ns)
		deployment := declaredObject(t, ns, recreate, "Deployment", "web")
		before := get(t, deployment)
		require.NoError(t, mergePatch(deployment, `{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":2}}}}`))
		awaitInOrder(t, ns, deployment)
		require.Equal(t, before.GetUID(), get(t, deployment).GetUID(), "the edit is undone in the object")
		awaitReady(t, ns)
	})
	t.Run("default", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		newVidraResource(t, ns, web, forced)
		awaitReady(t, ns)
		before := get(t, declaredObject(t, ns, web, "Deployment", "web"))
		setManifest(t, ns, recreate)
		awaitReady(t, ns)
		after := get(t, before)
		require.Equal(t, before.GetUID(), after.GetUID(), "the default is removed in the object")
		kind, _, err := unstructured.NestedString(after.Object, "spec", "strategy", "type")
		require.NoError(t, err)
		require.Equal(t, "Recreate", kind)
	})
}

// TestF31RivalOfADeployment deletes, of two VidraResources that want another image, the
// one whose image stands. An apply of nothing would be refused, and an empty Deployment
// would be no use: the other one takes it over as it is.
func TestF31RivalOfADeployment(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	other := strings.ReplaceAll(web, "web:1", "web:2")
	first := newVidraResource(t, ns, web, named(one))
	awaitReady(t, one)
	newVidraResource(t, ns, other, named(two))
	awaitNotReady(t, two, v1alpha1.ReasonOwnershipConflict, "VidraResource "+one)
	deployment := declaredObject(t, ns, other, "Deployment", "web")
	before := get(t, deployment)
	require.NoError(t, deleteVidraResource(t.Context(), one))
	awaitGone(t, first)
	awaitReady(t, two)
	live := requireInOrder(t, two, deployment)
	require.Equal(t, before.GetUID(), live.GetUID())
	require.Equal(t, []string{"vidra/" + two}, appliedBy(live))
}

// TestAccountGoesWithItsNamespace deletes a tenant's namespace, and the rights of its
// account with it, and then the VidraResource.
func TestAccountGoesWithItsNamespace(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newAccount(t, ns, "deployer", "configmaps")
	v := newVidraResource(t, ns, configMap("c", "hello"), as("deployer"))
	awaitReady(t, ns)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	require.NoError(t, admin.Delete(t.Context(), namespace))
	awaitGone(t, namespace)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
}

// TestMissingPartIsNoReasonToStopHealing loses a part of a manifest: what was read before
// is kept as it is, and the status says what is missing.
func TestMissingPartIsNoReasonToStopHealing(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "part"}, Data: map[string]string{"m": configMap("b", "hello")}}
	require.NoError(t, admin.Create(t.Context(), part))
	newVidraResource(t, ns, configMap("a", "hello"), fromParts(partIn("ConfigMap", "part", "m")))
	awaitReady(t, ns)
	require.NoError(t, admin.Delete(t.Context(), part.DeepCopy()))
	awaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, "part")
	for _, object := range declared(t, ns, manifests(configMap("a", "hello"), configMap("b", "hello"))) {
		require.NoError(t, mergePatch(object, `{"data":{"greeting":"changed"}}`))
		awaitInOrder(t, ns, object)
	}
	awaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, "part", "what it read before")
	part.ResourceVersion = ""
	part.Data["m"] = "{"
	require.NoError(t, admin.Create(t.Context(), part))
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "part", "what it read before")
	require.NoError(t, mergePatch(part, `{"data":{"m":%q}}`, configMap("b", "hello")))
	awaitReady(t, ns)
}

// TestHealthWithoutEventsIsRefreshed knows at the interval how healthy objects are.
func TestHealthWithoutEventsIsRefreshed(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd, manifest := newStrictKind(t)
	newVidraResource(t, ns, manifest, withoutEvents, every(10*time.Second))
	awaitReady(t, ns)
	thing := thingIn(crd, ns)
	setStalled(t, thing)
	awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUnhealthy}, "broken for good")
	setHealth(t, thing, metav1.ConditionTrue, "")
	awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHealthy})
}

// TestRolloutIsNotAWriteForEachObject has many objects become healthy one by one.
func TestRolloutIsNotAWriteForEachObject(t *testing.T) {
	t.Parallel()
	const objects, most = 20, 6
	ns := newNamespace(t)
	crd, manifest := newStrictKind(t)
	var documents []string
	var things []*unstructured.Unstructured
	for i := range objects {
		documents = append(documents, strings.Replace(manifest, "name: thing", fmt.Sprintf("name: thing-%d", i), 1))
		thing := thingIn(crd, ns)
		thing.SetName(fmt.Sprintf("thing-%d", i))
		things = append(things, thing)
	}
	newVidraResource(t, ns, manifests(documents...))
	awaitReady(t, ns)
	for _, thing := range things {
		setHealth(t, thing, metav1.ConditionFalse, "not yet")
	}
	awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing})
	mark := auditMark(t)
	for _, thing := range things {
		setHealth(t, thing, metav1.ConditionTrue, "")
		require.Never(t, func() bool { return false }, 250*time.Millisecond, 250*time.Millisecond) // longer than a burst
	}
	awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHealthy})
	require.LessOrEqual(t, len(operatorSince(t, mark).On("vidraresources", "", ns)), most)
}
