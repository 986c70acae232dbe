package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/cmd/internal/configfile"
	configv1alpha1 "github.com/vidra-operator/vidra/pkg/api/config/v1alpha1"
)

// withoutField are the flags that a file cannot set.
var withoutField = map[string]string{
	"config":  "names the file",
	"version": "ends the process before the file is read",
}

// TestEveryFlagHasOneField: what a flag sets, one field of the file sets, and the reverse.
func TestEveryFlagHasOneField(t *testing.T) {
	fs, fields := everyFlag(&options{}), map[string]configfile.Field{}
	for _, field := range configfile.Fields() {
		require.NotNil(t, fs.Lookup(field.Flag), "the field %s has no flag --%s: remove it from OperatorConfiguration, or add the flag", field.Name, field.Flag)
		require.NotContains(t, fields, field.Flag)
		require.NotEmpty(t, field.Type, "the type of %s is not supported: see configfile.typeName", field.Name)
		fields[field.Flag] = field
	}
	fs.VisitAll(func(f *flag.Flag) {
		if why := withoutField[f.Name]; why != "" {
			require.NotContains(t, fields, f.Name, why)
			return
		}
		require.Contains(t, fields, f.Name, "--%s has no field: add it to OperatorConfiguration in pkg/api/config/v1alpha1, in camelCase", f.Name)
		value, isBool := f.Value.(interface{ IsBoolFlag() bool })
		require.Equal(t, isBool && value.IsBoolFlag(), fields[f.Name].Type == "boolean", "the type of the field of --%s", f.Name)
	})
}

// samples are two values of each flag that does not take any text.
var samples = map[string][2]string{
	"drift-additions":          {"Warn", "Revert"},
	"event-values":             {"none", "all"},
	"impersonation-namespaces": {"team=a", "team=b"},
	"zap-encoder":              {"json", "console"},
	"zap-log-level":            {"debug", "error"},
	"zap-stacktrace-level":     {"info", "panic"},
	"zap-time-encoding":        {"epoch", "iso8601"},
}

// sampleOf returns two values of a flag.
func sampleOf(field configfile.Field) [2]string {
	if given, found := samples[field.Flag]; found {
		return given
	}
	return map[string][2]string{
		"boolean": {"true", "false"}, "integer": {"3", "4"}, "duration": {"33s", "44s"},
		"string": {"one", "two"}, "list of strings": {"one", "two"},
	}[field.Type]
}

