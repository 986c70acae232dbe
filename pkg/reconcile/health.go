package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
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
	id identity
	trigger.Health
}

// failed reports whether an object will not become healthy by itself.
func (r *healthReport) failed() bool { return slices.ContainsFunc(r.ill, illness.failed) }

func (i illness) failed() bool {
	return i.Status == status.FailedStatus || i.Status == status.UnknownStatus
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
		case health.Status != status.CurrentStatus:
			report.ill = append(report.ill, illness{id: d.id, Health: health})
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

// healthyCondition returns the condition Healthy.
func healthyCondition(report *healthReport, before *metav1.Condition) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHealthy, Message: "All objects are healthy"}
	switch {
	case report.starting && before != nil:
		return *before // it is about to be known, and some of it is not told before all
	case len(report.ill) > 0:
		var failed, others []string
		for _, one := range report.ill {
			part := fmt.Sprintf("%s: %s: %s", one.id, one.Status, display.Truncate(one.Message, maxReason))
			if one.failed() {
				failed = append(failed, part)
			} else {
				others = append(others, part)
			}
		}
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonProgressing, few(append(failed, others...), maxList)
		if report.failed() {
			c.Reason = v1alpha1.ReasonUnhealthy
		}
		if before != nil && sameIllnesses(before.Message, c.Message) {
			c.Message = before.Message
		}
	case report.unknown && before != nil:
		return *before
	case report.unknown:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonStarting, "Not every object has been seen yet"
	}
	return c
}

// sameIllnesses reports whether two messages name the same objects with the same status.
// Why they are ill counts something, such as replicas, and is reported anew only with
// something else, also after a restart.
func sameIllnesses(a, b string) bool {
	bare := func(message string) []string {
		parts := strings.Split(message, events.Between)
		for i, part := range parts {
			if fields := strings.SplitN(part, ": ", 3); len(fields) == 3 { // object, status, why
				parts[i] = fields[0] + ": " + fields[1]
			}
		}
		return parts
	}
	return slices.Equal(bare(a), bare(b))
}

// healthOf is the Healthy condition of a status; nil if it has none.
func healthOf(s v1alpha1.VidraResourceStatus) *metav1.Condition {
	return meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionHealthy)
}
