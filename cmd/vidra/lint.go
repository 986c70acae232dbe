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
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

const lintHelp = `Check VidraResources and manifests in files without a cluster: the fields of a
VidraResource, the YAML of its manifest and the identity of each object, and that each
ignore rule matches something. ConfigMaps and Secrets that spec.manifestFrom names are
read from the same files, if they have them.

FILE may be a folder, of which the files that end in .yaml, .yml and .json are read, or -
for the standard input. -f may be given several times. An object that is in the files
twice is a problem. Files without a VidraResource are checked as manifests. What only an API server knows, such as
the schema of each kind, is checked by ` + "`vidra diff -f`" + `.

Exit code 0 means no problem, 1 a problem or that the command failed.`

// lintFlags holds the flags of the command.
type lintFlags struct {
	files     []string
	recursive bool
	output    string
}

func newLint() *cobra.Command {
	f := &lintFlags{}
	cmd := &cobra.Command{
		Use: "lint -f FILE", Short: "Check VidraResources and manifests in files, without a cluster",
		Long: lintHelp, Example: "  vidra lint -f shop.yaml\n  vidra lint -f shop -f common.yaml",
		Args: wants(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.InOrStdin(), cmd.OutOrStdout()) },
	}
	addFilename(cmd, &f.files, &f.recursive, "a file or folder; - for the standard input; may be repeated")
	addOutput(cmd, &f.output, outputJSON, outputYAML)
	return cmd
}

func (f *lintFlags) run(in io.Reader, out io.Writer) error {
	if len(f.files) == 0 {
		return fmt.Errorf("name a file: `%s`", hint("lint", "-f", "FILE"))
	}
	files, err := readFiles(f.files, f.recursive, in)
	if err != nil {
		return err
	}
	checked, problems := lint(files)
	switch {
	case f.output != "":
		err = printDocument(out, f.output, map[string]any{"checked": checked, "problems": problems})
	case len(problems) == 0:
		var command []string
		for _, name := range f.files {
			command = append(command, "-f", name)
		}
		if f.recursive {
			command = append(command, "-R")
		}
		err = printText(out, fmt.Sprintf("%s: %s: no problem in the YAML; `%s` checks kinds and fields\n", namesOfFiles(files), checked, hint("diff", command...)))
	default:
		var b strings.Builder
		for _, problem := range problems {
			fmt.Fprintf(&b, "%s\n", oneLine(problem))
		}
		err = printText(out, b.String())
	}
	if err == nil && len(problems) > 0 {
		return &exitError{code: exitFailed}
	}
	return err
}

// lint returns what files have, and what is wrong with them. Each problem begins with the name of its file.
func lint(files []file) (checked string, problems []string) {
	problems = []string{}
	add := func(name string, more ...string) {
		for _, problem := range more {
			problems = append(problems, name+": "+problem)
		}
	}
	for i := range files {
		var err error
		if files[i].objects, err = manifest.Parse(files[i].text, manifest.Options{}); err != nil {
			add(files[i].name, problemsIn("", err)...)
		}
	}
	objects, resources := objectsOf(files), 0
	seen := map[object.Identity]string{}
	for _, f := range files {
		for _, obj := range f.objects {
			id := object.IdentityIn(obj.Unstructured)
			if first, twice := seen[id]; twice && first != f.name {
				add(f.name, fmt.Sprintf("%s: %s: %s has this object, too: remove one", obj.Position, id, first))
			}
			seen[id] = f.name
			if !isVidraResource(obj) {
				continue
			}
			resources++
			for _, problem := range lintVidraResource(obj, objects) {
				add(f.name, fmt.Sprintf("%s: VidraResource %s: %s", obj.Position, obj.GetName(), problem))
			}
		}
	}
	switch {
	case len(objects) == 0 && len(problems) > 0:
		return "", problems
	case len(objects) == 0:
		return "", []string{namesOfFiles(files) + ": no object found"}
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

// plural is a number with a noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
