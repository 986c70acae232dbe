package prune

import (
	"cmp"
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Prune removes objects, stage by stage, the objects of a stage in parallel.
func (a *Remover) Prune(ctx context.Context, ids []object.Identity) {
	if len(ids) == 0 { // as in nearly every reconcile
		return
	}
	a.exclusions, a.kinds = a.exclude(ctx, ids), &access.Mappings{}
	a.receivers = renewed(receiversFor, func() (map[object.Identity][]owners.Receiver, error) { return a.findReceivers(ctx, ids) })
	a.stale = renewed(staleFor, func() (struct{}, error) { return struct{}{}, a.Stale(ctx) })
	defer a.endRemoval(ids)
	plan.EachStage(ids, object.Identity.Stage, func(stage []object.Identity) {
		if a.Interrupted() { // a container is removed after its members
			return
		}
		removals := make([]removal, len(stage))
		a.Applier.ParallelKinds(len(stage), func(i int) object.Identity { return stage[i] }, func(i int) {
			if entry := a.Plan.State.Objects.ByID[stage[i]].Entry; a.Interrupted() {
				removals[i] = removal{end: skipped}
			} else if a.stillThere(ctx, entry) {
				removals[i] = removal{end: stillThere}
			} else if removals[i] = a.remove(ctx, entry); apierrors.IsForbidden(removals[i].err) && a.Applier.NamespaceIsGone(ctx, entry.Namespace) {
				removals[i].end = goneWithNamespace // with the rights of the account in it
			}
		})
		a.recordStage(stage, removals)
	})
}

// staleFor and receiversFor are how long an answer of Stale and one about receivers count: removals may wait for slow ones.
const (
	staleFor     = time.Second
	receiversFor = 3 * time.Second
)

// renewed returns ask with an answer that is at most age old. It is safe for concurrent use.
func renewed[T any](age time.Duration, ask func() (T, error)) func() (T, error) {
	var mu sync.Mutex
	var asked time.Time
	var answer T
	var err error
	return func() (T, error) {
		mu.Lock()
		defer mu.Unlock()
		if asked.IsZero() || time.Since(asked) > age {
			answer, err = ask()
			asked = time.Now()
		}
		return answer, err
	}
}

// stillThere reports whether an object whose deletion was accepted is seen by its
// watch, which saves asking for it. It is asked for when it is time to retry.
func (a *Remover) stillThere(ctx context.Context, entry *v1alpha1.ManagedResourceStatus) bool {
	if entry.State != v1alpha1.ObjectDeleting || !a.Applier.Settings.Watched {
		return false
	}
	if o := a.Plan.State.Objects.ByID[object.IdentityOf(entry)]; o != nil && !a.Plan.Waits(o) {
		return false
	}
	mapping, err := a.kinds.InAnyVersion(ctx, a.Applier.Destination, object.GVKOf(entry))
	if err != nil {
		return false
	}
	key := trigger.ObjectKey{Cluster: a.Applier.Destination.Name(), GVR: mapping.GVR, Namespace: entry.Namespace, Name: entry.Name}
	_, found, synced := a.Plan.Env.Watches.Get(a.Applier.Settings.WatchKey(key), entry.Namespace, entry.Name)
	return found && synced
}

// recordRemoval notes the outcome of a removal. An object stays in the inventory until it is gone.
func (a *Remover) recordRemoval(o *plan.Object, done removal) {
	entry := o.Entry
	change := events.Change{Object: object.ReferenceTo(o.ID, object.GVKOf(entry), "")}
	a.Plan.NoteAnswer(o, done.glass)
	if done.end != delayed && done.decision.Text != "" {
		o.Departure.Note = done.decision.Text
	}
	if done.key.Name != "" && done.end != kindUnserved { // its kind is served
		o.Departure.KindGoneSince = time.Time{}
	}
	switch done.end {
	default: // skipped: nothing changes
		return
	case kindUnserved:
		// An API server that has just started serves some kinds a little later.
		o.Departure.KindGoneSince = cmp.Or(o.Departure.KindGoneSince, a.Plan.Now)
		o.EndProblem()
		o.Fail(v1alpha1.ReasonProgressing, "is being removed, but its kind is not served at present")
		return
	case outOfScope:
		o.Problem = done.outOfScope
		o.Problem.Awaited = true
		return
	case delayed:
		// Of the other decisions without a receiver, some were made before the question, or without its answer.
		o.Departure.Received = done.decision.Receiver != nil || o.Departure.Received && done.decision.Reason != policy.Unreceived
		switch until := done.decision.Until; done.decision.Reason {
		case policy.Unreceived:
			o.Departure.At = until.Add(-plan.RemovalSettle)
		case policy.RightsUnknown, policy.ReceiversUnknown, policy.Occupied:
			if !until.IsZero() { // until ContentEnds
				o.Departure.Awaits = until.Add(-moveTimeout)
			}
		}
		reason, occupied := v1alpha1.ReasonProgressing, done.decision.Reason == policy.Occupied
		if occupied {
			reason = v1alpha1.ReasonDeletionBlocked
		}
		if occupied || done.decision.Reason == policy.Unserved { // a user has to end it
			a.Plan.NoteRefusedRemoval(o, done.key, done.decision.Occupied)
		} else {
			o.EndProblem()
		}
		// An exemption has an end; a move may end before its time.
		o.Problem = &object.Failure{
			Reason: reason, Message: display.Truncate(done.decision.Text, v1alpha1.MaxProblemMessage), Awaited: done.decision.Reason == policy.Exempt, Until: done.decision.Until,
		}
		return
	case failed, deletionFailed:
		if entry.State != v1alpha1.ObjectDeleting { // it stays so
			entry.State = v1alpha1.ObjectFailed
		}
		a.Applier.Refused(o, done.err, done.key, "get", "patch", "delete")
		a.Plan.NoteRefusedRemoval(o, done.key, done.err)
		o.Fail(v1alpha1.ReasonPruneFailed, "cannot be removed: "+object.Message(done.err, done.disclosure)+a.advice(done))
		return
	case deleted, beingDeleted, blocked, stillThere:
		if done.end == deleted && entry.State != v1alpha1.ObjectDeleting { // the failures before it are over
			o.Attempts.Retry = plan.Retry{}
		}
		if done.end != stillThere || o.Problem == nil { // a new manifest ends the problem that was read
			o.EndProblem()
		}
		switch {
		case done.end == blocked:
			o.Fail(v1alpha1.ReasonDeletionBlocked, "is being deleted, and waits for "+display.Truncate(done.waitsFor, v1alpha1.MaxProblemMessage))
		case done.waitsFor != "":
			o.Fail(v1alpha1.ReasonProgressing, "is being deleted, and waits for "+display.Truncate(done.waitsFor, v1alpha1.MaxProblemMessage))
		case o.Problem == nil: // otherwise the object was not read again
			o.Fail(v1alpha1.ReasonProgressing, "is being deleted")
		}
		entry.State = v1alpha1.ObjectDeleting
		if done.end == beingDeleted || done.end == blocked {
			a.Plan.NoteDeleting(o, done.key, done.version, done.blockedAt)
		}
		return
	case unmanaged:
		change.Action = events.Orphaned
	case released:
		change.Action = events.Released
	case absent, notOurs, goneWithKind, goneWithNamespace:
		before := a.Plan.First && done.end == absent // a Vidra before this one may have deleted it
		if entry.State == v1alpha1.ObjectDeleting || (before || done.end == goneWithKind) && entry.UID != "" {
			change.Action = events.Pruned
		}
	}
	if change.Note = o.Departure.Note; change.Action != "" {
		a.Plan.Note(change)
	}
	o.EndProblem()
	o.Entry, o.Departure.KindGoneSince, o.Departure.Note = nil, time.Time{}, ""
}
