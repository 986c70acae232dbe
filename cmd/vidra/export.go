package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/export"
)

const exportHelp = `Print a manifest of live objects: those of a VidraResource, or those of a namespace with
labels. It has neither the status nor what the API server assigns and defaults, and no
marks of Vidra and of other tools. An apply of it changes nothing of the objects, which
dry runs of the API server check.

Objects that another object owns, and those that Kubernetes makes by itself, are left out.
So are Secrets and other objects with values that are not shown, unless --with-secrets
is set. The number of each is printed. Environment values of other objects are printed.`

const exportExample = `  vidra export shop
  vidra export -n shop -l app=web
  vidra export -n shop --with-secrets -o json`

func newExport(k *kube) *cobra.Command {
	var q export.Query
	var output string
	var secrets bool
	cmd := &cobra.Command{
		Use: "export NAME | -n NAMESPACE [-l SELECTOR]", Short: "Print a manifest of live objects",
		Long: exportHelp, Example: exportExample, ValidArgsFunction: k.completeName,
		Args: wants(cobra.MaximumNArgs(1), formName),
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			if len(names) > 0 && (q.Selector != "" || q.ClusterScoped) {
				return errors.New("-l and --cluster-scoped select objects of a namespace: name no VidraResource with them")
			}
			if q.Namespace, err = k.namespace(); err != nil {
				return err
			}
			config, options, err := new(operatorFlags).connection(k)
			if err != nil {
				return err
			}
			client, err := export.New(config, options)
			if err != nil {
				return err
			}
			return printExport(cmd, client, q, names, output, secrets)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&q.Selector, "selector", "l", "", "the labels of the objects")
	flags.BoolVar(&q.ClusterScoped, "cluster-scoped", false, "also print objects without a namespace that have the labels")
	flags.BoolVar(&secrets, "with-secrets", false, "print Secrets, too, with their values")
	addOutput(cmd, &output, outputYAML, outputJSON)
	return cmd
}

// printExport prints the manifest.
func printExport(cmd *cobra.Command, client *export.Client, q export.Query, names []string, output string, secrets bool) error {
	ctx, errOut := cmd.Context(), cmd.ErrOrStderr()
	var from *export.Selected
	var err error
	if len(names) > 0 {
		from, err = client.VidraResource(ctx, names[0])
	} else {
		from, err = client.Select(ctx, q)
	}
	if err != nil {
		return err
	}
	bar := newBar(errOut)
	exported, err := client.Export(ctx, from, secrets, func(done, all int) { bar.set("objects", int64(done), int64(all)) })
	bar.clear()
	if exported != nil {
		printMessages(errOut, exported.Remarks)
	}
	if err != nil {
		return err
	}
	return printManifest(cmd.OutOrStdout(), output, exported.Objects, true)
}
