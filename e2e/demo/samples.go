package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
)

// sample is a VidraResource of config/samples.
type sample struct {
	name string
	// object is the VidraResource as the sample has it, live as the API server
	// answered when it was applied.
	object, live *unstructured.Unstructured
	// objects of its manifest, as the manifest has them.
	objects []*unstructured.Unstructured
	// namespace of the objects that name none.
	namespace string
}

// loadSamples reads the samples.
func (t *tour) loadSamples(files fs.FS) (err error) {
	for folder, s := range map[string]**sample{"web": &t.web, "first-operator": &t.first, "custom-kind": &t.custom} {
		if *s, err = readSample(files, folder); err != nil {
			return fmt.Errorf("config/samples/%s: %w", folder, err)
		}
	}
	t.definition, err = readFolder(files, "crd")
	return err
}

func readSample(files fs.FS, folder string) (*sample, error) {
	found, err := readFolder(files, folder)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d objects instead of one VidraResource", len(found))
	}
	vr := &v1alpha1.VidraResource{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found[0].Object, vr); err != nil {
		return nil, err
	}
	parsed, err := manifest.Parse(vr.Spec.Manifest, manifest.Options{})
	if err != nil {
		return nil, err
	}
	s := &sample{name: vr.Name, object: found[0], namespace: vr.Spec.Destination.Namespace}
	for _, object := range parsed {
		s.objects = append(s.objects, object.Unstructured)
	}
	return s, nil
}

// readFolder reads the objects of a folder of config/samples.
func readFolder(files fs.FS, folder string) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, path.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, name := range names {
		if path.Base(name) == "kustomization.yaml" {
			continue
		}
		file, err := files.Open(name)
		if err != nil {
			return nil, err
		}
		read, err := decode(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, read...)
	}
	return objects, nil
}

func decode(r io.ReadCloser) ([]*unstructured.Unstructured, error) {
	defer r.Close() //nolint:errcheck // it was only read
	decoder := yaml.NewYAMLOrJSONDecoder(r, 4096)
	var objects []*unstructured.Unstructured
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(u)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		objects = append(objects, u)
	}
}

// apply applies a sample as `kubectl apply --server-side` does.
func (t *tour) apply(ctx context.Context, s *sample) error {
	t.applied = append(t.applied, s)
	s.live = s.object.DeepCopy()
	return testenv.Apply(ctx, t.cluster.config, []*unstructured.Unstructured{s.live})
}

// applyDefinition applies the CustomResourceDefinition and waits until it is
// established.
func (t *tour) applyDefinition(ctx context.Context) error {
	t.defined = true
	for _, crd := range t.definition {
		if err := testenv.Apply(ctx, t.cluster.config, []*unstructured.Unstructured{crd.DeepCopy()}); err != nil {
			return err
		}
	}
	return nil
}

// removeDefinition removes the CustomResourceDefinition if the tour applied it.
func (t *tour) removeDefinition(ctx context.Context) error {
	if !t.defined {
		return nil
	}
	for _, crd := range t.definition {
		if err := t.cluster.delete(ctx, crd); err != nil {
			return err
		}
		if err := t.cluster.awaitAbsent(ctx, crd); err != nil {
			return err
		}
	}
	t.defined = false
	return nil
}

// check refuses a cluster on which the tour cannot be given, or on which it
// would take away, at its end, something that was there before.
func (t *tour) check(ctx context.Context) error {
	if err := t.cluster.servesVidra(ctx); err != nil {
		return err
	}
	objects := append([]*unstructured.Unstructured{}, t.definition...)
	for _, s := range []*sample{t.web, t.first, t.custom} {
		objects = append(objects, s.object)
	}
	for _, s := range []*sample{t.web, t.first} {
		objects = append(objects, t.cluster.placed(s)...)
	}
	for _, object := range objects {
		_, err := t.cluster.get(ctx, object)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("look for %s: %w", title(object), err)
		default:
			return fmt.Errorf("%s exists already, and the tour would remove it at its end: "+
				"delete it, or give the tour another cluster", title(object))
		}
	}
	return nil
}

// title names an object: kind, namespace and name.
func title(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if o.GetNamespace() == "" {
		return kind + " " + o.GetName()
	}
	return kind + " " + o.GetNamespace() + "/" + o.GetName()
}
