package reconcile

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// identity is what makes two mentions of an object the same object. The
// version is not part of it: an object is the same in every version.
type identity struct {
	schema.GroupKind
	namespace, name string
}

func identityOf(e *v1alpha1.ManagedResourceStatus) identity {
	gvk := gvkOf(e)
	return identity{GroupKind: gvk.GroupKind(), namespace: e.Namespace, name: e.Name}
}

// identityIn is what an object says of itself.
func identityIn(u *unstructured.Unstructured) identity {
	return identity{GroupKind: u.GroupVersionKind().GroupKind(), namespace: u.GetNamespace(), name: u.GetName()}
}

func gvkOf(e *v1alpha1.ManagedResourceStatus) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(e.APIVersion, e.Kind)
}

// entryOf makes the inventory entry of an object that is about to be created.
func entryOf(id identity, gvk schema.GroupVersionKind) *v1alpha1.ManagedResourceStatus {
	return &v1alpha1.ManagedResourceStatus{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind,
		Namespace: id.namespace, Name: id.name, State: v1alpha1.ObjectPending,
	}
}

// referenceTo is how Events refer to an object.
func referenceTo(id identity, gvk schema.GroupVersionKind, uid types.UID) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind,
		Namespace: id.namespace, Name: id.name, UID: uid,
	}
}

// referenceToOwner is how Events refer to a VidraResource.
func referenceToOwner(vr *v1alpha1.VidraResource) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: vr.Name, UID: vr.UID,
	}
}

// String names an object for people: kind, namespace and name.
func (id identity) String() string {
	return display.Name(id.Kind, id.namespace, id.name)
}

// subject is how problems name the object in every version of its kind.
func (id identity) subject() v1alpha1.Subject {
	return v1alpha1.Subject{Group: id.Group, Kind: id.Kind, Namespace: id.namespace, Name: id.name}
}

// problemObject is how problems name an object.
func problemObject(gvk schema.GroupVersionKind, id identity) *v1alpha1.ProblemObject {
	return &v1alpha1.ProblemObject{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: id.namespace, Name: id.name}
}
