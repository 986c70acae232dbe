package backstop

import (
	"context"
	"time"

	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

const (
	// DefaultInterval is the time between two LISTs of the objects of a watch.
	DefaultInterval = time.Hour
	// suspectDelay is how long a difference that a LIST shows may be on its way through a
	// watch before the backstop counts it as missed.
	suspectDelay = 3 * time.Second
)

// Backstop compares suspects of one VidraResource with the API server in one reconcile.
type Backstop struct {
	Plan    *plan.Planner
	Applier *apply.Applier
	// Interval is the interval of the Lister. Zero turns the backstop off.
	Interval time.Duration
}

// On reports whether the objects are compared with the API server now and then.
func (p *Backstop) On() bool {
	return p.Interval > 0 && p.Plan.Settings.Watched && !p.Plan.VR.Spec.Suspend
}

// Note remembers suspects that a LIST found, until their events have had time to come.
func (p *Backstop) Note(suspects map[trigger.ObjectKey]string) {
	if !p.On() || len(suspects) == 0 {
		return
	}
	if !p.Plan.State.Objects.Suspects() {
		p.Plan.State.Schedule.Suspects = p.Plan.Now.Add(suspectDelay)
	}
	for _, o := range p.Plan.State.Objects.Manifest {
		if version, found := suspects[o.Desired.Key]; found && o.Seen.BackstopSuspect == nil {
			o.Seen.BackstopSuspect = &version
		}
	}
}

// Compare reads each suspect and asks the API server whether an apply would change it. A suspect that differs in the same
// version is added to causes: its event was lost or misjudged.
func (p *Backstop) Compare(ctx context.Context, causes map[trigger.ObjectKey]trigger.Cause) {
	s := p.Plan.State
	if !p.Plan.Scope.All || !p.Plan.Scope.Suspects && p.On() {
		return // a heal does not wait for it
	}
	var asked []*plan.Object
	for o := range s.Objects.All() {
		if o.Seen.BackstopSuspect == nil {
			continue
		}
		if o.Desired != nil && p.On() {
			if _, caused := causes[o.Desired.Key]; !caused && o.Edits.Drift == nil && o.In(v1alpha1.ObjectApplied) {
				asked = append(asked, o)
				continue
			}
		}
		o.Seen.BackstopSuspect = nil // what is not compared is no suspect any more
	}
	found, entries := make([]apply.Finding, len(asked)), make([]*v1alpha1.ManagedResourceStatus, len(asked))
	for i, o := range asked { // heals replace them
		entries[i] = o.Entry
	}
	p.Applier.ParallelKinds(len(asked), func(i int) object.Identity { return asked[i].ID }, func(i int) {
		leave := p.Applier.Slot(ctx, asked[i].Desired.Key)
		defer func() { leave(found[i].Err) }()
		found[i] = p.Applier.Compare(ctx, asked[i].Desired)
	})
	p.conclude(ctx, asked, entries, found, causes)
}

// conclude adds the findings about the compared suspects to causes, and notes the suspects for the next comparison. entries are
// the inventory entries of the suspects before. An object that was healed meanwhile has ceased to be a suspect. A
// correction is logged, too, as the metric has only the kind.
func (p *Backstop) conclude(ctx context.Context, asked []*plan.Object, entries []*v1alpha1.ManagedResourceStatus, found []apply.Finding, causes map[trigger.ObjectKey]trigger.Cause) {
	for i, f := range found {
		o, d := asked[i], asked[i].Desired
		before := *o.Seen.BackstopSuspect
		o.Seen.BackstopSuspect = nil
		switch {
		case o.Turn.Healing(), o.Entry != entries[i]:
		case f.Err != nil:
			p.Plan.Env.Metrics.BackstopFailed(d.ID.Group, d.ID.Kind)
		case !f.Differs && !p.unexpected(d.Key, f):
			p.verified(o, f)
		case before == f.Version:
			if !p.interrupted(d.Key) {
				p.Plan.Env.Metrics.BackstopCorrected(d.ID)
				ctrllog.FromContext(ctx).Info("The backstop found a change that no event had reported. It is reverted.",
					"cluster", d.Key.Cluster, "object", d.ID.String(), "resourceVersion", f.Version, "deleted", f.Live == nil)
			}
			causes[d.Key] = trigger.Cause{Deleted: f.Live == nil, Found: f.Live}
		default:
			p.Plan.State.Schedule.Suspects = p.Plan.Now.Add(suspectDelay)
			o.Seen.BackstopSuspect = &f.Version
		}
	}
}

// interrupted reports whether the watch of an object has been interrupted since a LIST showed the difference. Its
// event comes then, once a WATCH is open again.
func (p *Backstop) interrupted(key trigger.ObjectKey) bool {
	open := p.Plan.State.Watching.Watches[p.Plan.Settings.WatchKey(key)].StreamSince
	return open.IsZero() || p.Plan.Now.Sub(open) < suspectDelay
}

// unexpected reports whether an object that an apply would leave as it is differs from the expectation: it has an
// addition, for example, that is to be removed.
func (p *Backstop) unexpected(key trigger.ObjectKey, f apply.Finding) bool {
	expected, known := p.Plan.Env.Index.Expected(p.Plan.Settings.Claimant.Owner, key)
	return f.Live != nil && known && !expected.Unreverted && expected.Digest != f.Applied.Digest
}

// verified notes that an object is as it should be, and which one it is: Vidra may have created it
// again and ended before the status was written. Its digest counts as one of this process from now on.
func (p *Backstop) verified(o *plan.Object, f apply.Finding) {
	expected, known := p.Plan.Env.Index.Expected(p.Plan.Settings.Claimant.Owner, o.Desired.Key)
	if f.Live == nil || !known || expected.Unreverted { // it is nil if it is being deleted
		return
	}
	o.Entry.UID = string(f.Live.GetUID())
	p.Plan.Env.Index.Load(p.Plan.Settings.Claimant.Owner, map[trigger.ObjectKey]trigger.Applied{o.Desired.Key: f.Applied})
}
