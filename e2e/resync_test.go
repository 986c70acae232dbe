package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestResync has a VidraResource that does not want to hear of events: changes
// are found when its interval has passed, and not before.
func TestResync(t *testing.T) {
	t.Parallel()
	const interval = 10 * time.Second // the shortest that is allowed
	ns := newNamespace(t)
	newVidraResource(t, ns, web, withoutEvents, every(interval))
	v := awaitReady(t, ns)
	watching := condition(t, v, v1alpha1.ConditionWatching)
	require.Equal(t, metav1.ConditionFalse, watching.Status)
	require.Equal(t, v1alpha1.ReasonEventsOff, watching.Reason)

	page := declaredObject(t, ns, web, "ConfigMap", "page")
	deployment := declaredObject(t, ns, web, "Deployment", "web")
	mark := auditMark(t)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"changed"}}`))
	require.NoError(t, admin.Delete(t.Context(), deployment.DeepCopy()))
	awaitInOrder(t, ns, page, deployment)
	requireCount(t, 2, func() requests { return operatorSince(t, mark).ObjectsIn(ns).Writes() }, "what is in order is not written")
	awaitEvent(t, v, "Normal", "DriftCorrected", "Restore", "data.greeting", "changed")
	awaitEvent(t, v, "Normal", "DriftCorrected", "Restore", "Deployment", "had been deleted")
}

// TestDefaultInterval has an operator with --default-interval. A VidraResource without spec.interval is
// compared at that interval, and one with spec.interval is not.
func TestDefaultInterval(t *testing.T) {
	t.Parallel()
	suite.NeedsOwnControlPlane(t, "it starts an operator with another flag")
	ns := newNamespace(t)
	installation := v1alpha1.Installation(ns)
	started, err := env.StartOperator(context.Background(), testenv.OperatorOptions{
		Binary: operatorBinary, Args: []string{"--installation=" + ns, "--default-interval=10s"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, started.Stop(stopTimeout)) })
	hourly := ns + "-hourly"
	newVidraResource(t, ns, configMap("page", "hello"), of(installation), withoutEvents)
	newVidraResource(t, ns, configMap("other", "hello"), of(installation), withoutEvents, every(time.Hour), named(hourly))
	awaitReady(t, ns)
	awaitReady(t, hourly)

	page, other := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page"), declaredObject(t, ns, configMap("other", "hello"), "ConfigMap", "other")
	for _, obj := range []*unstructured.Unstructured{other, page} {
		require.NoError(t, mergePatch(obj, `{"data":{"greeting":"changed"}}`))
	}
	greeting := func(t require.TestingT, obj *unstructured.Unstructured) string {
		text, _, err := unstructured.NestedString(get(t, obj).Object, "data", "greeting")
		require.NoError(t, err)
		return text
	}
	await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, page)) })
	require.Equal(t, "changed", greeting(t, other), "spec.interval takes precedence")
}
