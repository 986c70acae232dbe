package deployed

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// TestInPod requires that the operator uses the configuration and the account that the kubelet
// mounts into its Pod, and that it heals so.
func TestInPod(t *testing.T) {
	pod := replicas(t, 1)[0]
	require.Equal(t, testenv.OperatorServiceAccount, pod.Spec.ServiceAccountName)
	for _, argument := range pod.Spec.Containers[0].Args {
		require.NotContains(t, argument, "--kubeconfig=")
	}
	before, p := restarts(t, &pod), page(t)
	mark := cluster.AuditMark(t)
	const edits = 10
	for range edits {
		t.Logf("an edit stood for %s", editAndAwait(t, p))
	}
	for _, write := range suite.RequireCount(t, edits, func() suite.Requests {
		return cluster.ByOperator(t, mark).On("configmaps", p.Namespace, p.Name).Writes()
	}) {
		require.Equal(t, pod.Name, write.Pod, "with the token of the Pod")
	}
	cluster.AwaitEvent(t, cluster.GetVidraResource(t, p.Namespace), corev1.EventTypeNormal, "DriftCorrected", "", "page")
	require.Equal(t, before, restarts(t, &pod))
}

// TestProbes pauses the process of the operator. The kubelet finds that it is not ready, and starts
// it again because its liveness probe fails. It is ready then, and reverts what was edited meanwhile.
func TestProbes(t *testing.T) {
	cluster.NeedsNodes(t)
	pod := replicas(t, 1)[0]
	before, p := restarts(t, &pod), page(t)
	require.NoError(t, cluster.SignalPod(t.Context(), &pod, "STOP"))
	require.NoError(t, cluster.MergePatch(p, `{"data":{"greeting":"edited"}}`))
	suite.Await(t, func(c *assert.CollectT) { require.False(c, isReady(reread(c, &pod))) }, "the readiness probe fails")
	require.Equal(t, before, restarts(t, &pod))
	suite.AwaitFor(t, 3*suite.Patience, func(c *assert.CollectT) { require.Greater(c, restarts(c, &pod), before) }, "the liveness probe fails")
	suite.Await(t, func(c *assert.CollectT) { require.True(c, isReady(reread(c, &pod))) }, "the operator is ready again")
	awaitHealed(t, p)
}

// TestRightsOfTheAccount asks the API server what the ServiceAccount of the operator may do.
func TestRightsOfTheAccount(t *testing.T) {
	const vidra, leases = "infrahub.operators.com", "coordination.k8s.io"
	cases := map[string]struct {
		reason                                string
		namespace, group, resource, sub, verb string
		want                                  bool
	}{
		"Apply":      {"It applies objects.", "default", "", "configmaps", "", "patch", true},
		"Watch":      {"It watches objects.", "", "apps", "deployments", "", "watch", true},
		"Status":     {"It writes statuses.", "", vidra, "vidraresources", "status", "patch", true},
		"Lease":      {"It holds a Lease.", testenv.OperatorNamespace, leases, "leases", "", "update", true},
		"WatchLease": {"It waits for a Lease.", testenv.OperatorNamespace, leases, "leases", "", "watch", true},
		"OtherLease": {"It holds no other Lease.", "default", leases, "leases", "", "update", false},
		"Update":     {"It applies, and updates nothing.", "default", "", "configmaps", "", "update", false},
		"Collection": {"It deletes single objects.", "default", "", "configmaps", "", "deletecollection", false},
		"Escalate":   {"It gives no rights that it does not have.", "", "rbac.authorization.k8s.io", "clusterroles", "", "escalate", false},
		"Users":      {"It impersonates ServiceAccounts, and no users.", "", "", "users", "", "impersonate", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:   suite.OperatorUser,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + testenv.OperatorNamespace, "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: tc.namespace, Group: tc.group, Resource: tc.resource, Subresource: tc.sub, Verb: tc.verb,
				},
			}}
			require.NoError(t, cluster.Admin.Create(t.Context(), review))
			require.Equal(t, tc.want, review.Status.Allowed, "%s %s", tc.reason, review.Status.Reason)
		})
	}
}

// TestOutOfMemory creates a VidraResource that takes more memory than the operator may have, so that the
// kernel kills it again and again. With enough memory, the operator applies it, and reverts what was
// edited meanwhile.
func TestOutOfMemory(t *testing.T) {
	replicas(t, 1)
	before := limitMemory(t, "20Mi")
	t.Cleanup(func() { limitMemory(t, before) })
	awaitRollout(t)
	p := page(t)
	large := cluster.NewNamespace(t)
	cluster.NewVidraResource(t, large, suite.Greeting("large", strings.Repeat("a", 800_000)))
	suite.AwaitFor(t, 2*suite.Patience, func(c *assert.CollectT) {
		var ends []string
		for _, pod := range pods(c) {
			for _, status := range pod.Status.ContainerStatuses {
				if ended := status.LastTerminationState.Terminated; ended != nil {
					ends = append(ends, ended.Reason)
				}
			}
		}
		require.Contains(c, ends, "OOMKilled")
	}, "the kernel kills the operator")
	require.NoError(t, cluster.MergePatch(p, `{"data":{"greeting":"edited"}}`))
	limitMemory(t, before)
	awaitRollout(t)
	cluster.AwaitReady(t, large)
	awaitHealed(t, p)
}
