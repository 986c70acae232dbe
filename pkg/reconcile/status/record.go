package status

import (
	"cmp"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/ending"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// noteAdditions notes the additions of users that stay in an object, to be reported once.
func (p *Recorder) noteAdditions(r apply.Result) {
	if !r.Additions.Compared {
		return
	}
	s, text := p.Plan.State, ""
	switch {
	case r.Additions.Unremovable != "":
		text = r.Additions.Unremovable
	case len(r.Additions.Changes) > 0:
		text = apply.Differences(r.Additions.Changes) + ". It is not reverted: " + policy.OfAdditions(v1alpha1.AdditionsWarn).Reason
	}
	was := r.Task.Known.Edits.Additions
	r.Task.Known.Edits.Additions = text
	if text != "" && was != text && !s.Inherited.ReportedAdditions(r.Task.Object.ID, text) {
		p.Plan.Note(events.Change{
			Action: events.Detected, Object: object.ReferenceTo(r.Task.Object.ID, r.Task.Object.GVK, types.UID(r.Task.Known.Entry.UID)), Fields: r.Additions.Changes, Note: text,
		})
	}
}

// recordObserved notes the findings about an object that is skipped.
func (p *Recorder) recordObserved(r apply.Result) {
	s, o, entry := p.Plan.State, r.Task.Known, r.Task.Known.Entry
	before := cmp.Or(o.Edits.Drift, p.Plan.Findings.SkippedBefore[r.Task.Object.ID])
	known := before != nil && !before.Unobserved
	now := &plan.Drift{Decision: r.Task.Decision, Deleted: r.Task.Cause.Found == nil, Fields: r.Change.Fields, Unknown: r.Change.Unknown, Configuration: r.Task.Object.Configuration}
	if known {
		ownership.KeepWriters(now.Fields, before.Fields)
	}
	differs := !r.Task.Decision.Silent && (now.Deleted || len(now.Fields) > 0 || now.Unknown != "")
	if o.Edits.Drift = now; differs || !o.Postponed() {
		o.EndProblem()
	}
	if found := r.Task.Cause.Found; found != nil {
		o.NoteExists(found)
	}
	p.Plan.NoteAnswer(o, r.Glass)
	p.Plan.Findings.Waits = p.Plan.Findings.Waits || r.Task.Why == plan.WhyChanged
	if !differs {
		// Our fields in it may be owned by another manager now, with our value: the digest of the last apply stays the
		// expectation.
		entry.State = v1alpha1.ObjectApplied
		return
	}
	reported := entry.State == v1alpha1.ObjectDrifted && (known && before.Text() == now.Text() || !known && s.Inherited.Reported(r.Task.Object.ID, now.Text()))
	entry.State = v1alpha1.ObjectDrifted
	if !reported {
		p.Plan.Note(events.Change{
			Action: events.Detected, Object: object.ReferenceTo(r.Task.Object.ID, r.Task.Object.GVK, types.UID(entry.UID)), Fields: now.Fields, Note: now.Text(),
		})
	}
}

// Recorder records the outcomes of tasks in the states of their objects.
type Recorder struct {
	Plan    *plan.Planner
	Applier *apply.Applier
}

// RecordResult notes the outcome of a task.
func (p *Recorder) RecordResult(r apply.Result) {
	// The policy of config/policies/stamp selects objects by the label: without it, any user may have written the annotation.
	if p.Plan.Settings.Stamped && r.Task.Cause.Found != nil && object.Labelled(r.Task.Cause.Found) {
		ownership.SetUser(ownership.UserOf(r.Task.Cause.Found), r.Change.Fields, r.Change.Reverted, r.Additions.Changes)
	}
	o, entry := r.Task.Known, r.Task.Known.Entry
	o.Seen.Foreign = false
	switch {
	case errors.Is(r.Err, apply.ErrForeign):
		o.Leave()
		p.Plan.Env.Index.Forget(p.Plan.Settings.Claimant.Owner, r.Task.Object.Key)
		return
	case r.Err != nil:
		p.RecordFailure(r)
		return
	}
	o.Attempts.ReleaseAsked = false
	if r.End == apply.Observed {
		p.recordObserved(r)
		return
	}
	o.EndProblem()
	o.Attempts.Unlisted = nil
	if r.End == apply.Completed {
		o.Edits.Drift, o.Seen.Sighting.Exists, entry.State, entry.Succeeded, entry.Health = nil, false, v1alpha1.ObjectCompleted, true, ""
		entry.Configuration = r.Task.Object.Configuration // a later one creates it again
		return
	}
	p.RecordWarnings(r)
	p.noteAdditions(r)
	if r.End == apply.Replaced {
		p.Plan.Note(events.Change{
			Action: events.Replaced, Object: object.ReferenceTo(r.Task.Object.ID, r.Task.Object.GVK, types.UID(entry.UID)),
			Note: "deleted, to be created again as the manifest says: " + r.Recreation.Reason,
		})
	}
	switch {
	case r.Ending() && r.Task.Why != plan.WhyDrift, r.End == apply.Replaced:
		o.Problem = beingReplaced(r)
		if live := terminating(r); p.Plan.Settings.Watched && live != nil {
			p.Plan.NoteDeleting(o, r.Task.Object.Key, live.GetResourceVersion(), ending.BlockedAt(live))
		}
		return
	case r.Ending(): // its end will be an event
		return
	case r.End == apply.AsSkipped: // nothing has changed since it was skipped
		return
	}
	o.Edits.Drift = nil
	p.Plan.NoteAnswer(o, r.Glass)
	if r.Task.Cause.Found != nil {
		p.Plan.RecordHealth(o, r.Task.Cause.Found)
	}
	entry.State = v1alpha1.ObjectApplied
	if o.Edits.Contention.Contended() {
		entry.State = v1alpha1.ObjectContended
	}
	if r.Applied.Live == nil {
		return // it had no problem
	}
	p.noteKind(r)
	o.Attempts.LastApply = r.Began
	entry.APIVersion, entry.Kind = r.Task.Object.GVK.GroupVersion().String(), r.Task.Object.GVK.Kind
	o.Seen.Sighting.Exists, entry.Succeeded = true, ending.Succeeded(r.Applied.Live)
	entry.UID, entry.Digest = string(r.Applied.Live.GetUID()), trigger.DigestOf(r.Applied.Live, p.Plan.Settings.Claimant.Manager, false, nil).String()
	entry.Configuration, entry.Sensitive = r.Task.Object.Configuration, bool(r.Applied.State.Sensitive)
	if r.Applied.Aggregated != nil {
		entry.Aggregated = *r.Applied.Aggregated
	}
	entry.Others = ""
	if p.Plan.Settings.Watched {
		entry.Others = r.Applied.State.Others.Record(p.Plan.Settings.OthersOf(r.Applied.Live.GetUID()))
	}
	o.NoteExists(r.Applied.Live)
	if entry.Recreated != nil && entry.Recreated.Configuration != r.Task.Object.Configuration {
		entry.Recreated = nil
	}
	if o.Sealed == nil && r.Shown.Withholds() { // others may have marked it
		o.Sealed = &plan.SealedEntry{}
	}
	p.Plan.RecordHealth(o, r.Applied.Live)
	p.emit(r)
}

// emit notes the write of an apply, for the Events that follow the status.
func (p *Recorder) emit(r apply.Result) {
	s := p.Plan.State
	note := func(change events.Change) events.Change {
		change.Object = object.ReferenceTo(r.Task.Object.ID, r.Task.Object.GVK, r.Applied.Live.GetUID())
		p.Plan.Note(change)
		return change
	}
	revert := func(action events.Action, fields []ownership.Change) events.Change {
		change := events.Change{Action: action, Fields: fields, Note: r.Glass.Problem(), Place: r.Task.Known.Desired.Place.In(p.Plan.VR)}
		if !r.Task.Cause.Since.IsZero() && !r.Answered.IsZero() {
			change.Took = r.Answered.Sub(r.Task.Cause.Since)
		}
		return note(change)
	}
	if r.Change.Action.Reverts() {
		s.Healed(revert(r.Change.Action, r.Change.Fields), p.Plan.Now, r.Task.Known.Edits.Contention.FlushDelay())
		p.Plan.Env.Metrics.Healed(r.Heal(r.Change.Action, r.Change.Fields))
		p.Plan.Contend(r.Task.Known, r.Change.Fields, r.Change.Requests())
	} else if r.Change.Action != "" {
		note(events.Change{Action: r.Change.Action, Adopted: r.Task.Why == plan.WhyNew && r.Task.Cause.Found != nil && !r.Task.Begun})
	}
	if len(r.Change.Reverted) > 0 {
		s.Healed(revert(events.Restored, r.Change.Reverted), p.Plan.Now, 0)
		p.Plan.Env.Metrics.Healed(r.Heal(events.Restored, r.Change.Reverted))
	}
}

// RecordFailure notes that a task failed, or the read before it. The object is tried again later. Another VidraResource that is to release the object
// is enqueued at the first attempt in a row alone: it releases the object when it can, and two of them that swap objects would enqueue each other without end.
func (p *Recorder) RecordFailure(r apply.Result) {
	o := r.Task.Known
	why := failureOf(r)
	if o.Problem == nil && why.Reason == v1alpha1.ReasonApplyFailed { // the failures before were reads of its health
		o.Attempts.Retry = plan.Retry{}
	}
	p.Plan.NoteRefusal(o, r.Err)
	o.Problem = &why
	p.Applier.Refused(o, r.Err, r.Task.Object.Key, "get", "patch", "create", "delete")
	if cause := r.Task.Cause; r.Task.Why == plan.WhyChanged && !cause.Since.IsZero() {
		o.Attempts.Unlisted = &trigger.Cause{Unsure: true, Since: cause.Since, Before: cause.Before}
	}
	if r.Task.Why == plan.WhyDrift {
		r.Task.Cause.Unanswered = r.Task.Cause.Unanswered || object.Unanswered(r.Err)
		if r.Task.Cause.Found != nil && apierrors.IsNotFound(r.Err) { // it has gone, or its Namespace or kind: it is read before the next attempt
			r.Task.Cause = trigger.Cause{Unsure: true, Since: r.Task.Cause.Since, Before: r.Task.Cause.Before}
		}
		p.Plan.Findings.PendingDrift[r.Task.Object.Key] = r.Task.Cause
	}
	conflict, is := errors.AsType[*owners.Conflict](r.Err)
	leaving := is && conflict.Leaving
	if leaving && !o.Attempts.ReleaseAsked {
		p.Plan.Env.Trigger.EnqueueRetry(trigger.Owner{Name: conflict.Other})
	}
	o.Attempts.ReleaseAsked = leaving
	o.SetUnapplied(v1alpha1.ObjectFailed)
	if object.KindGone(r.Err) {
		o.SetUnapplied(v1alpha1.ObjectPending)
		p.Applier.Destination.Invalidate(r.Task.Object.GVK.Group)
		p.Plan.State.Read.Again = true
	}
	if errors.As(r.Err, new(*owners.Refusal)) || r.End == apply.Unread {
		o.Entry = nil // it is not ours, and could keep the VidraResource from being deleted
	}
}

// RecordBlocked notes the objects that this reconcile leaves out: those whose kind is
// unserved, and those that failed and have to wait. A kind whose
// CustomResourceDefinition is in the same manifest is waited for in silence.
func (p *Recorder) RecordBlocked(todo plan.Plan) {
	s := p.Plan.State
	provided := map[schema.GroupKind]bool{}
	for _, o := range s.Objects.Manifest {
		if o.Desired.Declares.Provides != nil && o.Problem == nil {
			provided[*o.Desired.Declares.Provides] = true
		}
	}
	waits := false
	await := func(o *plan.Object, why object.Failure) {
		if why.Reason == v1alpha1.ReasonKindUnavailable && provided[o.ID.GroupKind] {
			waits = true
			s.Objects.Waiting = cmp.Or(s.Objects.Waiting, p.Plan.Now)
			if p.Plan.Now.Sub(s.Objects.Waiting) < plan.CRDEstablishTimeout {
				why = object.Failure{
					Reason: v1alpha1.ReasonProgressing, Message: "waits until its CustomResourceDefinition is established", Awaited: why.Awaited,
					Until: s.Objects.Waiting.Add(plan.CRDEstablishTimeout),
				}
			}
		}
		o.Problem = &why
	}
	for _, u := range s.Objects.Unresolved {
		why := u.Why
		why.Awaited = why.Reason == v1alpha1.ReasonOutOfScope || why.Reason == v1alpha1.ReasonKindUnavailable && p.Plan.Findings.KindsNoticed
		await(s.Objects.Track(u.ID), why)
	}
	unresolved := desired.MayBe(s.Objects.Unresolved)
	for o := range s.Objects.All() {
		if o.Entry != nil && unresolved(o.ID) {
			o.SetUnapplied(v1alpha1.ObjectPending)
		}
	}
	for _, o := range todo.Blocked {
		why := *object.NotServed(o.Desired.GVK)
		why.Awaited = true // its watch notices
		await(o, why)
		o.SetUnapplied(v1alpha1.ObjectPending)
	}
	for _, o := range todo.Terminating {
		o.Problem = object.TerminatingNamespace(o.ID)
		o.Problem.Awaited = true
		if o.Entry != nil {
			o.SetUnapplied(v1alpha1.ObjectPending)
			o.Entry.State, o.Entry.Succeeded = v1alpha1.ObjectPending, false // in a new namespace a completed one runs again
		}
	}
	for _, o := range todo.Held {
		if cause, drifted := p.Plan.Causes.Objects[o.Desired.Key]; drifted {
			p.Plan.Findings.PendingDrift[o.Desired.Key] = cause
		}
	}
	if p.Plan.Scope.All && !waits {
		s.Objects.Waiting = time.Time{}
	}
}

// RecordWarnings records the warnings of the API server about an object.
func (p *Recorder) RecordWarnings(r apply.Result) {
	if r.Applied.Live == nil {
		return // it was not applied
	}
	o := r.Task.Known
	// The answer to the same configuration is known, except after a restart.
	if r.Task.Why == plan.WhyNew || r.Task.Why == plan.WhyChanged {
		o.Remarks = plan.Remarks{Known: true, Kept: r.Applied.Kept}
	}
	if len(r.Applied.Warnings) > 0 {
		o.Remarks.Warnings = r.Applied.Warnings
	}
	o.Remarks.Altered = r.Applied.Altered
}
