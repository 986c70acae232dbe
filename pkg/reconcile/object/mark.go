package object

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// Signature is what an object shows of an owner: the field manager and the annotation.
type Signature struct{ owner, Manager, Annotation string }

// SignatureOf returns the signature of an owner.
func SignatureOf(installation v1alpha1.Installation, owner string) Signature {
	return Signature{owner, installation.FieldManager(owner), installation.OwnerAnnotationKey(owner)}
}

// Mark sets what every object of an owner has: the label that is watched, and the
// annotation that names the owner.
func (s Signature) Mark(u *unstructured.Unstructured) {
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[v1alpha1.ManagedByLabel] = v1alpha1.ManagedByValue
	annotations[s.Annotation] = s.owner
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
}
