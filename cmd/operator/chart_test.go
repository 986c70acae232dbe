package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// setByTheChart are the flags for which the chart has values of their own, or that it needs as they
// are: --namespaces needs the Roles of config/namespaced, which the chart does not have.
var setByTheChart = []string{
	"event-values", "health-probe-bind-address", "impersonation-namespaces", "infrahub", "installation", "kubeconfig",
	"kubeconfig-namespace", "leader-elect", "leader-election-namespace", "metrics-bind-address", "metrics-secure",
	"namespaces",
	"require-service-account", "user-stamps", "version", "watch-label-selector",
}

// TestChartKnowsTheFlags requires that the schema of the chart's values has all other flags with
// their types. It writes them if VIDRA_GENERATE is set.
func TestChartKnowsTheFlags(t *testing.T) {
	path := filepath.Join("..", "..", "config", "chart", "values.schema.json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	schema := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &schema))

	fs := flag.NewFlagSet("", flag.ContinueOnError)
	(&options{}).bind(fs)
	(&zap.Options{}).BindFlags(fs)
	flags := map[string]any{}
	fs.VisitAll(func(f *flag.Flag) {
		if !slices.Contains(setByTheChart, f.Name) {
			_, usage := flag.UnquoteUsage(f)
			flags[f.Name] = map[string]any{"type": chartType(f), "description": usage}
		}
	})
	schema["properties"].(map[string]any)["flags"].(map[string]any)["properties"] = flags
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	require.NoError(t, encoder.Encode(schema))
	if os.Getenv("VIDRA_GENERATE") != "" {
		require.NoError(t, os.WriteFile(path, want.Bytes(), 0o600))
		return
	}
	require.Equal(t, want.String(), string(text), "%s is out of date: run `VIDRA_GENERATE=1 go test ./cmd/operator -run %s`", path, t.Name())
}

// chartType returns the type of a flag in the JSON schema.
func chartType(f *flag.Flag) any {
	if boolean, is := f.Value.(interface{ IsBoolFlag() bool }); is && boolean.IsBoolFlag() {
		return "boolean"
	}
	if value, is := f.Value.(flag.Getter); is {
		if _, is := value.Get().(int); is {
			return "integer"
		}
	}
	return []string{"string", "integer"} // such as zap-log-level, and 0 as a duration
}
