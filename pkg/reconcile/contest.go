package reconcile

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

const (
	// contestWindow is the time within which heals of a field are counted.
	contestWindow = time.Minute
	// contestMin and contestMax bound the time between two heals of an object that
	// somebody changes back.
	contestMin = 10 * time.Second
	contestMax = 5 * time.Minute
)

// contest counts how often the fields of one object are put back.
type contest struct {
	// heals are the times within contestWindow at which each field was put back.
	heals map[string][]time.Time
	// contended says that there were too many; rounds counts the heals since.
	contended bool
	rounds    int
	// until is when the object may be put back again.
	until time.Time
	// field is what is contended.
	field ownership.Change
	limit int
}

// healed notes that fields were put back. It reports whether that is more often
// than limit for the first time.
func (c *contest) healed(fields []ownership.Change, limit int, now time.Time) (begins bool) {
	c.limit = limit
	if len(fields) == 0 {
		fields = []ownership.Change{{}} // the object as a whole
	}
	for _, field := range fields {
		times := c.heals[field.Path]
		times = append(times, now)
		for len(times) > 0 && now.Sub(times[0]) > contestWindow {
			times = times[1:]
		}
		c.heals[field.Path] = times
		if c.contended && c.field.Path == "" {
			c.field = field // it was contended before a restart
		}
		if len(times) > limit && !c.contended {
			c.contended, begins, c.field, c.rounds = true, true, field, -1
		}
	}
	if c.contended {
		c.rounds++
		c.until = now.Add(min(contestMin<<min(c.rounds, 8), contestMax))
	}
	return begins
}

// fields is what is contended; nil if that is the object as a whole.
func (c *contest) fields() []ownership.Change {
	if c.field.Path == "" {
		return nil
	}
	return []ownership.Change{c.field}
}

// over says whether nothing was put back for so long that nobody contends.
func (c *contest) over(now time.Time) bool {
	if c.contended {
		return now.After(c.until.Add(contestWindow))
	}
	for _, times := range c.heals {
		if now.Sub(times[len(times)-1]) <= contestWindow {
			return false
		}
	}
	return true
}

// text tells who contends for what, and how to end it.
func (c *contest) text(id identity) string {
	if c == nil || c.limit == 0 { // before a restart
		return "somebody changes it back again and again"
	}
	what, who := c.field.Path, "somebody"
	if what == "" {
		what = "the object"
	}
	if c.field.Manager != "" {
		who = fmt.Sprintf("%q", c.field.Manager)
	}
	text := fmt.Sprintf("%s changes %s back again and again: it was put back more than %d times within a minute, and is put back less often now",
		who, what, c.limit)
	if c.field.Path == "" {
		return text
	}
	rule := v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Group: id.Group, Kind: id.Kind, Namespace: id.namespace, Name: id.name}}
	switch {
	case c.field.Manager != "":
		rule.Managers = []string{c.field.Manager}
	case c.field.Pointer != "":
		rule.Paths = []string{c.field.Pointer}
	default:
		return text
	}
	hint, err := json.Marshal(rule)
	if err != nil {
		return text
	}
	return text + ". To leave the field to others, add to spec.drift.ignore: " + string(hint)
}

// contend notes that an object was put back, and slows that down when somebody
// changes it back again and again.
func (p *pass) contend(r result) {
	s := p.session
	c := s.contests[r.id]
	if c == nil {
		c = &contest{heals: map[string][]time.Time{}}
		s.contests[r.id] = c
	}
	if c.healed(r.fields, p.vr.HealsPerMinute(), p.now) {
		s.untold = append(s.untold, events.Change{
			Action: events.Contended, Object: referenceTo(r.id, r.gvk, r.live.GetUID()),
			Fields: c.fields(), Note: c.text(r.id),
		})
	}
	if c.contended {
		s.inventory[r.id].State = v1alpha1.ObjectContended
	}
}

// endContests forgets the contests that are over.
func (p *pass) endContests() {
	s := p.session
	for id, c := range s.contests {
		d, entry := s.byID[id], s.inventory[id]
		if entry == nil {
			delete(s.contests, id)
			continue
		}
		if d == nil {
			continue // it has left the manifest and is not removed yet
		}
		if _, waits := p.unsolved[d.key]; waits || !c.over(p.now) {
			continue
		}
		delete(s.contests, id)
		if c.contended && entry.State == v1alpha1.ObjectContended {
			entry.State = v1alpha1.ObjectApplied
			s.untold = append(s.untold, events.Change{
				Action: events.Settled, Object: referenceTo(id, d.gvk, types.UID(entry.UID)),
			})
		}
	}
}

// contended says whether an object is not to be put back yet.
func (p *pass) contended(d *desired) bool {
	c := p.session.contests[d.id]
	return c != nil && c.contended && p.now.Before(c.until)
}
