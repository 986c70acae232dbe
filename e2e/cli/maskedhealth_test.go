package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestMaskedHealth: a controller quotes a value in a condition of an object whose mark a user has removed, and whose edits stay. No answer,
// status or Event has the message.
func TestMaskedHealth(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "ill")
	manifest := strings.Split(maskedManifest(hidden, plain), "---\n")[2] // the Deployment
	manifest = strings.Replace(manifest, "{name: web}", `{name: web, annotations: {infrahub.operators.com/sensitive: "true"}}`, 1)
	vr := cluster.NewVidraResource(t, "ill", manifest, func(v *v1alpha1.VidraResource) {
		v.Spec.Drift = &v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}
	})
	cluster.AwaitReady(t, "ill")
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ill", Name: "web"}}
	require.NoError(t, cluster.MergePatch(web, `{"metadata":{"annotations":{"infrahub.operators.com/sensitive":null}}}`))
	suite.Await(t, func(c *assert.CollectT) {
		require.True(c, cluster.GetVidraResource(c, "ill").Status.ManagedResources[0].Sensitive)
		patch := []byte(`{"status":{"conditions":[{"type":"Stalled","status":"True","reason":"Broken","message":"cannot use x` + hidden + `x"}]}}`)
		require.NoError(c, admin.Status().Patch(t.Context(), web.DeepCopy(), client.RawPatch(types.MergePatchType, patch)))
		require.Contains(c, vidra(t, "tree", "ill", "-o", "wide").stdout, "Failed")
	})
	cluster.AwaitEvent(t, vr, corev1.EventTypeWarning, v1alpha1.ReasonUnhealthy, "", "web")
	for _, args := range [][]string{
		{"tree", "ill"}, {"tree", "ill", "-o", "wide"}, {"tree", "ill", "-o", "json"}, {"status", "ill", "-o", "yaml"}, {"status"}, {"events", "-A", "-o", "json"}, {"why", "deployment/web", "-n", "ill", "-o", "yaml"},
		{"history", "ill", "-o", "json"}, {"diff", "ill"}, {"forecast", "ill"},
	} {
		a := vidra(t, args...)
		requireHidden(t, strings.Join(args, " "), a.stdout+a.stderr)
	}
	events := &eventsv1.EventList{}
	require.NoError(t, admin.List(t.Context(), events))
	for _, e := range events.Items {
		requireHidden(t, "an Event", e.Note)
	}
}
