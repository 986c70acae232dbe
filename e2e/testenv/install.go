package testenv

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// fieldManager is the one that `kubectl apply --server-side` uses.
const fieldManager = "kubectl"

// Install applies config/default of the checkout that the working directory is
// in: what `kubectl apply -k config/default` does for a person. It returns when
// the CRD is established. If the Env is connected to a cluster, Vidra is installed already.
func (e *Env) Install(ctx context.Context) error {
	if e.Connected() {
		return nil
	}
	_, err := e.InstallFrom(ctx, "default")
	return err
}

// InstallFrom does what Install does with another folder of config, such as restricted. It
// returns what it applied. If the Env is connected to a cluster, its Deployments have no Pods:
// tests start the operators themselves.
func (e *Env) InstallFrom(ctx context.Context, folder string) ([]*unstructured.Unstructured, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	objs, err := Render(filepath.Join(root, "config", folder))
	if err != nil {
		return nil, err
	}
	for _, o := range objs {
		if e.Connected() && o.GetKind() == "Deployment" {
			if err := unstructured.SetNestedField(o.Object, int64(0), "spec", "replicas"); err != nil {
				return nil, err
			}
		}
	}
	return objs, Apply(ctx, e.Config, objs)
}

// Render returns the objects of a kustomization, as `kubectl kustomize` prints
// them. dir is the folder of its kustomization.yaml.
func Render(dir string) ([]*unstructured.Unstructured, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", dir, err)
	}
	var objs []*unstructured.Unstructured
	for _, r := range built.Resources() {
		json, err := r.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", dir, err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(json); err != nil {
			return nil, fmt.Errorf("rendering %s: %w", dir, err)
		}
		objs = append(objs, u)
	}
	return objs, nil
}

// Apply applies the objects on the server, by force, with strict validation and
// with kubectl's field manager: Namespaces and CRDs first, the others when the
// CRDs are established. The objects then hold what the API server answered.
// Options such as client.DryRunAll are passed on.
func Apply(ctx context.Context, cfg *rest.Config, objs []*unstructured.Unstructured, opts ...client.PatchOption) error {
	c, err := newClient(cfg)
	if err != nil {
		return err
	}
	opts = append([]client.PatchOption{
		client.FieldOwner(fieldManager), client.ForceOwnership, client.FieldValidation(metav1.FieldValidationStrict),
	}, opts...)
	objs = slices.Clone(objs)
	slices.SortStableFunc(objs, func(a, b *unstructured.Unstructured) int { return stage(a) - stage(b) })
	dryRun := isDryRun(opts)
	for _, o := range objs {
		if err := applyOne(ctx, c, o, opts); err != nil {
			return err
		}
		if stage(o) == stageCRD && !dryRun {
			if err := waitEstablished(ctx, c, o.GetName()); err != nil {
				return err
			}
		}
	}
	return nil
}

// The order in which objects are applied.
const (
	stageNamespace = iota
	stageCRD
	stageRest
)

func stage(o *unstructured.Unstructured) int {
	switch o.GetKind() {
	case "Namespace":
		return stageNamespace
	case "CustomResourceDefinition":
		return stageCRD
	}
	return stageRest
}

func isDryRun(opts []client.PatchOption) bool {
	o := client.PatchOptions{}
	o.ApplyOptions(opts)
	return len(o.DryRun) > 0
}

// applyOne applies one object. A kind that was established a moment ago may not
// be in discovery yet, so an unknown kind is tried again for a while.
func applyOne(ctx context.Context, c client.Client, o *unstructured.Unstructured, opts []client.PatchOption) error {
	body, err := o.MarshalJSON()
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", o.GetKind(), client.ObjectKeyFromObject(o), err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, poll, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		last = c.Patch(ctx, o, client.RawPatch(types.ApplyPatchType, body), opts...)
		return !meta.IsNoMatchError(last), nil
	})
	if last != nil {
		err = last
	}
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", o.GetKind(), client.ObjectKeyFromObject(o), err)
	}
	return nil
}

// waitEstablished waits until the API server serves the kinds of a CRD.
func waitEstablished(ctx context.Context, c client.Client, name string) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := wait.PollUntilContextTimeout(ctx, poll, startTimeout, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return false, err
		}
		return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established), nil
	})
	if err != nil {
		return fmt.Errorf("waiting until CustomResourceDefinition %s is established: %w (conditions: %v)", name, err, crd.Status.Conditions)
	}
	return nil
}

// newClient returns a client that knows CRDs and takes every kind unstructured.
func newClient(cfg *rest.Config) (client.Client, error) {
	return clientOf(cfg, apiextensionsv1.AddToScheme)
}

// Client returns a client that knows the kinds of Kubernetes, CRDs and VidraResources.
func Client(cfg *rest.Config) (client.WithWatch, error) {
	return clientOf(cfg, clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme)
}

func clientOf(cfg *rest.Config, kinds ...func(*runtime.Scheme) error) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range kinds {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.NewWithWatch(cfg, client.Options{Scheme: scheme})
}
