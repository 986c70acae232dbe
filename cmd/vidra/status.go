package main

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
)

const statusHelp = `Report whether everything is in order: of one VidraResource, or of all.

VidraResources have no namespace. With --namespace, those are reported that have an
object in it.

A VidraResource is in order if its present spec is applied (Ready), its objects are
healthy, and no change of an object waits to be reverted. A suspended one is not.
Exit code 0 means that all are in order, 1 that one is not or that the command failed.`

const statusExample = `  vidra status           # is everything in order?
  vidra status shop      # what is wrong with shop?
  vidra status -n shop   # of those with an object in the namespace shop`

// statusFlags holds the flags of the command.
type statusFlags struct {
	kube     *kube
	selector string
	output   string
}

func newStatus(k *kube) *cobra.Command {
	f := &statusFlags{kube: k}
	cmd := &cobra.Command{
		Use: "status [NAME]", Short: "Report whether VidraResources are in order, and what is wrong",
		Long: statusHelp, Example: statusExample,
		Args: wants(cobra.MaximumNArgs(1), formName), ValidArgsFunction: k.completeName,
		RunE: f.run,
	}
	cmd.Flags().StringVarP(&f.selector, "selector", "l", "", "only VidraResources with these labels, such as team=web")
	cmd.Flags().BoolP("all-namespaces", "A", false, "VidraResources with objects in any namespace, which is the default")
	addOutput(cmd, &f.output, outputJSON, outputYAML, outputName)
	return cmd
}

func (f *statusFlags) run(cmd *cobra.Command, names []string) error {
	q := insight.StatusQuery{Selector: f.selector, Namespace: *f.kube.Namespace}
	if err := validateNamespace("namespace", q.Namespace); err != nil {
		return err
	}
	if len(names) == 1 {
		q.Name = names[0]
		if f.selector != "" {
			return errors.New("--selector and a name exclude each other")
		}
	}
	client, err := f.kube.insight()
	if err != nil {
		return err
	}
	status, err := client.Status(cmd.Context(), q)
	if err != nil {
		return err
	}
	if err := f.print(status, q.Name != "", cmd.OutOrStdout()); err != nil || status.InOrder {
		return err
	}
	return &exitError{code: exitFailed}
}

// print prints a status; single is one that was asked for by name.
func (f *statusFlags) print(status *insight.Status, single bool, out io.Writer) error {
	style := styleOf(out, f.output)
	switch {
	case f.output == outputJSON || f.output == outputYAML:
		return printDocument(out, f.output, status)
	case f.output == outputName:
		var b strings.Builder
		for _, r := range status.VidraResources {
			if !r.InOrder {
				b.WriteString(render.Sprintf("vidraresource.%s/%s\n", v1alpha1.GroupVersion.Group, r.Name))
			}
		}
		return printText(out, b.String())
	case single:
		return printText(out, style.Report(status.VidraResources[0]))
	}
	return printText(out, style.Status(status))
}
