package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
)

const lintHelp = `Check VidraResources and manifests in a file without a cluster: the fields of a
VidraResource, the YAML of its manifest and the identity of each object, and that each
ignore rule matches something. ConfigMaps and Secrets that spec.manifestFrom names are
read from the same file, if it has them.

A file of other objects is checked as a manifest. What only an API server knows, such as
the schema of each kind, is checked by ` + "`vidra diff -f`" + `.

Exit code 0 means no problem, 1 a problem or that the command failed.`

// lintFlags holds the flags of the command.
type lintFlags struct {
	file   string
	output string
}

func newLint() *cobra.Command {
	f := &lintFlags{}
	cmd := &cobra.Command{
		Use: "lint -f FILE", Short: "Check VidraResources and manifests in a file, without a cluster",
		Long: lintHelp, Example: "  vidra lint -f shop.yaml",
		Args: wants(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.InOrStdin(), cmd.OutOrStdout()) },
	}
	cmd.Flags().StringVarP(&f.file, "filename", "f", "", "the file; - for the standard input")
	addOutput(cmd, &f.output, outputJSON, outputYAML)
	return cmd
}

func (f *lintFlags) run(in io.Reader, out io.Writer) error {
	if f.file == "" {
		return fmt.Errorf("name a file: `%s`", hint("lint", "-f", "FILE"))
	}
	text, err := readFile(f.file, in)
	if err != nil {
		return err
	}
	checked, problems := lint(text)
	switch {
	case f.output != "":
		err = printDocument(out, f.output, map[string]any{"checked": checked, "problems": problems})
	case len(problems) == 0:
		err = printText(out, fmt.Sprintf("%s: %s: no problem in the YAML; `%s` checks kinds and fields\n", f.file, checked, hint("diff", "-f", f.file)))
	default:
		var b strings.Builder
		for _, problem := range problems {
			fmt.Fprintf(&b, "%s: %s\n", f.file, oneLine(problem))
		}
		err = printText(out, b.String())
	}
	if err == nil && len(problems) > 0 {
		return &exitError{code: exitFailed}
	}
	return err
}

// lint returns what a text has, and what is wrong with it.
func lint(text string) (checked string, problems []string) {
	problems = []string{}
	objects, err := manifest.Parse(text, manifest.Options{})
	if err != nil {
		return "", problemsIn("", err)
	}
	resources := 0
	for _, obj := range objects {
		if !isVidraResource(obj) {
			continue
		}
		resources++
		for _, problem := range lintVidraResource(obj, objects) {
			problems = append(problems, fmt.Sprintf("%s: VidraResource %s: %s", obj.Position, obj.GetName(), problem))
		}
	}
	switch {
	case len(objects) == 0:
		return "", []string{"it has no object"}
	case resources == 0:
		return plural(len(objects), "object"), problems
	}
	return plural(resources, "VidraResource"), problems
}

// problemsIn are the errors of a manifest, one by one.
func problemsIn(prefix string, err error) []string {
	var all manifest.Errors
	if !errors.As(err, &all) {
		return []string{prefix + err.Error()}
	}
	var problems []string
	for _, one := range all {
		problems = append(problems, prefix+one.Error())
	}
	return problems
}

// lintVidraResource checks a VidraResource, with what a file has beside it.
func lintVidraResource(obj manifest.Object, beside []manifest.Object) []string {
	body, err := obj.MarshalJSON()
	if err != nil {
		return []string{err.Error()}
	}
	vr := &v1alpha1.VidraResource{}
	if err := yaml.UnmarshalStrict(body, vr); err != nil {
		return []string{strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: "), "json: ")}
	}
	parts := []desired.Part{desired.NewPart("spec.manifest", vr.Spec.Manifest, false)}
	complete := true
	for _, source := range vr.Spec.ManifestFrom {
		text, found := textOf(vr, source, beside)
		if !found {
			complete = complete && source.Optional
			continue
		}
		name := fmt.Sprintf("%s %s, key %s", source.Kind, source.Name, source.Key)
		parts = append(parts, desired.NewPart(name, text, source.Kind == "Secret"))
	}
	err = desired.Check(vr, parts)
	if err == nil || !complete && !errors.As(err, new(manifest.Errors)) {
		return nil // the rest of the manifest is in the cluster
	}
	return problemsIn("", err)
}

// textOf is the part of a manifest that a ConfigMap or Secret of the same file holds.
func textOf(vr *v1alpha1.VidraResource, source v1alpha1.ManifestSource, beside []manifest.Object) (string, bool) {
	namespace := source.Namespace
	if namespace == "" {
		namespace = vr.Spec.Destination.Namespace
	}
	for _, obj := range beside {
		if obj.GetKind() != source.Kind || obj.GetAPIVersion() != "v1" || obj.GetName() != source.Name || obj.GetNamespace() != namespace {
			continue
		}
		if source.Kind == "Secret" {
			secret := &corev1.Secret{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, secret); err != nil {
				return "", false
			}
			if text, found := secret.StringData[source.Key]; found {
				return text, true
			}
			text, found := secret.Data[source.Key]
			return string(text), found
		}
		cm := &corev1.ConfigMap{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, cm); err != nil {
			return "", false
		}
		text, found := cm.Data[source.Key]
		return text, found
	}
	return "", false
}
