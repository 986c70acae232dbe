package reconcile

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// pass is one look at one VidraResource.
type pass struct {
	*Reconciler
	owner   trigger.Owner
	vr      *v1alpha1.VidraResource
	session *session
	applier *applier
	// before is the status at the beginning.
	before v1alpha1.VidraResourceStatus
	now    time.Time

	// causes were taken from the trigger; unsolved ones are given back.
	causes   trigger.Causes
	unsolved map[trigger.ObjectKey]trigger.Cause
	// resync says that the time has come to look at every object; all says that
	// every object is looked at, for this or another reason.
	resync, all bool
	// retry says that something which was attempted has to be retried.
	retry bool
}

func (r *Reconciler) newPass(owner trigger.Owner, vr *v1alpha1.VidraResource) *pass {
	s, first := r.session(owner, vr)
	p := &pass{
		Reconciler: r, owner: owner, vr: vr, session: s, before: s.status,
		now: time.Now(), causes: r.Trigger.Take(owner), unsolved: map[trigger.ObjectKey]trigger.Cause{},
		applier: &applier{
			destination: r.Local, trigger: r.Trigger, index: r.Index, owner: owner,
			manager: v1alpha1.FieldManager(vr.Name), watched: vr.WatchesEvents(), inventory: s.inventory,
		},
	}
	p.resync = first || !p.now.Before(s.nextResync)
	if p.resync {
		s.nextResync = p.now.Add(wait.Jitter(vr.ResyncInterval(), resyncJitter))
	}
	due := !s.nextRetry.IsZero() && !p.now.Before(s.nextRetry)
	p.all = p.resync || due || p.causes.All || len(p.causes.Objects) == 0 || s.generation != vr.Generation
	return p
}

// run does the pass.
func (p *pass) run(ctx context.Context) (reconcile.Result, error) {
	s := p.session
	if server := p.vr.Spec.Destination.Server; server != "" && server != v1alpha1.LocalServer {
		return p.stall(ctx, v1alpha1.ReasonDestinationUnsupported, fmt.Sprintf(
			"the destination %s is another cluster, which this version of Vidra cannot reach: leave spec.destination.server out, or set it to %s",
			server, v1alpha1.LocalServer))
	}
	if p.all && (s.generation != p.vr.Generation || len(s.unresolved) > 0) {
		if err := s.read(ctx, p.vr, p.Local); err != nil {
			return p.stall(ctx, v1alpha1.ReasonManifestInvalid, err.Error())
		}
	}
	p.load()
	p.watch(ctx)
	todo := p.plan(p.look())
	if err := p.writeAhead(ctx, todo); err != nil {
		p.Trigger.GiveBack(p.owner, p.causes)
		return reconcile.Result{}, err
	}
	p.applyAll(ctx, todo.apply)
	p.note(todo.blocked)
	p.pruneAll(ctx, todo.prune)
	if len(todo.prune) > 0 {
		p.watch(ctx)
	}
	return p.finish(ctx, outcome{synced: len(todo.apply) > 0 && p.all && len(s.failures) == 0})
}

// load makes the inventory known to the index, after a restart.
func (p *pass) load() {
	if !p.applier.watched || p.Index.Loaded(p.owner) {
		return
	}
	known := map[trigger.ObjectKey]trigger.Applied{}
	for id, entry := range p.session.inventory {
		if d := p.session.byID[id]; d != nil {
			if applied, ok := appliedBefore(p.applier.manager, entry); ok {
				known[d.key] = applied
			}
		}
	}
	p.Index.Load(p.owner, known)
}

// watch makes the registry watch what the VidraResource needs: the kinds of its
// manifest, those of what is still to be removed, and the ones that are missing.
func (p *pass) watch(ctx context.Context) {
	s := p.session
	switch {
	case !p.applier.watched:
		p.Watches.Release(p.owner)
		p.Trigger.Release(p.owner)
		s.watches = nil
		return
	case !p.all:
		return // nothing that a watch depends on has changed
	}
	var want []watchregistry.Key
	for _, d := range s.objects {
		want = append(want, watchKey(d.key))
	}
	for id, entry := range s.inventory {
		if s.byID[id] != nil {
			continue
		}
		if mapping, err := p.Local.Mapping(ctx, gvkOf(entry)); err == nil {
			want = append(want, watchregistry.Key{GVR: mapping.GVR})
		}
	}
	s.watches = p.Watches.Sync(p.owner, want)
	var kinds []watchregistry.Kind
	for _, u := range s.unresolved {
		kinds = append(kinds, watchregistry.Kind{GVK: u.gvk})
	}
	p.Watches.Await(p.owner, kinds)
}

// look finds the objects that are not as expected. When every object is looked
// at, what the watches keep is compared, which costs no request; what cannot be
// watched is looked at itself when it is time to.
func (p *pass) look() map[trigger.ObjectKey]trigger.Cause {
	causes := map[trigger.ObjectKey]trigger.Cause{}
	if p.applier.watched {
		for key, cause := range p.causes.Objects {
			causes[key] = cause
		}
	}
	if !p.all {
		return causes
	}
	for _, d := range p.session.objects {
		if _, seen := causes[d.key]; seen {
			continue
		}
		unwatched := !p.applier.watched || p.session.watches[watchKey(d.key)].State == watchregistry.Degraded
		obj, found, synced := p.Watches.Get(watchKey(d.key), d.key.Namespace, d.key.Name)
		if unwatched && p.resync || !unwatched && synced && !p.Index.InOrder(p.owner, d.key, obj, found) {
			causes[d.key] = trigger.Cause{Unsure: true}
		}
	}
	return causes
}

