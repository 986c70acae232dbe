package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
)

const lintHelp = `Check VidraResources and manifests in files without a cluster: the fields of a
VidraResource, the YAML of its manifest and the identity of each object, that each
ignore rule matches something, and the expressions of spec.healthChecks. ConfigMaps and Secrets that spec.manifestFrom names are
read from the same files, if they have them.

FILE may be a folder, of which the files that end in .yaml, .yml and .json are read, - for
the standard input, or a URL. -k builds a kustomization. Both may be given several times. An object that is in the files
twice is a problem. Files without a VidraResource are checked as manifests. What only an API server knows, such as
the schema of each kind, is checked by ` + "`vidra diff -f`" + `.

Exit code 0 means no problem, 1 a problem or that the command failed.`

// lintFlags holds the flags of the command.
type lintFlags struct {
	files  filesFlags
	output string
}

func newLint() *cobra.Command {
	f := &lintFlags{}
	cmd := &cobra.Command{
		Use: "lint -f FILE", Short: "Check VidraResources and manifests in files, without a cluster",
		Long: lintHelp, Example: "  vidra lint -f shop.yaml\n  vidra lint -f shop -f common.yaml",
		Args: wants(cobra.NoArgs),
		RunE: f.run,
	}
	f.files.add(cmd, "a file, folder or URL; - for the standard input; may be repeated")
	addOutput(cmd, &f.output, outputJSON, outputYAML)
	return cmd
}

func (f *lintFlags) run(cmd *cobra.Command, _ []string) error {
	if !f.files.given() {
		return fmt.Errorf("name a file: `%s`", program.Hint("lint", "-f", "FILE"))
	}
	files, err := f.files.read(cmd.Context(), cmd.InOrStdin(), nil)
	if err != nil {
		return err
	}
	faults := insight.Lint(files)
	if err := printAnswer(cmd.OutOrStdout(), f.output, faults, f.text(files, faults)); err != nil || len(faults.Problems) == 0 {
		return err
	}
	return &exitError{code: exitFailed}
}

// text returns the problems and remarks, a line each.
func (f *lintFlags) text(files []insight.File, faults insight.Faults) string {
	var b strings.Builder
	for _, problem := range faults.Problems {
		fmt.Fprintf(&b, "%s\n", render.Line(problem))
	}
	for _, remark := range faults.Remarks {
		fmt.Fprintf(&b, "remark: %s\n", render.Line(remark))
	}
	if len(faults.Problems) == 0 {
		b.WriteString(render.Line(fmt.Sprintf("%s: %s: no problem in the YAML; `%s` checks kinds and fields", insight.FileNames(files), faults.Checked, program.Hint("diff", f.files.arguments()...))) + "\n")
	}
	return b.String()
}
