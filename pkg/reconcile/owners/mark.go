package owners

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// Signature are the marks of the VidraResource on its objects.
func (s *Claimant) Signature() object.Signature {
	return object.SignatureOf(s.Installation, s.Owner.Name, s.ShardLabels...)
}

// Applied reports whether managedFields show that we applied an object.
func (s *Claimant) Applied(live *unstructured.Unstructured) bool {
	return slices.Contains(ownership.Managers(live, s.Manager), s.Manager)
}

// Owns reports whether an object is ours: managedFields show that we applied it, or, where they were cleared, its annotation
// names us and no other manager set it. It must not be known to be another object than the inventory lists. An annotation that
// another manager set was copied from an object of ours.
//
// An object with another UID than the inventory lists, or without one there, is ours if we applied it since it was created: we were stopped before the
// inventory had its UID, or the inventory was lost. Backups and scripts create objects with managedFields that they have copied, whose times are older.
//
// An object of the first operator lists us, and is in the inventory without a UID. Without an entry of the inventory, e is
// nil, and only managedFields count: users may copy marks, and clear managedFields then.
func (s *Claimant) Owns(live *unstructured.Unstructured, e *v1alpha1.ManagedResourceStatus) bool {
	switch {
	case e != nil && e.UID != string(live.GetUID()) && (e.UID != "" || s.Applied(live)):
		return s.appliedSinceCreation(live)
	case s.Applied(live):
		return true
	case e == nil:
		return ownership.Recorded(live) && s.LeftByFirstOperator(live)
	}
	key := s.Signature().Annotation
	marked := live.GetAnnotations()[key] == s.Owner.Name && len(ownership.AnnotationManagers(live, key)) == 0
	return marked || s.LeftByFirstOperator(live)
}

// appliedSinceCreation reports whether managedFields show that we applied an object itself, and no object that it was copied from.
func (s *Claimant) appliedSinceCreation(live *unstructured.Unstructured) bool {
	created := live.GetCreationTimestamp()
	return s.Applied(live) && !ownership.LastApplied(live, s.Manager).Before(created.Add(-longestCreation))
}

// longestCreation is how long before its creation the API server may have noted the time of the apply that creates an object: while
// webhooks answer.
const longestCreation = time.Minute

// FirstOperator is the field manager of the first Vidra operator.
const FirstOperator = "manager"

// Listed are the VidraResources in the list that the first operator kept on an object.
func Listed(live *unstructured.Unstructured) []string {
	return v1alpha1.Owners(map[string]string{v1alpha1.OwnerAnnotation: live.GetAnnotations()[v1alpha1.OwnerAnnotation]})
}

// LeftByFirstOperator reports whether the first operator wrote an object for us: its list names us, and the first
// operator set the list or the label, as far as managedFields record it. Other programs of its name write objects, too. A
// list and a label that another manager set were copied.
func (s *Claimant) LeftByFirstOperator(live *unstructured.Unstructured) bool {
	return slices.Contains(Listed(live), s.Owner.Name) && (!ownership.Recorded(live) ||
		slices.Contains(ownership.AnnotationManagers(live, v1alpha1.OwnerAnnotation), FirstOperator) ||
		slices.Contains(ownership.LabelManagers(live, v1alpha1.ManagedByLabel), FirstOperator))
}
