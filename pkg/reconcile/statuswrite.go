package reconcile

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// forgetAdditions forgets additions that have ceased to count.
func (p *pass) forgetAdditions() {
	for o := range p.state.plan.Objects.All() {
		if o.Entry == nil || o.Desired == nil || p.applier.Settings.Additions.Policy == v1alpha1.AdditionsKeep {
			o.Edits.Additions = ""
		}
	}
}

// writeAhead writes the objects that are about to be created into the inventory, or with the finalizer into an annotation
// (ADR 45): should Vidra stop in between, they are found again. Those that exist and may not be adopted leave it at the end
// of the reconcile; until then they are not removed, either: Vidra owns no field of them.
func (p *pass) writeAhead(ctx context.Context, todo plan.Plan) error {
	var added []*plan.Object
	for _, t := range todo.Apply {
		if t.Why == plan.WhyNew && t.Known.Entry == nil {
			t.Known.Entry = object.NewEntry(t.Object.ID, t.Object.GVK)
			added = append(added, t.Known)
		}
	}
	if len(added) == 0 {
		return nil
	}
	err := p.hold(ctx, p.state.plan.Entries())
	if err == nil && !p.finalizer.listed {
		err = p.writeInventory(ctx)
	}
	if err != nil {
		for _, o := range added {
			o.Entry = nil // it is not written, so nothing may be created yet
		}
	}
	return err
}

// writeInventory writes the inventory before the objects are written that it lists. It fails if the VidraResource is gone.
func (p *pass) writeInventory(ctx context.Context) error {
	err := p.writeStatus(ctx, false, status.Applying(p.state.plan.Status, p.state.plan.Entries(), false, p.plan.Now))
	if err == nil && p.finalizer.gone {
		return fmt.Errorf("VidraResource %s does not exist any more", p.plan.VR.Name)
	}
	return err
}

// finish writes the status if it changed, then the Events about the change.
func (p *pass) finish(ctx context.Context, o status.Outcome) (reconcile.Result, error) {
	s := p.state
	p.plan.EndContentions()
	if o.Obstacles.Stalled == nil && o.Obstacles.Blocked == nil && !o.Deleting {
		p.plan.RecordOthers()
		s.lane.yield()
		p.readHealth(ctx)
		p.plan.Checkup()
		o.Health = s.plan.Health
	}
	p.forgetAdditions()
	o.Obstacles.Source, o.Obstacles.Waiting = p.obstacles.Source, p.obstacles.Waiting
	s.lane.yield()
	changes, before, revision := s.plan.Reports.Events, s.plan.Status, p.revisionStatus()
	s.plan.Reports.Events = nil // the changes that heals note from now on follow the next status
	p.recorder().Conclusion(&o)
	p.awaitRefused(ctx, p.awaitRights(o.All))
	s.plan.Objects.ForgetUnused()
	end := plan.Ending{
		Stalled: o.Obstacles.Stalled != nil, Blocked: o.Obstacles.Blocked != nil, Unobserved: o.Unobserved != nil,
		Unended: o.Obstacles.Blocked != nil && !o.Obstacles.Blocked.Awaited || o.Obstacles.Source != nil && !o.Obstacles.Source.Awaited,
	}
	p.plan.NoteFailures(end)
	restores, later := s.writes.ToRestore(p.foreign, p.plan.Now)
	wakes := append(p.plan.Wakes(end), plan.Wake{At: later, Why: plan.WakeStatus})
	if p.obstacles.Waiting != nil {
		wakes = append(wakes, plan.Wake{At: p.obstacles.Waiting.Until, Why: plan.WakeDependency})
	}
	next := plan.Earliest(wakes)
	writes := s.plan.Schedule.FlushDue(p.plan.Now)
	var after v1alpha1.VidraResourceStatus
	s.lane.apart(func() { // thousands of entries take tens of milliseconds
		after = status.Summarize(before, o)
		after.Revision = revision
		if restores = restores && !status.Same(p.plan.VR.Status, before); restores { // otherwise an event was missed, and the writes are unknown
			ctrllog.FromContext(ctx).Info("The status of the VidraResource differs from the last answer to a write of Vidra: another client wrote it, or an answer was lost. Vidra writes it again.")
		}
		writes = writes || restores || status.Changed(before, after)
	})
	if writes {
		err := p.writeStatus(ctx, restores, after)
		if restores {
			s.writes.EndRestore(p.foreign, p.plan.Now, err)
		}
		if err != nil {
			s.plan.Reports.Events = append(changes, s.plan.Reports.Events...)
			p.requeuePending(o.All)
			return reconcile.Result{}, err
		}
	}
	if p.finalizer.vanished {
		return reconcile.Result{}, p.withdraw(ctx)
	}
	p.reconciler.Watching.Trigger.RequeueCauses(p.plan.Settings.Claimant.Owner, trigger.Causes{Objects: p.plan.Findings.PendingDrift})
	reported := s.plan.Status
	s.lane.apart(func() { // thousands of changes take tens of milliseconds
		p.reconciler.record(p.plan.Settings.Claimant.Owner, object.ReferenceToOwner(p.plan.VR), p.before, reported, changes)
	})
	ctrllog.FromContext(ctx).V(1).Info("Reconciled", "next", next.At, "why", next.Why)
	return p.plan.Requeue(next), nil
}

