package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestEventsOfARefusalBehindAWatch: an object is refused, and its kind cannot be watched.
// The right to write comes first, then the right to watch: both ends are told, each once.
// It is not parallel because it stops the operator that all tests share.
func TestEventsOfARefusalBehindAWatch(t *testing.T) {
	ns := newNamespace(t)
	stopOperator(t)
	role := narrowAccount(t, ns)
	role.Rules[0].Verbs = []string{"get"}
	require.NoError(t, admin.Update(t.Context(), role))
	narrow, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary, Namespace: ns, ServiceAccount: ns})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, narrow.Stop(stopTimeout)) })
	newVidraResource(t, ns, "apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\nstringData:\n  user: me\n")
	v := getVidraResource(t, ns)
	awaitEvent(t, v, corev1.EventTypeWarning, "ApplyFailed", "Apply", "Secret "+ns+"/login")
	awaitEvent(t, v, corev1.EventTypeWarning, "WatchFailed", "Watch", "secrets")

	role.Rules[0].Verbs = []string{"get", "create", "patch", "delete"}
	require.NoError(t, admin.Update(t.Context(), role))
	awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", "Secret "+ns+"/login")
	awaitNotReady(t, ns, v1alpha1.ReasonWatchFailed)

	role.Rules[0].Verbs = []string{rbacv1.VerbAll}
	require.NoError(t, admin.Update(t.Context(), role))
	awaitEvent(t, v, corev1.EventTypeNormal, "WatchRestored", "Watch", "VidraResource "+ns)
	awaitReady(t, ns)
	for _, e := range withReason(eventsAbout(t, v), "Recovered") {
		require.NotContains(t, e.Note, "Cannot watch", "WatchRestored reports it")
	}
}

// TestEventsOfAProblemThatStands: it is told once, whatever becomes of other objects
// meanwhile, and that another object fails is told without it.
func TestEventsOfAProblemThatStands(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	away := func(name string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n  namespace: " + ns + "-none\n"
	}
	held := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: held\n  finalizers: [example.com/wait]\n"
	fine := configMap("fine", "hello")
	newVidraResource(t, ns, manifests(fine, held))
	v := awaitReady(t, ns)
	obj := declaredObject(t, ns, held, "ConfigMap", "held")
	t.Cleanup(func() { _ = mergePatch(obj, `{"metadata":{"finalizers":null}}`) }) // it may be gone

	setManifest(t, ns, fine)
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "ConfigMap "+ns+"/held: is being deleted")
	setManifest(t, ns, manifests(fine, away("bad")))
	first := awaitEvent(t, v, corev1.EventTypeWarning, "ApplyFailed", "Apply", ns+"-none/bad", "does not exist")
	awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "ConfigMap "+ns+"/held: Progressing: is being deleted")
	require.NoError(t, mergePatch(obj, `{"metadata":{"finalizers":null}}`))
	awaitGone(t, obj)
	await(t, func(c *assert.CollectT) { require.Len(c, getVidraResource(c, ns).Status.ManagedResources, 2) })

	setManifest(t, ns, manifests(fine, away("bad"), away("worse")))
	second := awaitEvent(t, v, corev1.EventTypeWarning, "ApplyFailed", "Apply", ns+"-none/worse", "does not exist")
	require.NotContains(t, second.Note, "bad", "that was told before")
	require.NotNil(t, second.Related)
	require.Equal(t, "worse", second.Related.Name)

	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns + "-none"}}))
	awaitReady(t, ns)
	for _, fixed := range []string{"bad", "worse"} { // one pass may fix both
		awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", ns+"-none/"+fixed+":")
	}
	all := withReason(eventsAbout(t, v), "ApplyFailed")
	require.Len(t, all, 2)
	for _, e := range all {
		require.Equal(t, 1, occurrences(e), "%s was told again", e.Note)
	}
	require.NotEqual(t, first.Name, second.Name)
}

// TestEventsFoundByTheirObject: what is told of one object is found by its name and by
// its namespace, also where the Event regards the VidraResource.
func TestEventsFoundByTheirObject(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	stays, bad := configMap("stays", "hello"), "apiVersion: v1\nkind: Service\nmetadata:\n  name: bad\nspec:\n  ports: [{port: %s}]\n"
	newVidraResource(t, ns, manifests(stays, configMap("goes", "hello")))
	v := awaitReady(t, ns)
	awaitEvent(t, v, corev1.EventTypeNormal, "Applied", "Apply", "2 created", "ConfigMap "+ns+"/goes", "ConfigMap "+ns+"/stays")
	setManifest(t, ns, stays)
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "ConfigMap "+ns+"/goes")
	setManifest(t, ns, manifests(stays, fmt.Sprintf(bad, "0")))
	awaitEvent(t, v, corev1.EventTypeWarning, "ManifestInvalid", "Apply", "Service "+ns+"/bad")
	setManifest(t, ns, manifests(stays, fmt.Sprintf(bad, "80")))
	awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", "Service "+ns+"/bad")
	vidra := commandLine{binary: buildVidra(t), kubeconfig: env.KubeconfigPath, name: "events"}
	for reason, args := range map[string][]string{
		"Applied":         {"--for", "configmap/stays", "-n", ns},
		"Pruned":          {"--for", "configmap/goes", "-n", ns},
		"ManifestInvalid": {"--for", "service/bad", "-n", ns, "--type", "Warning"},
		"Recovered":       {"-n", ns, "--reason", "Recovered"},
	} {
		require.Contains(t, vidra.events(t, args...), reason, "vidra events %v", args)
	}
	require.Len(t, withReason(eventsAbout(t, v), "Applied"), 2, "one Event for two objects, and one for the Service")
	out, _, _ := vidra.run(t, "--for", "configmap/other", "-n", ns)
	require.NotContains(t, out, "Applied")
}
