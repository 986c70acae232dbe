package manifest

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Stage is one of the steps in which the objects of a manifest are applied.
// Those of one stage do not depend on each other; the next stage begins when
// they are in place (for a CRD: accepted; its kind is waited for by whoever needs it).
type Stage int

// The stages in their order.
const (
	// StageNamespaces holds the Namespaces: nothing can be created in one that
	// does not exist.
	StageNamespaces Stage = iota
	// StageCRDs holds the CustomResourceDefinitions: their kinds are not served
	// before.
	StageCRDs
	// StageRest holds everything else.
	StageRest
)

// String returns the stage's name, for logs.
func (s Stage) String() string {
	switch s {
	case StageNamespaces:
		return "Namespaces"
	case StageCRDs:
		return "CRDs"
	}
	return "Rest"
}

// StageOf returns the stage in which objects of a kind are applied.
func StageOf(gk schema.GroupKind) Stage {
	switch gk {
	case schema.GroupKind{Group: "", Kind: "Namespace"}:
		return StageNamespaces
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		return StageCRDs
	}
	return StageRest
}

// Sort brings objects into the order of their stages, in place. Within a stage
// they keep the order that they have.
func Sort(objects []Object) {
	slices.SortStableFunc(objects, func(a, b Object) int {
		return cmp.Compare(StageOf(a.GroupVersionKind().GroupKind()), StageOf(b.GroupVersionKind().GroupKind()))
	})
}
