package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/writes"
)

const diffHelp = `Show what an apply of a VidraResource would do: which objects it would create, change,
replace and prune, which move to or from another VidraResource, which it would be refused for, and whose fields it would take. The
API server decides that, by dry runs with your rights; nothing is written.

  diff NAME           the VidraResource as it is in the cluster
  diff -f FILE        the VidraResources in a file, before they are applied
  diff NAME -f FILE   the VidraResource with the objects in the file as its manifest
  diff -f FILE        other objects in a file, as the manifest of a new VidraResource
                      whose objects are in the namespace of -n

FILE may be a folder, of which the files that end in .yaml, .yml and .json are read, or -
for the standard input. -f may be given several times. Fields of a VidraResource that its
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
	*kube
	files     []string
	recursive bool
	output    string
	// kubeconfigs is the namespace of the Secrets with the kubeconfigs of other clusters.
	kubeconfigs string
	// operatorConfig is the file with the configuration of the operator.
	operatorConfig string
}

func newDiff(k *kube) *cobra.Command {
	f := &diffFlags{kube: k}
	cmd := &cobra.Command{
		Use: "diff [NAME] [-f FILE]", Short: "Show what an apply would do, before it is done",
		Long: diffHelp, Example: diffExample,
		ValidArgsFunction: k.completeName,
		RunE: func(cmd *cobra.Command, names []string) error {
			return diffError(f.run(cmd.Context(), names, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	f.addFile(cmd)
	addOutput(cmd, &f.output, outputMarkdown, outputJSON, outputYAML, outputName)
	return cmd
}

// diffError gives an error the exit code of a diff that failed, unless it has one.
func diffError(err error) error {
	if exit := (*exitError)(nil); err == nil || errors.As(err, &exit) {
		return err
	}
	return &exitError{code: exitDiffFailed, error: err}
}

// addFile adds the argument and the flags that name what is compared, and where.
func (f *diffFlags) addFile(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		return diffError(wants(cobra.MaximumNArgs(1), formName)(cmd, args))
	}
	addKubeconfigNamespace(cmd, &f.kubeconfigs)
	cmd.Flags().StringVar(&f.operatorConfig, "operator-config", "", "a file with the OperatorConfiguration of the operator, whose settings decide which edits are reverted; defaults to those of an operator without one")
	addFilename(cmd, &f.files, &f.recursive, "a file or folder with VidraResources or with their manifest; - for the standard input; may be repeated")
}

func (f *diffFlags) run(ctx context.Context, names []string, in io.Reader, out, errOut io.Writer) error {
	client, preview, err := f.preview(ctx, names, in, errOut)
	if err != nil {
		return err
	}
	diff, err := client.Diff(ctx, preview)
	if err != nil {
		return err
	}
	printMessages(errOut, diff.Remarks)
	diffs := diff.VidraResources
	if err := f.print(diffs, out); err != nil {
		return err
	}
	code := 0
	for _, diff := range diffs {
		code = max(code, diffCode(diff))
	}
	if code != 0 {
		return &exitError{code: code}
	}
	return nil
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

// preview returns the VidraResources that are compared, and a client for that.
func (f *diffFlags) preview(ctx context.Context, names []string, in io.Reader, errOut io.Writer) (*insight.Client, insight.Preview, error) {
	if len(names) == 0 && len(f.files) == 0 {
		return nil, insight.Preview{}, errors.New("name a VidraResource, or a file with -f")
	}
	client, err := f.questions()
	if err != nil {
		return nil, insight.Preview{}, err
	}
	compared, err := f.compared(ctx, client, names, in, errOut)
	if err != nil {
		return nil, insight.Preview{}, err
	}
	return client, compared.Preview, nil
}

// questions returns a client with the settings of the operator.
func (f *diffFlags) questions() (*insight.Client, error) {
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	options := insight.Options{Program: insight.Program(program), KubeconfigNamespace: f.kubeconfigs}
	if options.Operator, err = operatorOf(f.operatorConfig); err != nil {
		return nil, err
	}
	return insight.New(config, options)
}

// comparison collects what a diff compares.
type comparison struct {
	insight.Preview

	// dry sends dry runs of VidraResources.
	dry dynamic.Interface
}

// compared returns what is compared.
func (f *diffFlags) compared(ctx context.Context, client *insight.Client, names []string, in io.Reader, errOut io.Writer) (*comparison, error) {
	dry, err := f.dynamic()
	if err != nil {
		return nil, err
	}
	c := &comparison{Preview: insight.Preview{Dropped: map[string][]string{}}, dry: dry}
	one := func(vr *v1alpha1.VidraResource, err error) (*comparison, error) {
		c.Wanted, c.Given = []*v1alpha1.VidraResource{vr}, append(c.Given, vr)
		return c, err
	}
	if len(f.files) == 0 {
		return one(client.VidraResource(ctx, names[0]))
	}
	files, err := readFiles(f.files, f.recursive, in)
	if err != nil {
		return nil, err
	}
	if err := parseFiles(files); err != nil {
		return nil, err
	}
	objects := objectsOf(files)
	c.Beside = func(vr *v1alpha1.VidraResource, source v1alpha1.ManifestSource) (string, bool) {
		return textOf(vr, source, objects)
	}
	if err := c.preview(ctx, client, objects, names, errOut); err != nil {
		return nil, err
	}
	switch {
	case len(c.Wanted) > 0:
		return c, nil
	case len(objects) == 0:
		return nil, fmt.Errorf("%s: no object found", namesOfFiles(files))
	}
	parts, text := partsOf(files)
	if len(parts) > 1 {
		c.Parts = parts
	}
	if len(names) == 1 {
		vr, err := client.VidraResource(ctx, names[0])
		if err != nil {
			return nil, err
		}
		vr.Spec.Manifest, vr.Spec.ManifestFrom = text, nil
		return one(vr, nil)
	}
	namespace, err := f.namespace()
	if err != nil {
		return nil, err
	}
	printMessage(errOut, namesOfFiles(files)+": no VidraResource found: the objects are compared as the manifest of a new one")
	vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
	vr.Spec.Manifest, vr.Spec.Destination.Namespace = text, namespace
	c.IsNew = true
	return one(vr, nil)
}

// preview adds the VidraResources among objects. Of these, names selects the one that is compared; none selects all.
func (c *comparison) preview(ctx context.Context, client *insight.Client, objects []manifest.Object, names []string, errOut io.Writer) error {
	for _, obj := range objects {
		if !isVidraResource(obj) {
			continue
		}
		if slices.ContainsFunc(c.Given, func(other *v1alpha1.VidraResource) bool { return other.Name == obj.GetName() }) {
			return fmt.Errorf("%s: VidraResource %s is in the files twice: remove one", obj.Position, obj.GetName())
		}
		vr, dropped, err := c.previewVidraResource(ctx, client, obj, errOut)
		if err != nil {
			return err
		}
		c.Given, c.Dropped[vr.Name] = append(c.Given, vr), dropped
		if len(names) == 0 || names[0] == vr.Name {
			c.Wanted = append(c.Wanted, vr)
		}
	}
	return nil
}

// isVidraResource reports whether an object of a file is a VidraResource.
func isVidraResource(obj manifest.Object) bool {
	gvk := obj.GroupVersionKind()
	return gvk.Group == v1alpha1.GroupVersion.Group && gvk.Kind == v1alpha1.Kind
}

// previewVidraResource is a VidraResource of a file as the API server would store it, with the status that
// it has, and the fields that the file has dropped. A user who may not write it gets it as it is in the file.
func (c *comparison) previewVidraResource(ctx context.Context, client *insight.Client, obj manifest.Object, errOut io.Writer) (vr *v1alpha1.VidraResource, dropped []string, err error) {
	body, err := obj.MarshalJSON()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: encode VidraResource %s: %w", obj.Position, obj.GetName(), err)
	}
	force := true
	stored, err := c.dry.Resource(vidraResources).Patch(ctx, obj.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: writes.FieldManager, DryRun: []string{metav1.DryRunAll}, Force: &force})
	if err == nil {
		stored, dropped, err = previewDropped(ctx, c.dry, obj, stored)
	}
	switch {
	case err == nil:
		vr, err = insight.AsVidraResource(stored)
		return vr, dropped, err
	case !apierrors.IsForbidden(err):
		return nil, nil, fmt.Errorf("%s: the API server refuses VidraResource %s: %s", obj.Position, obj.GetName(), object.Message(err, ownership.Disclose(false, ownership.SensitivityOf(obj.Unstructured), false)))
	}
	printMessage(errOut, fmt.Sprintf("you may not write VidraResource %s: its fields are not validated", obj.GetName()))
	if vr, err = insight.AsVidraResource(obj.Unstructured); err != nil {
		return nil, nil, err
	}
	if live, err := client.VidraResource(ctx, vr.Name); err == nil {
		vr.Status, vr.UID, vr.DeletionTimestamp = live.Status, live.UID, live.DeletionTimestamp
	}
	return vr, nil, nil
}

// appliesFiles reports whether an entry of managedFields comes from a client that applies whole files, and so removes the fields that
// its file has dropped. Fields of other clients, such as vidra suspend and kubectl edit, stay.
func appliesFiles(manager, operation string) bool {
	return operation == string(metav1.ManagedFieldsOperationApply) && manager != writes.FieldManager || manager == "kubectl-client-side-apply" || manager == "helm"
}

// previewDropped removes from a VidraResource the fields that its file has dropped, as the client does that applied the file before:
// a dry run under another name keeps them. Its result is nil if the VidraResource is new.
func previewDropped(ctx context.Context, client dynamic.Interface, obj manifest.Object, stored *unstructured.Unstructured) (*unstructured.Unstructured, []string, error) {
	after := ownership.Merge(stored, map[string]any{"spec": obj.Object["spec"], "metadata": obj.Object["metadata"]}, appliesFiles)
	dropped := droppedFields("spec", stored.Object["spec"], after.Object["spec"])
	if len(dropped) == 0 {
		return stored, nil, nil
	}
	patch, err := json.Marshal([]ownership.PatchOp{{Op: "replace", Path: "/spec", Value: after.Object["spec"]}})
	if err != nil {
		return nil, nil, err
	}
	stored, err = client.Resource(vidraResources).Patch(ctx, obj.GetName(), types.JSONPatchType, patch,
		metav1.PatchOptions{FieldManager: writes.FieldManager, DryRun: []string{metav1.DryRunAll}})
	return stored, dropped, err
}

// droppedFields are the paths of the topmost fields that a value has and another one has not.
func droppedFields(path string, before, after any) []string {
	fields, isMap := before.(map[string]any)
	left, _ := after.(map[string]any)
	if !isMap {
		return nil
	}
	var dropped []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if value, stays := left[name]; stays {
			dropped = append(dropped, droppedFields(path+"."+name, fields[name], value)...)
		} else {
			dropped = append(dropped, path+"."+name)
		}
	}
	return dropped
}

// print prints differences.
func (f *diffFlags) print(diffs []*insight.Difference, out io.Writer) error {
	var b strings.Builder
	style := styleOf(out, f.output)
	switch f.output {
	case outputJSON, outputYAML:
		return printDocument(out, f.output, &insight.Diff{VidraResources: diffs})
	case outputName:
		moved := map[string]bool{} // both VidraResources of a move may be compared
		for _, d := range diffs {
			for _, o := range d.Objects {
				if line := render.DiffLine(o); o.Action != insight.ActionNone && !moved[line] {
					moved[line] = o.Action == insight.ActionMove
					b.WriteString(line)
				}
			}
		}
	case outputMarkdown:
		for _, d := range diffs {
			b.WriteString(style.DiffMarkdown(d))
		}
	default:
		b.WriteString("Dry run: nothing was written.\n")
		for _, d := range diffs {
			b.WriteString(style.Diff(d))
		}
	}
	return printText(out, b.String())
}
