package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/dryrun"
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

FILE may be - for the standard input. For objects in another cluster, the kubeconfig in
the Secret of that cluster is used, if you may read it. Values of Secrets and of
environment variables are masked.

Exit code 0 means no difference, 1 means differences, and 2 that an object would be
refused or that the command failed.`

const diffExample = `  vidra diff -f shop.yaml
  vidra diff shop
  vidra diff shop -f manifest.yaml -o markdown`

// diffFlags holds the flags of the command.
type diffFlags struct {
	*kube
	file   string
	output string
	at     dryrun.Destinations
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
	addKubeconfigNamespace(cmd, &f.at.Namespace)
	cmd.Flags().StringVarP(&f.file, "filename", "f", "", "a file with VidraResources or with their manifest; - for the standard input")
}

func (f *diffFlags) run(ctx context.Context, names []string, in io.Reader, out, errOut io.Writer) error {
	differs, err := f.differs(ctx, names, in, errOut)
	if err != nil {
		return err
	}
	var diffs []*difference
	for _, d := range differs {
		diff, err := d.run(ctx)
		if err != nil {
			return err
		}
		diffs = append(diffs, diff)
	}
	if err := f.print(diffs, out); err != nil {
		return err
	}
	code := 0
	for _, diff := range diffs {
		code = max(code, diff.code())
	}
	if code != 0 {
		return &exitError{code: code}
	}
	return nil
}

// differs are for the VidraResources that are compared.
func (f *diffFlags) differs(ctx context.Context, names []string, in io.Reader, errOut io.Writer) ([]*differ, error) {
	if len(names) == 0 && f.file == "" {
		return nil, errors.New("name a VidraResource, or a file with -f")
	}
	client, err := f.dynamic()
	if err != nil {
		return nil, err
	}
	all, given, err := f.wanted(ctx, client, names, in, errOut)
	if err != nil {
		return nil, err
	}
	moves := newMoves(client, given)
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	local, err := cluster.New(config)
	if err != nil {
		return nil, err
	}
	var differs []*differ
	for _, vr := range all {
		at, err := f.at.Of(ctx, local, config, vr)
		if err != nil {
			return nil, err
		}
		d := newDiffer(client, at, vr)
		d.moves = moves
		differs = append(differs, d)
	}
	return differs, nil
}

// wanted returns the VidraResources that are compared, and all that are given, as they would be after the apply.
func (f *diffFlags) wanted(ctx context.Context, client dynamic.Interface, names []string, in io.Reader, errOut io.Writer) (wanted, given []*v1alpha1.VidraResource, err error) {
	one := func(vr *v1alpha1.VidraResource) []*v1alpha1.VidraResource { return []*v1alpha1.VidraResource{vr} }
	if f.file == "" {
		vr, err := getVidraResource(ctx, client, names[0])
		if err != nil {
			return nil, nil, err
		}
		return one(vr), one(vr), nil
	}
	text, err := readFile(f.file, in)
	if err != nil {
		return nil, nil, err
	}
	objects, err := manifest.Parse(text, manifest.Options{Source: f.file})
	if err != nil {
		return nil, nil, err
	}
	for _, obj := range objects {
		if !isVidraResource(obj) {
			continue
		}
		vr, err := previewVidraResource(ctx, client, obj, errOut)
		if err != nil {
			return nil, nil, err
		}
		given = append(given, vr)
		if len(names) == 0 || names[0] == vr.Name {
			wanted = append(wanted, vr)
		}
	}
	switch {
	case len(wanted) > 0:
		return wanted, given, nil
	case len(objects) == 0:
		return nil, nil, fmt.Errorf("%s has no object", f.file)
	case len(names) == 1:
		vr, err := getVidraResource(ctx, client, names[0])
		if err != nil {
			return nil, nil, err
		}
		vr.Spec.Manifest, vr.Spec.ManifestFrom = text, nil
		return one(vr), append(given, vr), nil
	}
	namespace, err := f.namespace()
	if err != nil {
		return nil, nil, err
	}
	printMessage(errOut, f.file+" has no VidraResource: its objects are compared as the manifest of a new one")
	vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
	vr.Spec.Manifest, vr.Spec.Destination.Namespace = text, namespace
	return one(vr), append(given, vr), nil
}

// isVidraResource reports whether an object of a file is a VidraResource.
func isVidraResource(obj manifest.Object) bool {
	gvk := obj.GroupVersionKind()
	return gvk.Group == v1alpha1.GroupVersion.Group && gvk.Kind == v1alpha1.Kind
}

// previewVidraResource is a VidraResource of a file as the API server would store it, with the status that
// it has. A user who may not write it gets it as it is in the file.
func previewVidraResource(ctx context.Context, client dynamic.Interface, obj manifest.Object, errOut io.Writer) (*v1alpha1.VidraResource, error) {
	body, err := obj.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("%s: encode VidraResource %s: %w", obj.Position, obj.GetName(), err)
	}
	force := true
	stored, err := client.Resource(vidraResources).Patch(ctx, obj.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: writes.FieldManager, DryRun: []string{metav1.DryRunAll}, Force: &force})
	switch {
	case err == nil:
		return asVidraResource(stored)
	case !apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%s: the API server refuses VidraResource %s: %s", obj.Position, obj.GetName(), object.Message(err, ownership.Disclose(false, ownership.SensitivityOf(obj.Unstructured), false)))
	}
	printMessage(errOut, fmt.Sprintf("you may not write VidraResource %s: its fields are not validated", obj.GetName()))
	vr, err := asVidraResource(obj.Unstructured)
	if err != nil {
		return nil, err
	}
	if live, err := getVidraResource(ctx, client, vr.Name); err == nil {
		vr.Status, vr.UID, vr.DeletionTimestamp = live.Status, live.UID, live.DeletionTimestamp
	}
	return vr, nil
}

// readFile reads a file, or the standard input.
func readFile(path string, in io.Reader) (string, error) {
	if path == "-" {
		text, err := io.ReadAll(in)
		return string(text), err
	}
	text, err := os.ReadFile(path) //nolint:gosec // the user names it
	return string(text), err
}

// print prints differences.
func (f *diffFlags) print(diffs []*difference, out io.Writer) error {
	var b strings.Builder
	switch f.output {
	case outputJSON, outputYAML:
		return printDocument(out, f.output, map[string]any{"vidraResources": diffs})
	case outputName:
		moved := map[string]bool{} // both VidraResources of a move may be compared
		for _, d := range diffs {
			for _, o := range d.Objects {
				if line := o.line(); o.Action != actionNone && !moved[line] {
					moved[line] = o.Action == actionMove
					b.WriteString(line)
				}
			}
		}
	case outputMarkdown:
		for _, d := range diffs {
			b.WriteString(d.markdown())
		}
	default:
		b.WriteString("Dry run: nothing was written.\n")
		for _, d := range diffs {
			b.WriteString(d.text(coloured(out)))
		}
	}
	return printText(out, b.String())
}
