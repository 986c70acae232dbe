package uninstall

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// TestOlderDefinition replaces the CustomResourceDefinition by one that lacks fields, as a rollback does: it is denied. Without the policy, it hides these
// fields, and a write drops them for good. The operator reverts edits all the same, writes no object after a restart, and is quiet.
func TestOlderDefinition(t *testing.T) {
	suite.AwaitFor(t, 2*suite.Patience, func(c *assert.CollectT) { // a test before may have removed it
		require.NoError(c, env.Install(t.Context()))
	})
	start := func() *testenv.Operator {
		operator, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary, Env: []string{"POD_NAMESPACE=" + testenv.OperatorNamespace}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = operator.Stop(10 * time.Second) })
		return operator
	}
	operator := start()
	ns := cluster.NewNamespace(t)
	v := vidraResource(ns)
	v.Spec.Manifest = suite.Manifests(v.Spec.Manifest, "apiVersion: v1\nkind: Secret\nmetadata:\n  name: key\nstringData:\n  key: value\n")
	v.Spec.RevisionHistoryLimit = ptr.To[int32](7)
	suite.Await(t, func(c *assert.CollectT) { require.NoError(c, admin.Create(t.Context(), v.DeepCopy())) }) // the discovery of the client may be behind
	cluster.AwaitReady(t, ns)
	heals := func() {
		t.Helper()
		require.NoError(t, cluster.MergePatch(page(ns), `{"data":{"greeting":"mine"}}`))
		suite.Await(t, func(c *assert.CollectT) {
			require.Equal(c, "hello", cluster.Get(c, page(ns)).Object["data"].(map[string]any)["greeting"])
		})
	}

	suite.Await(t, func(c *assert.CollectT) { // the API server reads the policy a little later
		err := setOlderDefinition(t, client.DryRunAll)
		require.True(c, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(c, err, "is of an older version, and lacks fields")
		require.ErrorContains(c, err, "delete this ValidatingAdmissionPolicyBinding", "that of another installation has another name")
	})
	require.NoError(t, admin.Delete(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "vidra-definition-downgrade"}}))
	suite.Await(t, func(c *assert.CollectT) { require.NoError(c, setOlderDefinition(t)) })
	suite.Await(t, func(c *assert.CollectT) { require.Nil(c, cluster.GetVidraResource(c, ns).Spec.RevisionHistoryLimit) })
	before := cluster.GetVidraResource(t, ns)
	heals()
	suite.Await(t, func(c *assert.CollectT) {
		require.NotEqual(c, before.ResourceVersion, cluster.GetVidraResource(c, ns).ResourceVersion)
	})
	require.NoError(t, env.Install(t.Context()))
	require.Equal(t, before.Generation, cluster.GetVidraResource(t, ns).Generation, "it looks unchanged")
	suite.Await(t, func(c *assert.CollectT) { // the API server knows the field again
		require.NoError(c, cluster.MergePatch(v, `{"spec":{"revision":{"hold":true}}}`))
		require.NotNil(c, cluster.GetVidraResource(c, ns).Spec.Revision)
	})
	require.Nil(t, cluster.GetVidraResource(t, ns).Spec.RevisionHistoryLimit)

	suite.Await(t, func(c *assert.CollectT) {
		require.True(c, apierrors.IsForbidden(setOlderDefinition(t, client.DryRunAll)), "it is installed again")
	})
	require.NoError(t, admin.Delete(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "vidra-definition-downgrade"}}))
	suite.Await(t, func(c *assert.CollectT) { require.NoError(c, setOlderDefinition(t)) })
	require.NoError(t, operator.Stop(10*time.Second))
	mark := cluster.AuditMark(t)
	start()
	heals()
	require.Eventually(t, func() bool {
		mark := cluster.AuditMark(t)
		time.Sleep(3 * time.Second)
		return len(cluster.ByOperator(t, mark)) == 0
	}, suite.Patience, time.Millisecond, "it is quiet")
	sent := cluster.ByOperator(t, mark).Writes().Only(func(r suite.Request) bool { return r.Namespace == ns })
	require.Len(t, sent, 2, "the heal, and the Event about it: %s", sent)
	require.NoError(t, env.Install(t.Context()))
	require.NoError(t, cluster.DeleteVidraResource(t.Context(), ns))
	cluster.AwaitGone(t, v)
	cluster.AwaitGone(t, page(ns))
}

// setOlderDefinition installs the CustomResourceDefinition of an older version over the present one.
func setOlderDefinition(t *testing.T, options ...client.UpdateOption) error {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "e2e", "chart", "testdata", "before.yaml"))
	require.NoError(t, err)
	for _, document := range strings.Split(string(text), "\n---\n") {
		u := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &u.Object))
		if u.GetKind() == "CustomResourceDefinition" {
			u.SetResourceVersion(cluster.Get(t, definition()).GetResourceVersion())
			return admin.Update(t.Context(), u, options...)
		}
	}
	return errors.New("no CustomResourceDefinition")
}