// patchStatus writes a status of a VidraResource, and returns the version that it made. A patch that the API server refuses as invalid is sent once more
// with the whole status: another client may have removed it.
func (r *Reconciler) patchStatus(ctx context.Context, name string, uid types.UID, before, after v1alpha1.VidraResourceStatus, precondition string) (version string, err error) {
	write := func(from v1alpha1.VidraResourceStatus) (string, error) {
		patch, err := status.Patch(from, after, uid, precondition)
		if err != nil {
			return "", err
		}
		changed := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}} // only the metadata of the answer is used
		changed.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
		if err := r.Clients.Client.Status().Patch(ctx, changed, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			return "", err
		}
		return changed.ResourceVersion, nil
	}
	if version, err = write(before); apierrors.IsInvalid(err) {
		return write(v1alpha1.VidraResourceStatus{})
	}
	return version, err
}

// writeStatus writes a status, with the heals that it is still to count. It waits for the answer
// also if ctx ends meanwhile: the next process takes the content of the status for reported. whole replaces each field, as after the write of another client:
// an earlier write of this reconcile has changed some of them since.
func (p *pass) writeStatus(ctx context.Context, whole bool, after v1alpha1.VidraResourceStatus) error {
	if err := p.hold(ctx, nil); err != nil {
		return err
	}
	s, before := p.state, p.state.plan.Status
	if whole {
		before = v1alpha1.VidraResourceStatus{}
	}
	unreported := s.plan.TakeUnreported()
	precondition := "" // as the status is known from the first write on; the cache may be older than the writes of an operator before this one
	if !s.writes.Written {
		precondition = p.plan.VR.ResourceVersion
	}
	var written v1alpha1.VidraResourceStatus
	s.lane.apart(func() { written = unreported.AddTo(after) })
	p.reconciler.Reports.Inventories.Write(p.plan.VR.Name, written.ManagedResources)
	s.writes.Begin()
	var version string
	var err error
	s.lane.apart(func() {
		err = access.AwaitAnswer(ctx, func(ctx context.Context) (err error) {
			version, err = p.reconciler.patchStatus(ctx, p.plan.VR.Name, p.plan.VR.UID, before, written, precondition)
			return err
		})
	})
	if s.writes.End(version) {
		p.reconciler.Watching.Trigger.EnqueueAll(p.plan.Settings.Claimant.Owner)
	}
	p.noteConflict(err)
	switch {
	case err == nil:
	case apierrors.IsNotFound(err): // otherwise its kind is served no more
		p.finalizer.gone = true
		p.finalizer.vanished = p.finalizer.vanished || s.inventory.justHeld && object.IsAbsent(err, p.plan.VR.Name)
		return nil
	default:
		s.plan.ReturnUnreported(unreported)
		return fmt.Errorf("write the status of VidraResource %s: %w", p.plan.VR.Name, withoutValues(p.plan.VR, err))
	}
	p.plan.VR.ResourceVersion = version
	s.plan.Status, s.inventory.justHeld, s.plan.Origin.Emptied = written, false, false
	return nil
}
