package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Subject identifies the object or the part that has a problem. It is the same in every version of a kind, and
// zero if the problem is about the VidraResource.
type Subject struct{ Group, Kind, Resource, Namespace, Name string }

// Subject returns the subject of the problem.
func (p *Problem) Subject() Subject {
	if p.Object == nil {
		return Subject{}
	}
	o := p.Object
	version, _ := schema.ParseGroupVersion(o.APIVersion)
	return Subject{Group: version.Group, Kind: o.Kind, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name}
}

// In reports whether the problem is part of a condition.
func (p *Problem) In(condition string) bool { return slices.Contains(p.Conditions, condition) }
