package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
)

func TestNameAfter(t *testing.T) {
	tests := map[string]struct {
		reason, executable, usage, example string
	}{
		"vidra":   {reason: "its own name", executable: "/usr/bin/vidra", usage: "  vidra events [NAME] [flags]", example: "  vidra events -"},
		"plugin":  {reason: "what a person types", executable: "/usr/bin/kubectl-vidra", usage: "  kubectl vidra events [NAME] [flags]", example: "  kubectl vidra events -"},
		"renamed": {reason: "a file of any name is no plugin", executable: "/tmp/vidra-1.2.3", usage: "  vidra events [NAME] [flags]", example: "  vidra events -"},
		"windows": {reason: "without its ending", executable: "kubectl-vidra.exe", usage: "  kubectl vidra events [NAME] [flags]", example: "  kubectl vidra events -"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			root := newRoot()
			nameAfter(root, typedAs(tt.executable))
			root.SetArgs([]string{"events", "--help"})
			root.SetOut(&out)
			require.Equal(t, 0, run(t.Context(), root))
			require.Contains(t, out.String(), tt.usage, tt.reason)
			require.Contains(t, out.String(), tt.example, tt.reason)
		})
	}
}

// TestHints: what the commands print, errors and the help propose the command that the user runs: the plugin of kubectl, too.
func TestHints(t *testing.T) {
	for _, typed := range []string{"vidra", "kubectl vidra"} {
		t.Run(typed, func(t *testing.T) {
			before := program
			program = insight.Program(typed)
			t.Cleanup(func() { program = before })

			vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
			vr.Spec.Suspend = true
			vr.Status.Conditions = []metav1.Condition{
				{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue},
			}
			suspended := insight.Program(typed).ReportOf(vr)
			require.Equal(t, []string{"suspended: nothing is applied or reverted: `" + typed + " resume shop` ends that"}, suspended.Why)
			style := styleOf(io.Discard, "")
			require.Contains(t, style.Status(&insight.Status{VidraResources: []insight.Report{suspended}}), "\n`"+typed+" status NAME` has more.\n")

			gone := apierrors.NewNotFound(v1alpha1.Resource.GroupResource(), "shop")
			require.ErrorContains(t, insight.Program(typed).VidraResourceError("get", "shop", gone), "`"+typed+" get` lists those that do")
			_, err := newKube().target([]string{"shop"})
			require.ErrorContains(t, err, "about a VidraResource: `"+typed+" status shop`")

			text := style.Why(&insight.Explanation{ManagedBy: []insight.ManagedBy{{
				VidraResource: "shop", LinesFrom: "spec.manifest", SkipWith: insight.Program(typed).SkipHint("configmap/settings -n shop"),
			}}})
			require.Contains(t, text, "\n     "+typed+" skip configmap/settings -n shop --for 1h --reason \"WHY\"\n")

			root := newRoot()
			nameAfter(root, program)
			named := regexp.MustCompile("(kubectl )?" + proposed(root).String())
			for _, cmd := range allCommands(root) {
				for _, found := range named.FindAllString(cmd.Long+"\n"+cmd.Example, -1) {
					require.True(t, strings.HasPrefix(found, typed+" "), "%s --help proposes %s", cmd.CommandPath(), found)
				}
			}
		})
	}
}

// TestHintsHaveTheProgram requires that the code has no command in a text to print: Program.Hint has to add the program.
func TestHintsHaveTheProgram(t *testing.T) {
	noHints := map[string]string{
		"vidra expect":          "the name of a test suite",
		"vidra events":          "the name of a goroutine in the logs of client-go",
		"edited by vidra drill": "the value that a drill writes, which is no hint",
	}
	command := proposed(newRoot())
	for _, folder := range []string{".", "../../pkg/vidratest", "../../pkg/insight", "../../pkg/insight/render", "../../pkg/writes"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, text := range textsIn(t, file) {
				if command.MatchString(text) && noHints[text] == "" {
					t.Errorf("%s proposes a command without the program that the user typed: %q", file, text)
				}
			}
		}
	}
}

// proposed matches a command of ours in a text.
func proposed(root *cobra.Command) *regexp.Regexp {
	var names []string
	for _, cmd := range root.Commands() {
		names = append(names, cmd.Name())
	}
	return regexp.MustCompile(defaultProgram + " (" + strings.Join(names, "|") + `)\b`)
}

// allCommands are a command and all below it.
func allCommands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, below := range cmd.Commands() {
		all = append(all, allCommands(below)...)
	}
	return all
}

// textsIn are the string literals of a file, but for the help, in which nameAfter sets the program.
func textsIn(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var texts []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			name := n.Names[0].Name
			return !strings.HasSuffix(name, "Help") && !strings.HasSuffix(name, "Example")
		case *ast.KeyValueExpr:
			field, named := n.Key.(*ast.Ident)
			return !named || field.Name != "Example"
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}
