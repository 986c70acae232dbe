package suite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// SeededFault is a known fault of the operator, which a search has to find.
type SeededFault struct {
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

// SeededFaults returns the faults of e2e/search, by their names.
func SeededFaults(t *testing.T) map[string]SeededFault {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(root, "e2e/search/testdata/faults/*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := map[string]SeededFault{}
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // a file of this repository
		require.NoError(t, err)
		f := SeededFault{}
		require.NoError(t, yaml.UnmarshalStrict(text, &f), file)
		all[strings.TrimSuffix(filepath.Base(file), ".yaml")] = f
	}
	return all
}

// Sources returns the contents of the source files with the fault, by their paths. Each change must fit the present source, and change it.
func (f *SeededFault) Sources(t *testing.T) map[string]string {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	require.NotEmpty(t, f.Changes)
	sources := map[string]string{}
	for _, c := range f.Changes {
		path := filepath.Join(root, c.File)
		source, changed := sources[path]
		if !changed {
			text, err := os.ReadFile(path) //nolint:gosec // a file of this repository
			require.NoError(t, err)
			source = string(text)
		}
		require.Equal(t, 1, strings.Count(source, c.Was), "%s has the text once: %s", c.File, c.Was)
		sources[path] = strings.Replace(source, c.Was, c.Is, 1)
		require.NotEqual(t, source, sources[path], c.File)
	}
	return sources
}
