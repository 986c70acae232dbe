package reconcile

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImports requires that the packages below pkg/reconcile import only those of a lower layer.
func TestImports(t *testing.T) {
	t.Parallel()
	const prefix = "github.com/vidra-operator/vidra/pkg/reconcile"
	layers := [][]string{
		{"object", "seal", "contention", "history", "progress", "metawatch"}, {"access", "breakglass", "metrics", "tracing"}, {"limits"}, {"desired"}, {"owners"}, {"policy"}, {"plan"}, {"apply"}, {"prune", "backstop", "assignment"},
		{"status"}, {"."},
	}
	layerOf := func(dir string) int {
		return slices.IndexFunc(layers, func(layer []string) bool { return slices.Contains(layer, dir) })
	}
	dirs, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, dir := range dirs {
		if dir.IsDir() && dir.Name() != "internal" { // which only tests use
			require.NotEqual(t, -1, layerOf(dir.Name()), "package %s has no layer here", dir.Name())
		}
	}
	for i, layer := range layers {
		for _, dir := range layer {
			files, err := filepath.Glob(filepath.Join(dir, "*.go"))
			require.NoError(t, err)
			require.NotEmpty(t, files, dir)
			for _, path := range files {
				if strings.HasSuffix(path, "_test.go") {
					continue
				}
				file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
				require.NoError(t, err)
				for _, imported := range file.Imports {
					name, err := strconv.Unquote(imported.Path.Value)
					require.NoError(t, err)
					if below, is := strings.CutPrefix(name, prefix); is {
						require.Less(t, layerOf(strings.TrimPrefix(below+"/", "/")[:max(0, len(below)-1)]), i, "%s imports %s", path, name)
					}
				}
			}
		}
	}
}
