package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/parts"
	"github.com/vidra-operator/vidra/pkg/writes"
)

const createHelp = `Create a VidraResource whose manifest is in files, of any size that Vidra keeps (8 MiB), or
update it. FILE may be a folder, of which the files that end in .yaml, .yml and .json are
read, - for the standard input, or a URL. -f and -k may be given several times.

A short manifest is in spec.manifest. A longer one is split between its documents into
ConfigMaps, and Secrets are in Secrets, in the namespace of the destination or in
--parts-namespace. They are deleted with the VidraResource. An object that the files have
twice with the same content counts once.

If the VidraResource exists, the command shows the changes as "vidra diff" does, and
writes only with --yes. Parts are replaced by new ones, and removed once the operator has read
the new manifest. Only parts that this command wrote are removed. A manifest that another
program has written, such as kubectl apply, is overwritten with --force-conflicts only.
The settings of the VidraResource stay as they are.

Exit code 0 means that it is written or unchanged, 1 that it would change and --yes is missing, and
2 that an object would be refused or that the command failed.`

const createExample = `  vidra create shop -f manifests -n shop
  vidra create rollouts -n argo-rollouts -f https://github.com/argoproj/argo-rollouts/releases/latest/download/install.yaml
  vidra create shop -k overlay --yes
  vidra create shop -f manifests --dry-run=client -o yaml`

// Values of --dry-run, as kubectl has them.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// createFlags holds the flags of the command.
type createFlags struct {
	kube     *kube
	files    filesFlags
	creation writes.Creation
	operator operatorFlags
	dryRun   string
	output   string
	yes      bool
	secrets  bool
}

func newCreate(k *kube) *cobra.Command {
	f := &createFlags{kube: k}
	cmd := &cobra.Command{
		Use: "create NAME -f FILE", Short: "Create or update a VidraResource whose manifest is in files",
		Long: createHelp, Example: createExample, ValidArgsFunction: k.completeName,
		Args: func(cmd *cobra.Command, args []string) error {
			return diffError(wants(cobra.ExactArgs(1), formName)(cmd, args))
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			return diffError(f.run(cmd, names))
		},
	}
	f.files.add(cmd, "a file, folder or URL with a manifest; - for the standard input; may be repeated")
	f.operator.add(cmd)
	addCreation(cmd, &f.creation)
	flags := cmd.Flags()
	flags.BoolVarP(&f.yes, "yes", "y", false, "write the changes of a VidraResource that exists")
	flags.StringVar(&f.dryRun, "dry-run", dryRunNone, "client prints the objects with -o and sends no request, server shows the changes; nothing is written")
	flags.BoolVar(&f.secrets, "with-secrets", false, "print Secrets, too, with their values")
	_ = cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]string{dryRunNone, dryRunClient, dryRunServer}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	addOutput(cmd, &f.output, outputYAML, outputJSON)
	return cmd
}

// addCreation adds the flags of a VidraResource of files.
func addCreation(cmd *cobra.Command, creation *writes.Creation) {
	flags := cmd.Flags()
	flags.StringVar(&creation.PartsNamespace, "parts-namespace", "", "the namespace of the ConfigMaps and Secrets with the manifest; default: the namespace of the objects")
	flags.StringVar(&creation.Server, "destination-server", "", "the URL of the API server of the objects; default: the cluster of the operator")
	flags.StringVar(&creation.ServiceAccount, "service-account", "", "the ServiceAccount in the namespace of the objects that reads and writes them")
	flags.BoolVar(&creation.Force, "force-conflicts", false, "overwrite a manifest that another field manager has written")
}

// complete adds the namespaces of the user to a VidraResource of files.
func (k *kube) complete(creation *writes.Creation) (err error) {
	creation.Namespace = *k.Namespace
	if creation.DefaultNamespace, err = k.namespace(); err != nil {
		return err
	}
	return validateNamespace("parts-namespace", creation.PartsNamespace)
}

