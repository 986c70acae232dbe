package reconcile

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// holdContended holds the heals of contended objects that are not due. Those that were
// changed first are the first to draw on the budget.
func (p *planner) holdContended(causes map[trigger.ObjectKey]trigger.Cause) {
	s := p.state
	var changed []*objectState
	for _, o := range s.manifest {
		d, c := o.desired, o.contention
		if !c.Contended() {
			continue
		}
		cause, is := causes[d.key]
		if !is || !p.watched || p.skipReason(o) != nil {
			c.NotBefore = time.Time{}
			continue
		}
		if cause.Since.IsZero() { // no event told of it, as where there are too many
			cause.Since = p.now
			causes[d.key] = cause
		}
		changed = append(changed, o)
	}
	slices.SortFunc(changed, func(a, b *objectState) int {
		return causes[a.desired.key].Since.Compare(causes[b.desired.key].Since)
	})
	for _, o := range changed {
		d, c, cause := o.desired, o.contention, causes[o.desired.key]
		at := c.HealAt(p.now, cause.Since, p.vr.MaxExposure(), func(must bool) time.Time { return p.budget.Take(p.owner, p.now, must) })
		if !at.After(p.now) {
			c.NotBefore = time.Time{}
			continue
		}
		if c.NotBefore.IsZero() {
			p.Metrics.held(d.id)
		}
		c.NotBefore, c.Delayed = at, true
		p.pendingDrift[d.key] = cause
		p.Trigger.Contend(p.owner, d.key, at)
	}
}

// held reports whether the heal of a contended object is not due yet.
func (p *planner) held(o *objectState) bool {
	return o.contention != nil && p.now.Before(o.contention.NotBefore)
}

// nextHeld returns when the first heal that is held is due; zero if none is.
func (p *planner) nextHeld() time.Time {
	var next time.Time
	for o := range p.state.all() {
		if p.held(o) && (next.IsZero() || o.contention.NotBefore.Before(next)) {
			next = o.contention.NotBefore
		}
	}
	return next
}

// requests returns how many writes a heal took: what an edit added is taken over before the
// apply removes it.
func (r *result) requests() int {
	if len(r.added.Changes) > 0 {
		return 2
	}
	return 1
}

// contend notes that an object was reverted, with a number of requests.
func (p *planner) contend(o *objectState, fields []ownership.Change, requests int) {
	s, d := p.state, o.desired
	if o.contention == nil {
		o.contention = contention.New()
	}
	c := o.contention
	known := c.Reverted > 0
	begins := c.Healed(fields, requests, p.vr.HealsPerMinute(), p.now)
	if !c.Contended() {
		return
	}
	if !known {
		c.Text = c.Describe(v1alpha1.IgnoreTarget{Group: o.id.Group, Kind: o.id.Kind, Namespace: o.id.namespace, Name: o.id.name})
	}
	if begins {
		s.pendingEvents = append(s.pendingEvents, events.Change{
			Action: events.Contended, Object: referenceTo(o.id, d.gvk, types.UID(o.entry.UID)),
			Fields: c.Fields(), Note: c.Text,
		})
	}
	o.entry.State = v1alpha1.ObjectContended
	c.Key = d.key
	p.Trigger.Contend(p.owner, d.key, c.HealAt(p.now, p.now, p.vr.MaxExposure(), func(bool) time.Time { return p.budget.Next(p.owner, p.now) }))
}

// endContentions forgets the contentions that are over.
func (p *planner) endContentions() {
	s := p.state
	for o := range s.all() {
		d, entry, c := o.desired, o.entry, o.contention
		if c == nil {
			continue
		}
		if d != nil && entry != nil {
			if _, changed := p.pendingDrift[d.key]; changed || !c.Over(p.now) {
				continue
			}
		} else if entry != nil {
			continue // it has left the manifest and is not removed yet
		}
		o.contention = nil
		if !c.Contended() {
			continue
		}
		p.Trigger.EndContention(p.owner, c.Key)
		if entry != nil && entry.State == v1alpha1.ObjectContended {
			entry.State = v1alpha1.ObjectApplied
			s.pendingEvents = append(s.pendingEvents, events.Change{
				Action: events.Settled, Object: referenceTo(o.id, d.gvk, types.UID(entry.UID)),
			})
		}
	}
}
