package configfile

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const header = "apiVersion: config.infrahub.operators.com/v1alpha1\nkind: OperatorConfiguration\n"

// flags returns flags for all fields, each of which takes any text.
func flags() *flag.FlagSet {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	for _, field := range Fields() {
		switch field.Type {
		case boolean:
			fs.Bool(field.Flag, false, "")
		case integer:
			fs.Int(field.Flag, 0, "")
		default:
			fs.String(field.Flag, "", "")
		}
	}
	return fs
}

// TestFaults: a file with a fault is refused, with the line, the field and what to do.
func TestFaults(t *testing.T) {
	cases := map[string]struct{ reason, text, want string }{
		"Empty":       {"nothing says what it is", "", "it has no fields: begin it with apiVersion: config.infrahub.operators.com/v1alpha1"},
		"NoYAML":      {"the parser names the line", header + "workers: [\n", "it is not YAML: yaml: line"},
		"Documents":   {"the second one would be ignored", header + "---\n" + header, "more than one YAML document"},
		"Version":     {"another version has other fields", "apiVersion: v2\nkind: OperatorConfiguration\n", `:1: apiVersion is "v2": it must be config.infrahub`},
		"NoKind":      {"a file for another program", "apiVersion: config.infrahub.operators.com/v1alpha1\n", "kind is missing: add kind: OperatorConfiguration"},
		"Unknown":     {"a misspelled field has no effect", header + "worker: 3\n", `:3: unknown field "worker": the fields are in docs/reference.md`},
		"FlagName":    {"users copy flags", header + "leader-elect: true\n", `:3: unknown field "leader-elect": write leaderElect`},
		"Case":        {"fields are case-sensitive", header + "Workers: 3\n", `:3: unknown field "Workers": write workers`},
		"Twice":       {"one would be ignored", header + "workers: 3\nworkers: 4\n", ":4: workers is set twice, first in line 3: remove one"},
		"StringInt":   {"a number is written as one", header + "workers: \"3\"\n", ":3: workers: 3 is no integer: write a number without quotes"},
		"IntString":   {"an address is text", header + "metricsBindAddress: 0\n", ":3: metricsBindAddress: 0 is no string: put it in quotes"},
		"Yes":         {"true has one spelling", header + "leaderElect: yes\n", ":3: leaderElect: yes is no boolean: write true or false"},
		"Null":        {"it may be an oversight", header + "workers:\n", ":3: workers: it has no value: give one, or remove the field"},
		"Mapping":     {"the fields are not nested", header + "leaderElect: {enabled: true}\n", ":3: leaderElect: a mapping is no boolean"},
		"Duration":    {"the unit is missing", header + "backstopInterval: \"60\"\n", ":3: backstopInterval: 60 is no duration: write a duration such as 30s"},
		"NoList":      {"the flag has commas, the field a list", header + "peopleTools: kubectl,k9s\n", ":3: peopleTools: kubectl,k9s is no list of strings: write a list"},
		"Item":        {"items are text", header + "peopleTools: [kubectl, 9]\n", ":3: peopleTools: item 1 is no string"},
		"Comma":       {"it would become two", header + "peopleTools: [\"a,b\"]\n", `peopleTools: item 0 is "a,b"`},
		"OutOfRange":  {"the flag refuses it", header + "workers: 99999999999999999999\n", ":3: workers"},
		"SeveralOnce": {"all faults are reported at once", header + "a: 1\nb: 2\n", `:4: unknown field "b"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(path, []byte(tc.text), 0o600))
			err := Load(path, flags(), Origins{})
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.ErrorContains(t, err, path)
		})
	}
}

// TestMissingFile: a path without a file is refused.
func TestMissingFile(t *testing.T) {
	require.ErrorContains(t, Load(filepath.Join(t.TempDir(), "none"), flags(), Origins{}), "--config: read the configuration: open ")
}

// TestMountedConfigMap reads a file as the kubelet mounts that of a ConfigMap: as a link to a
// link.
func TestMountedConfigMap(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "..2026"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "..2026", "config.yaml"), []byte(header+"workers: 3\npeopleTools:\n- k9s\n- kubectl*\n"), 0o600))
	require.NoError(t, os.Symlink("..2026", filepath.Join(dir, "..data")))
	require.NoError(t, os.Symlink(filepath.Join("..data", "config.yaml"), filepath.Join(dir, "config.yaml")))
	fs := flags()
	require.NoError(t, Load(filepath.Join(dir, "config.yaml"), fs, Origins{}))
	require.Equal(t, "3", fs.Lookup("workers").Value.String())
	require.Equal(t, "k9s,kubectl*", fs.Lookup("people-tools").Value.String())
}

// TestFieldNames: a field is named as its flag, in camelCase.
func TestFieldNames(t *testing.T) {
	for _, field := range Fields() {
		require.Equal(t, strings.ToLower(field.Name), strings.ReplaceAll(field.Flag, "-", ""))
	}
	require.Equal(t, "pprof-bind-address", flagName("pprofBindAddress"))
}
