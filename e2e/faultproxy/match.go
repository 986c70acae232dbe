package faultproxy

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Match selects requests. A field that is empty selects every request, so the
// zero value selects all.
type Match struct {
	// Verb as in Request.
	Verb string
	// Resource selects the requests for a resource and its subresources. Its
	// group is taken as it is, the core group being the empty one; an empty
	// version is every version. Without a resource, it selects by group and
	// version, where these are not empty: discovery documents are of no
	// resource. Those of all groups at once (/api and /apis) are of no group
	// either; to select these, say PathPrefix.
	Resource schema.GroupVersionResource
	// Subresource, such as scale or status.
	Subresource string
	// Namespace and Name of the object.
	Namespace, Name string
	// PathPrefix is what the path of the URL begins with, such as /readyz.
	PathPrefix string
	// Parameter is the name of a parameter in the query of the URL, such as continue.
	Parameter string
	// Where selects by a condition of its own, if not nil. It is called under a lock, and must not wait.
	Where func(Request) bool
}

// matches says whether the request is one of those that m selects.
func (m Match) matches(q Request) bool {
	return equalOrEmpty(m.Verb, q.Verb) &&
		m.matchesResource(q) &&
		equalOrEmpty(m.Subresource, q.Subresource) &&
		equalOrEmpty(m.Namespace, q.Namespace) &&
		equalOrEmpty(m.Name, q.Name) &&
		strings.HasPrefix(q.Path, m.PathPrefix) &&
		(m.Parameter == "" || q.Query.Has(m.Parameter)) &&
		(m.Where == nil || m.Where(q))
}

func (m Match) matchesResource(q Request) bool {
	if !equalOrEmpty(m.Resource.Version, q.Version) {
		return false
	}
	if m.Resource.Resource == "" {
		return equalOrEmpty(m.Resource.Group, q.Group)
	}
	return m.Resource.GroupResource() == schema.GroupResource{Group: q.Group, Resource: q.Resource}
}

// equalOrEmpty says whether what is wanted is nothing, or what there is.
func equalOrEmpty(want, got string) bool {
	return want == "" || want == got
}
