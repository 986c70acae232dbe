package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestEventsOfEachWatch: of two kinds that cannot be watched, each has its Event when it can be watched again, the
// first one while the other cannot. It is not parallel because it stops the operator that all tests share.
func TestEventsOfEachWatch(t *testing.T) {
	ns := newNamespace(t)
	stopOperator(t)
	role := narrowAccount(t, ns)
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: role.Rules[0].Verbs})
	require.NoError(t, admin.Update(t.Context(), role))
	narrow, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary, Namespace: ns, ServiceAccount: ns})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, narrow.Stop(stopTimeout)) })
	newVidraResource(t, ns, manifests(login, configMap("page", "hello")))
	v := getVidraResource(t, ns)
	awaitEvent(t, v, corev1.EventTypeWarning, "WatchFailed", "Watch", "secrets")
	awaitEvent(t, v, corev1.EventTypeWarning, "WatchFailed", "Watch", "configmaps")

	role.Rules[0].Verbs = []string{rbacv1.VerbAll}
	require.NoError(t, admin.Update(t.Context(), role))
	one := awaitEvent(t, v, corev1.EventTypeNormal, "WatchRestored", "Watch", "No longer the case: Cannot watch", "secrets")
	require.NotContains(t, one.Note, "Every kind")
	require.NotContains(t, one.Note, "configmaps")
	awaitNotReady(t, ns, v1alpha1.ReasonWatchFailed, "configmaps")

	role.Rules[1].Verbs = []string{rbacv1.VerbAll}
	require.NoError(t, admin.Update(t.Context(), role))
	awaitEvent(t, v, corev1.EventTypeNormal, "WatchRestored", "Watch", "Every kind in the manifest of VidraResource "+ns, "configmaps")
	awaitReady(t, ns)
}

// TestEventsOfEachHealth: of two objects that have failed, each has its Event when it has not any more, the first one
// while the other has still failed.
func TestEventsOfEachHealth(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd, manifest := newStrictKind(t)
	newVidraResource(t, ns, manifests(manifest, strings.ReplaceAll(manifest, "name: thing", "name: other")))
	v := awaitReady(t, ns)
	thing, other := thingIn(crd, ns), thingIn(crd, ns)
	other.SetName("other")
	setStalled(t, thing)
	setStalled(t, other)
	for _, name := range []string{"thing", "other"} {
		awaitEvent(t, v, corev1.EventTypeWarning, "Unhealthy", "Check", "Thing "+ns+"/"+name+": Failed: broken for good")
	}
	setHealth(t, thing, metav1.ConditionTrue, "")
	one := awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Check", "No longer the case: Thing "+ns+"/thing: Failed: broken for good")
	require.Equal(t, "thing", one.Related.Name)
	require.Empty(t, withReason(eventsAbout(t, v), "Healthy"))
	setHealth(t, other, metav1.ConditionTrue, "")
	awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Check", "Thing "+ns+"/other")
	awaitEvent(t, v, corev1.EventTypeNormal, "Healthy", "Check")
}

// TestEventsOfAWarning: a warning of the API server is an Event, and so is its end.
func TestEventsOfAWarning(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	require.NoError(t, admin.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/warn":"restricted"}}}`))))
	newVidraResource(t, ns, manifests(web, configMap("c", "hello")))
	v := awaitReady(t, ns)
	awaitEvent(t, v, corev1.EventTypeWarning, "Warned", "Apply", "Deployment "+ns+"/web", "restricted")
	setManifest(t, ns, configMap("c", "hello"))
	over := awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", "No longer the case: Deployment "+ns+"/web", "restricted")
	require.Equal(t, "web", over.Related.Name)
	require.Equal(t, 1, sum(withReason(eventsAbout(t, v), "Warned")))
}
