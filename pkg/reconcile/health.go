package reconcile

import (
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// healthReport is what is known of the health of the objects.
type healthReport struct {
	// unknown says that a watch that would tell is not synced, or that there is none.
	unknown bool
	// ill are the objects that are not healthy, in order.
	ill []illness
}

// illness is an object that is not healthy.
type illness struct {
	id identity
	trigger.Health
}

// failed says whether an object will not become healthy by itself.
func (r *healthReport) failed() bool {
	for _, one := range r.ill {
		if one.Status == status.FailedStatus || one.Status == status.UnknownStatus {
			return true
		}
	}
	return false
}

// same says whether two reports name the same objects with the same status. Messages
// count, and are told anew only with something else.
func (r *healthReport) same(other *healthReport) bool {
	if other == nil || r.unknown != other.unknown || len(r.ill) != len(other.ill) {
		return false
	}
	for i, one := range r.ill {
		if one.id != other.ill[i].id || one.Status != other.ill[i].Status {
			return false
		}
	}
	return true
}

// checkup finds out how healthy the objects are, from what the watches keep, at no
// request. Where nothing is watched it is what the last request told.
func (p *pass) checkup() {
	s := p.session
	if !p.all && !p.causes.Health && p.applier.watched {
		return
	}
	report := &healthReport{}
	for _, d := range s.objects {
		entry := s.inventory[d.id]
		if entry == nil || entry.UID == "" {
			continue // that it is not applied is told in another way
		}
		health, known := s.seen[d.id]
		if !known { // what was just applied, the watch sees later, and tells if it is another
			kept, found, synced := p.Watches.Get(watchKey(d.key), d.key.Namespace, d.key.Name)
			health, known = trigger.HealthOf(kept)
			known = known && found && synced
		}
		switch {
		case !known:
			report.unknown = true
		case health.Status != status.CurrentStatus:
			report.ill = append(report.ill, illness{id: d.id, Health: health})
		}
	}
	if p.applier.watched {
		s.seen = nil // the watches know from now on
	}
	if !report.same(s.health) {
		s.health = report
	}
}

// seen notes the health of an object as a request showed it: its watch may see it
// later, or there is none.
func (p *pass) seen(id identity, live *unstructured.Unstructured) {
	if p.session.seen == nil {
		p.session.seen = map[identity]trigger.Health{}
	}
	p.session.seen[id] = trigger.Examine(live)
}

// healthyCondition tells how healthy the objects are.
func healthyCondition(report *healthReport, before *metav1.Condition) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHealthy, Message: "All objects are healthy"}
	switch {
	case len(report.ill) > 0:
		parts := make([]string, 0, len(report.ill))
		for _, one := range report.ill {
			parts = append(parts, fmt.Sprintf("%s: %s: %s", one.id, one.Status, events.Truncate(one.Message, maxReason)))
		}
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonProgressing, few(parts)
		if report.failed() {
			c.Reason = v1alpha1.ReasonUnhealthy
		}
	case report.unknown && before != nil:
		return *before // it is about to be known
	case report.unknown:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonStarting, "Not every object has been seen yet"
	}
	return c
}

// healthOf is the Healthy condition of a status; nil if it has none.
func healthOf(s v1alpha1.VidraResourceStatus) *metav1.Condition {
	return meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionHealthy)
}
