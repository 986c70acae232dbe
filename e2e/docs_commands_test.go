package e2e

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// docsNotRun are the commands of the docs that TestDocsCommandsRun does not run, with the
// reason. TestDocsCommands in e2e/generate checks the targets, packages and tests in them.
var docsNotRun = map[string]string{
	`^kubectl delete (-k config/|customresource)`: "the VidraResources of other tests exist, so that it is denied; TestUninstall does it",
	`^kubectl delete vidraresources `:             "TestSamples needs them; TestSamplesAreRemoved does it",
	`^VIDRA_PLANS=`:                               "takes minutes, and TestTransitions is in make test",
	`^vidra diff -f shop `:                        "its files are an example, TestDiff has some",
	`^git clone `:                                 "needs the network, and the test runs in a checkout",
	`^git tag `:                                   "changes the checkout",
	`^make `:                                      "runs this test, or needs docker",
	`^(kind load|docker) `:                        "needs docker",
	`^(podman|skopeo) `:                           "needs the image, which make builds",
	`^(\w+=\S+ )?go (test|run) `:                  "runs tests in a test, or takes minutes",
	`^kubectl replace -f vidra.yaml`:              "it would replace the VidraResources of other tests",
	` port-forward `:                              "no node runs the Pod",
	` scale deployment/\$FIRST `:                  "the first operator is not installed",
	`(^|[|] )curl `:                               "needs the port-forward",
	`^vidra create `:                              "its files are an example, TestCreate has some",
	`^vidra dev `:                                 "it runs until it is interrupted: TestDev",
	`^vidra drill `:                               "the sample has no sentinel; TestDrill runs it",
	`^vidra ui `:                                  "serves until it is interrupted; e2e/ui runs it",
}

// docsArguments are added to commands of the docs, with the reason.
var docsArguments = map[string]struct{ argument, reason string }{
	` rollout status `:                 {"--watch=false", "no node runs the Pod, so the rollout does not end"},
	`^helm (install|upgrade) `:         {"--dry-run=server --take-ownership", "other tests need the installation; TestLifecycle does it"},
	`^helm uninstall `:                 {"--dry-run --ignore-not-found", "other tests need the installation; TestLifecycle does it"},
	`^kubectl apply -k config/samples`: {"--dry-run=server", "TestSamples applies them"},
}

// docsCreated are the objects outside of the VidraResource shop that the commands of the docs
// create, as arguments of kubectl delete.
var docsCreated = [][]string{
	{"clusterrolebinding", "vidra-reader", "shop-authors"},
	{"--namespace=vidra-system", "serviceaccount/reader", "secret/edge", "role/first-operator-config", "rolebinding/first-operator-config"},
}

// namedBlocks are blocks of a page that begin with a comment that has the name of a file: a later command names it.
var namedBlocks = regexp.MustCompile("(?ms)^```\\w*\n# (\\S+\\.yaml)\n(.*?)^```$")

// docsCommand is a command of the docs.
type docsCommand struct {
	line string
	// before are the assignments to variables in the same block.
	before []string
	// shown is the output that the page shows.
	shown []string
}

// TestDocsCommandsRun: each command of README.md, CONTRIBUTING.md and docs/ succeeds on a real
// API server, in the order of the page, and prints what the page shows. The commands are those
// of indented blocks, and the lines of other blocks that begin with "$ ".
func TestDocsCommandsRun(t *testing.T) {
	needsOwnControlPlane(t, "it applies config/default and others, which changes the deployed operator")
	t.Parallel()
	root, err := testenv.Root()
	require.NoError(t, err)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	pages = append([]string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")}, pages...)
	readme, err := os.ReadFile(pages[0])
	require.NoError(t, err)
	shell := newDocsShell(t, root, map[string][]byte{
		"shop.yaml":       yamlBlocks.FindSubmatch(readme)[1],
		"saved.yaml":      {},
		"report.xml":      {},
		"edge.kubeconfig": []byte("apiVersion: v1\nkind: Config\n"),
	})
	used := map[string]bool{}
	for _, path := range pages {
		text, err := os.ReadFile(path) //nolint:gosec // a file of this repository
		require.NoError(t, err)
		for _, block := range namedBlocks.FindAllSubmatch(text, -1) {
			shell.provide(t, string(block[1]), block[2])
		}
		for _, command := range commandsIn(string(text)) {
			if pattern, skipped := matching(docsNotRun, command.line); skipped {
				used[pattern] = true
				continue
			}
			if pattern, found := matching(docsArguments, command.line); found {
				used[pattern] = true
				command.line = strings.Replace(command.line, "helm upgrade vidra", "helm upgrade --install vidra", 1) // it is no release here
				line, comment, _ := strings.Cut(command.line, " # ")
				command.line = line + " " + docsArguments[pattern].argument + " # " + comment
			}
			shell.run(t, filepath.Base(path), command)
		}
	}
	for pattern := range docsNotRun {
		require.True(t, used[pattern], "no command is %q", pattern)
	}
	for pattern := range docsArguments {
		require.True(t, used[pattern], "no command is %q", pattern)
	}
}

// matching returns the pattern of a table that a text matches.
func matching[V any](table map[string]V, text string) (string, bool) {
	for pattern := range table {
		if regexp.MustCompile(pattern).MatchString(text) {
			return pattern, true
		}
	}
	return "", false
}

// assignment is a line that sets a variable of the shell.
var assignment = regexp.MustCompile(`^\w+=\$\(.*\)$`)

// commandsIn returns the commands of a page. Lines that end with a backslash go on.
func commandsIn(text string) (commands []docsCommand) {
	fence, typed, before := "", false, []string(nil)
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line = strings.TrimRight(line, " \n")
		indented, isIndented := strings.CutPrefix(line, "    ")
		indented = strings.TrimSpace(indented)
		command, isTyped := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			if typed = false; fence == "" {
				fence = line
			} else {
				fence = ""
			}
		case fence == "```" && isTyped:
			commands, typed = append(commands, docsCommand{line: command}), true
		case typed:
			last := &commands[len(commands)-1]
			last.shown = append(last.shown, line)
		case fence != "" || !isIndented:
			before = nil
		case assignment.MatchString(indented):
			before = append(before, indented)
		default:
			commands = append(commands, docsCommand{line: indented, before: slices.Clone(before)})
		}
	}
	return commands
}

