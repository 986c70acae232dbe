package generate

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// The files with the alerts and their unit tests.
const (
	rules     = "config/prometheus/rules.yaml"
	ruleTests = "config/prometheus/rules_test.yaml"
)

// runbooks is the page with a section for each alert.
const runbooks = "https://github.com/vidra-operator/vidra/blob/main/docs/operations.md#"

// read reads a YAML file of the repository.
func read(t *testing.T, path string, into any) {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

// TestAlerts requires that each alert has what an operator on call needs, a section in the docs, and unit
// tests in which it fires and in which it does not.
func TestAlerts(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert               string
				Labels, Annotations map[string]string
			}
		}
	}
	var tests struct {
		Tests []struct {
			Cases []struct {
				Alert  string           `json:"alertname"`
				Firing []map[string]any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	read(t, rules, &file)
	read(t, ruleTests, &tests)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, one := range tests.Tests {
		for _, c := range one.Cases {
			fires[c.Alert], silent[c.Alert] = fires[c.Alert] || len(c.Firing) > 0, silent[c.Alert] || len(c.Firing) == 0
		}
	}
	root, err := testenv.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	require.NoError(t, err)
	sections := anchors(string(text))
	all := map[string]bool{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			all[rule.Alert] = true
			require.Contains(t, []string{"critical", "warning"}, rule.Labels["severity"], rule.Alert)
			require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
			require.NotEmpty(t, rule.Annotations["description"], rule.Alert)
			require.NotContains(t, rule.Annotations["description"], "kubectl get vr ", "other CustomResourceDefinitions have this short name, too")
			section, found := strings.CutPrefix(rule.Annotations["runbook_url"], runbooks)
			require.True(t, found, rule.Alert)
			require.True(t, sections[section], "docs/operations.md has no section %s", section)
			require.Equal(t, strings.ToLower(rule.Alert), section)
			require.True(t, fires[rule.Alert], "%s fires in no test", rule.Alert)
			require.True(t, silent[rule.Alert], "%s is silent in no test", rule.Alert)
		}
	}
	for _, alert := range []string{
		"VidraResourceNotReady", "DriftContended", "WatchDegraded", "HealSlow", "BackstopCorrected", "EventsLost", "DestinationUnreachable",
	} {
		require.True(t, all[alert], alert)
	}
}

// TestAlertsFire runs the unit tests of the alerts with the rules of Prometheus.
func TestAlertsFire(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), "go", "run", "-C", filepath.Join(root, "e2e", "prometheus"), ".", "rules", filepath.Join(root, ruleTests))
	printed, err := command.CombinedOutput()
	require.NoError(t, err, "%s", printed)
}
