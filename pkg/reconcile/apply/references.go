package apply

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// maxReferences is how many owner references of an object are followed. Real objects have fewer.
const maxReferences = 16

// CheckReferences fails for an owner reference of the manifest whose owner is absent, as in an object that was exported from another
// cluster: the garbage collector of Kubernetes would delete the object, or the reference, after each apply. An unresolvable reference
// is ignored, as by the garbage collector (attemptToDeleteItem in k8s.io/kubernetes/pkg/controller/garbagecollector). get returns nil for an
// object that is absent.
func CheckReferences(ctx context.Context, o *desired.Object, kinds access.Kinds, get func(ctx context.Context, key trigger.ObjectKey) (*unstructured.Unstructured, error)) error {
	for i, ref := range o.Declares.References {
		if i < maxReferences && dangles(ctx, o, ref, kinds, get) {
			return object.AsLasting(fmt.Errorf("metadata.ownerReferences[%d] names %s %s with the uid %s, which does not exist: the garbage collector of Kubernetes "+
				"would delete the object or the reference again. Remove the reference from the manifest, or correct it", i, ref.Kind, ref.Name, ref.UID))
		}
	}
	return nil
}

// dangles reports whether the owner of an object is absent, or is another object of its name.
func dangles(ctx context.Context, o *desired.Object, ref metav1.OwnerReference, kinds access.Kinds,
	get func(ctx context.Context, key trigger.ObjectKey) (*unstructured.Unstructured, error),
) bool {
	mapping, err := kinds.Mapping(ctx, schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	if err != nil || mapping.Namespaced && o.Key.Namespace == "" {
		return false
	}
	key := trigger.ObjectKey{Cluster: o.Key.Cluster, GVR: mapping.GVR, Name: ref.Name}
	if mapping.Namespaced {
		key.Namespace = o.Key.Namespace
	}
	owner, err := get(ctx, key)
	return err == nil && (owner == nil || owner.GetUID() != ref.UID)
}
