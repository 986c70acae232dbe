package reconcile

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

const (
	// DefaultBackstopInterval is the time between two comparisons with the API server.
	DefaultBackstopInterval = time.Hour
	// suspectDelay is how long a difference that the backstop finds may be on its way
	// through a watch before the backstop counts it as missed.
	suspectDelay = 3 * time.Second
)

// backstop asks the API server of every object, once an interval, whether an apply
// would change it: should an event be lost or misjudged, which must not be, that is
// found here. It adds what differs to causes.
func (p *pass) backstop(ctx context.Context, causes map[trigger.ObjectKey]trigger.Cause) {
	s := p.state
	if !p.scope.all {
		return // a heal does not wait for it
	}
	if !p.comparesObjects() {
		s.schedule.backstop = time.Time{}
		return
	}
	if s.schedule.backstop.IsZero() { // a restart is no reason to ask for everything at once
		s.schedule.backstop = p.now.Add(time.Duration(rand.Float64() * float64(p.BackstopInterval))) //nolint:gosec // it spreads, it hides nothing
	}
	var asked []*objectState
	for o := range s.all() {
		suspect := o.backstopSuspect != nil
		if o.desired != nil {
			_, caused := causes[o.desired.key]
			if !caused && o.drift == nil && o.in(v1alpha1.ObjectApplied) && (p.scope.backstop && !suspect || p.scope.suspects && suspect) {
				asked = append(asked, o)
				continue
			}
		}
		if p.scope.suspects { // what is not compared again is no suspect any more
			o.backstopSuspect = nil
		}
	}
	if p.scope.backstop {
		s.schedule.backstop = p.now.Add(wait.Jitter(p.BackstopInterval, resyncJitter))
	}
	found := make([]finding, len(asked))
	p.applier.parallel(len(asked), func(i int) { found[i] = p.applier.compare(ctx, asked[i].desired) })
	for i, f := range found {
		o, d := asked[i], asked[i].desired
		before := o.backstopSuspect
		o.backstopSuspect = nil
		switch {
		case f.err != nil:
			p.Metrics.backstopFailed(d.id)
		case !f.differs:
			p.identified(o, f.live)
		case before != nil && *before == f.version:
			p.Metrics.backstopCorrected(d.id)
			causes[d.key] = trigger.Cause{Deleted: f.live == nil, Found: f.live}
		default:
			if !s.suspects() {
				s.schedule.suspects = p.now.Add(suspectDelay)
			}
			o.backstopSuspect = &f.version
		}
	}
}

// comparesObjects reports whether the objects are compared with the API server now and then.
func (p *pass) comparesObjects() bool {
	return p.BackstopInterval > 0 && p.applier.watched && !p.vr.Spec.Suspend
}

// identified notes which object is there: Vidra may have created it again and ended
// before the status was written.
func (p *pass) identified(o *objectState, live *unstructured.Unstructured) {
	entry := o.entry
	if live == nil || entry.UID == string(live.GetUID()) { // nil if it is being deleted
		return
	}
	entry.UID = string(live.GetUID())
	if applied, ok := appliedBefore(p.applier.manager, entry); ok {
		p.Index.Load(p.owner, map[trigger.ObjectKey]trigger.Applied{o.desired.key: applied})
	}
}

// backstopDue reports whether it is time for a comparison, or to compare suspects again.
func (s *vrState) backstopDue(now time.Time) bool {
	return !s.schedule.backstop.IsZero() && !now.Before(s.schedule.backstop) || s.suspects() && !now.Before(s.schedule.suspects)
}

// suspects reports whether the last comparison found objects that differ.
func (s *vrState) suspects() bool {
	for o := range s.all() {
		if o.backstopSuspect != nil {
			return true
		}
	}
	return false
}

// finding is what a comparison with the API server found.
type finding struct {
	live    *unstructured.Unstructured
	version string
	differs bool
	err     error
}

// compare asks the API server whether an apply would change an object.
func (a *applier) compare(ctx context.Context, d *desired) finding {
	live, err := a.get(ctx, d.key)
	if err != nil || live == nil {
		return finding{err: err, differs: true}
	}
	if live.GetDeletionTimestamp() != nil {
		return finding{}
	}
	applied, err := a.dryRun(ctx, task{desired: d, cause: trigger.Cause{Found: live}})
	if err != nil {
		return finding{err: err}
	}
	return finding{live: live, version: live.GetResourceVersion(), differs: len(ownership.Drift(live, applied, a.manager)) > 0}
}
