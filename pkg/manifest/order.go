package manifest

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Stage is a step of the apply of a manifest. Objects of one stage are independent of each other. The next stage begins when
// they were accepted; an object whose CRD is still to be established waits for its kind.
type Stage uint8

// The stages in their order.
const (
	// StageNamespaces holds the Namespaces: nothing can be created in one that
	// is absent.
	StageNamespaces Stage = iota
	// StageCRDs holds the CustomResourceDefinitions: their kinds are unserved
	// before.
	StageCRDs
	// StageCluster holds all other objects without a namespace: roles, classes.
	StageCluster
	// StageNamespaced holds the objects of namespaces.
	StageNamespaced
	// StageWebhooks holds objects that can refuse or change the other objects, and that need some of them to answer: webhook
	// configurations, admission policies and their bindings, and APIServices.
	StageWebhooks
)

// String returns the stage's name, for logs.
func (s Stage) String() string {
	return [...]string{"Namespaces", "CRDs", "Cluster", "Namespaced", "Webhooks"}[s]
}

// StageOf returns the stage of objects of a kind.
func StageOf(gk schema.GroupKind, namespaced bool) Stage {
	switch {
	case gk == schema.GroupKind{Kind: "Namespace"}:
		return StageNamespaces
	case gk == schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		return StageCRDs
	case gk.Group == "admissionregistration.k8s.io", gk == schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		return StageWebhooks
	case namespaced:
		return StageNamespaced
	}
	return StageCluster
}

// Sort sorts objects by their stages, in place. namespaced reports whether a kind is namespaced.
// Within a stage the objects keep their order.
func Sort(objects []Object, namespaced func(schema.GroupVersionKind) bool) {
	stage := func(o Object) Stage {
		gvk := o.GroupVersionKind()
		return StageOf(gvk.GroupKind(), namespaced(gvk))
	}
	slices.SortStableFunc(objects, func(a, b Object) int { return cmp.Compare(stage(a), stage(b)) })
}
