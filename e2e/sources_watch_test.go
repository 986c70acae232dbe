package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestSourcesWithoutAWatch: the ConfigMap and the Secret of a manifest are read at each request and each interval while
// they cannot be watched, and WatchFailed names them. A watch whose events are lost is noticed at a request.
func TestSourcesWithoutAWatch(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	stopOperator(t)
	proxy, _ := startProxied(t)
	ns := newNamespace(t)
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"m": configMap("one", "hello")}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "hidden"}, StringData: map[string]string{"m": configMap("two", "hello")}}
	require.NoError(t, admin.Create(t.Context(), held))
	require.NoError(t, admin.Create(t.Context(), secret))
	newVidraResource(t, ns, "", fromParts(partIn("ConfigMap", "parts", "m"), partIn("Secret", "hidden", "m")),
		func(v *v1alpha1.VidraResource) { v.Spec.Interval = &metav1.Duration{Duration: 10 * time.Second} })
	awaitReady(t, ns)
	change := func(text string) {
		t.Helper()
		require.NoError(t, mergePatch(held, `{"data":{"m":%q}}`, configMap("one", text)))
		require.NoError(t, mergePatch(secret, `{"stringData":{"m":%q}}`, configMap("two", text)))
	}
	request := func() {
		t.Helper()
		require.NoError(t, mergePatch(getVidraResource(t, ns), `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ReconcileRequestedAtAnnotation, time.Now().Format(time.RFC3339Nano)))
	}
	applied := func(text string) {
		t.Helper()
		for _, d := range declared(t, ns, manifests(configMap("one", text), configMap("two", text))) {
			awaitInOrder(t, ns, d)
		}
	}
	var kinds []faultproxy.Match
	for _, resource := range []string{"configmaps", "secrets"} {
		gvr := schema.GroupVersionResource{Version: "v1", Resource: resource}
		kinds = append(kinds, faultproxy.Match{Verb: "watch", Resource: gvr, Parameter: "fieldSelector"}, faultproxy.Match{Verb: "list", Resource: gvr, Parameter: "fieldSelector"})
	}
	for _, kind := range kinds {
		proxy.MuteStreams(kind)
	}
	change("muted")
	request()
	applied("muted")

	var rules []*faultproxy.Rule
	for _, kind := range kinds {
		rules = append(rules, proxy.Inject(kind, faultproxy.Status(apierrors.NewForbidden(
			schema.GroupResource{Resource: kind.Resource.Resource}, "", errors.New("a Role is missing")))))
		proxy.CutStreams(kind)
	}
	change("requested")
	request()
	applied("requested")
	change("later")
	applied("later")
	await(t, func(c *assert.CollectT) {
		watching := meta.FindStatusCondition(getVidraResource(c, ns).Status.Conditions, v1alpha1.ConditionWatching)
		require.Equal(c, v1alpha1.ReasonWatchFailed, watching.Reason)
		require.Contains(c, watching.Message, "ConfigMap "+ns+"/parts")
		require.Contains(c, watching.Message, "Secret "+ns+"/hidden")
		require.Contains(c, watching.Message, "a Role is missing")
	})
	for _, rule := range rules {
		rule.Remove()
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.True(c, meta.IsStatusConditionTrue(getVidraResource(c, ns).Status.Conditions, v1alpha1.ConditionReady))
	}, 2*patience, time.Second)
	change("watched")
	applied("watched")
}
