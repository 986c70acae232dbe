package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// skipReason is why the difference of an object is not reverted.
type skipReason struct {
	// why is for people.
	why string
	// silent reports that it is not to be spoken of.
	silent bool
	// until is when the object is compared again; zero when only a change of the
	// VidraResource ends it.
	until time.Time
}

// drift is an object whose difference is not reverted.
type drift struct {
	skipReason
	deleted bool
	// fields that differ; none if all that is known is that the object is to be
	// left alone for a while.
	fields []ownership.Change
	// unknown is why what differs is not known.
	unknown string
	// configuration is what the object was compared with.
	configuration string
	// unobserved reports that the object was not compared yet: all that is known is until
	// when it is exempt.
	unobserved bool
}

// maxDifferences is how many bytes of what differs are reported: why it is not reverted comes
// behind it, and an Event has no room for much more.
const maxDifferences = 600

// maxReason is how many bytes of a reason or rule that a user gave are reported.
const maxReason = 256

// over reports whether the object is to be compared again.
func (d *drift) over(now time.Time) bool { return !d.until.IsZero() && !now.Before(d.until) }

// seen returns what another writer changed; nothing if the manifest had changed meanwhile, too.
func (d *drift) seen(entry *v1alpha1.ManagedResourceStatus) []ownership.Change {
	if d == nil || entry == nil || d.configuration != entry.Configuration {
		return nil
	}
	return d.fields
}

// text describes the drift.
func (d *drift) text() string {
	what := "it was deleted"
	switch {
	case d.deleted:
	case d.unknown != "":
		what = "it was changed; what differs cannot be told: " + d.unknown
	default:
		what = events.Differences(d.fields)
	}
	return display.Truncate(what, maxDifferences) + ". It is not reverted: " + d.why
}

// skipReason reports whether what was changed is left as it is, as far as the
// VidraResource says so.
func (p *planner) skipReason(o *objectState) *skipReason {
	switch mode := p.vr.DriftMode(); {
	case p.vr.Spec.Suspend:
		return &skipReason{why: "spec.suspend is true"}
	case mode == v1alpha1.DriftWarn:
		return &skipReason{why: "spec.drift.mode is Warn"}
	case mode == v1alpha1.DriftIgnore:
		return &skipReason{why: "spec.drift.mode is Ignore", silent: true}
	}
	// A deleted object has no annotations any more.
	if entry := o.entry; entry != nil && exempts(entry.BreakGlass, p.now) &&
		p.now.Before(entry.BreakGlass.Since.Add(p.maxBreakGlass)) {
		l := exemption(entry.BreakGlass)
		return &l
	}
	return nil
}

// skipAll records what another writer changed while the manifest cannot be read: what the objects
// should be is not known, so they are compared with what was applied last, and left as
// they are. What fails is compared again when the manifest can be read.
func (p *pass) skipAll(ctx context.Context, why failure) {
	reason := &skipReason{
		why: "nothing is reverted until the manifest can be read (" + why.reason + ")", silent: p.vr.DriftMode() == v1alpha1.DriftIgnore,
	}
	var tasks []task
	for _, o := range p.state.manifest {
		d, entry := o.desired, o.entry
		cause, changed := p.causes.Objects[d.key]
		if changed && entry != nil && entry.UID != "" && entry.Configuration == d.configuration && d.key.Cluster == p.applier.destination.Name() {
			tasks = append(tasks, task{desired: d, known: o, why: whyDrift, cause: cause, skip: reason})
		}
	}
	results := make([]result, len(tasks))
	p.applier.parallel(len(tasks), func(i int) { results[i] = p.applier.apply(ctx, tasks[i]) })
	for _, r := range results {
		if r.err == nil {
			delete(p.pendingDrift, r.key)
			p.recordResult(r)
		}
	}
}

// recordObserved notes what was found in an object that is left as it is.
func (p *recorder) recordObserved(r result) {
	s, o, entry := p.state, r.known, r.known.entry
	before := o.drift
	if before == nil {
		before = p.skippedBefore[r.id]
	}
	known := before != nil && !before.unobserved
	now := &drift{skipReason: *r.skipped, deleted: r.cause.Found == nil, fields: r.fields, unknown: r.unknown, configuration: r.configuration}
	o.problem, o.drift = nil, now
	p.noteAnswer(o, r.glass)
	p.waits = p.waits || r.why == whyChanged
	if r.skipped.silent || !now.deleted && len(now.fields) == 0 && now.unknown == "" {
		// What is ours in it may be owned by another manager now, with our value: the
		// digest of the last apply stays what is expected one day.
		entry.State = v1alpha1.ObjectApplied
		return
	}
	told := entry.State == v1alpha1.ObjectDrifted && (known && before.text() == now.text() || !known && s.says(r.id, now.text()))
	entry.State = v1alpha1.ObjectDrifted
	if !told {
		s.pendingEvents = append(s.pendingEvents, events.Change{
			Action: events.Detected, Object: referenceTo(r.id, r.gvk, types.UID(entry.UID)), Fields: now.fields, Note: now.text(),
		})
	}
}

// says reports whether the status that an earlier process wrote has a text about an object.
// Of what it does not name it is not known.
func (s *vrState) says(id identity, text string) bool {
	message, found := s.inherited[id.subject()]
	return !found || message == display.Truncate(text, v1alpha1.MaxProblemMessage)
}

// expectAgain has objects that were left as they are expected as they were
// applied: those whose time is over, or all of them.
func (p *planner) expectAgain(all bool) map[trigger.ObjectKey]trigger.Cause {
	causes := map[trigger.ObjectKey]trigger.Cause{}
	known := map[trigger.ObjectKey]trigger.Applied{}
	for o := range p.state.all() {
		d, entry, left := o.desired, o.entry, o.drift
		if left == nil {
			continue
		}
		if entry == nil {
			o.drift = nil
			continue
		}
		if d == nil || !all && !left.over(p.now) {
			continue // what has left the manifest may come back before it is removed
		}
		o.drift = nil
		p.skippedBefore[o.id] = left
		causes[d.key] = trigger.Cause{Unsure: true}
		if applied, ok := appliedBefore(p.manager, entry); ok {
			known[d.key] = applied
		} else {
			p.Index.Forget(p.owner, d.key) // nothing is known of it
		}
	}
	if p.watched && len(known) > 0 {
		p.Index.Load(p.owner, known)
	}
	return causes
}
