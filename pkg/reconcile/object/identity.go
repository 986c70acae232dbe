package object

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/manifest"
)

// Kinds that are treated in a way of their own.
var (
	CRDKind       = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	NamespaceKind = schema.GroupKind{Kind: "Namespace"}
	SecretKind    = schema.GroupKind{Kind: "Secret"}
)

// Identify returns a short text that differs for other parts.
func Identify(parts ...[]byte) string {
	const enough = 12 // bytes
	sum := sha256.Sum256(bytes.Join(parts, []byte{0}))
	return base64.RawURLEncoding.EncodeToString(sum[:enough])
}

// NoVersion is a resourceVersion that is unused: an apply with it creates an object, and is refused
// with a conflict if there is one. So it costs one request to create, and leaves the objects of other clients as they are.
const NoVersion = "1"

// Identity is equal for two mentions of the same object. The
// version is left out: an object is the same in every version.
type Identity struct {
	schema.GroupKind
	Namespace, Name string
}

// IsContainer reports whether the deletion of the object deletes others: it is a Namespace, or the CustomResourceDefinition
// of a kind.
func (id Identity) IsContainer() bool {
	return id.GroupKind == NamespaceKind || id.GroupKind == CRDKind
}

// IsBuiltIn reports whether the kind is one of Kubernetes.
func (id Identity) IsBuiltIn() bool { return display.OfKubernetes(id.Group) }

// undeletable are the Namespaces that the API server never deletes (k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle). It
// creates them when it starts.
var undeletable = map[string]bool{
	metav1.NamespaceDefault: true, metav1.NamespaceSystem: true, metav1.NamespacePublic: true, corev1.NamespaceNodeLease: true,
}

// IsUndeletable reports whether the API server never deletes the object.
func (id Identity) IsUndeletable() bool { return id.GroupKind == NamespaceKind && undeletable[id.Name] }

// IdentityOf returns the identity of an inventory entry.
func IdentityOf(e *v1alpha1.ManagedResourceStatus) Identity {
	gvk := GVKOf(e)
	return Identity{GroupKind: gvk.GroupKind(), Namespace: e.Namespace, Name: e.Name}
}

// IdentityIn returns the identity in the metadata of an object.
func IdentityIn(u *unstructured.Unstructured) Identity {
	return Identity{GroupKind: u.GroupVersionKind().GroupKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

// GVKOf returns the kind and version of an inventory entry.
func GVKOf(e *v1alpha1.ManagedResourceStatus) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(e.APIVersion, e.Kind)
}

// NewEntry makes the inventory entry of an object that is about to be created.
func NewEntry(id Identity, gvk schema.GroupVersionKind) *v1alpha1.ManagedResourceStatus {
	return &v1alpha1.ManagedResourceStatus{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind,
		Namespace: id.Namespace, Name: id.Name, State: v1alpha1.ObjectPending,
	}
}

// Bare returns an object that has only its kind, namespace and name.
func Bare(gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// ReferenceTo is how Events refer to an object.
func ReferenceTo(id Identity, gvk schema.GroupVersionKind, uid types.UID) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind,
		Namespace: id.Namespace, Name: id.Name, UID: uid,
	}
}

// ReferenceToOwner is how Events refer to a VidraResource.
func ReferenceToOwner(vr *v1alpha1.VidraResource) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: vr.Name, UID: vr.UID,
	}
}

// String names an object in messages: kind, namespace and name. A kind that has the name of one of Kubernetes gets its group.
func (id Identity) String() string {
	return display.NameOf(id.GroupKind, id.Namespace, id.Name)
}

// Subject is how problems name the object in every version of its kind.
func (id Identity) Subject() v1alpha1.Subject {
	return v1alpha1.Subject{Group: id.Group, Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
}

// Stage is the stage of the apply of the object.
func (id Identity) Stage() manifest.Stage { return manifest.StageOf(id.GroupKind, id.Namespace != "") }