func (f *createFlags) run(cmd *cobra.Command, names []string) (err error) {
	f.creation.Name = names[0]
	ctx, out, errOut := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	if f.dryRun, err = oneOf("dry-run", f.dryRun, []string{dryRunNone, dryRunClient, dryRunServer}); err != nil {
		return err
	}
	switch {
	case !f.files.given():
		return fmt.Errorf("name a file: `%s`", program.Hint("create", f.creation.Name, "-f", "FILE"))
	case f.output != "" && f.dryRun != dryRunClient:
		return errors.New("-o prints the objects of --dry-run=client: set that, too")
	case f.dryRun == dryRunClient && f.output == "":
		return errors.New("--dry-run=client prints the objects with -o yaml or -o json: set that, too")
	}
	if err := f.kube.complete(&f.creation); err != nil {
		return err
	}
	bar := newBar(errOut)
	if f.creation.Files, err = f.files.read(ctx, cmd.InOrStdin(), bar); err != nil {
		return err
	}
	if f.dryRun == dryRunClient {
		return f.printObjects(out, errOut)
	}
	client, err := f.operator.writes(f.kube)
	if err != nil {
		return err
	}
	prepared, err := client.Prepare(ctx, f.creation)
	if err != nil {
		return err
	}
	printMessages(errOut, prepared.Remarks)
	if stop, err := f.show(ctx, client, prepared, out, errOut); stop || err != nil {
		return err
	}
	return f.write(ctx, client, prepared, bar, out, errOut)
}

// show shows the changes of a VidraResource that exists. stop reports that nothing is written.
func (f *createFlags) show(ctx context.Context, client *writes.Client, p *writes.Prepared, out, errOut io.Writer) (stop bool, err error) {
	if f.dryRun == dryRunNone && (p.IsNew || !p.Changed) {
		return false, nil
	}
	diff, err := client.Difference(ctx, p)
	if err != nil {
		return true, err
	}
	printMessages(errOut, diff.Remarks)
	code, text := 0, ""
	for _, d := range diff.VidraResources {
		code, text = max(code, diffCode(d)), text+styleOf(out, "").Diff(d)
	}
	if f.dryRun == dryRunServer || !f.yes {
		text = "Dry run: nothing was written.\n" + text
	}
	if err := printText(out, text); err != nil {
		return true, err
	}
	switch {
	case f.dryRun == dryRunServer && code > 0:
		return true, &exitError{code: code}
	case f.dryRun == dryRunServer:
		return true, nil
	case !f.yes:
		if code == 0 {
			printMessage(errOut, "the text of the manifest changes, and no object")
		}
		printMessage(errOut, "add --yes to write this")
		return true, &exitError{code: max(code, exitDiffers)}
	}
	return false, nil
}

// write writes a prepared VidraResource.
func (f *createFlags) write(ctx context.Context, client *writes.Client, p *writes.Prepared, bar *bar, out, errOut io.Writer) error {
	name := f.creation.Name
	if !p.Changed && !p.Unfinished() {
		return printText(out, render.Sprintf("VidraResource %s is unchanged\n", name))
	}
	remarks, err := client.Create(ctx, p, func(done, all int) { bar.set("writing "+name, int64(done), int64(all)) })
	bar.clear()
	printMessages(errOut, remarks)
	if err != nil {
		return err
	}
	did := "updated"
	if p.IsNew {
		did = "created"
	} else if !p.Changed {
		did = "finished an earlier write of"
	}
	var in []string
	configMaps, secrets := p.Parts()
	for _, one := range []struct {
		n    int
		noun string
	}{{configMaps, "ConfigMap"}, {secrets, "Secret"}} {
		if one.n > 0 {
			in = append(in, render.Plural(one.n, one.noun))
		}
	}
	text := fmt.Sprintf("%s VidraResource %s with %s", did, name, render.Plural(p.Objects, "object"))
	if len(in) > 0 {
		text += ", in " + strings.Join(in, " and ")
	}
	return printText(out, render.Sprintf("%s: `%s` waits until they are applied\n", text, program.Hint("wait", name)))
}

// printObjects prints the objects that would be written.
func (f *createFlags) printObjects(out, errOut io.Writer) error {
	objects, remarks, err := f.creation.Objects()
	if err != nil {
		return err
	}
	printMessages(errOut, remarks)
	return printManifest(out, f.output, objects, f.secrets)
}

// printManifest prints objects as a manifest. Without secrets it fails if there is a Secret.
func printManifest(out io.Writer, output string, objects []*unstructured.Unstructured, secrets bool) error {
	items := make([]any, 0, len(objects))
	for _, o := range objects {
		if parts.Sensitive(o) && !secrets {
			return fmt.Errorf("%s %s has values that are not shown: --with-secrets prints them", o.GetKind(), o.GetName())
		}
		items = append(items, o.Object)
	}
	if output == outputJSON {
		return printDocument(out, output, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	}
	for i, item := range items {
		document, err := render.Document(outputYAML, item)
		if err != nil {
			return err
		}
		if i > 0 {
			document = "---\n" + document
		}
		if err := printText(out, document); err != nil {
			return err
		}
	}
	return nil
}
