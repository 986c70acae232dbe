package reconcile

import (
	"runtime"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// bodies are the bodies of the objects of a manifest.
type bodies struct {
	// weight is the weight of all objects.
	weight int64
	// kept counts the bodies until it is unreachable; nil if they are few. dropped reports that they are gone, so that the manifest is read again by the
	// next reconcile.
	kept    *[]*plan.Object
	dropped bool
}

// keepBodies keeps the bodies of the objects of an owner for the next reconcile, unless they
// are large and all owners keep too many. The next reconcile then reads the manifest
// again.
func (r *Reconciler) keepBodies(s *ownerState) {
	size := int64(0)
	for _, o := range s.plan.Objects.Manifest {
		size += int64(len(o.Desired.Body))
	}
	if size <= limits.FewBodies || s.manifest.bodies.kept != nil {
		return
	}
	if r.bounds.heavy.KeepBodies(size) {
		kept := s.plan.Objects.Manifest
		s.manifest.bodies.kept = &kept
		runtime.AddCleanup(&kept, r.bounds.heavy.DropBodies, size)
		return
	}
	for _, o := range s.plan.Objects.Manifest {
		o.Desired.Body = nil
	}
	s.manifest.bodies.dropped = true
}

// isHeavy reports whether a reconcile of vr for causes may parse or apply more than
// limits.LightWeight.
func (r *Reconciler) isHeavy(owner trigger.Owner, vr *v1alpha1.VidraResource, causes trigger.Causes) bool {
	s := r.states.of(owner)
	if s != nil {
		s.lane.enter()
		defer s.lane.leave()
	}
	full := causes.All || len(causes.Objects) == 0 && !causes.Health && !causes.Others && !causes.Report
	switch {
	case s == nil, !s.isOf(vr), s.plan.Read.Generation != vr.Generation, s.plan.Read.Again, s.manifest.bodies.dropped:
		return len(vr.Spec.ManifestFrom) > 0 || len(vr.Spec.Manifest) > limits.LightText || manifest.Weight(vr.Spec.Manifest) > limits.LightWeight
	case full:
		return len(vr.Spec.ManifestFrom) > 0 || s.manifest.bodies.weight > limits.LightWeight
	case s.manifest.bodies.weight <= limits.LightWeight:
		return false
	}
	weight := int64(0)
	for _, o := range s.plan.Objects.Manifest {
		if _, is := causes.Objects[o.Desired.Key]; is {
			weight += o.Desired.Weight
		}
	}
	return weight > limits.LightWeight
}

// artifactsTenant returns the tenant of a reconcile of artifacts, also without an account: the namespace. Such reconciles share the bound of a tenant, as
// they last as long as the server of the artifacts takes.
func artifactsTenant(vr *v1alpha1.VidraResource) string {
	if !source.HasArtifacts(vr) {
		return ""
	}
	return vr.Spec.Destination.Namespace
}
