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
	// Was is the text in File that Is replaces.
	File string `json:"file"`
	Was  string `json:"was"`
	Is   string `json:"is"`
	// Found is a part of the failure.
	Found string `json:"found"`
}

// TestSeededFaults runs each search against operators with known faults, as a search that finds nothing may be unable to.
func TestSeededFaults(t *testing.T) {
	if !suite.Long() {
		t.Skip("each fault needs a build of the operator and a search: make test-long")
	}
	files, err := filepath.Glob("testdata/faults/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			f := seededFault{}
			require.NoError(t, yaml.UnmarshalStrict(text, &f))
			operator, begin := f.build(t), time.Now()
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

// build builds the operator with the fault, and returns its path.
func (f seededFault) build(t *testing.T) string {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	file := filepath.Join(root, f.File)
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(source), f.Was), "%s has the text once: %s", f.File, f.Was)
	dir := t.TempDir()
	faulty, overlay, operator := filepath.Join(dir, "faulty.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "operator")
	require.NoError(t, os.WriteFile(faulty, []byte(strings.Replace(string(source), f.Was, f.Is, 1)), 0o600))
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: faulty}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-overlay="+overlay, "-o="+operator, "./cmd/operator") //nolint:gosec // files of this test
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return operator
}
