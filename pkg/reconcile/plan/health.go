package plan

import (
	"fmt"
	"slices"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/healthcheck"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// healthSpacing is the time until the status names other unhealthy objects.
// That all are healthy, or that one fails, is reported at once.
const healthSpacing = 10 * time.Second

// HealthReport is the known health of the objects.
type HealthReport struct {
	// Unknown reports that a watch that would show it is unsynced or absent.
	// Starting reports that it is about to be synced.
	Unknown, Starting bool
	// Ill are the unhealthy objects, sorted.
	Ill []Illness
	// Invalid is the reason that checks of the spec are ineffective; nil if all have an effect.
	Invalid error
}

// healthAnswer is the health of an object in an answer of the API server.
type healthAnswer struct {
	// health is nil if a watch shows it.
	health *trigger.Health
	// check is the check that computed health; nil for kstatus.
	check *healthcheck.Check
	// read reports that the object was read for health, and failed is the error of the read.
	read   bool
	failed error
}

// Illness is an unhealthy object.
type Illness struct {
	Object v1alpha1.ProblemObject
	Health trigger.Health
	// Blocked reports that the object is being deleted, and that this counts as blocked.
	Blocked bool
}

// failed reports whether an object needs help to become healthy.
func (r *HealthReport) failed() bool { return slices.ContainsFunc(r.Ill, Illness.failed) }

func (i Illness) failed() bool {
	return i.Blocked || i.Health.Status == kstatus.FailedStatus || i.Health.Status == kstatus.UnknownStatus
}

// wakes returns when deletions count as blocked, at the earliest when the status may name other objects.
func (r *HealthReport) wakes(notBefore time.Time) (wakes []Wake) {
	for _, ill := range r.Ill {
		if at := ill.Health.BlockedAt(); !at.IsZero() && !ill.Blocked {
			wakes = append(wakes, Wake{at.Add(max(0, notBefore.Sub(at))), wakeBlocked})
		}
	}
	return wakes
}

// Checkup finds out the health of the objects, from the stores of the watches, at no request. Of unwatched objects it is the
// health in the last answer.
func (p *Planner) Checkup() {
	s := p.State
	if !p.Scope.All && !p.Causes.Health && p.Settings.Watched {
		return
	}
	report, missing := &HealthReport{Invalid: p.Settings.Checks.Err()}, false
	p.Env.Index.AwaitHealth(p.Settings.Claimant.Owner, true) // an event may follow the look into the store
	checked := make([]v1alpha1.ObjectHealth, len(s.Objects.Manifest))
	for i, o := range s.Objects.Manifest {
		d, entry := o.Desired, o.Entry
		if o.In(v1alpha1.ObjectCompleted) {
			continue
		}
		if entry == nil || entry.UID == "" {
			report.Unknown = true // another problem reports that it is not applied
			continue
		}
		checked[i] = entry.Health
		kept, found, synced := p.stored(d.Key)
		health, known := trigger.CheckedHealthOf(kept, p.Settings.Checks.For(d.ID.GroupKind))
		known = known && found && synced
		if o.Seen.answer.health != nil && (!known || !o.Seen.answer.read && o.Seen.observation != observed) {
			health, known = *o.Seen.answer.health, true
		} else if known { // the answer may be older: the first event of a watch may show an object that is Current by then, which is no change
			o.Seen.Sighting = Sighting{Exists: true}
			entry.Succeeded = trigger.Succeeded(kept)
		}
		if known && health.Sensitive { // until it is applied
			entry.Sensitive = true
		}
		missing = missing || synced && !found && (!known || health.Status != kstatus.CurrentStatus)
		if d.Disclosure(o.WasSensitive()).Withholds() && health.Status != kstatus.TerminatingStatus {
			health.Message = "" // a controller may quote values in it
		}
		switch {
		case !known:
			report.Unknown = true
			report.Starting = report.Starting || s.Watching.Watches[p.Settings.WatchKey(d.Key)].State == watchregistry.Starting
		case health.Status != kstatus.CurrentStatus:
			at := health.BlockedAt()
			ill := Illness{Object: *object.ProblemObject(d.GVK, d.ID), Health: health, Blocked: !at.IsZero() && !p.Now.Before(at)}
			report.Ill = append(report.Ill, ill)
			checked[i] = v1alpha1.ObjectInProgress
			if ill.failed() {
				checked[i] = v1alpha1.ObjectUnhealthy
			}
		default:
			checked[i] = v1alpha1.ObjectCurrent
		}
	}
	if p.Settings.Watched { // the watches know from now on, and of an object that was read for its health, from its next event on
		for _, o := range s.Objects.Manifest {
			if !o.Seen.answer.read || !p.healthUnknown(o) {
				o.Seen.answer = healthAnswer{}
			}
		}
	}
	p.Env.Index.AwaitHealth(p.Settings.Claimant.Owner, missing)
	s.Schedule.healthDelayed = false
	if old := s.Health; old != nil && p.Now.Before(s.Schedule.health) && len(old.Ill) > 0 && len(report.Ill) > 0 &&
		old.failed() == report.failed() && old.Unknown == report.Unknown && (old.Invalid == nil) == (report.Invalid == nil) {
		s.Schedule.healthDelayed = true // a rollout is not a write of the status for each object of it
		return
	}
	s.Health, s.Schedule.health = report, p.Now.Add(healthSpacing)
	for i, o := range s.Objects.Manifest {
		if o.Entry != nil {
			o.Entry.Health = checked[i]
		}
	}
}

// ForgetAnswers forgets the health in answers of the API server, once watches show the objects.
func (s *Objects) ForgetAnswers() {
	for _, o := range s.Manifest {
		o.Seen.answer = healthAnswer{}
	}
}

// RecordHealth notes the health of an object as a request showed it: its watch may see it
// later, or is absent.
func (p *Planner) RecordHealth(o *Object, live *unstructured.Unstructured) {
	check := p.Settings.Checks.For(o.ID.GroupKind)
	health := trigger.CheckHealth(live, check)
	o.Seen.answer = healthAnswer{health: &health, check: check}
}

// NoteHealthRead notes the health of an object that was read because its check is new; err is the error of the read.
func (p *Planner) NoteHealthRead(o *Object, live *unstructured.Unstructured, err error) {
	if err == nil {
		p.RecordHealth(o, live)
	} else {
		unreadable := &trigger.Health{Status: kstatus.UnknownStatus, Message: "spec.healthChecks cannot read it: " + err.Error()}
		o.Seen.answer = healthAnswer{health: unreadable, check: p.Settings.Checks.For(o.ID.GroupKind)}
	}
	o.Seen.answer.read, o.Seen.answer.failed = true, err
}

// NeedsHealth returns the objects that events and answers have left out since they have a check, or another one. They have to be read. One whose
// read failed is read again with the next retry, or at the next resync after a lasting refusal.
func (p *Planner) NeedsHealth() (objects []*Object) {
	if !p.Scope.All && !p.Causes.Health && p.Settings.Watched {
		return nil
	}
	for _, o := range p.State.Objects.Manifest {
		check, answer := p.Settings.Checks.For(o.ID.GroupKind), o.Seen.answer
		again := answer.failed != nil && p.Scope.Resync || o.retriesHealth() && o.Attempts.Retry.due(p.Now, p.Scope.All)
		checked := check != nil || answer.check != nil || answer.failed != nil // or the read for the end of its check failed
		if o.hasHealth() && checked && p.healthUnknown(o) && (answer.health == nil || answer.check != check || again) {
			objects = append(objects, o)
		}
	}
	return objects
}

// hasHealth reports whether the object exists, and has a health.
func (o *Object) hasHealth() bool {
	return o.Entry != nil && o.Entry.UID != "" && !o.In(v1alpha1.ObjectCompleted)
}

// retriesHealth reports that the read for the health of the object failed, and may succeed at the next attempt.
func (o *Object) retriesHealth() bool {
	return o.hasHealth() && o.Seen.answer.failed != nil && !object.Lasting(o.Seen.answer.failed)
}

// healthUnknown reports that the watch of an object has not shown it since it has its check.
func (p *Planner) healthUnknown(o *Object) bool {
	kept, found, synced := p.stored(o.Desired.Key)
	_, evaluated := trigger.CheckedHealthOf(kept, p.Settings.Checks.For(o.ID.GroupKind))
	return found && synced && !evaluated || !p.Settings.Watched
}

// AsBefore reports whether the health is taken to be as the status has it: it is about to be
// known, or the status is the only source.
func (r *HealthReport) AsBefore(before v1alpha1.VidraResourceStatus) bool {
	invalid := slices.ContainsFunc(before.Problems, func(p v1alpha1.Problem) bool { return p.Reason == v1alpha1.ReasonHealthCheckInvalid })
	return HealthOf(before) != nil && (r.Invalid != nil) == invalid && (r.Starting || r.Unknown && len(r.Ill) == 0)
}

// Problems returns the unhealthy objects, those first whose deletion is blocked, then those that have failed.
func (r *HealthReport) Problems() []v1alpha1.Problem {
	var blocked, failed, others []v1alpha1.Problem
	for _, one := range r.Ill {
		message := fmt.Sprintf("%s: %s", one.Health.Status, display.Truncate(one.Health.Message, object.MaxReason))
		switch {
		case one.Blocked:
			blocked = append(blocked, object.ProblemOf(&one.Object, v1alpha1.ReasonDeletionBlocked, "is being deleted, and "+one.Health.Message))
		case one.failed():
			failed = append(failed, object.ProblemOf(&one.Object, v1alpha1.ReasonUnhealthy, message))
		default:
			others = append(others, object.ProblemOf(&one.Object, v1alpha1.ReasonProgressing, message))
		}
	}
	if r.Invalid != nil {
		message := display.Truncate(r.Invalid.Error(), v1alpha1.MaxProblemMessage) + ". Correct the expression: until then, kstatus computes the health of the kind"
		blocked = append(blocked, object.ProblemOf(nil, v1alpha1.ReasonHealthCheckInvalid, message))
	}
	if len(r.Ill) == 0 && r.Unknown && r.Invalid == nil {
		return []v1alpha1.Problem{object.ProblemOf(nil, v1alpha1.ReasonStarting, "Not every object has been seen yet")}
	}
	return slices.Concat(blocked, failed, others)
}

// HealthOf is the Healthy condition of a status, or nil.
func HealthOf(s v1alpha1.VidraResourceStatus) *metav1.Condition {
	return meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionHealthy)
}
