package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight/render"
)

const whyHelp = `Explain an object: which VidraResource manages it, where its manifest is, who edited the
object last, what became of the edits, how to keep a change, and which fields Vidra owns.

A name in quotes, such as "kubectl", is a program: the field manager. Kubernetes does not
store the user of an edit in the object. Vidra names the user where the cluster has the
policy stamp (docs/policies.md); otherwise the audit log of the API server does.

Edits are known from the history in the status of the VidraResource, and the newest
ones from Events. Values of Secrets are never printed.`

const whyExample = `  vidra why deployment/web -n shop         # who scaled web?
  vidra why configmap/settings -n shop     # why is my change gone, and how do I keep it?
  vidra why configmap/settings -n shop -o yaml`

// whyFlags holds the flags of the command.
type whyFlags struct {
	kube     *kube
	output   string
	operator operatorFlags
}

func newWhy(k *kube) *cobra.Command {
	f := &whyFlags{kube: k}
	cmd := &cobra.Command{
		Use: "why KIND/NAME", Short: "Explain who manages and who edited an object, and how to keep a change",
		Long: whyHelp, Example: whyExample,
		Args: wants(countObject, formObject), ValidArgsFunction: k.completeObject,
		RunE: f.run,
	}
	f.operator.addConfig(cmd)
	addOutput(cmd, &f.output, outputWide, outputJSON, outputYAML, outputName)
	return cmd
}

func (f *whyFlags) run(cmd *cobra.Command, args []string) error {
	target, err := f.kube.target(args)
	if err != nil {
		return err
	}
	client, err := f.operator.client(f.kube)
	if err != nil {
		return err
	}
	e, err := client.Why(cmd.Context(), target)
	if err != nil {
		return err
	}
	printMessages(cmd.ErrOrStderr(), e.Remarks)
	out := cmd.OutOrStdout()
	switch f.output {
	case outputJSON, outputYAML:
		return printDocument(out, f.output, e)
	case outputName:
		var b strings.Builder
		for _, m := range e.ManagedBy {
			b.WriteString(render.Sprintf("vidraresource.%s/%s\n", v1alpha1.GroupVersion.Group, m.VidraResource))
		}
		return printText(out, b.String())
	}
	return printText(out, styleOf(out, f.output).Why(e))
}
