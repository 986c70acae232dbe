package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Drift is an object whose difference stays.
type Drift struct {
	// Decision is the decision to leave it.
	Decision policy.Decision
	Deleted  bool
	// Fields that differ; none if all that is known is that the object is to be
	// skipped for a while.
	Fields []ownership.Change
	// Unknown is the obstacle to knowing the differences.
	Unknown string
	// Configuration is the configuration of the comparison.
	Configuration string
	// Unobserved reports that the object is still to be compared: all that is known is until
	// when it is exempt.
	Unobserved bool
}

// MaxDifferences is the limit in bytes for the text of differences: the reason to leave them follows, and an Event has
// little room for more.
const MaxDifferences = 600

// seen returns the changes of another writer; empty if the manifest had changed meanwhile, too.
func (d *Drift) seen(entry *v1alpha1.ManagedResourceStatus) []ownership.Change {
	if d == nil || entry == nil || d.Configuration != entry.Configuration {
		return nil
	}
	return d.Fields
}

// Text describes the drift.
func (d *Drift) Text() string {
	what := "it was deleted"
	switch {
	case d.Deleted:
	case d.Unknown != "":
		what = "it was changed; what differs is not known: " + d.Unknown
	default:
		what = events.Differences(d.Fields)
	}
	return display.Truncate(what, MaxDifferences) + ". It is not reverted: " + d.Decision.Reason
}

// decide decides about a change of an object, as far as the VidraResource and the inventory show: a deleted object has lost its
// annotations.
func (p *Planner) decide(o *Object) policy.Decision {
	answer := ptr.Deref(o.Entry, v1alpha1.ManagedResourceStatus{}).BreakGlass
	return policy.FirstOf(policy.OfSuspend(p.VR), policy.OfEdit(p.VR, answer, p.Settings.BreakGlass.Max, p.Now))
}

// Inherited is the drift in a status that an earlier process wrote.
type Inherited struct {
	// messages are the messages about the objects.
	messages map[v1alpha1.Subject]string
	// InPart reports that the status may have had more.
	InPart bool
	// Unjudged reports that the status calls the objects drifted, and that the reconciles of this process are still to compare all of
	// them: their watches are unsynced.
	Unjudged bool
}

// inherited returns the drift in a status.
func inherited(status v1alpha1.VidraResourceStatus) Inherited {
	i := Inherited{messages: map[v1alpha1.Subject]string{}, Unjudged: meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDrifted)}
	i.InPart = status.UnlistedProblems > 0 || i.Unjudged && len(status.Problems) == 0
	for _, p := range status.Problems {
		if p.Reason == v1alpha1.ReasonDriftDetected {
			i.messages[p.Subject()] = p.Message
		}
	}
	return i
}

// unjudged returns the text of the status about an object until all are compared, or nothing.
func (i *Inherited) unjudged(id object.Identity) string {
	if !i.Unjudged {
		return ""
	}
	return i.messages[id.Subject()]
}

// Reported reports whether the status has a text about an object. It is unknown for objects that the status leaves out.
func (i *Inherited) Reported(id object.Identity, text string) bool {
	message, found := i.messages[id.Subject()]
	return !found || message == object.ProblemMessage(text)
}

// ReportedAdditions is Reported for the additions in an object. Of a status that may have had more, all count as reported.
func (i *Inherited) ReportedAdditions(id object.Identity, text string) bool {
	message, found := i.messages[id.Subject()]
	return i.InPart || found && message == object.ProblemMessage(text)
}

// expectAgain ends decisions to leave changes: those whose time is over, or all. The index expects the state of the last
// apply again, and the objects are compared with it.
func (p *Planner) expectAgain(all bool) map[trigger.ObjectKey]trigger.Cause {
	causes := map[trigger.ObjectKey]trigger.Cause{}
	known := map[trigger.ObjectKey]trigger.Applied{}
	for o := range p.State.Objects.All() {
		d, entry, left := o.Desired, o.Entry, o.Edits.Drift
		if left == nil {
			continue
		}
		if entry == nil {
			o.Edits.Drift = nil
			continue
		}
		if until := left.Decision.Until; d == nil || !all && (until.IsZero() || p.Now.Before(until)) {
			continue // what has left the manifest may come back before it is removed
		}
		o.Edits.Drift = nil
		p.Findings.SkippedBefore[o.ID] = left
		causes[d.Key] = trigger.Cause{Unsure: true}
		if applied, ok := AppliedBefore(p.Settings.Claimant.Manager, entry); ok {
			known[d.Key] = applied
		} else {
			p.Env.Index.Forget(p.Settings.Claimant.Owner, d.Key) // nothing is known of it
		}
	}
	if p.Settings.Watched && len(known) > 0 {
		p.Env.Index.Load(p.Settings.Claimant.Owner, known)
	}
	return causes
}

// Decide decides about the change that a task would revert, with the break-glass annotations of the object that was found. They count
// instead of those in the inventory, and no policy delays a new configuration.
func (s *Settings) Decide(t Task) (policy.Decision, breakglass.Answer) {
	if exists := t.Cause.Found != nil && t.Why != WhyNew; exists && t.Object.Lifetime.Apply.Leaves() {
		return policy.OfApply(t.Object.Lifetime.Apply), breakglass.Answer{}
	}
	if t.Why == WhyRetry && t.Cause.Found == nil && t.Known.DeletedByVidra() { // no user has deleted it
		return policy.Decision{}, breakglass.Answer{}
	}
	if t.Why == WhyNew || t.Why == WhyChanged || t.Cause.Found == nil {
		return t.Decision, breakglass.Answer{}
	}
	glass := s.AnswerTo(t.Entry(), t.Object, t.Cause.Found)
	if rule := t.Decision.Rule; rule != 0 && rule != policy.BreakGlass {
		return t.Decision, glass
	}
	return policy.OfBreakGlass(glass.Status, s.BreakGlass.Max, time.Now()), glass
}
