package insight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

// namespaces is the resource of Namespaces.
var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// unmanaged is the error about an object that no VidraResource manages, with the object that the user may mean.
func (s *subject) unmanaged(ctx context.Context, absent bool, all []*v1alpha1.VidraResource) error {
	if absent && s.id.Namespace != "" {
		_, err := s.client.dynamic.Resource(namespaces).Get(ctx, s.id.Namespace, metav1.GetOptions{})
		if object.IsAbsent(err, s.id.Namespace) {
			return fmt.Errorf("%s does not exist: namespace %q does not exist%s", s.id, s.id.Namespace,
				didYouMean(similar(s.id.Namespace, namespacesIn(all))))
		}
	}
	what := "is not managed by Vidra"
	if absent {
		what = "does not exist, and no VidraResource manages it"
	} else if owner, manager := s.ownerOf(ctx, all); owner != nil {
		return fmt.Errorf("%s is in no manifest: %s owns it, which VidraResource %s manages: `%s`", s.id, owner, manager, s.client.program.Hint("why", TargetOf(*owner).Argument()))
	}
	hint := meant(s.id, all)
	for _, missing := range s.missing {
		hint += "; not known is " + missing
	}
	return fmt.Errorf("%s %s (%s searched)%s", s.id, what, display.Plural(len(all), "VidraResource"), hint)
}

// meant proposes the managed object that the user may mean instead of another: one of the same kind, with the same name in another
// namespace or else with a similar name. It is empty if there is none.
func meant(id object.Identity, all []*v1alpha1.VidraResource) string {
	var names, elsewhere, likely []string
	managed := managedOfKind(all, id.GroupKind)
	for _, m := range managed {
		names = append(names, m.id.Name)
		if m.id.Name == id.Name {
			elsewhere = append(elsewhere, fmt.Sprintf("VidraResource %s manages %s: add -n %s", m.by, m.id, m.id.Namespace))
		}
	}
	if len(elsewhere) > 0 {
		return "; " + strings.Join(elsewhere[:min(len(elsewhere), mostProposed)], "; ")
	}
	names = similar(id.Name, names)
	slices.SortStableFunc(managed, func(a, b managedObject) int { // those of the namespace first
		return cmp.Compare(rankOf(a.id.Namespace == id.Namespace), rankOf(b.id.Namespace == id.Namespace))
	})
	for _, m := range managed {
		if slices.Contains(names, m.id.Name) && len(likely) < mostProposed {
			likely = append(likely, m.id.String())
		}
	}
	return didYouMean(likely)
}

// rankOf puts true before false.
func rankOf(first bool) int {
	if first {
		return 0
	}
	return 1
}

// managedObject is an object in the inventory of a VidraResource.
type managedObject struct {
	id object.Identity
	by string
}

// managedOfKind are the objects of a kind in the inventories.
func managedOfKind(all []*v1alpha1.VidraResource, kind schema.GroupKind) []managedObject {
	var managed []managedObject
	for _, vr := range all {
		for i := range vr.Status.ManagedResources {
			if id := object.IdentityOf(&vr.Status.ManagedResources[i]); id.GroupKind == kind {
				managed = append(managed, managedObject{id: id, by: vr.Name})
			}
		}
	}
	return managed
}

// namespacesIn are the namespaces of the objects in the inventories.
func namespacesIn(all []*v1alpha1.VidraResource) []string {
	var names []string
	for _, vr := range all {
		for i := range vr.Status.ManagedResources {
			if namespace := vr.Status.ManagedResources[i].Namespace; namespace != "" {
				names = append(names, namespace)
			}
		}
	}
	return names
}

// mostOwners is how many ownerReferences are followed, one above the other.
const mostOwners = 8

// ownerOf follows the ownerReferences of the object to the first owner that a VidraResource manages; nil if there is none that may be read.
func (s *subject) ownerOf(ctx context.Context, all []*v1alpha1.VidraResource) (owner *object.Identity, manager string) {
	live := s.live
	for range mostOwners {
		if live == nil {
			return nil, ""
		}
		ref := metav1.GetControllerOf(live)
		if refs := live.GetOwnerReferences(); ref == nil && len(refs) > 0 {
			ref = &refs[0]
		}
		if ref == nil {
			return nil, ""
		}
		gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
		for _, namespace := range []string{live.GetNamespace(), ""} { // the owner may have no namespace
			id := object.Identity{GroupKind: gvk.GroupKind(), Namespace: namespace, Name: ref.Name}
			for _, vr := range all {
				if owners.EntryOf(vr, id) != nil && !Remote(vr) {
					return &id, vr.Name
				}
			}
		}
		live = s.readOwner(ctx, gvk, live.GetNamespace(), ref)
	}
	return nil, ""
}

// readOwner reads the owner of an object in a namespace; nil if it may not be read or is another one by now.
func (s *subject) readOwner(ctx context.Context, gvk schema.GroupVersionKind, namespace string, ref *metav1.OwnerReference) *unstructured.Unstructured {
	mapping, err := s.client.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil
	}
	if !isNamespaced(mapping) {
		namespace = ""
	}
	owner, err := s.client.dynamic.Resource(mapping.Resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil || owner.GetUID() != ref.UID {
		return nil
	}
	return owner
}

// noKind is the error about a kind that the cluster does not serve, with the kinds that the user may mean.
func (c *Client) noKind(typed string) error {
	var names []string
	lists, err := c.kinds.ServerPreferredResources()
	for _, list := range lists {
		for _, r := range list.APIResources {
			names = append(names, strings.ToLower(r.Kind))
		}
	}
	hint := didYouMean(similar(strings.ToLower(typed), names))
	if err != nil { // an unread group may have the kind
		return fmt.Errorf("find the kind %q: %w%s", typed, err, hint)
	}
	return fmt.Errorf("the cluster serves no kind %q: `kubectl api-resources` lists those that it serves%s", typed, hint)
}