// plan decides what to do, and forgets failures of what is no longer wanted.
func (p *pass) plan(causes map[trigger.ObjectKey]trigger.Cause) plan {
	s := p.session
	todo := makePlan(planInput{
		objects: s.objects, unresolved: s.unresolved, inventory: s.inventory, causes: causes, all: p.all,
		changed: func(d *desired) bool {
			if body, known := s.applied[d.id]; known {
				return !bytes.Equal(body, d.body)
			}
			return s.status.ObservedGeneration != p.vr.Generation
		},
		gone: func(d *desired) bool {
			return s.watches[watchKey(d.key)].State == watchregistry.Pending
		},
	})
	if p.all {
		_, order := s.entries()
		wanted := make(map[identity]struct{}, len(order))
		for _, id := range order {
			wanted[id] = struct{}{}
		}
		for id := range s.failures {
			if _, still := wanted[id]; !still {
				delete(s.failures, id)
			}
		}
	}
	return todo
}

// writeAhead writes the objects that are about to be created into the
// inventory: should Vidra stop in between, they are found again.
func (p *pass) writeAhead(ctx context.Context, todo plan) error {
	s := p.session
	added := false
	for _, t := range todo.apply {
		if t.why == whyNew && s.inventory[t.id] == nil {
			s.inventory[t.id] = entryOf(t.id, t.gvk)
			added = true
		}
	}
	if !added {
		return nil
	}
	status := *s.status.DeepCopy()
	status.ManagedResources, _ = s.entries()
	status.Objects = int32(len(status.ManagedResources)) //nolint:gosec // bounded by the size of a manifest
	status.DeployState = v1alpha1.DeployRunning
	for _, c := range []metav1.Condition{
		{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue},
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse},
	} {
		c.Reason, c.Message = v1alpha1.ReasonProgressing, "Applying the manifest"
		c.ObservedGeneration = status.ObservedGeneration
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return p.writeStatus(ctx, status)
}

// stall ends a pass over a VidraResource that only its author can mend. What
// was applied before stays as it is, and stays in the inventory.
func (p *pass) stall(ctx context.Context, reason, message string) (reconcile.Result, error) {
	p.unsolved = p.causes.Objects
	p.session.generation = 0 // whatever comes next, read it again
	return p.finish(ctx, outcome{stalled: &failure{reason, message}})
}

// finish writes the status if it changed, then the Events that speak of it.
func (p *pass) finish(ctx context.Context, o outcome) (reconcile.Result, error) {
	s := p.session
	o.generation, o.now = p.vr.Generation, p.now
	o.watched, o.watches = p.applier.watched, s.watches
	o.entries, o.order = s.entries()
	o.failures = s.failures
	for _, d := range s.objects {
		if _, drifted := p.unsolved[d.key]; drifted {
			o.drifted = append(o.drifted, d.id)
		}
	}
	p.Trigger.GiveBack(p.owner, trigger.Causes{Objects: p.unsolved})
	after := summarize(s.status, o)
	told := s.heals == 0 || p.now.Sub(s.healsSince) < healFlush
	if !told || !equality.Semantic.DeepEqual(s.status, after) {
		if err := p.writeStatus(ctx, after); err != nil {
			return reconcile.Result{}, err
		}
	}
	p.Recorder.Record(events.Transitions(referenceToOwner(p.vr), p.before, s.status, s.untold))
	s.untold = nil
	return reconcile.Result{RequeueAfter: p.rest()}, nil
}

// writeStatus writes a status, with the heals that it does not tell of yet.
func (p *pass) writeStatus(ctx context.Context, status v1alpha1.VidraResourceStatus) error {
	s := p.session
	base, changed := p.vr.DeepCopy(), p.vr.DeepCopy()
	base.Status = s.status
	changed.Status = s.withHeals(status)
	written := changed.Status // Patch overwrites changed with the answer
	err := p.Client.Status().Patch(ctx, changed, client.MergeFrom(base))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the status of VidraResource %s: %w", p.vr.Name, err)
	}
	p.vr.ResourceVersion = changed.ResourceVersion
	s.status, s.heals = written, 0
	return nil
}

// rest is how long the VidraResource is left alone without a cause.
func (p *pass) rest() time.Duration {
	s := p.session
	switch {
	case p.retry:
		backoff := wait.Backoff{Duration: retryMin, Factor: 2, Jitter: 0.2, Steps: maxSteps, Cap: retryMax}
		delay := backoff.Step()
		for range min(s.retries, maxSteps) {
			delay = backoff.Step()
		}
		s.retries++
		s.nextRetry = p.now.Add(delay)
	case p.all:
		s.retries, s.nextRetry = 0, time.Time{}
	}
	until := s.nextResync
	if !s.nextRetry.IsZero() && s.nextRetry.Before(until) {
		until = s.nextRetry
	}
	if flush := s.healsSince.Add(healFlush); s.heals > 0 && flush.Before(until) {
		until = flush
	}
	for _, status := range s.watches {
		if back := status.Since.Add(unavailableGrace); tolerable(status, p.now) && back.Before(until) {
			until = back
		}
	}
	return max(until.Sub(p.now), time.Millisecond)
}
