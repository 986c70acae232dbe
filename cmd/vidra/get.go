package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
)

const getHelp = `List VidraResources, or show those that are named.

VidraResources have no namespace. With --namespace, those are listed that have an
object in it. --selector and --field-selector are evaluated by the API server.`

const getExample = `  vidra get                       # all VidraResources
  vidra get shop -o yaml          # one of them
  vidra get -n shop               # those with an object in the namespace shop
  vidra get -l team=web -o name`

// getFlags holds the flags of the command.
type getFlags struct {
	kube             *kube
	selector, fields string
	output           string
}

func newGet(k *kube) *cobra.Command {
	f := &getFlags{kube: k}
	cmd := &cobra.Command{
		Use: "get [NAME...]", Short: "List VidraResources",
		Long: getHelp, Example: getExample,
		Args: wants(cobra.ArbitraryArgs, formName), ValidArgsFunction: k.completeNames,
		RunE: f.run,
	}
	cmd.Flags().StringVarP(&f.selector, "selector", "l", "", "only VidraResources with these labels, such as team=web")
	cmd.Flags().StringVar(&f.fields, "field-selector", "", "only VidraResources with these fields, such as metadata.name=shop")
	cmd.Flags().BoolP("all-namespaces", "A", false, "VidraResources with objects in any namespace, which is the default")
	addOutput(cmd, &f.output, outputWide, outputJSON, outputYAML, outputName)
	return cmd
}

func (f *getFlags) run(cmd *cobra.Command, names []string) error {
	within, err := f.within(cmd.Context())
	if err != nil {
		return err
	}
	result := resource.NewBuilder(f.kube).Unstructured().
		LabelSelectorParam(f.selector).FieldSelectorParam(f.fields).RequestChunksOf(500).
		ResourceTypeOrNameArgs(true, append([]string{v1alpha1.Resource.GroupResource().String()}, names...)...).
		ContinueOnError().Latest().TransformRequests(f.accept).Do()
	infos, err := result.Infos()
	if all, is := errors.AsType[utilerrors.Aggregate](err); is && len(all.Errors()) > 0 {
		err = all.Errors()[0]
	}
	if err != nil && len(infos) == 0 {
		name := ""
		if len(names) == 1 {
			name = names[0]
		}
		return program.VidraResourceError(verbFor(names), name, err)
	}
	found := &render.Listing{Within: within}
	for _, info := range infos {
		if err := found.Add(info.Object); err != nil {
			return err
		}
	}
	if printErr := f.print(found, len(names) == 1, cmd.OutOrStdout(), cmd.ErrOrStderr()); printErr != nil {
		return printErr
	}
	return err
}

// verbFor is the verb of the request for VidraResources of these names.
func verbFor(names []string) string {
	if len(names) == 0 {
		return "list"
	}
	return "get"
}

// within are the names of the VidraResources with an object in the namespace of --namespace; nil for all.
func (f *getFlags) within(ctx context.Context) (sets.Set[string], error) {
	namespace := *f.kube.Namespace
	if err := validateNamespace("namespace", namespace); err != nil || namespace == "" {
		return nil, err
	}
	client, err := f.kube.insight()
	if err != nil {
		return nil, err
	}
	all, err := client.VidraResources(ctx, f.selector)
	if err != nil {
		return nil, err
	}
	names := sets.New[string]()
	for _, vr := range all {
		if insight.HasObjectIn(vr, namespace) {
			names.Insert(vr.Name)
		}
	}
	return names, nil
}

// accept has the API server make the table, as for kubectl, unless objects are printed.
func (f *getFlags) accept(request *rest.Request) {
	if f.output == "" || f.output == outputWide {
		request.SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	}
}

// print prints the findings. single is a VidraResource that was asked for by name.
func (f *getFlags) print(found *render.Listing, single bool, out, errOut io.Writer) error {
	switch {
	case f.output == outputName:
		return printText(out, found.Names())
	case f.output == outputJSON || f.output == outputYAML:
		return printDocument(out, f.output, found.Document(single))
	case found.Empty():
		printMessage(errOut, "no VidraResources found")
		return nil
	}
	text, err := found.Table(f.output == outputWide)
	if err != nil {
		return err
	}
	return printText(out, text)
}
