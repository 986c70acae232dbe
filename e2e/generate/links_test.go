package generate

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// page is a Markdown file.
type page struct {
	// path is relative to the root of the repository.
	path, text string
}

// pages are README.md, CONTRIBUTING.md and all files of docs.
func pages(t *testing.T, root string) (all []page) {
	t.Helper()
	paths := []string{"README.md", "CONTRIBUTING.md"}
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			rel, relErr := filepath.Rel(root, path)
			require.NoError(t, relErr)
			paths = append(paths, rel)
		}
		return err
	}))
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		all = append(all, page{path, string(text)})
	}
	return all
}

var (
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	quoted  = regexp.MustCompile("`[^`\n]*`")
	links   = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// files are the files of the repository that a text names in backquotes. A text ends
	// with the name of a function or a line in parentheses, or not at all.
	files = regexp.MustCompile("`((?:pkg|cmd|config|e2e|docs)/[^`\\s]*)`")
)

// anchors are the headings of a page as GitHub links to them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', r >= 'a' && r <= 'z', r >= '0' && r <= '9':
				return r
			}
			return -1
		}, strings.ToLower(match[1]))
		for base, n := slug, 1; found[slug]; n++ {
			slug = fmt.Sprintf("%s-%d", base, n)
		}
		found[slug] = true
	}
	return found
}

// TestDocsLinks: each link leads to a file of the repository, and to a heading in it if it
// names one, and each file or folder that is named exists.
func TestDocsLinks(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	for _, p := range pages(t, root) {
		prose := fenced.ReplaceAllString(p.text, "")
		for _, match := range links.FindAllStringSubmatch(quoted.ReplaceAllString(prose, ""), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			target, anchor, hasAnchor := strings.Cut(match[1], "#")
			path := filepath.Join(root, p.path)
			if target != "" {
				path = filepath.Join(filepath.Dir(path), target)
			}
			_, err := os.Stat(path)
			require.NoError(t, err, "%s links to %s", p.path, match[1])
			if hasAnchor {
				text, err := os.ReadFile(path) //nolint:gosec // a file of this repository
				require.NoError(t, err)
				require.True(t, anchors(string(text))[anchor], "%s links to %s, which has no such heading", p.path, match[1])
			}
		}
		for _, match := range files.FindAllStringSubmatch(prose, -1) {
			found, err := filepath.Glob(filepath.Join(root, match[1]))
			require.NoError(t, err)
			require.NotEmpty(t, found, "%s names %s, which does not exist", p.path, match[1])
		}
	}
}

var (
	targets = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
	// commands are parts of commands that name something of this repository.
	makeCommand   = regexp.MustCompile(`\bmake ([a-z][a-z0-9-]*)\b`)
	goCommand     = regexp.MustCompile(`\bgo (?:run|test|build|install|vet)\b[^|;#\n]* (\./[^\s` + "`" + `]*)`)
	runFlag       = regexp.MustCompile(`-run '?\^?([A-Za-z0-9]+)`)
	kustomization = regexp.MustCompile(`apply -k ([\w./-]+)`)
	vidraCommand  = regexp.MustCompile(`(?:^|kubectl |bin/)vidra ([a-z]+)`)
	object        = regexp.MustCompile(`\b(vidra-[a-z-]+)\b`)
	anyFlag       = regexp.MustCompile(`(?:^|[\s` + "`" + `])--([a-z][a-z-]*)`)
)

// TestDocsCommands: what the commands in the docs name exists: targets of make, packages,
// tests, kustomizations, commands of vidra, and objects that config makes.
func TestDocsCommands(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	made := map[string]bool{}
	for _, match := range targets.FindAllStringSubmatch(string(makefile), -1) {
		made[match[1]] = true
	}
	commands, err := os.ReadFile(filepath.Join(root, reference))
	require.NoError(t, err)
	tests := testNames(t, root)
	installed := namesIn(t, filepath.Join(root, "config"))
	seen := 0
	for _, p := range pages(t, root) {
		if strings.HasPrefix(p.path, filepath.Join("docs", "adr")) {
			continue // a record of what was decided
		}
		for _, line := range shell(p.text) {
			seen++
			where := p.path + ": " + line
			for _, match := range makeCommand.FindAllStringSubmatch(line, -1) {
				require.True(t, made[match[1]], "no target %s: %s", match[1], where)
			}
			for _, match := range goCommand.FindAllStringSubmatch(line, -1) {
				_, err := os.Stat(filepath.Join(root, strings.TrimSuffix(match[1], "...")))
				require.NoError(t, err, where)
				for _, run := range runFlag.FindAllStringSubmatch(line, -1) {
					known := slices.ContainsFunc(slices.Collect(maps.Keys(tests)), func(name string) bool { return strings.HasPrefix(name, run[1]) })
					require.True(t, known || run[1] == "xxx", "no test %s: %s", run[1], where) // xxx is for no test
				}
			}
			for _, match := range kustomization.FindAllStringSubmatch(line, -1) {
				_, err := os.Stat(filepath.Join(root, match[1], "kustomization.yaml"))
				require.NoError(t, err, where)
			}
			for _, match := range vidraCommand.FindAllStringSubmatch(line, -1) {
				require.Contains(t, string(commands), "| `vidra "+match[1]+"` |", "vidra has no such command: %s", where)
			}
			if strings.Contains(line, "kubectl") && !strings.Contains(line, " create ") {
				for _, match := range object.FindAllStringSubmatch(line, -1) {
					require.True(t, installed[match[1]], "config has no %s: %s", match[1], where)
				}
			}
		}
	}
	require.NotZero(t, seen)
}

