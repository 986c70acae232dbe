package reconcile

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// recorder records what came of tasks in the states of their objects.
type recorder struct {
	*planner
	applier *applier
}

// recordResult notes what came of a task.
func (p *recorder) recordResult(r result) {
	o := r.known
	entry := o.entry
	switch {
	case r.err != nil:
		p.recordFailure(r)
		return
	case r.skipped != nil:
		p.recordObserved(r)
		return
	}
	o.problem = nil
	p.recordWarnings(r)
	p.noteAdditions(r)
	if r.replaced != "" {
		p.recordRecreation(r)
	}
	switch {
	case r.ending && r.why != whyDrift, r.replaced != "":
		o.problem = &beingReplaced
		return
	case r.ending: // its end will be an event
		return
	case r.asSkipped && r.live == nil: // nothing has changed since it was left
		return
	}
	o.drift = nil
	p.noteAnswer(o, r.glass)
	if r.cause.Found != nil {
		o.recordHealth(r.cause.Found)
	}
	entry.State = v1alpha1.ObjectApplied
	if o.contention.Contended() {
		entry.State = v1alpha1.ObjectContended
	}
	if r.live == nil {
		return // it was in order
	}
	entry.APIVersion, entry.Kind = r.gvk.GroupVersion().String(), r.gvk.Kind
	entry.UID, entry.Digest = string(r.live.GetUID()), trigger.DigestOf(r.live, p.manager, false, nil).String()
	entry.Configuration = r.configuration
	if entry.Recreated != nil && entry.Recreated.Configuration != r.configuration {
		entry.Recreated = nil
	}
	if o.sealed == nil && ownership.Sensitive(r.live) { // others may have marked it
		o.sealed = &sealedEntry{}
	}
	o.recordHealth(r.live)
	p.emit(r)
}

// emit notes what an apply did, for the Events that follow the status.
func (p *recorder) emit(r result) {
	s := p.state
	note := func(change events.Change) events.Change {
		change.Object = referenceTo(r.id, r.gvk, r.live.GetUID())
		s.pendingEvents = append(s.pendingEvents, change)
		return change
	}
	revert := func(action events.Action, fields []ownership.Change) events.Change {
		return note(events.Change{Action: action, Fields: fields, Note: r.glass.problem(), Place: r.known.desired.place.in(p.vr)})
	}
	switch r.action {
	case "":
	case events.Restored, events.Recreated, events.Relabelled:
		s.healed(revert(r.action, r.fields), p.now, r.known.contention.FlushDelay())
		p.Metrics.healed(r.id, r.action)
		p.contend(r.known, r.fields, r.requests())
	case events.Created, events.Configured, events.Replaced, events.Pruned, events.Released, events.Orphaned,
		events.Detected, events.Contended, events.Settled, events.Answered:
		note(events.Change{Action: r.action})
	}
	if len(r.reverted) > 0 {
		s.healed(revert(events.Restored, r.reverted), p.now, 0)
		p.Metrics.healed(r.id, events.Restored)
	}
}

// recordFailure notes that a task failed. The object is tried again later.
func (p *recorder) recordFailure(r result) {
	o, entry := r.known, r.known.entry
	why := explain(r.err, r.gvk, r.id, r.sensitive)
	o.problem = &why
	p.applier.refused(o, r.err, r.key, "get", "patch", "create", "delete")
	if r.why == whyDrift {
		p.pendingDrift[r.key] = r.cause
		if why.reason == v1alpha1.ReasonManifestInvalid {
			// The same configuration was accepted before.
			why.reason = v1alpha1.ReasonApplyFailed
			why.message += ". It was accepted before: a field that another field manager added may be in the way"
		}
	}
	entry.State = v1alpha1.ObjectFailed
	if refused := new(refusal); errors.As(r.err, &refused) {
		o.entry = nil // it was made by somebody else after it was looked for
	}
	if kindGone(r.err, r.id.name) {
		entry.State = v1alpha1.ObjectPending
		p.applier.destination.Invalidate(r.gvk.Group)
		p.state.reread = true
	}
}

// recordBlocked notes the objects that are not applied by this pass: those whose kind is
// not served, and those that failed and have to wait. A kind whose
// CustomResourceDefinition is in the same manifest is waited for in silence.
func (p *recorder) recordBlocked(todo plan) {
	s := p.state
	provided := map[schema.GroupKind]bool{}
	for _, o := range s.manifest {
		if o.desired.provides.Kind != "" && o.problem == nil {
			provided[o.desired.provides] = true
		}
	}
	waits := false
	await := func(o *objectState, why failure) {
		if why.reason == v1alpha1.ReasonKindUnavailable && provided[o.id.GroupKind] {
			waits = true
			if s.waiting.IsZero() {
				s.waiting = p.now
			}
			if p.now.Sub(s.waiting) < crdEstablishTimeout {
				why = failure{v1alpha1.ReasonProgressing, "waits until its CustomResourceDefinition is established"}
			}
		}
		o.problem = &why
	}
	for _, u := range s.unresolved {
		await(s.track(u.id), u.why)
		for o := range s.all() {
			if o.entry != nil && u.is(o.id) {
				o.entry.State = v1alpha1.ObjectPending
			}
		}
	}
	for _, o := range todo.blocked {
		await(o, *notServed(o.desired.gvk))
		if o.entry != nil {
			o.entry.State = v1alpha1.ObjectPending
		}
	}
	for _, o := range todo.terminating {
		o.problem = terminatingNamespace(o.id)
		if o.entry != nil {
			o.entry.State = v1alpha1.ObjectPending
		}
	}
	for _, o := range todo.held {
		if cause, drifted := p.causes.Objects[o.desired.key]; drifted {
			p.pendingDrift[o.desired.key] = cause
		}
	}
	if p.scope.all && !waits {
		s.waiting = time.Time{}
	}
}