// docsShell runs commands as the administrator of the cluster, in the folder of the checkout.
type docsShell struct {
	root, bin string
	// files are the paths of the files that commands name.
	files map[string]string
}

func newDocsShell(t *testing.T, root string, files map[string][]byte) docsShell {
	t.Helper()
	kubectl, err := testenv.Kubectl(t.Context(), testenv.Options{Out: os.Stderr})
	require.NoError(t, err)
	helm, err := testenv.Helm(t.Context(), testenv.Options{Out: os.Stderr})
	require.NoError(t, err)
	s := docsShell{root: root, bin: t.TempDir(), files: map[string]string{}}
	require.NoError(t, os.Symlink(kubectl, filepath.Join(s.bin, "kubectl")))
	require.NoError(t, os.Symlink(helm, filepath.Join(s.bin, "helm")))
	for name, text := range files {
		s.provide(t, name, text)
	}
	t.Cleanup(func() {
		for _, created := range docsCreated {
			_ = s.command(context.Background(), "kubectl delete --ignore-not-found "+strings.Join(created, " ")).Run()
		}
		_ = s.command(context.Background(), "kubectl -n shop annotate configmap settings vidraresource.infrahub.operators.com/break-glass-until-").Run()
		out, err := s.command(context.Background(), "kubectl delete --ignore-not-found --timeout=1m vidraresource shop").CombinedOutput()
		assert.NoError(t, err, "%s", out)
	})
	return s
}

// provide writes a file that commands name.
func (s docsShell) provide(t *testing.T, name string, text []byte) {
	t.Helper()
	s.files[name] = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(s.files[name], text, 0o600))
}

// command returns a command that is ready to start.
func (s docsShell) command(ctx context.Context, line string) *exec.Cmd {
	for name, path := range s.files {
		line = strings.ReplaceAll(line, name, path)
	}
	cmd := exec.CommandContext(ctx, "sh", "-ec", line)
	cmd.Dir = s.root
	cmd.Env = append(os.Environ(), "PATH="+s.bin+string(os.PathListSeparator)+os.Getenv("PATH"), "GOBIN="+s.bin,
		"KUBECONFIG="+env.KubeconfigPath, "KUBECACHEDIR="+s.bin,
		"HELM_CACHE_HOME="+s.bin, "HELM_CONFIG_HOME="+s.bin, "HELM_DATA_HOME="+s.bin)
	return cmd
}

// run runs a command until it succeeds and prints what the page shows: what the operator makes
// of the command before may take a moment, and a command that builds a program takes longer.
func (s docsShell) run(t *testing.T, page string, command docsCommand) {
	t.Helper()
	script := strings.Join(append(command.before, command.line), "\n")
	if strings.Contains(command.line, " --watch ") {
		s.runEndless(t, page, script)
		return
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { // each try starts kubectl, which takes much processor time
		out, err := s.command(context.Background(), script).CombinedOutput()
		require.NoError(c, err, "%s: %s\n%s", page, script, out)
		for _, shown := range command.shown {
			require.Contains(c, withoutAges(string(out)), withoutAges(shown), "%s: %s", page, script)
		}
	}, 5*patience, 500*time.Millisecond)
}

// runEndless runs a command until it prints something, and interrupts it.
func (s docsShell) runEndless(t *testing.T, page, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := s.command(ctx, "exec "+script)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	assert.NoError(t, err, "%s: %s: %s", page, script, &said)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait(), "%s: %s: %s", page, script, &said)
}

// ages are times such as 15s in the output of kubectl.
var ages = regexp.MustCompile(`\b(\d+[dhms])+\b`)

// withoutAges is a text without ages and with single spaces.
func withoutAges(text string) string {
	return strings.Join(strings.Fields(ages.ReplaceAllString(text, "AGE")), " ")
}
