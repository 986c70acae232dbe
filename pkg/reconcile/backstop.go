package reconcile

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
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
	// backstopDoubt is how long a difference that the backstop finds may be on its way
	// through a watch before nobody else has found it.
	backstopDoubt = 3 * time.Second
)

// backstop asks the API server of every object, once an interval, whether an apply
// would change it: should an event be lost or misjudged, which must not be, that is
// found here. It adds what differs to causes.
func (p *pass) backstop(ctx context.Context, causes map[trigger.ObjectKey]trigger.Cause) {
	s := p.session
	if !p.all {
		return // a heal does not wait for it
	}
	if p.BackstopInterval <= 0 || !p.applier.watched || p.vr.Spec.Suspend {
		s.nextBackstop = time.Time{}
		return
	}
	if s.nextBackstop.IsZero() { // a restart is no reason to ask for everything at once
		s.nextBackstop = p.now.Add(time.Duration(rand.Float64() * float64(p.BackstopInterval))) //nolint:gosec // it spreads, it hides nothing
	}
	var asked []*desired
	due := !p.now.Before(s.nextBackstop)
	doubts := len(s.doubts) > 0 && !p.now.Before(s.doubtUntil)
	for _, d := range s.objects {
		_, known := causes[d.key]
		_, left := s.drifts[d.id]
		entry := s.inventory[d.id]
		_, doubted := s.doubts[d.id]
		if !known && !left && entry != nil && entry.State == v1alpha1.ObjectApplied && (due && !doubted || doubts && doubted) {
			asked = append(asked, d)
		}
	}
	if doubts { // what is not asked again is no doubt any more
		maps.DeleteFunc(s.doubts, func(id identity, _ string) bool {
			return !slices.ContainsFunc(asked, func(d *desired) bool { return d.id == id })
		})
	}
	if due {
		s.nextBackstop = p.now.Add(wait.Jitter(p.BackstopInterval, resyncJitter))
	}
	found := make([]finding, len(asked))
	p.parallel(len(asked), func(i int) { found[i] = p.applier.compare(ctx, asked[i]) })
	for i, f := range found {
		d := asked[i]
		before, doubted := s.doubts[d.id]
		delete(s.doubts, d.id)
		switch {
		case f.err != nil:
			p.Metrics.backstopFailed(d.id)
		case !f.differs:
			p.identified(d, f.live)
		case doubted && before == f.version:
			p.Metrics.backstopCorrected(d.id)
			causes[d.key] = trigger.Cause{Deleted: f.live == nil, Found: f.live}
		default:
			if len(s.doubts) == 0 {
				s.doubtUntil = p.now.Add(backstopDoubt)
			}
			s.doubts[d.id] = f.version
		}
	}
}

// identified notes which object is there: Vidra may have created it again and ended
// before the status was written.
func (p *pass) identified(d *desired, live *unstructured.Unstructured) {
	entry := p.session.inventory[d.id]
	if live == nil || entry.UID == string(live.GetUID()) { // nil if it is being deleted
		return
	}
	entry.UID = string(live.GetUID())
	if applied, ok := appliedBefore(p.applier.manager, entry); ok {
		p.Index.Load(p.owner, map[trigger.ObjectKey]trigger.Applied{d.key: applied})
	}
}

// backstopDue says whether it is time for a comparison, or to look at a doubt again.
func (s *session) backstopDue(now time.Time) bool {
	return !s.nextBackstop.IsZero() && !now.Before(s.nextBackstop) || len(s.doubts) > 0 && !now.Before(s.doubtUntil)
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
