package main

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// populationNamespaces is how many namespaces the objects live in.
	populationNamespaces = 20
	// editedAnnotation is what the benchmark changes in an object that is not Vidra's.
	editedAnnotation = "bench.example.com/edited"
)

// population is many small ConfigMaps, as Vidra applies them for VidraResources
// of perOwner objects each.
type population struct {
	client            dynamic.Interface
	objects, perOwner int
}

func (p population) namespace(i int) string { return fmt.Sprintf("bench-%d", i%populationNamespaces) }
func (p population) name(i int) string      { return fmt.Sprintf("settings-%06d", i) }
func (p population) owner(i int) string     { return fmt.Sprintf("bench-%d", i/p.perOwner) }

// configMap is what Vidra sends for one object.
func (p population) configMap(i int) ([]byte, error) {
	u := unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"data": map[string]any{"number": fmt.Sprint(i)},
	}}
	u.SetNamespace(p.namespace(i))
	u.SetName(p.name(i))
	u.SetLabels(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue})
	u.SetAnnotations(map[string]string{v1alpha1.OwnerAnnotationKey(p.owner(i)): p.owner(i)})
	return u.MarshalJSON()
}

// apply applies every object with the field manager of its owner.
func (p population) apply(ctx context.Context) error {
	namespaces := p.client.Resource(namespaceGVR)
	for i := range populationNamespaces {
		namespace := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": p.namespace(i)},
		}}
		if _, err := namespaces.Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return p.each(ctx, "apply", func(ctx context.Context, i int) error {
		body, err := p.configMap(i)
		if err != nil {
			return err
		}
		return p.patch(ctx, i, types.ApplyPatchType, body, v1alpha1.FieldManager(p.owner(i)))
	})
}

// edit changes something in every object that is not Vidra's.
func (p population) edit(ctx context.Context, value string) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{editedAnnotation: value}},
	})
	if err != nil {
		return err
	}
	return p.each(ctx, "edit", func(ctx context.Context, i int) error {
		return p.patch(ctx, i, types.MergePatchType, body, editor)
	})
}

func (p population) patch(ctx context.Context, i int, as types.PatchType, body []byte, manager string) error {
	_, err := p.client.Resource(configMap.gvr).Namespace(p.namespace(i)).
		Patch(ctx, p.name(i), as, body, metav1.PatchOptions{FieldManager: manager})
	return err
}

// each does something to every object, several at a time.
func (p population) each(ctx context.Context, what string, do func(context.Context, int) error) error {
	bar := newProgress(fmt.Sprintf("%s %d objects", what, p.objects), p.objects)
	defer bar.end()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range p.objects {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			defer bar.step("")
			return do(ctx, i)
		})
	}
	return group.Wait()
}
