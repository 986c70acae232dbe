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

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// operatorVariable is the environment variable with the path of an operator that is searched instead of the one of this source.
const operatorVariable = "VIDRA_SEARCH_OPERATOR"

// TestSeededFaults runs each search against operators with known faults, as a search that finds nothing may be unable to. The short test only
// requires that the faults fit the source, and compile.
func TestSeededFaults(t *testing.T) {
	for name, f := range suite.SeededFaults(t) {
		t.Run(name, func(t *testing.T) {
			sources := f.Sources(t)
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
