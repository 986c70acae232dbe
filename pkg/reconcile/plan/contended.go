package plan

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// HoldContended holds the heals of contended objects until they are due. Objects that were
// changed first are the first to draw on the budget.
func (p *Planner) HoldContended(causes map[trigger.ObjectKey]trigger.Cause) {
	s := p.State
	var changed []*Object
	for _, o := range s.Objects.Manifest {
		d, c := o.Desired, o.Edits.Contention
		if !c.Contended() {
			continue
		}
		cause, is := causes[d.Key]
		if !is || !p.Settings.Watched || !p.decide(o).Reverts() {
			c.NotBefore = time.Time{}
			continue
		}
		cause.Since = cmp.Or(cause.Since, p.Now) // no event reported it, as where there are too many
		causes[d.Key] = cause
		changed = append(changed, o)
	}
	slices.SortFunc(changed, func(a, b *Object) int {
		return causes[a.Desired.Key].Since.Compare(causes[b.Desired.Key].Since)
	})
	for _, o := range changed {
		d, c, cause := o.Desired, o.Edits.Contention, causes[o.Desired.Key]
		at := p.healAt(o, cause.Since)
		if !at.After(p.Now) {
			c.NotBefore = time.Time{}
			continue
		}
		if c.NotBefore.IsZero() {
			p.Env.Metrics.Held(d.ID)
		}
		c.NotBefore, c.Delayed = at, true
		p.Findings.PendingDrift[d.Key] = cause
		p.Env.Trigger.Contend(p.Settings.Claimant.Owner, d.Key, at)
	}
}

// healAt returns when a contended object that was changed at since is reverted: now, which counts for the budget, or a time after it.
func (p *Planner) healAt(o *Object, since time.Time) time.Time {
	return o.Edits.Contention.HealAt(p.Now, since, p.VR.MaxExposure(), func(must bool) time.Time { return p.Env.Budget.Take(p.Settings.Claimant.Owner, p.Now, must) })
}

// Delays reports whether a heal of the object was delayed since it is contended. The object may be nil.
func (o *Object) Delays() bool { return o != nil && o.Edits.Contention.Delays() }

// LeaveLoop notes that the loop of objects has stopped reverting an object. The object may be nil.
func (o *Object) LeaveLoop() {
	if o != nil {
		o.Edits.Delayed = false
	}
}

// held reports whether the heal of a contended object is still to become due.
func (p *Planner) held(o *Object) bool {
	return o.Edits.Contention != nil && p.Now.Before(o.Edits.Contention.NotBefore)
}

// nextHeld returns when the first heal that is held is due; else zero.
func (p *Planner) nextHeld() time.Time {
	var next time.Time
	for o := range p.State.Objects.All() {
		if p.held(o) && (next.IsZero() || o.Edits.Contention.NotBefore.Before(next)) {
			next = o.Edits.Contention.NotBefore
		}
	}
	return next
}

// Contend notes that an object was reverted, with a number of requests.
func (p *Planner) Contend(o *Object, fields []ownership.Change, requests int) {
	d := o.Desired
	if o.Edits.Contention == nil {
		o.Edits.Contention = contention.New()
	}
	c := o.Edits.Contention
	begins := c.Healed(fields, requests, p.VR.HealsPerMinute(), p.Now)
	if !c.Contended() {
		return
	}
	if begins {
		p.Note(events.Change{
			Action: events.Contended, Object: object.ReferenceTo(o.ID, d.GVK, types.UID(o.Entry.UID)),
			Fields: c.Fields(), Note: c.Describe(v1alpha1.IgnoreTargetOf(o.ID.GroupKind, o.ID.Namespace, o.ID.Name)),
		})
	}
	o.Entry.State = v1alpha1.ObjectContended
	c.Key = d.Key
	c.Due = c.HealAt(p.Now, p.Now, p.VR.MaxExposure(), func(bool) time.Time { return p.Env.Budget.Next(p.Settings.Claimant.Owner, p.Now) })
	p.Env.Trigger.Contend(p.Settings.Claimant.Owner, d.Key, c.Due)
}

// EndContentions forgets the contentions that are over.
func (p *Planner) EndContentions() {
	s := p.State
	for o := range s.Objects.All() {
		d, entry, c := o.Desired, o.Entry, o.Edits.Contention
		if c == nil {
			continue
		}
		if d != nil && entry != nil {
			if _, changed := p.Findings.PendingDrift[d.Key]; changed || o.Edits.Delayed || !c.Over(p.Now) {
				continue
			}
		} else if entry != nil {
			continue // it has left the manifest and is not removed yet
		}
		o.Edits.Contention = nil
		if !c.Contended() {
			continue
		}
		p.Env.Trigger.EndContention(p.Settings.Claimant.Owner, c.Key)
		if o.In(v1alpha1.ObjectContended) {
			entry.State = v1alpha1.ObjectApplied
			p.Note(events.Change{Action: events.Settled, Object: object.ReferenceTo(o.ID, d.GVK, types.UID(entry.UID))})
		}
	}
}
