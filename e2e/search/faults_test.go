package search

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// operatorVariable is the environment variable with the path of an operator that is searched instead of the one of this source.
const operatorVariable = "VIDRA_SEARCH_OPERATOR"

// seededFault is a known fault of the operator, which a search has to find.
type seededFault struct {
	// Search is the test. Points and Plans limit it to a part that finds the fault.
	Search string `json:"search"`
	Points string `json:"points,omitempty"`
	Plans  int    `json:"plans,omitempty"`
	// Changes make the fault: several where one mechanism stands in for another.
	Changes []sourceChange `json:"changes"`
	// Found is a part of the failure.
	Found string `json:"found"`
}

// sourceChange is a change of a source file. Was is the text that Is replaces.
type sourceChange struct {
	File string `json:"file"`
	Was  string `json:"was"`
	Is   string `json:"is"`
}

// TestSeededFaults runs each search against operators with known faults, as a search that finds nothing may be unable to. The short test only
// requires that the faults fit the source, and compile.
func TestSeededFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			f := seededFault{}
			require.NoError(t, yaml.UnmarshalStrict(text, &f))
			require.NotEmpty(t, f.Changes)
			sources := map[string]string{}
			for _, c := range f.Changes {
				path, content := c.source(t)
				sources[path] = content
			}
			if !suite.Long() {
				packages := map[string]bool{}
				for path := range sources {
					packages[filepath.Dir(path)] = true
				}
				for folder := range packages {
					build(t, sources, folder)
				}
				return
			}
			begin := time.Now()
			operator := build(t, sources, "./cmd/operator")
			search := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+f.Search+"$", "-test.v", "-test.timeout=1h") //nolint:gosec // this test
			search.Env = append(os.Environ(), operatorVariable+"="+operator, "VIDRA_LONG=", "VIDRA_SEED=", "VIDRA_POINTS="+f.Points, "VIDRA_PLANS=")
			if f.Plans > 0 {
				search.Env = append(search.Env, "VIDRA_PLANS="+strconv.Itoa(f.Plans))
			}
			out, err := search.CombinedOutput()
			require.Error(t, err, "%s does not find the fault:\n%s", f.Search, out)
			require.Contains(t, string(out), f.Found)
			t.Logf("%s found it after %s", f.Search, time.Since(begin).Round(time.Second))
		})
	}
}

// source returns the path of the source file, and its content with the change.
func (c sourceChange) source(t *testing.T) (path, content string) {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	path = filepath.Join(root, c.File)
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(source), c.Was), "%s has the text once: %s", c.File, c.Was)
	return path, strings.Replace(string(source), c.Was, c.Is, 1)
}

// build builds a package with other contents of source files, by their paths, and returns the path of the program, if it is one.
func build(t *testing.T, sources map[string]string, target string) string {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	dir, replaced := t.TempDir(), map[string]string{}
	overlay, built := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "built")
	for path, content := range sources {
		replaced[path] = filepath.Join(dir, strings.ReplaceAll(path, string(filepath.Separator), "_"))
		require.NoError(t, os.WriteFile(replaced[path], []byte(content), 0o600))
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-overlay="+overlay, "-o="+built, target) //nolint:gosec // files of this test
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return built
}