// TestDocsFlags: each flag that the docs name in backquotes is in docs/reference.md, or one
// of kubectl or helm.
func TestDocsFlags(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, reference))
	require.NoError(t, err)
	known := map[string]bool{"field-manager": true, "keep": true, "help": true, "force-conflicts": true, "server-side": true,
		"set": true, "values": true, "reset-values": true}
	for _, match := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)`").FindAllStringSubmatch(string(text), -1) {
		known[match[1]] = true
	}
	for _, p := range pages(t, root) {
		if strings.HasPrefix(p.path, filepath.Join("docs", "adr")) {
			continue
		}
		for _, span := range quoted.FindAllString(fenced.ReplaceAllString(p.text, ""), -1) {
			if strings.Contains(span, "kubectl ") {
				continue
			}
			for _, match := range anyFlag.FindAllStringSubmatch(span, -1) {
				name := strings.TrimRight(match[1], "-")
				zap := strings.HasSuffix(match[1], "-") // a group of flags, such as `--zap-*`
				require.True(t, known[name] || zap, "%s names the flag --%s, which %s does not have", p.path, name, reference)
			}
		}
	}
}

// shell are the lines of the commands in a page: of blocks without a language, and what
// stands in backquotes in the text. Lines that end with a backslash go on.
func shell(text string) (lines []string) {
	prose := fenced.ReplaceAllString(text, "")
	for line := range strings.SplitSeq(strings.ReplaceAll(prose, "\\\n", " "), "\n") {
		if strings.HasPrefix(line, "    ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	for _, block := range fenced.FindAllString(text, -1) {
		if first, rest, _ := strings.Cut(block, "\n"); first == "```" || first == "```sh" {
			for line := range strings.SplitSeq(strings.ReplaceAll(rest, "\\\n", " "), "\n") {
				if command, found := strings.CutPrefix(line, "$ "); found || first == "```sh" {
					lines = append(lines, command)
				}
			}
		}
	}
	for _, span := range quoted.FindAllString(prose, -1) {
		lines = append(lines, strings.Trim(span, "`"))
	}
	return lines
}

// namesIn are the names of all objects in the YAML files below a folder, and of what a
// kustomization makes.
func namesIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{"vidra-digest-key": true} // which the operator makes
	name := regexp.MustCompile(`(?m)^\s*name: (\S+)`)
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		text, err := os.ReadFile(path) //nolint:gosec // a file of this repository
		for _, match := range name.FindAllSubmatch(text, -1) {
			names[string(match[1])] = true
		}
		return err
	}))
	return names
}

// TestMakeHelp: make help lists each target that has a description.
func TestMakeHelp(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "help")
	cmd.Dir, cmd.Env = root, withoutMake(os.Environ())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, target := range []string{"demo", "test", "bench", "image", "generate"} {
		require.Contains(t, string(out), "make "+target+" ")
	}
}

// functions are names in backquotes, and the Go file in which the text says that they are:
// `apply`, `patch` and `send` in [apply.go](../pkg/reconcile/apply.go).
var functions = regexp.MustCompile("((?:`\\w+`(?:, | and )?)+) in \\[[\\w.]+\\]\\(([^)]+\\.go)\\)")

// TestDocsFunctions: the functions that docs/architecture.md names are in the files that it
// links to.
func TestDocsFunctions(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	found := functions.FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, found)
	for _, match := range found {
		source, err := os.ReadFile(filepath.Join(root, "docs", match[2])) //nolint:gosec // a file of this repository
		require.NoError(t, err)
		for _, name := range quoted.FindAllString(match[1], -1) {
			declared := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + strings.Trim(name, "`") + `\(`)
			require.True(t, declared.Match(source), "%s has no function %s", match[2], name)
		}
	}
}
