package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestStandbyForgetsForgedOwners writes many names of owners that do not exist to an object, while a replica does not
// lead. When it leads, it reconciles the VidraResources that exist, and none of the names.
func TestStandbyForgetsForgedOwners(t *testing.T) {
	const edits, names = 60, 15
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	stopOperator(t)
	leader := startAnother(t, electing()...)
	awaitLeads(t, leader)
	next := startAnother(t, electing()...)
	forged := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: "forged", Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue},
	}}
	require.NoError(t, admin.Create(t.Context(), forged))
	await(t, func(c *assert.CollectT) {
		const watched = `vidra_watch_state{destination="",group="",reason="",resource="configmaps",state="Synced",version="v1",watched_namespace=""}`
		require.Equal(c, 1, metric(c, next, watched))
	})
	for i := range edits {
		forged.Annotations = map[string]string{}
		for j := range names {
			name := fmt.Sprintf("forged-%d-%d", i, j)
			forged.Annotations[v1alpha1.Installation("").OwnerAnnotationKey(name)] = name
		}
		require.NoError(t, admin.Update(t.Context(), forged))
	}
	require.NoError(t, leader.Stop(stopTimeout))
	awaitLeads(t, next)
	require.NoError(t, mergePatch(declared(t, ns, configMap("page", "hello"))[0], `{"data":{"greeting":"edited"}}`))
	awaitSays(t, declared(t, ns, configMap("page", "hello"))[0], "hello")
	all := &v1alpha1.VidraResourceList{}
	require.NoError(t, admin.List(t.Context(), all))
	passes := metric(t, next, passesMetric)
	t.Logf("%d reconciles of %d VidraResources after %d forged names", passes, len(all.Items), edits*names)
	require.Less(t, passes, edits*names/2)
}
