package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// contentsTimeout is how long it may take to list what a container holds.
const contentsTimeout = time.Minute

// Contents returns what a Namespace or CustomResourceDefinition holds, read with the rights of Vidra itself. It fails if that
// is not all known.
func (a *Applier) Contents(ctx context.Context, container *unstructured.Unstructured) (owners.Inside, error) {
	ctx, cancel := context.WithTimeout(ctx, contentsTimeout)
	defer cancel()
	var inside owners.Inside
	var failed error
	visit := func(content cluster.Content) {
		others, ours, err := a.ownersOf(ctx, content)
		if failed = errors.Join(failed, err); err == nil {
			inside.Add(content, others, ours)
		}
	}
	err := a.visitContents(ctx, container, visit)
	return inside, errors.Join(err, failed)
}

// visitContents calls visit with each object that a Namespace or CustomResourceDefinition holds.
func (a *Applier) visitContents(ctx context.Context, container *unstructured.Unstructured, visit func(cluster.Content)) error {
	if object.IdentityIn(container).GroupKind == object.NamespaceKind {
		return a.Destination.VisitNamespace(ctx, container.GetName(), visit)
	}
	group, _, _ := unstructured.NestedString(container.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(container.Object, "spec", "names", "plural")
	kind, _, _ := unstructured.NestedString(container.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(container.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if name, _ := version["name"].(string); version["served"] == true {
			return a.Destination.VisitKind(ctx, schema.GroupVersionResource{Group: group, Version: name, Resource: plural}, kind, visit)
		}
	}
	return fmt.Errorf("no version of %s is served, so that its objects cannot be listed", container.GetName())
}

// ownersOf returns the owners of an object in a container: others are those that are not us.
func (a *Applier) ownersOf(ctx context.Context, content cluster.Content) (others []string, ours bool, err error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(content.PartialObjectMetadata)
	if err != nil {
		return nil, false, err
	}
	live := &unstructured.Unstructured{Object: fields}
	live.SetGroupVersionKind(content.GVR.GroupVersion().WithKind(content.Kind))
	key := trigger.ObjectKey{Cluster: a.Destination.Name(), GVR: content.GVR, Namespace: content.Namespace, Name: content.Name}
	all, err := a.Finder.AllOwners(ctx, key, live)
	for _, other := range all {
		name := "field manager " + other.Manager
		if other.Name != "" {
			name = v1alpha1.Kind + " " + other.Name
		}
		others = append(others, name)
	}
	slices.Sort(others)
	return others, a.Owns(live, nil), err
}
