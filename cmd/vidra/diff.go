package main

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
)

const diffHelp = `Show what an apply of a VidraResource would do: which objects it would create, change,
replace and prune, which move to or from another VidraResource, which it would be refused for, and whose fields it would take. The
API server decides that, by dry runs with your rights; nothing is written.

  diff NAME           the VidraResource as it is in the cluster
  diff -f FILE        the VidraResources in a file, before they are applied
  diff NAME -f FILE   the VidraResource with the objects in the file as its manifest
  diff -f FILE        other objects in a file, as the manifest of a new VidraResource
                      whose objects are in the namespace of -n

FILE may be a folder, of which the files that end in .yaml, .yml and .json are read, - for
the standard input, or a URL. -k builds a kustomization. Both may be given several times. Fields of a VidraResource that its
file has dropped are removed, as an apply of the file does, and are named. ConfigMaps and
Secrets in the files are used for spec.manifestFrom. For objects in another cluster, the
kubeconfig in the Secret of that cluster is used, if you may read it. Values of Secrets
and of environment variables are masked.

Exit code 0 means no difference, 1 means differences, and 2 that an object would be
refused or that the command failed.`

const diffExample = `  vidra diff -f shop.yaml
  vidra diff shop
  vidra diff shop -f manifest.yaml -o markdown`

// diffFlags holds the flags of the command.
type diffFlags struct {
	kube     *kube
	files    filesFlags
	output   string
	operator operatorFlags
}

func newDiff(k *kube) *cobra.Command {
	f := &diffFlags{kube: k}
	cmd := &cobra.Command{
		Use: "diff [NAME] [-f FILE]", Short: "Show what an apply would do, before it is done",
		Long: diffHelp, Example: diffExample,
		ValidArgsFunction: k.completeName,
		RunE: func(cmd *cobra.Command, names []string) error {
			return diffError(f.run(cmd, names))
		},
	}
	f.addFile(cmd)
	addOutput(cmd, &f.output, outputMarkdown, outputJSON, outputYAML, outputName)
	return cmd
}

// diffError gives an error the exit code of a diff that failed, unless it has one.
func diffError(err error) error {
	if _, is := errors.AsType[*exitError](err); is || err == nil {
		return err
	}
	return &exitError{code: exitDiffFailed, error: err}
}

// addFile adds the argument and the flags that name the compared VidraResources, and their cluster.
func (f *diffFlags) addFile(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		return diffError(wants(cobra.MaximumNArgs(1), formName)(cmd, args))
	}
	f.operator.add(cmd)
	f.files.add(cmd, "a file, folder or URL with VidraResources or with their manifest; - for the standard input; may be repeated")
}

func (f *diffFlags) run(cmd *cobra.Command, names []string) error {
	client, query, err := f.preview(cmd, names)
	if err != nil {
		return err
	}
	diff, err := client.Diff(cmd.Context(), query)
	if err != nil {
		return err
	}
	printMessages(cmd.ErrOrStderr(), diff.Remarks)
	code := 0
	for _, d := range diff.VidraResources {
		code = max(code, diffCode(d))
	}
	if err := f.print(diff, cmd.OutOrStdout()); err != nil || code == 0 {
		return err
	}
	return &exitError{code: code}
}

// diffCode is the exit code for a difference.
func diffCode(d *insight.Difference) int {
	code := 0
	for _, o := range d.Objects {
		switch o.Action {
		case insight.ActionRefuse:
			return exitDiffFailed
		case insight.ActionNone:
		default:
			code = exitDiffers
		}
	}
	return code
}

// preview returns a client, and the query for the VidraResources that are compared.
func (f *diffFlags) preview(cmd *cobra.Command, names []string) (client *insight.Client, q insight.PreviewQuery, err error) {
	if len(names) == 0 && !f.files.given() {
		return nil, q, errors.New("name a VidraResource, or a file with -f")
	}
	if len(names) > 0 {
		q.VidraResource = names[0]
	}
	if f.files.given() {
		if q.Files, err = f.files.read(cmd.Context(), cmd.InOrStdin(), nil); err != nil {
			return nil, q, err
		}
	}
	if q.Namespace, err = f.kube.namespace(); err != nil {
		return nil, q, err
	}
	client, err = f.operator.client(f.kube)
	return client, q, err
}

// print prints differences.
func (f *diffFlags) print(diff *insight.Diff, out io.Writer) error {
	style := styleOf(out, f.output)
	switch f.output {
	case outputJSON, outputYAML:
		return printDocument(out, f.output, diff)
	case outputName:
		return printText(out, render.DiffLines(diff))
	}
	var b strings.Builder
	if f.output != outputMarkdown {
		b.WriteString("Dry run: nothing was written.\n")
	}
	for _, d := range diff.VidraResources {
		if f.output == outputMarkdown {
			b.WriteString(style.DiffMarkdown(d))
		} else {
			b.WriteString(style.Diff(d))
		}
	}
	return printText(out, b.String())
}
