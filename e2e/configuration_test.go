package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
)

// TestConfigurationOfTheOperator starts an operator with a file that names the ConfigMap of the
// first operator. It logs what each key means, reconciles the VidraResources of its
// installation, and serves profiles on the loopback interface only.
func TestConfigurationOfTheOperator(t *testing.T) {
	needsOwnControlPlane(t, "it gives the operator a file of this machine, and reads profiles at its loopback interface")
	ns := newNamespace(t)
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "vidra-config", Labels: map[string]string{"app": "vidra"}},
		Data: map[string]string{
			"requeueSyncAfter": "1m", "requeueResourcesAfter": "12m", "queryName": "ArtifactIDs", "eventBasedReconcile": "true", "other": "x",
		},
	}))
	address := suite.FreeAddress(t)
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "apiVersion: config.infrahub.operators.com/v1alpha1\nkind: OperatorConfiguration\n"+
		"installation: %s\nfirstOperatorConfig: %s/vidra-config\npprofBindAddress: ':%d'\n", east, ns, address.Port), 0o600))
	process := startIn(t, "--config="+file)

	log := suite.LogOf(t, process)
	for key, meaning := range map[string]string{
		"requeueSyncAfter": "InfrahubSync", "queryName": "InfrahubSync", "requeueResourcesAfter": "sets --default-interval",
		"eventBasedReconcile": "spec.destination.reconcileOnEvents", "other": "remove it",
	} {
		found := false
		for line := range strings.Lines(log) {
			found = found || strings.Contains(line, `"key":"`+key+`"`) && strings.Contains(line, meaning)
		}
		require.True(t, found, "the log has no line about %s: %s", key, log)
	}
	newVidraResource(t, ns, configMap("page", "hello"), of(east))
	awaitReady(t, ns)

	await(t, func(c *assert.CollectT) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address.String()+"/debug/pprof/cmdline", nil)
		require.NoError(c, err)
		answer, err := http.DefaultClient.Do(request)
		require.NoError(c, err)
		require.NoError(c, answer.Body.Close())
		require.Equal(c, http.StatusOK, answer.StatusCode)
	})
}
