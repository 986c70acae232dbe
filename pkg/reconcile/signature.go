package reconcile

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// signature is what an object shows of an owner: the field manager and the annotation.
type signature struct{ owner, manager, annotation string }

func signatureOf(installation v1alpha1.Installation, owner string) signature {
	return signature{owner, installation.FieldManager(owner), installation.OwnerAnnotationKey(owner)}
}

// mark sets what every object of an owner has: the label that is watched, and the
// annotation that names the owner.
func (s signature) mark(u *unstructured.Unstructured) {
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[v1alpha1.ManagedByLabel] = v1alpha1.ManagedByValue
	annotations[s.annotation] = s.owner
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
}
