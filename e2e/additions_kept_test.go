package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestAdditionThatCannotBeRemoved adds a field that the API server does not let anybody remove
// again: it stays, its owner is the user who added it, the condition Drifted says why, and it
// is not tried again.
func TestAdditionThatCannotBeRemoved(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"), withAdditions(v1alpha1.AdditionsRevert))
	awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	mark := auditMark(t)
	require.NoError(t, patchedBy("kubectl-edit", types.MergePatchType)(ns, page, `{"immutable":true}`))
	v := awaitCondition(t, ns, drifts(metav1.ConditionTrue, v1alpha1.ReasonDriftDetected),
		"ConfigMap "+ns+"/page", `immutable was added as true`, `"kubectl-edit"`, "The API server refuses the object without it", "field is immutable when `immutable` is set")
	require.Equal(t, metav1.ConditionTrue, condition(t, v, v1alpha1.ConditionReady).Status, "the object is as the manifest says")
	awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", "immutable was added as true")
	owns := func(manager string) bool {
		return slices.ContainsFunc(get(t, page).GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == manager && strings.Contains(e.FieldsV1.GetRawString(), `"f:immutable"`)
		})
	}
	require.True(t, owns("kubectl-edit"), "it has it back")
	require.False(t, owns(v1alpha1.FieldManager(ns)), "the VidraResource does not own what it does not apply")
	sent := operatorSince(t, mark).On("configmaps", ns, "page")
	require.Len(t, sent.Writes().Accepted(), 2, "taken over, and given back: %s", sent)

	// Another write shows the object again: the addition is not tried a second time.
	require.NoError(t, patchedBy("mesh", types.MergePatchType)(ns, page, `{"metadata":{"labels":{"mesh":"on"}}}`))
	require.NoError(t, admin.Delete(t.Context(), page))
	awaitCondition(t, ns, drifts(metav1.ConditionFalse, v1alpha1.ReasonInSync))
	awaitInOrder(t, ns, page)
	sent = operatorSince(t, mark).On("configmaps", ns, "page")
	require.Len(t, sent.Writes().Accepted(), 3, "and created again: %s", sent)
}

// TestAdditionsAfterRestart restarts the operator while objects have additions that it reports:
// the condition Drifted stays as it is until the watches show the objects. It is not parallel:
// it restarts the operator.
func TestAdditionsAfterRestart(t *testing.T) {
	ns := newNamespace(t)
	manifest := manifests(configMap("page", "hello"), port)
	newVidraResource(t, ns, manifest, withAdditions(v1alpha1.AdditionsWarn))
	cleaned := ns + "-cleaned"
	newVidraResource(t, ns, configMap("other", "hello"), named(cleaned), withAdditions(v1alpha1.AdditionsWarn))
	awaitReady(t, ns)
	awaitReady(t, cleaned)
	label := func(kind, manifest, name, value string) {
		obj := declaredObject(t, ns, manifest, kind, name)
		require.NoError(t, patchedBy("kubectl-label", types.MergePatchType)(ns, obj, `{"metadata":{"labels":{"extra":`+value+`}}}`))
	}
	reported := drifts(metav1.ConditionTrue, v1alpha1.ReasonDriftDetected)
	label("ConfigMap", configMap("page", "hello"), "page", `"mine"`)
	label("Service", port, "port", `"mine"`)
	label("ConfigMap", configMap("other", "hello"), "other", `"mine"`)
	awaitCondition(t, ns, reported, "ConfigMap "+ns+"/page", "Service "+ns+"/port")
	awaitCondition(t, cleaned, reported, "ConfigMap "+ns+"/other")

	stopOperator(t)
	label("ConfigMap", configMap("other", "hello"), "other", `null`)
	watcher, err := client.NewWithWatch(env.Config, client.Options{Scheme: admin.Scheme()})
	require.NoError(t, err)
	watching, err := watcher.Watch(t.Context(), &v1alpha1.VidraResourceList{}, client.MatchingFields{"metadata.name": ns})
	require.NoError(t, err)
	t.Cleanup(watching.Stop)
	startOperator(t)
	awaitCondition(t, cleaned, drifts(metav1.ConditionFalse, v1alpha1.ReasonInSync))
	label("ConfigMap", configMap("page", "hello"), "page", `"yours"`)
	awaitCondition(t, ns, reported, "ConfigMap "+ns+"/page", `"yours"`, "Service "+ns+"/port")
	label("Service", port, "port", `"yours"`)
	last := awaitCondition(t, ns, reported, "Service "+ns+`/port: metadata.labels.extra was added as "yours"`)
	for event := range watching.ResultChan() {
		v, ok := event.Object.(*v1alpha1.VidraResource)
		require.True(t, ok)
		require.Equal(t, metav1.ConditionTrue, condition(t, v, v1alpha1.ConditionDrifted).Status, "the additions are there all the time")
		if v.ResourceVersion == last.ResourceVersion {
			break
		}
	}
	await(t, func(c *assert.CollectT) {
		require.Len(c, withReason(eventsAbout(c, last), "DriftDetected"), 4, "two before, none for the restart, two after")
	})
}
