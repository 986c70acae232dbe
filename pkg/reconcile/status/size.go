package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/history"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// maxObject is the limit of a VidraResource in bytes, with its status, except for the maxDetails. etcd takes requests of 1.5
// MiB by default, including the wrapping by the API server.
const maxObject = 1_400_000

// nearLimit is how many percent of maxObject are near it.
const nearLimit = 80

// withNearLimit returns warnings, with a warning about the limit of the VidraResource if it is near.
func withNearLimit(warnings []v1alpha1.Problem, near bool) []v1alpha1.Problem {
	if !near {
		return warnings
	}
	return append(warnings, object.ProblemOf(nil, v1alpha1.ReasonNearSizeLimit, fmt.Sprintf(
		"the VidraResource takes more than %d %% of the %d bytes that it may have with the status of its objects: "+
			"move the manifest into ConfigMaps with spec.manifestFrom, or make several VidraResources of it", nearLimit, maxObject),
		v1alpha1.ConditionWarnings))
}

// TooLarge returns the reason that a VidraResource would be too large for the API server with the status that its manifest
// makes; else nil. With a reason, nothing is written. It notes in the state whether the VidraResource is near the limit. dropped
// is the number of its bytes that the cache drops.
func TooLarge(of *v1alpha1.VidraResource, s *plan.State, dropped int) *object.Failure {
	vr := of.DeepCopy()
	vr.Status = *s.Status.DeepCopy()
	vr.Status.ManagedResources, vr.Status.Problems, vr.Status.History = nil, nil, nil
	for _, o := range s.Objects.Manifest {
		d := o.Desired
		entry := object.NewEntry(d.ID, d.GVK)
		const uid, digest = "00000000-0000-0000-0000-000000000000", "1:0123456789abcdef0123456789abcdef"
		entry.UID, entry.Digest, entry.Configuration = uid, digest, d.Configuration
		if d.Secrecy.Withholds { // sealed ones are longer
			entry.Digest, entry.Configuration = digest+digest, digest+digest
		}
		if known := o.Entry; known != nil {
			entry.Recreated, entry.BreakGlass = known.Recreated, known.BreakGlass
		}
		vr.Status.ManagedResources = append(vr.Status.ManagedResources, *entry)
	}
	size := history.Size(vr) + dropped + maxProblems + history.MaxBytes
	s.Remarks.NearLimit = size > maxObject/100*nearLimit
	if size > maxObject {
		advice := "make several VidraResources of it"
		if vr.Spec.Manifest != "" {
			advice = "move the manifest into ConfigMaps with spec.manifestFrom, or " + advice
		}
		if dropped > history.Size(of)/3 {
			advice = fmt.Sprintf("remove its second copy with `kubectl annotate vidraresource %s %s-` and use `kubectl apply --server-side` from then on, or %s",
				of.Name, corev1.LastAppliedConfigAnnotation, advice)
		}
		return &object.Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: fmt.Sprintf(
			"the VidraResource would have %d bytes with the status of its %d objects, and the limit is %d: %s",
			size, len(s.Objects.Manifest), maxObject, advice)}
	}
	removed := 0
	for _, o := range s.Objects.Others { // what it removes is there until it is gone
		if o.Entry != nil {
			vr.Status.ManagedResources = append(vr.Status.ManagedResources, *o.Entry)
			removed++
		}
	}
	if size := history.Size(vr) + dropped + maxProblems + history.MaxBytes; size > maxObject {
		return &object.Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: fmt.Sprintf(
			"the VidraResource would have %d bytes with the status of the %d objects of the manifest and the %d that it removes, and the limit is %d: "+
				"change fewer objects at a time, for instance by removing some first",
			size, len(s.Objects.Manifest), removed, maxObject)}
	}
	return nil
}
