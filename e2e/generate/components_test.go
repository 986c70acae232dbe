package generate

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// wrapped are the objects that hold a file of another tool, which kustomize cannot put into an
// object itself: the file that each is generated from, and what is before its text.
var wrapped = map[string]struct{ source, head, indent string }{
	"prometheus-rule/prometheus_rule.yaml": {
		source: "prometheus/rules.yaml", indent: "  ",
		head: `apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: vidra-operator
  namespace: vidra-system
  labels:
    app.kubernetes.io/name: vidra-operator
spec:
`,
	},
	"grafana-dashboard/config_map.yaml": {
		source: "grafana/vidra.json", indent: "    ",
		head: `apiVersion: v1
kind: ConfigMap
metadata:
  name: vidra-dashboard
  namespace: vidra-system
  labels:
    app.kubernetes.io/name: vidra-operator
    grafana_dashboard: "1"
data:
  vidra.json: |
`,
	},
}

// TestComponentsAreCommitted keeps the objects of wrapped in config/components. It writes them if
// VIDRA_GENERATE is set.
func TestComponentsAreCommitted(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	for name, object := range wrapped {
		text, err := os.ReadFile(filepath.Join(root, "config", filepath.FromSlash(object.source)))
		require.NoError(t, err)
		text = regexp.MustCompile(`(?m)^.`).ReplaceAll(text, []byte(object.indent+"$0"))
		want := "# Generated from config/" + object.source + ": " + rewrite + "=1 go test ./e2e/generate -run " + t.Name() + "\n" +
			object.head + string(text)
		path := filepath.Join(root, "config", "components", filepath.FromSlash(name))
		if os.Getenv(rewrite) != "" {
			require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
			continue
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is out of date: run `%s=1 go test ./e2e/generate -run %s`", path, rewrite, t.Name())
	}
}
