package generate

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// withoutAdvice are the reasons for which Ready is never False.
var withoutAdvice = []string{"Applied", "Synced", "EventsOff", "InSync", "NothingMatches", "Healthy", "Warned", "NearSizeLimit"}

// TestReasonsHaveAdvice: docs/operations.md says what to do about each reason for which Ready
// is False.
func TestReasonsHaveAdvice(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	require.NoError(t, err)
	_, advice, found := strings.Cut(string(text), "| Ready is False because of | Do |\n|---|---|\n")
	require.True(t, found)
	advice, _, _ = strings.Cut(advice, "\n\n")
	var known []string
	for row := range strings.Lines(advice + "\n") {
		reasons, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		known = append(known, strings.Split(reasons, ", ")...)
	}
	var reasons []string
	for _, c := range constants(t, "pkg/api/v1alpha1/conditions.go") {
		if strings.HasPrefix(c.name, "Reason") && !slices.Contains(withoutAdvice, c.value) {
			reasons = append(reasons, c.value)
		}
	}
	require.ElementsMatch(t, reasons, known)
}

// TestGlossary: docs/glossary.md has 34 terms in order, and each is used in other docs and in
// the code.
func TestGlossary(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "glossary.md"))
	require.NoError(t, err)
	var terms []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z-][a-z -]*) \|`).FindAllStringSubmatch(string(text), -1) {
		terms = append(terms, row[1])
	}
	require.Len(t, terms, 34)
	require.True(t, slices.IsSorted(terms))

	var docs, code strings.Builder
	for _, p := range pages(t, root) {
		if filepath.Base(p.path) != "glossary.md" {
			docs.WriteString(strings.ToLower(p.text))
		}
	}
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "pkg"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path) //nolint:gosec // a file of this repository
		code.WriteString(strings.ToLower(string(source)))
		return err
	}))
	for _, term := range terms {
		require.True(t, regexp.MustCompile(`\b`+term).MatchString(docs.String()), "no other page uses %q", term)
		inCode := strings.ReplaceAll(term, " ", `\s*(// )?`) // it may begin on one line of a comment and end on the next
		require.True(t, regexp.MustCompile(`\b`+inCode).MatchString(code.String()), "the code does not use %q", term)
	}
}

// instead are words that the docs and the code do not have, and what they have instead.
var instead = map[string]string{
	`\b[Pp]ut(s|ting)? back\b`: "revert", `\b[Mm]end(s|ed|ing)?\b`: "fix", `\b[Nn]obody\b`: "unmanaged, or no owner",
	`\b[Ss]omebody\b`: "a user, or another field manager",
}

// insteadInCode are more such words, of comments and texts in Go files.
var insteadInCode = map[string]string{
	`\b[Pp]eople\b`: "users", `\b[Ww]hoever\b`: "the client that", `\b[Tt]ells?\b`: "report, or show",
}

// TestDocsLanguage: the docs have the words of docs/glossary.md.
func TestDocsLanguage(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	for _, p := range pages(t, root) {
		if strings.HasPrefix(p.path, filepath.Join("docs", "adr")) {
			continue // a record of what was decided
		}
		for word, want := range instead {
			require.Empty(t, regexp.MustCompile(word).FindAllString(quoted.ReplaceAllString(p.text, ""), -1), "%s: write %q", p.path, want)
		}
	}
}

// insteadInProduct are more such words, of comments and texts in the Go files of pkg and cmd that
// are no tests.
var insteadInProduct = map[string]string{
	`\b[Tt]old\b`: "reported, or notified", `\b[Hh]eard\b`: "received", `\b[Bb]esides\b`: "in addition",
	`\b[Pp]ut(s|ting)? right\b`: "fix", `\b[Ll]et(s|ting)? (it )?go\b`: "release",
	`\b[Ll]ook(s|ed)? at\b|\ba look\b`: "read, compare or consider", `\b(take|takes|taken|took) over\b`: "adopt",
	`\b(leave|leaves|left) (it |them )?alone\b|\bleft as (it|they)\b`: "ignore, skip or exclude",
	`\b(say|says|said) (of|whether)\b`:                                "report, or hold", `\bis going\b`: "is terminating", `\b(go|goes) on\b`: "continue",
	`\b[Aa] pass\b|\b(one|this|every|last|next) pass\b|\bpasses (are|end|begin)\b`: "reconcile",
}

// TestCodeLanguage: so do the comments and the texts of the Go files of e2e, and those of pkg and
// cmd that are no tests.
func TestCodeLanguage(t *testing.T) {
	exceptions := strings.NewReplacer("--people-tools", "", `"people-tools"`, "") // the name of a flag
	everywhere := []map[string]string{instead, insteadInCode}
	requireWords(t, "e2e", exceptions, func(string) bool { return true }, everywhere...)
	for _, dir := range []string{"pkg", "cmd"} {
		requireWords(t, dir, exceptions, func(path string) bool { return !strings.HasSuffix(path, "_test.go") }, append(everywhere, insteadInProduct)...)
	}
}

// requireWords requires that no comment or text has a word of tables, in the Go files of a folder
// that are checked.
func requireWords(t *testing.T, dir string, exceptions *strings.Replacer, checks func(path string) bool, tables ...map[string]string) {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	words := map[*regexp.Regexp]string{}
	for _, table := range tables {
		for word, want := range table {
			words[regexp.MustCompile(word)] = want
		}
	}
	checked := 0
	require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, filepath.Join("generate", "words_test.go")) || !checks(path) {
			return err
		}
		source, err := os.ReadFile(path) //nolint:gosec // a file of this repository
		require.NoError(t, err)
		files := token.NewFileSet()
		file := files.AddFile(path, -1, len(source))
		var code scanner.Scanner
		code.Init(file, source, nil, scanner.ScanComments)
		for {
			at, kind, text := code.Scan()
			if kind == token.EOF {
				return nil
			}
			if kind != token.COMMENT && kind != token.STRING {
				continue
			}
			checked++
			for word, want := range words {
				assert.Empty(t, word.FindString(exceptions.Replace(text)), "%s: write %q", files.Position(at), want)
			}
		}
	}))
	require.NotZero(t, checked)
}
