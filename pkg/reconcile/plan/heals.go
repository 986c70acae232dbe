package plan

import (
	"cmp"
	"slices"
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
	if flush := now.Add(HealFlush + later); s.Reports.Unreported.Heals == 0 || flush.Before(s.Schedule.Flush) {
		s.Schedule.Flush = flush
	}
	s.Reports.Unreported.Heals++
	s.Reports.Unreported.HealedAt = metav1.NewTime(now)
	heal := &v1alpha1.Heal{Object: events.Name(change.Object)}
	for _, field := range change.Fields {
		paths := &heal.Fields
		if field.Kind == ownership.Added {
			paths = &heal.Added
		}
		if len(*paths) < maxHealFields {
			*paths = append(*paths, field.Path)
		}
		heal.Manager = cmp.Or(heal.Manager, field.Manager)
	}
	s.Reports.Unreported.LastHeal = heal
}

// Note notes an action on an object, for the Events that follow the status and for the history that
// is in it.
func (p *Planner) Note(change events.Change) {
	s := p.State
	s.Reports.Events = append(s.Reports.Events, change)
	if s.Reports.Unreported.History.Add(p.Settings.Claimant.Owner.Name, change, p.Now) && s.Schedule.Flush.IsZero() {
		s.Schedule.Flush = p.Now.Add(HealFlush)
	}
}

// DropFoundAgain forgets the changes that the next reconcile finds again, because no status has them.
func (s *State) DropFoundAgain() {
	s.Reports.Events = slices.DeleteFunc(s.Reports.Events, func(change events.Change) bool { return change.Action.Rediscovered() })
	s.Reports.Unreported.History.DropFoundAgain()
}

// Unwritten reports whether there are heals that the status is still to count, or edits that it is still to
// list.
func (s *State) Unwritten() bool {
	return s.Reports.Unreported.Heals > 0 || s.Reports.Unreported.History.Any()
}

// TakeUnreported returns the results that are about to be written into the status, and removes them: objects may be healed during the write.
func (s *State) TakeUnreported() Unreported {
	taken := s.Reports.Unreported
	taken.due = s.Schedule.Flush
	s.Reports.Unreported, s.Schedule.Flush = Unreported{}, time.Time{}
	return taken
}

// ReturnUnreported adds the results whose write failed.
func (s *State) ReturnUnreported(taken Unreported) {
	if s.Reports.Unreported.Heals == 0 {
		s.Reports.Unreported.LastHeal, s.Reports.Unreported.HealedAt = taken.LastHeal, taken.HealedAt
	}
	s.Reports.Unreported.Heals += taken.Heals
	s.Reports.Unreported.History = taken.History.And(s.Reports.Unreported.History)
	if at := s.Schedule.Flush; at.IsZero() || !taken.due.IsZero() && taken.due.Before(at) {
		s.Schedule.Flush = taken.due
	}
}

// AddTo returns status with the heals that it is still to count, and the edits that it is still to list.
func (u *Unreported) AddTo(status v1alpha1.VidraResourceStatus) v1alpha1.VidraResourceStatus {
	u.History.AddTo(&status)
	if u.Heals == 0 {
		return status
	}
	status = *status.DeepCopy()
	status.Drift = cmp.Or(status.Drift, &v1alpha1.DriftStatus{})
	status.Drift.Heals += u.Heals
	status.Drift.LastHealTime = u.HealedAt.DeepCopy()
	status.Drift.LastHeal = u.LastHeal
	return status
}
