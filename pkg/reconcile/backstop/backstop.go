package backstop

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

const (
	// DefaultInterval is the time between two comparisons with the API server.
	DefaultInterval = time.Hour
	// suspectDelay is how long a difference that the backstop finds may be on its way
	// through a watch before the backstop counts it as missed.
	suspectDelay = 3 * time.Second
)

// Backstop compares the objects of one VidraResource with the API server in one reconcile.
type Backstop struct {
	*plan.Planner
	Applier *apply.Applier
	// Interval is the time between two comparisons of every object. Zero turns them off.
	Interval time.Duration
}

// Compare asks the API server of every object, once an interval, whether an apply
// would change it. It finds changes whose events were lost or misjudged, and adds them to
// causes.
func (p *Backstop) Compare(ctx context.Context, causes map[trigger.ObjectKey]trigger.Cause) {
	s := p.State
	if !p.Scope.All {
		return // a heal does not wait for it
	}
	if !p.On() {
		s.Schedule.Backstop = time.Time{}
		return
	}
	if s.Schedule.Backstop.IsZero() { // a restart is no reason to ask for everything at once
		s.Schedule.Backstop = p.Now.Add(time.Duration(rand.Float64() * float64(p.Interval))) //nolint:gosec // it spreads, it hides nothing
	}
	var asked []*plan.Object
	for o := range s.All() {
		suspect := o.BackstopSuspect != nil
		if o.Desired != nil {
			_, caused := causes[o.Desired.Key]
			if !caused && o.Drift == nil && o.In(v1alpha1.ObjectApplied) && (p.Scope.Backstop && !suspect || p.Scope.Suspects && suspect) {
				asked = append(asked, o)
				continue
			}
		}
		if p.Scope.Suspects { // what is not compared again is no suspect any more
			o.BackstopSuspect = nil
		}
	}
	if p.Scope.Backstop {
		s.Schedule.Backstop = p.Now.Add(wait.Jitter(p.Interval, plan.ResyncJitter))
	}
	found := make([]apply.Finding, len(asked))
	p.Applier.Parallel(len(asked), func(i int) { found[i] = p.Applier.Compare(ctx, asked[i].Desired) })
	for i, f := range found {
		o, d := asked[i], asked[i].Desired
		before := o.BackstopSuspect
		o.BackstopSuspect = nil
		switch {
		case f.Err != nil:
			p.Metrics.BackstopFailed(d.ID)
		case !f.Differs:
			p.identified(o, f.Live)
		case before != nil && *before == f.Version:
			p.Metrics.BackstopCorrected(d.ID)
			causes[d.Key] = trigger.Cause{Deleted: f.Live == nil, Found: f.Live}
		default:
			if !s.Suspects() {
				s.Schedule.Suspects = p.Now.Add(suspectDelay)
			}
			o.BackstopSuspect = &f.Version
		}
	}
}

// On reports whether the objects are compared with the API server now and then.
func (p *Backstop) On() bool { return p.Interval > 0 && p.Watched && !p.VR.Spec.Suspend }

// identified notes which object is there: Vidra may have created it again and ended
// before the status was written.
func (p *Backstop) identified(o *plan.Object, live *unstructured.Unstructured) {
	entry := o.Entry
	if live == nil || entry.UID == string(live.GetUID()) { // nil if it is being deleted
		return
	}
	entry.UID = string(live.GetUID())
	if applied, ok := plan.AppliedBefore(p.Manager, entry); ok {
		p.Index.Load(p.Owner, map[trigger.ObjectKey]trigger.Applied{o.Desired.Key: applied})
	}
}
