package plan

import (
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// SkipReason is why the difference of an object is not reverted.
type SkipReason struct {
	// Why is part of messages to users.
	Why string
	// Silent reports that it is not to be reported.
	Silent bool
	// Until is when the object is compared again; zero when only a change of the
	// VidraResource ends it.
	Until time.Time
}

// Drift is an object whose difference is not reverted.
type Drift struct {
	SkipReason
	Deleted bool
	// Fields that differ; none if all that is known is that the object is to be
	// skipped for a while.
	Fields []ownership.Change
	// Unknown is why what differs is not known.
	Unknown string
	// Configuration is what the object was compared with.
	Configuration string
	// Unobserved reports that the object was not compared yet: all that is known is until
	// when it is exempt.
	Unobserved bool
}

// MaxDifferences is how many bytes of what differs are reported: why it is not reverted comes
// behind it, and an Event has no room for much more.
const MaxDifferences = 600

// over reports whether the object is to be compared again.
func (d *Drift) over(now time.Time) bool { return !d.Until.IsZero() && !now.Before(d.Until) }

// seen returns what another writer changed; nothing if the manifest had changed meanwhile, too.
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
	return display.Truncate(what, MaxDifferences) + ". It is not reverted: " + d.Why
}

// skipReason returns why the VidraResource has a change ignored; nil if it is reverted.
func (p *Planner) skipReason(o *Object) *SkipReason {
	return SkipReasonOf(p.VR, o.Entry, p.MaxBreakGlass, p.Now)
}

// SkipReasonOf returns why a VidraResource has a change of an object ignored; nil if it is reverted. entry is what the inventory has of
// the object, and longest how long break-glass exempts it at most.
func SkipReasonOf(vr *v1alpha1.VidraResource, entry *v1alpha1.ManagedResourceStatus, longest time.Duration, now time.Time) *SkipReason {
	switch mode := vr.DriftMode(); {
	case vr.Spec.Suspend:
		return &SkipReason{Why: "spec.suspend is true"}
	case mode == v1alpha1.DriftWarn:
		return &SkipReason{Why: "spec.drift.mode is Warn"}
	case mode == v1alpha1.DriftIgnore:
		return &SkipReason{Why: "spec.drift.mode is Ignore", Silent: true}
	}
	// A deleted object has no annotations any more.
	if entry != nil && breakglass.Exempts(entry.BreakGlass, now) && now.Before(entry.BreakGlass.Since.Add(longest)) {
		l := Exemption(entry.BreakGlass)
		return &l
	}
	return nil
}

// Reported reports whether the status that an earlier process wrote has a text about an object.
// Of what it does not name it is not known.
func (s *State) Reported(id object.Identity, text string) bool {
	message, found := s.Inherited[id.Subject()]
	return !found || message == display.Truncate(text, v1alpha1.MaxProblemMessage)
}

// expectAgain has objects that were skipped expected as they were
// applied: those whose time is over, or all of them.
func (p *Planner) expectAgain(all bool) map[trigger.ObjectKey]trigger.Cause {
	causes := map[trigger.ObjectKey]trigger.Cause{}
	known := map[trigger.ObjectKey]trigger.Applied{}
	for o := range p.State.All() {
		d, entry, left := o.Desired, o.Entry, o.Drift
		if left == nil {
			continue
		}
		if entry == nil {
			o.Drift = nil
			continue
		}
		if d == nil || !all && !left.over(p.Now) {
			continue // what has left the manifest may come back before it is removed
		}
		o.Drift = nil
		p.SkippedBefore[o.ID] = left
		causes[d.Key] = trigger.Cause{Unsure: true}
		if applied, ok := AppliedBefore(p.Manager, entry); ok {
			known[d.Key] = applied
		} else {
			p.Index.Forget(p.Owner, d.Key) // nothing is known of it
		}
	}
	if p.Watched && len(known) > 0 {
		p.Index.Load(p.Owner, known)
	}
	return causes
}

// SkipReason returns why the object of a task is not reverted; nil if it is. The break-glass
// annotations of the object count, too, but they hold no new configuration back.
func (s *Settings) SkipReason(t Task) (*SkipReason, breakglass.Answer) {
	if t.Why == WhyNew || t.Why == WhyChanged || t.Cause.Found == nil {
		return t.Skip, breakglass.Answer{}
	}
	glass := s.AnswerTo(t.Entry(), t.Object, t.Cause.Found)
	switch {
	case t.Skip != nil && t.Skip.Until.IsZero():
		return t.Skip, glass
	case breakglass.Exempts(glass.Status, time.Now()):
		l := Exemption(glass.Status)
		return &l, glass
	}
	return nil, glass
}
