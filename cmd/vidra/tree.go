package main

import (
	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
)

const treeHelp = `Show the objects of a VidraResource with their state and health, and below each the
objects that it owns, as their ownerReferences name it.

All namespaced kinds that you may list are searched for owned objects, in the
namespaces of the VidraResource. --namespace shows the objects of one namespace.`

const treeExample = `  vidra tree shop
  vidra tree shop -n shop-prod`

// treeFlags holds the flags of the command.
type treeFlags struct {
	kube   *kube
	output string
}

func newTree(k *kube) *cobra.Command {
	f := &treeFlags{kube: k}
	cmd := &cobra.Command{
		Use: "tree NAME", Short: "Show the objects of a VidraResource, and what they own",
		Long: treeHelp, Example: treeExample,
		Args: wants(cobra.ExactArgs(1), formName), ValidArgsFunction: k.completeName,
		RunE: f.run,
	}
	cmd.Flags().BoolP("all-namespaces", "A", false, "objects in any namespace, which is the default")
	addOutput(cmd, &f.output, outputWide, outputJSON, outputYAML, outputName)
	return cmd
}

func (f *treeFlags) run(cmd *cobra.Command, names []string) error {
	if err := validateNamespace("namespace", *f.kube.Namespace); err != nil {
		return err
	}
	client, err := f.kube.insight()
	if err != nil {
		return err
	}
	tree, err := client.Tree(cmd.Context(), insight.TreeQuery{VidraResource: names[0], Namespace: *f.kube.Namespace})
	if err != nil {
		return err
	}
	printMessages(cmd.ErrOrStderr(), tree.Remarks)
	out := cmd.OutOrStdout()
	switch f.output {
	case outputJSON, outputYAML:
		return printDocument(out, f.output, tree)
	case outputName:
		return printText(out, render.TreeNames(tree))
	}
	return printText(out, styleOf(out, f.output).Tree(tree))
}
