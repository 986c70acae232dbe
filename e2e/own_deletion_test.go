package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestOwnDeletionIsNoEdit: an object that Vidra deletes is created again when the manifest has it as before, with each policy about edits and after a kill. Its
// deletion is no edit of a user.
func TestOwnDeletionIsNoEdit(t *testing.T) {
	removed := [2]string{manifests(configMap("stays", "hello"), configMap("page", "one")), configMap("stays", "hello")}
	replaced := [2]string{"immutable: true\n" + configMap("page", "one"), "immutable: true\n" + configMap("page", "two")}
	for name, tc := range map[string]struct {
		manifests [2]string
		mode      v1alpha1.DriftMode
		kill      bool
	}{
		"Removed":           {removed, v1alpha1.DriftWarn, false},
		"RemovedAndKilled":  {removed, v1alpha1.DriftIgnore, true},
		"Replaced":          {replaced, v1alpha1.DriftIgnore, false},
		"ReplacedAndKilled": {replaced, v1alpha1.DriftWarn, true},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := tc.manifests[0], tc.manifests[1]
			ns := newNamespace(t)
			newVidraResource(t, ns, before, forced, withDrift(v1alpha1.DriftPolicy{Mode: tc.mode}))
			awaitReady(t, ns)
			page := declaredObject(t, ns, before, "ConfigMap", "page")
			uid := get(t, page).GetUID()
			freeLater(t, page)
			require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":["example.com/wait"]}}`))
			setManifest(t, ns, after)
			await(t, func(c *assert.CollectT) {
				require.NotNil(c, get(c, page).GetDeletionTimestamp())
				e := entry(c, getVidraResource(c, ns), "ConfigMap", "page")
				require.True(c, e.State == v1alpha1.ObjectDeleting || e.Recreated != nil, "the status has the deletion")
			})
			if tc.kill {
				killOperator(t)
			}
			setManifest(t, ns, before)
			require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":null}}`))
			if tc.kill {
				startOperator(t)
			}
			await(t, func(c *assert.CollectT) {
				require.True(c, cluster.Exists(c, page))
				require.NotEqual(c, uid, get(c, page).GetUID())
			})
			v := awaitReady(t, ns)
			for _, e := range v.Status.History {
				require.NotEqual(t, "DriftCorrected", e.Reason, e.Message)
			}
			require.Nil(t, v.Status.Drift)
		})
	}
}
