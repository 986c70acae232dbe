package reconcile

import (
	"fmt"
	"slices"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// healthSpacing is the time until the status names other objects that are not
// healthy. That all are, or that one fails, is reported at once.
const healthSpacing = 10 * time.Second

// healthReport is what is known of the health of the objects.
type healthReport struct {
	// unknown reports that a watch that would show it is not synced, or that there is none.
	// starting reports that it is about to be.
	unknown, starting bool
	// ill are the objects that are not healthy, in order.
	ill []illness
}

// illness is an object that is not healthy.
type illness struct {
	object v1alpha1.ProblemObject
	trigger.Health
}

// failed reports whether an object will not become healthy by itself.
func (r *healthReport) failed() bool { return slices.ContainsFunc(r.ill, illness.failed) }

func (i illness) failed() bool {
	return i.Status == kstatus.FailedStatus || i.Status == kstatus.UnknownStatus
}

// checkup finds out how healthy the objects are, from what the watches keep, at no
// request. Where nothing is watched it is what the last request showed.
func (p *planner) checkup() {
	s := p.state
	if !p.scope.all && !p.causes.Health && p.watched {
		return
	}
	report := &healthReport{}
	for _, o := range s.manifest {
		d, entry := o.desired, o.entry
		if entry == nil || entry.UID == "" {
			report.unknown = true // that it is not applied is told in another way
			continue
		}
		health, known := trigger.Health{}, o.lastHealth != nil
		if known {
			health = *o.lastHealth
		} else { // what was just applied, the watch sees later, and tells if it is another
			kept, found, synced := p.Watches.Get(watchKey(d.key), d.key.Namespace, d.key.Name)
			health, known = trigger.HealthOf(kept)
			known = known && found && synced
		}
		switch {
		case !known:
			report.unknown = true
			report.starting = report.starting || s.watches[watchKey(d.key)].State == watchregistry.Starting
		case health.Status != kstatus.CurrentStatus:
			report.ill = append(report.ill, illness{object: *problemObject(d.gvk, d.id), Health: health})
		}
	}
	if p.watched {
		for _, o := range s.manifest {
			o.lastHealth = nil // the watches know from now on
		}
	}
	if old := s.health; old != nil && p.now.Before(s.schedule.health) && len(old.ill) > 0 && len(report.ill) > 0 &&
		old.failed() == report.failed() && old.unknown == report.unknown {
		p.healthDelayed = true // a rollout is not a write of the status for each object of it
		return
	}
	s.health, s.schedule.health = report, p.now.Add(healthSpacing)
}

// recordHealth notes the health of an object as a request showed it: its watch may see it
// later, or there is none.
func (o *objectState) recordHealth(live *unstructured.Unstructured) {
	health := trigger.ComputeHealth(live)
	o.lastHealth = &health
}

// asBefore reports whether the health is taken to be as the status has it: it is about to be
// known, or nothing else is known.
func (r *healthReport) asBefore(before v1alpha1.VidraResourceStatus) bool {
	return healthOf(before) != nil && (r.starting || r.unknown && len(r.ill) == 0)
}

// healthProblems returns the objects that are not healthy. While they are the same, so are
// their messages, which count replicas for instance.
func healthProblems(o *outcome, before v1alpha1.VidraResourceStatus) []v1alpha1.Problem {
	if o.health == nil {
		return nil
	}
	var was, all []v1alpha1.Problem
	for _, p := range before.Problems {
		if p.Conditions[0] == v1alpha1.ConditionHealthy {
			was = append(was, p)
		}
	}
	switch healthy := healthOf(before); {
	case !o.health.asBefore(before):
		all = o.health.problems()
		same := len(all) >= len(was) && (len(all) == len(was) || before.UnlistedProblems > 0) && slices.EqualFunc(was, all[:len(was)],
			func(a, b v1alpha1.Problem) bool { return a.Subject() == b.Subject() && a.Reason == b.Reason })
		if same {
			copy(all, was)
		}
	case len(was) == 0 && healthy.Status != metav1.ConditionTrue: // an earlier version wrote it
		all = []v1alpha1.Problem{problemOf(nil, healthy.Reason, healthy.Message)}
	default:
		all = was
	}
	conditions := []string{v1alpha1.ConditionHealthy}
	if o.wait {
		conditions = append(conditions, v1alpha1.ConditionReady)
	}
	for i := range all {
		all[i].Conditions, all[i].Unconfirmed = conditions, false
	}
	return all
}

// problems returns the objects that are not healthy, those that have failed first.
func (r *healthReport) problems() []v1alpha1.Problem {
	var failed, others []v1alpha1.Problem
	for _, one := range r.ill {
		message := fmt.Sprintf("%s: %s", one.Status, display.Truncate(one.Message, maxReason))
		if one.failed() {
			failed = append(failed, problemOf(&one.object, v1alpha1.ReasonUnhealthy, message))
		} else {
			others = append(others, problemOf(&one.object, v1alpha1.ReasonProgressing, message))
		}
	}
	if len(r.ill) == 0 && r.unknown {
		return []v1alpha1.Problem{problemOf(nil, v1alpha1.ReasonStarting, "Not every object has been seen yet")}
	}
	return append(failed, others...)
}

// healthOf is the Healthy condition of a status; nil if it has none.
func healthOf(s v1alpha1.VidraResourceStatus) *metav1.Condition {
	return meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionHealthy)
}