// writeFile writes an OperatorConfiguration and returns its path.
func writeFile(t *testing.T, fields string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: " + configv1alpha1.APIVersion + "\nkind: " + configv1alpha1.Kind + "\n" + fields
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestFlagsTakePrecedence: for each field, the file sets its flag, unless the command line does.
func TestFlagsTakePrecedence(t *testing.T) {
	kubeconfig := flag.CommandLine.Lookup("kubeconfig")
	defer func(before string) { require.NoError(t, kubeconfig.Value.Set(before)) }(kubeconfig.Value.String())
	for _, field := range configfile.Fields() {
		t.Run(field.Name, func(t *testing.T) {
			inFile, inFlag := sampleOf(field)[0], sampleOf(field)[1]
			text := inFile
			switch field.Type {
			case "string", "duration":
				text = `"` + inFile + `"`
			case "list of strings":
				text = `["` + inFile + `"]`
			}
			path := writeFile(t, field.Name+": "+text+"\n")
			effect := func(args ...string) *options {
				o := &options{}
				fs := everyFlag(o)
				require.NoError(t, fs.Parse(append(args, "--config="+path)))
				require.NoError(t, o.complete(fs))
				want := inFile
				if len(args) > 0 {
					want = inFlag
				}
				plain := everyFlag(&options{})
				require.NoError(t, plain.Set(field.Flag, want))
				require.Equal(t, plain.Lookup(field.Flag).Value.String(), fs.Lookup(field.Flag).Value.String())
				return o
			}
			o := effect()
			require.Equal(t, field.Name+" (line 3 of "+path+")", o.origins.Name(field.Flag))
			o = effect("--" + field.Flag + "=" + inFlag)
			require.Equal(t, "--"+field.Flag, o.origins.Name(field.Flag))
		})
	}
}

// TestErrorsNameTheField: a value that the operator cannot honor is reported with its place.
func TestErrorsNameTheField(t *testing.T) {
	o := &options{}
	fs := everyFlag(o)
	require.NoError(t, fs.Parse([]string{"--config=" + writeFile(t, "workers: 0\npprofBindAddress: '6060'\neventValues: some\nnamespaces: [a, b]\n"), "--max-break-glass=-1s", "--impersonation-namespaces=x=y"}))
	require.NoError(t, o.complete(fs))
	err := o.validate()
	require.ErrorContains(t, err, "workers (line 3 of "+o.config+") is 0: at least one is needed")
	require.ErrorContains(t, err, `pprofBindAddress (line 4 of `)
	require.ErrorContains(t, err, `eventValues (line 5 of `)
	require.ErrorContains(t, err, `--max-break-glass is -1s`)
	require.ErrorContains(t, err, `--impersonation-namespaces is x=y: it selects namespaces by their labels, and with --namespaces`)
	require.ErrorContains(t, o.scope.Namespace("c"), "--namespaces=a,b")
}

// TestPprofAddress: profiles are off by default, and served on the loopback interface unless the
// flag names another one.
func TestPprofAddress(t *testing.T) {
	cases := map[string]struct{ reason, flag, want string }{
		"Default":  {"profiles are off", "", ""},
		"Zero":     {"as for the other addresses", "0", ""},
		"Port":     {"no host means the loopback interface, not all of them", ":6060", "127.0.0.1:6060"},
		"Loopback": {"as given", "localhost:6060", "localhost:6060"},
		"All":      {"the user asked for it", "0.0.0.0:6060", "0.0.0.0:6060"},
		"IPv6":     {"as given", "[::1]:6060", "[::1]:6060"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := (&options{pprofAddress: tc.flag}).pprof()
			require.NoError(t, err)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

// TestKeysOfTheFirstOperator: each key of its ConfigMap is mapped, or has a sentence for the log.
func TestKeysOfTheFirstOperator(t *testing.T) {
	cases := map[string]struct{ reason, key, value, interval, meaning string }{
		"Interval":   {"it is the time between two reconciles of a VidraResource", "requeueResourcesAfter", "12m", "12m0s", "sets --default-interval"},
		"Misspelled": {"the first operator reads this spelling", "requeueRecourcesAfter", "12m", "12m0s", "sets --default-interval"},
		"Short":      {"Vidra compares no more often", "requeueResourcesAfter", "1s", "10s", "which is the minimum"},
		"Unreadable": {"the first operator ignores it without a word", "requeueResourcesAfter", "ten", "0s", "no duration"},
		"Events":     {"each VidraResource has a field", "eventBasedReconcile", "true", "0s", "spec.destination.reconcileOnEvents"},
		"Sync":       {"pkg/sync reads it", "requeueSyncAfter", "1m", "0s", "sets the default of spec.interval of InfrahubSyncs"},
		"Query":      {"pkg/sync reads it", "queryName", "ArtifactIDs", "0s", "sets the query of InfrahubSyncs"},
		"CLI":        {"vidra-cli writes another key than the first operator reads", "requeueResourceAfter", "1m", "0s", "no operator reads it"},
		"Unknown":    {"no key is ignored without a word", "color", "red", "0s", "no key"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			interval, meaning := firstOperatorKey(tc.key, tc.value)
			require.Equal(t, tc.interval, interval.String(), tc.reason)
			require.Contains(t, meaning, tc.meaning, tc.reason)
			require.Equal(t, interval == 0 && !strings.Contains(meaning, "InfrahubSyncs"), strings.HasPrefix(meaning, "has no effect"), tc.reason)
		})
	}
}

// TestDocumentedConfiguration: the operator reads the file in docs/operations.md.
func TestDocumentedConfiguration(t *testing.T) {
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	require.NoError(t, err)
	_, text, found := strings.Cut(string(docs), "```\napiVersion: "+configv1alpha1.APIVersion+"\nkind: "+configv1alpha1.Kind+"\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "```")
	o := &options{}
	fs := everyFlag(o)
	require.NoError(t, fs.Parse([]string{"--config=" + writeFile(t, text)}))
	require.NoError(t, o.complete(fs))
	require.NoError(t, o.validate())
	require.Equal(t, 16, o.workers)
}
