package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestDiffOfEditsThatStay: diff and forecast decide about edits as the operator does, with its settings: an edit that is not reverted is no
// difference, unless the manifest changes.
func TestDiffOfEditsThatStay(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "stays")
	cluster.NewVidraResource(t, "stays", settings)
	vr := cluster.AwaitReady(t, "stays")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "stays", Name: "settings"}}
	added := client.RawPatch(types.MergePatchType, []byte(`{"data":{"extra":"more"}}`))
	require.NoError(t, admin.Patch(t.Context(), cm.DeepCopy(), added, client.FieldOwner("kubectl-edit")))

	// The settings of the operator: an addition stays by default.
	require.Equal(t, 0, vidra(t, "diff", "stays").code)
	config := writeFile(t, "apiVersion: config.infrahub.operators.com/v1alpha1\nkind: OperatorConfiguration\ndriftAdditions: Revert\npeopleTools: [kubectl-edit]\n")
	a := vidra(t, "diff", "stays", "--operator-config", config)
	require.Equal(t, 1, a.code, a.stderr)
	require.Contains(t, a.stdout, `removes data.extra, which "kubectl-edit" added`)

	// Break-glass.
	ok(t, "skip", "configmap/settings", "-n", "stays", "--for", "1h", "--reason", "test")
	edit := client.RawPatch(types.MergePatchType, []byte(`{"data":{"greeting":"bye"}}`))
	require.NoError(t, admin.Patch(t.Context(), cm.DeepCopy(), edit, client.FieldOwner("kubectl-edit")))
	a = vidra(t, "diff", "stays")
	require.Equal(t, 0, a.code, a.stdout)
	require.Contains(t, a.stdout, "= keep ConfigMap stays/settings")
	require.Contains(t, a.stdout, "it is not reverted: its annotations exempt it until")
	config = writeFile(t, "apiVersion: config.infrahub.operators.com/v1alpha1\nkind: OperatorConfiguration\nmaxBreakGlass: 0s\n")
	require.Equal(t, 1, vidra(t, "diff", "stays", "--operator-config", config).code, "this operator accepts no break-glass")

	// The mode, before the edit would be reverted, and a changed manifest, which nothing holds back.
	require.NoError(t, cluster.MergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: vr.Name}}, `{"spec":{"drift":{"mode":"Warn"}}}`))
	ok(t, "skip", "configmap/settings", "-n", "stays", "--end")
	a = vidra(t, "diff", "stays")
	require.Equal(t, 0, a.code, a.stdout)
	require.Contains(t, a.stdout, "it is not reverted: spec.drift.mode is Warn")
	require.Contains(t, vidra(t, "diff", "stays", "-o", "json").stdout, `"stays": true`)
	require.Equal(t, 1, vidra(t, "diff", "stays", "-f", writeFile(t, settings+"  other: new\n")).code, "the manifest changes")
	require.Contains(t, vidra(t, "diff", "stays", "--operator-config", "/nonexistent").stderr, "--operator-config: ")
}
