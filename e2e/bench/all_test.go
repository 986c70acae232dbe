package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// TestSuite: the flags of each benchmark are valid for each size, and each size has all benchmarks.
func TestSuite(t *testing.T) {
	for _, size := range []string{smallSize, normalSize, fullSize} {
		runs, err := selectRuns(size, "")
		require.NoError(t, err)
		missing := map[string]bool{}
		for name := range benchmarks {
			missing[name] = true
		}
		titles := map[string]bool{}
		for _, run := range runs {
			_, _, err := parseBenchmark(run.benchmark, strings.Fields(run.flags[size]))
			require.NoError(t, err, "%s in size %s", run.title, size)
			delete(missing, run.benchmark)
			require.False(t, titles[run.title], "%s is there twice: its pictures have one name", run.title)
			titles[run.title] = true
		}
		require.Empty(t, missing, size)
	}
	runs, err := selectRuns(smallSize, "heal,memory")
	require.NoError(t, err)
	require.Len(t, runs, 2)
	_, err = selectRuns("huge", "")
	require.ErrorContains(t, err, "small, normal or full")
	_, err = selectRuns(smallSize, "heel")
	require.ErrorContains(t, err, `"heel"`)
}

// TestAll runs the one benchmark of the suite that no other test runs, and draws what it has written.
func TestAll(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "figures.json")
	require.NoError(t, run(t.Context(), []string{"all", "-size", "small", "-only", "memory", "-json", file, "-o", "json"}))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var reports []*report
	require.NoError(t, json.Unmarshal(text, &reports))
	require.Len(t, reports, 1)
	require.Len(t, reports[0].Lines, 5)
	for _, l := range reports[0].Lines {
		require.Len(t, l.Sides, len(ways), l.Name)
		for _, f := range l.Sides {
			require.Positive(t, f.Median, "%s of %s", l.Name, f.Side)
		}
	}
	require.NoError(t, reports[0].verdict(), "neither the list nor the edits are work")
	require.NoError(t, run(t.Context(), []string{"plots", "-from", file, "-plots", dir}))
	for _, name := range []string{"memory-B.svg", "memory-B.png", "memory-us.svg"} {
		require.FileExists(t, filepath.Join(dir, name))
	}
}

func TestPlots(t *testing.T) {
	dir := t.TempDir()
	r := newReport()
	r.side("ConfigMap deleted", "ms", fluxSide).Missed = 1
	r.sumUp()
	require.NoError(t, r.plots(dir))
	text, err := os.ReadFile(filepath.Join(dir, "heal.svg"))
	require.NoError(t, err)
	for _, part := range []string{"ConfigMap key removed", "24.0 (1.20 x)", "missed", vidraSide, fluxSide} {
		require.Contains(t, string(text), part)
	}
	require.FileExists(t, filepath.Join(dir, "heal.png"))
	file := filepath.Join(dir, "figures.json")
	require.NoError(t, (&commonOptions{file: file}).save(r))
	require.NoError(t, os.Remove(filepath.Join(dir, "heal.svg")))
	require.NoError(t, run(t.Context(), []string{"plots", "-from", file, "-plots", dir}))
	again, err := os.ReadFile(filepath.Join(dir, "heal.svg"))
	require.NoError(t, err)
	require.Equal(t, string(text), string(again), "the same figures give the same picture")
	require.ErrorContains(t, run(t.Context(), []string{"plots", "-from", filepath.Join(dir, "heal.svg")}), "has no reports")
}

// TestPeerIsNoDependency: the programs do not contain the module of the peer nor the one that draws, and the operator no progress bar.
func TestPeerIsNoDependency(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/...", "./pkg/...")
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	for _, module := range []string{fluxModule, "gonum.org/v1/plot"} {
		require.NotContains(t, string(out), module)
	}
	list = exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/operator")
	list.Dir = root
	out, err = list.Output()
	require.NoError(t, err)
	require.NotContains(t, string(out), "github.com/schollz/progressbar")
}
