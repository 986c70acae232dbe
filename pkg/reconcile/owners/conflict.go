package owners

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// Conflict is a field with another value in the manifest of another VidraResource.
type Conflict struct {
	// Other is the name of the other VidraResource; empty for one of another installation in another cluster.
	Other string
	field string
	// Leaving reports that the other VidraResource will release the object.
	Leaving bool
	// unread reports that its manifest is unreadable, and its values unknown.
	unread bool
	// Manager is the field manager that owns the field.
	Manager string
}

func (r *Conflict) Error() string {
	switch {
	case r.Other == "":
		return fmt.Sprintf("the field manager %q of another Vidra installation wants another value of %s: "+
			"let only one of them set it, or set spec.adopt to Always to take it", r.Manager, r.field)
	case r.Leaving:
		return fmt.Sprintf("VidraResource %s owns it, and releases it, because its manifest does not have it any more: it is applied then", r.Other)
	case r.unread:
		return fmt.Sprintf("VidraResource %s owns it, another client has edited it, and the manifest of that VidraResource cannot be read, so that its values are unknown: "+
			"correct that manifest, or take the object out of it", r.Other)
	}
	return fmt.Sprintf("VidraResource %s wants another value of %s: let only one of them set it", r.Other, r.field)
}

// AsFailure returns the conflict; values of a sensitive object are left out.
func (r *Conflict) AsFailure(_ error, known ownership.Disclosure) object.Failure {
	shown := *r
	shown.field = object.FieldWithoutValues(r.field, known)
	if r.Leaving {
		return object.Failure{Reason: v1alpha1.ReasonProgressing, Message: shown.Error(), AwaitsRelease: true}
	}
	return object.Failure{Reason: v1alpha1.ReasonOwnershipConflict, Message: shown.Error()}
}

// agreement returns a function that reports whether the latest manifest of the other VidraResource has the value of a field that the object applied
// has. field is as the API server names it in a conflict about live.
func (o *CoOwner) agreement(live, applied *unstructured.Unstructured) func(field string) bool {
	if o.wanted == nil {
		return func(string) bool { return false }
	}
	return ownership.SameValues(live, o.Manager, o.wanted, applied)
}

// RivalOf returns a Conflict if one of others owns an object that was edited since its apply, and its latest manifest has another value
// of a field than applied has, or is unreadable. Until it has reverted the edit, managedFields show only a part of its fields: an edit would
// give the object to the VidraResource that applies it first.
func RivalOf(others []CoOwner, applied *unstructured.Unstructured) error {
	for _, other := range others {
		switch unread := other.wanted == nil; {
		case !other.Recorded, other.Leaving, unread && other.Genuine, other.Intact && !other.UnderWay:
			continue
		case unread:
			return &Conflict{Manager: other.Manager, Other: other.Name, unread: true}
		}
		if field, differs := ownership.Disagreement(other.wanted, applied); differs {
			return &Conflict{Manager: other.Manager, Other: other.Name, field: field}
		}
	}
	return nil
}

// conflictIn returns a Conflict if a refused apply of wanted is in conflict with one of others that owns the field, except where the latest
// manifest of that one has the same value. A manager that only has the name of a VidraResource is a manager like others.
func conflictIn(refused error, live, wanted *unstructured.Unstructured, others []CoOwner) error {
	details := object.DetailsOf(refused)
	if details == nil || len(details.Causes) == 0 {
		return refused // not a conflict of field managers
	}
	agrees := map[int]func(field string) bool{}
	for _, cause := range details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			return refused
		}
		manager, applies := managerIn(cause.Message)
		i := slices.IndexFunc(others, func(other CoOwner) bool { return other.Manager == manager })
		if !applies || i < 0 {
			continue
		}
		if agrees[i] == nil {
			agrees[i] = others[i].agreement(live, wanted)
		}
		if !agrees[i](cause.Field) {
			return &Conflict{Manager: manager, Other: others[i].Name, Leaving: others[i].Leaving, field: strings.TrimPrefix(cause.Field, ".")}
		}
	}
	return nil
}

// Contested returns a Conflict if an apply of wanted, which the API server refused for fields of other field managers, must
// not take them from other VidraResources, and nil if it may take them. others own the object, elsewhere are owners of other
// installations, and live is the object. drift reports that the apply reverts an edit.
func Contested(refused error, live, wanted *unstructured.Unstructured, others, elsewhere []CoOwner, drift bool) error {
	all := slices.DeleteFunc(slices.Clone(others), func(other CoOwner) bool { return !other.Genuine && (!other.UnderWay || drift) })
	conflict := conflictIn(refused, live, wanted, append(all, elsewhere...))
	if conflict == nil && !drift {
		return RivalOf(others, wanted)
	}
	return conflict
}

// FieldConflict is a field that an apply wants to change and that another field manager owns.
type FieldConflict struct{ Field, Manager string }

// FieldConflictsIn returns the fields of a conflict of field managers; none for another error.
func FieldConflictsIn(conflict error) []FieldConflict {
	details := object.DetailsOf(conflict)
	if details == nil {
		return nil
	}
	var all []FieldConflict
	for _, cause := range details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			manager, _ := managerIn(cause.Message)
			all = append(all, FieldConflict{strings.TrimPrefix(cause.Field, "."), manager})
		}
	}
	return all
}

// managerIn returns the manager that the API server names in a conflict, and whether it
// owns the field by an apply to the object itself. The message is
//
//	conflict with "manager"
//
// and continues with a subresource, and with the apiVersion of an update
// (k8s.io/apimachinery/pkg/util/managedfields/internal, printManager).
func managerIn(message string) (manager string, applies bool) {
	_, rest, _ := strings.Cut(message, `"`)
	manager, rest, _ = strings.Cut(rest, `"`)
	return manager, rest == ""
}

// OnlyClaimed reports whether the other VidraResources that own an object only note on it that
// it is wanted: all that they own is our mark.
func OnlyClaimed(live *unstructured.Unstructured, others []CoOwner) bool {
	for _, entry := range live.GetManagedFields() {
		if entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil ||
			!slices.ContainsFunc(others, func(other CoOwner) bool { return other.Manager == entry.Manager }) {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return false
		}
		marks := true
		set.Iterate(func(path fieldpath.Path) { marks = marks && isMark(path) })
		if !marks {
			return false
		}
	}
	return true
}

// isMark reports whether a field belongs to the marks that Signature.Mark sets, or is above one.
func isMark(path fieldpath.Path) bool {
	var names []string
	for _, element := range path {
		if element.FieldName == nil {
			return false
		}
		names = append(names, *element.FieldName)
	}
	if len(names) < 3 { // metadata.labels
		return names[0] == "metadata"
	}
	return len(names) == 3 && names[0] == "metadata" &&
		(names[1] == "labels" && (names[2] == v1alpha1.ManagedByLabel || v1alpha1.IsShardLabel(names[2])) || names[1] == "annotations" && v1alpha1.IsOwnerAnnotation(names[2]))
}
