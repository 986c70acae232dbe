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
	for name, tc := range map[string]struct {
		before, after string
		kill          bool
	}{
		"Removed":           {manifests(configMap("stays", "hello"), configMap("page", "one")), configMap("stays", "hello"), false},
		"RemovedAndKilled":  {manifests(configMap("stays", "hello"), configMap("page", "one")), configMap("stays", "hello"), true},
		"Replaced":          {"immutable: true\n" + configMap("page", "one"), "immutable: true\n" + configMap("page", "two"), false},
		"ReplacedAndKilled": {"immutable: true\n" + configMap("page", "one"), "immutable: true\n" + configMap("page", "two"), true},
	} {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			newVidraResource(t, ns, tc.before, forced, withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}))
			awaitReady(t, ns)
			page := declaredObject(t, ns, tc.before, "ConfigMap", "page")
			uid := get(t, page).GetUID()
			freeLater(t, page)
			require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":["example.com/wait"]}}`))
			setManifest(t, ns, tc.after)
			await(t, func(c *assert.CollectT) { require.NotNil(c, get(c, page).GetDeletionTimestamp()) })
			if tc.kill {
				killOperator(t)
			}
			setManifest(t, ns, tc.before)
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
