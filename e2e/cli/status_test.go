package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestStatusOfAll asks about several VidraResources, which a label selects because other tests have theirs.
func TestStatusOfAll(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "status")
	labelled := func(v *v1alpha1.VidraResource) { v.Labels = map[string]string{"team": "status"} }
	cluster.NewVidraResource(t, "status", suite.Greeting("first", "hello"), suite.Named("status-a"), labelled)
	cluster.AwaitReady(t, "status-a")
	cluster.NewVidraResource(t, "status", suite.Greeting("second", "hello"), suite.Named("status-b"), labelled)
	cluster.AwaitReady(t, "status-b")
	awaitText(t, "In order: 2 VidraResources.\n", "status", "-l", "team=status")
	require.Empty(t, ok(t, "status", "-l", "team=status", "-o", "name"), "nothing is wrong")
	require.Equal(t, "No VidraResources found.\n", ok(t, "status", "-l", "team=none"))
	require.Equal(t, "No VidraResources found.\n", ok(t, "status", "-n", "status-none"), "none has an object there")
	require.Equal(t, "In order: 2 VidraResources.\n", ok(t, "status", "-n", "status", "-l", "team=status"))
	other := vidra(t, "status", "status-a", "-n", "default")
	require.Equal(t, answer{stderr: "vidra: VidraResource status-a has no object in namespace \"default\"\n", code: 1}, other)

	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "status", Name: "theirs"}}))
	cluster.SetManifest(t, "status-a", suite.Greeting("theirs", "hello"))
	cluster.AwaitNotReady(t, "status-a", v1alpha1.ReasonAdoptionRefused)
	suite.Await(t, func(c *assert.CollectT) { // the object that left the manifest is removed
		require.Empty(c, cluster.GetVidraResource(c, "status-a").Status.ManagedResources)
	})
	ok(t, "suspend", "status-b")
	cluster.AwaitCondition(t, "status-b", metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
	wrong := vidra(t, "status", "-l", "team=status")
	require.Equal(t, 1, wrong.code, wrong.stderr)
	golden(t, "status-all", wrong.stdout)
	names := vidra(t, "status", "-l", "team=status", "-o", "name")
	require.Equal(t, 1, names.code)
	require.Equal(t, "vidraresource.infrahub.operators.com/status-a\nvidraresource.infrahub.operators.com/status-b\n", names.stdout)
	require.Contains(t, vidra(t, "status", "-o", "json").stdout, `"inOrder": false`, "those of other tests are there, too")
}
