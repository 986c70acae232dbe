package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// maxHealFields is how many fields of a kind the status names of the last heal.
const maxHealFields = 10

// Healed notes that an object was reverted, for the status, which counts it within
// HealFlush, or later where heals are many.
func (s *State) Healed(change events.Change, now time.Time, later time.Duration) {
	if flush := now.Add(HealFlush + later); s.Heals == 0 || flush.Before(s.Schedule.Flush) {
		s.Schedule.Flush = flush
	}
	s.Heals++
	s.HealedAt = metav1.NewTime(now)
	heal := &v1alpha1.Heal{Object: events.Name(change.Object)}
	for _, field := range change.Fields {
		paths := &heal.Fields
		if field.Kind == ownership.Added {
			paths = &heal.Added
		}
		if len(*paths) < maxHealFields {
			*paths = append(*paths, field.Path)
		}
		if heal.Manager == "" {
			heal.Manager = field.Manager
		}
	}
	s.LastHeal = heal
}

// WithHeals returns status with the heals that it does not count yet.
func (s *State) WithHeals(status v1alpha1.VidraResourceStatus) v1alpha1.VidraResourceStatus {
	if s.Heals == 0 {
		return status
	}
	status = *status.DeepCopy()
	if status.Drift == nil {
		status.Drift = &v1alpha1.DriftStatus{}
	}
	status.Drift.Heals += s.Heals
	status.Drift.LastHealTime = s.HealedAt.DeepCopy()
	status.Drift.LastHeal = s.LastHeal
	return status
}
