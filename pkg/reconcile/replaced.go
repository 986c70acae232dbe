package reconcile

import (
	"slices"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// keepUntilApplied takes from what left the manifest what is not removed yet: while an
// object of the manifest cannot be applied, it may be what takes the place of another
// one, so that only what is on its way out goes.
func (p *pass) keepUntilApplied(ids []identity) []identity {
	s := p.session
	missing := slices.ContainsFunc(s.unresolved, func(u unresolved) bool { return s.unapplied(u.id) }) ||
		slices.ContainsFunc(s.objects, func(d *desired) bool { return s.unapplied(d.id) })
	if !missing {
		return ids
	}
	return slices.DeleteFunc(ids, func(id identity) bool {
		if s.inventory[id].State == v1alpha1.ObjectDeleting {
			return false
		}
		s.failures[id] = failure{v1alpha1.ReasonProgressing, "left the manifest, and is removed when all that is in it is applied"}
		return true
	})
}

// unapplied says whether the last attempt to apply an object failed.
func (s *session) unapplied(id identity) bool {
	why, failed := s.failures[id]
	return failed && why.reason != v1alpha1.ReasonProgressing
}
