package main

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// TestTour runs the commands of the tour in docs/infrahub.md, in their order. The test serves what `go run ./e2e/infrahub` does.
func TestTour(t *testing.T) {
	if suite.Deployed() {
		t.Skip("the operator in a Pod does not reach localhost of this machine")
	}
	root, err := testenv.Root()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "infrahub.md"))
	require.NoError(t, err)
	vidra, err := testenv.BuildCLI(t.Context(), os.Stderr, suite.Race)
	require.NoError(t, err)
	kubectl, err := testenv.Kubectl(t.Context(), testenv.Options{Out: os.Stderr})
	require.NoError(t, err)
	bin, work := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(vidra, filepath.Join(bin, "vidra")))
	require.NoError(t, os.Symlink(kubectl, filepath.Join(bin, "kubectl")))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, blocks)
	served := false
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSpace(line)
			if args, is := strings.CutPrefix(line, "go run ./e2e/infrahub "); is {
				flags := flag.NewFlagSet("", flag.ContinueOnError)
				listen, folder := flags.String("listen", "", ""), flags.String("artifacts", "", "")
				require.NoError(t, flags.Parse(strings.Fields(strings.TrimSuffix(args, " &"))))
				go func() { _ = serve(ctx, *listen, filepath.Join(work, *folder), artifactName, "main") }()
				served = true
				continue
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", line)
			cmd.Dir = work
			cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+cluster.KubeconfigPath, "HOME="+work)
			printed, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s: %s", line, printed)
		}
	}
	require.True(t, served)
}
