package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// awaitRest waits until the operator sends nothing for a while, after what its backoff has it retry.
func awaitRest(t *testing.T, rest time.Duration) {
	t.Helper()
	mark, since := auditMark(t), time.Now()
	require.Eventually(t, func() bool {
		if len(operatorSince(t, mark)) > 0 {
			mark, since = auditMark(t), time.Now()
		}
		return time.Since(since) > rest
	}, 4*patience, time.Second, "the operator sends requests without end")
}

// TestNestedConflictsEnd has VidraResources that hold VidraResources, three levels deep. Half of them want other manifests in
// those below, which are refused. It ends at no request at all, and so does their deletion.
//
// It is not parallel: it counts every request of the operator.
func TestNestedConflictsEnd(t *testing.T) {
	const hostile, depth, rest = 8, 3, 20 * time.Second
	width := suite.Size(8, 30)
	ns := newNamespace(t)
	top := func(i int) string { return fmt.Sprintf("%s-top-%d", ns, i) }
	for i := range hostile {
		newVidraResource(t, ns, nested(ns, width, depth, i%2 == 1), named(top(i)))
	}
	await(t, func(c *assert.CollectT) {
		refused := 0
		for i := range hostile {
			ready := condition(c, getVidraResource(c, top(i)), v1alpha1.ConditionReady)
			if ready.Reason == v1alpha1.ReasonOwnershipConflict {
				refused++
			}
		}
		require.GreaterOrEqual(c, refused, hostile/2)
	})
	awaitRest(t, rest)
	for i := range hostile {
		require.NoError(t, deleteVidraResource(t.Context(), top(i)))
	}
	require.Eventually(t, func() bool {
		all := &v1alpha1.VidraResourceList{}
		return admin.List(t.Context(), all) == nil && len(all.Items) == 0
	}, 4*patience, time.Second, "those that they held are deleted")
	awaitRest(t, rest)
}

// TestRefusedApplyFollowsItsCause has an apply refused for the field of another VidraResource. It is retried when that one
// wants the same value, and when it is deleted.
func TestRefusedApplyFollowsItsCause(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	first := ns + "-first"
	newVidraResource(t, ns, configMap("page", "mine"), named(first))
	awaitReady(t, first)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitNotReady(t, ns, v1alpha1.ReasonOwnershipConflict)
	page := declared(t, ns, configMap("page", "hello"))[0]
	setManifest(t, first, configMap("page", "hello"))
	awaitReady(t, ns)
	setManifest(t, first, configMap("page", "other"))
	awaitNotReady(t, first, v1alpha1.ReasonOwnershipConflict)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitReady(t, first)
	awaitSays(t, page, "other")
}
