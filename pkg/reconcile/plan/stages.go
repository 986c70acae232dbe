package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// EachStage calls do for the items of one stage after the other. They are in the order of
// their stages.
func EachStage[T any](items []T, stageOf func(T) manifest.Stage, do func(stage []T)) {
	for len(items) > 0 {
		n := 1
		for n < len(items) && stageOf(items[n]) == stageOf(items[0]) {
			n++
		}
		do(items[:n])
		items = items[n:]
	}
}

// WebhooksLast takes new webhooks from a plan while objects wait for a kind that the
// manifest defines: they belong to a stage before, and a webhook may refuse them.
func (p *Planner) WebhooksLast(todo Plan) Plan {
	s := p.State
	waits := slices.ContainsFunc(s.Objects.Manifest, func(o *Object) bool {
		return o.Desired.Declares.Provides != nil && slices.ContainsFunc(s.Objects.Unresolved, func(u desired.Unresolved) bool { return o.Desired.Defines(u.ID.GroupKind) })
	})
	until := cmp.Or(s.Objects.Waiting, p.Now).Add(CRDEstablishTimeout)
	if !waits || !p.Now.Before(until) {
		return todo
	}
	todo.Apply = slices.DeleteFunc(todo.Apply, func(t Task) bool {
		last := t.Object.ID.Stage() == manifest.StageWebhooks && t.Why == WhyNew
		if last {
			t.Known.Await(v1alpha1.ReasonProgressing, "is applied after the objects that wait for their CustomResourceDefinition")
			t.Known.Problem.Until = until
		}
		return last
	})
	return todo
}

// KeepUntilApplied removes from ids, which left the manifest, the objects that stay for now. While an object of the
// manifest is still to be applied, an object that left the manifest may be the object that it replaces. Only deletions that have begun
// continue.
func (p *Planner) KeepUntilApplied(ids []object.Identity) []object.Identity {
	s := p.State
	if len(ids) == 0 || !s.Objects.hasUnapplied() { // as in nearly every reconcile
		return ids
	}
	return slices.DeleteFunc(ids, func(id object.Identity) bool {
		if s.Objects.ByID[id].In(v1alpha1.ObjectDeleting) {
			return false
		}
		s.Objects.ByID[id].Await(v1alpha1.ReasonProgressing, removedWhenApplied+s.Objects.unappliedIn(id))
		return true
	})
}

// unappliedIn is the end of the message about a container that KeepUntilApplied keeps: it names an object of the manifest that would be
// deleted with the container and is still to be applied. Otherwise it is empty.
func (s *Objects) unappliedIn(container object.Identity) string {
	if !container.IsContainer() {
		return ""
	}
	var members policy.Group
	for _, u := range s.Unresolved {
		members.Add(u.ID, trigger.ObjectKey{})
	}
	for _, o := range s.Manifest {
		if unapplied(o) {
			members.Add(o.ID, o.Desired.Key)
		}
	}
	if member, holds := members.In(container); holds {
		return "; it holds " + member.String() + ", which is not"
	}
	return ""
}

// removedWhenApplied begins the message about an object that KeepUntilApplied keeps.
const removedWhenApplied = "left the manifest, and is removed when all that is in it is applied"

// hasUnapplied reports whether an object of the manifest is still to be applied, so that objects that left it stay.
func (s *Objects) hasUnapplied() bool {
	return slices.ContainsFunc(s.Unresolved, func(u desired.Unresolved) bool { return unapplied(s.ByID[u.ID]) }) ||
		slices.ContainsFunc(s.Manifest, unapplied)
}

// RemovalSettle is how long the manifest must have lacked an object before the object is removed. One change may give the
// object to another VidraResource, or to another part of the manifest, which is written a little later.
const RemovalSettle = time.Second

// PartGrace is how long an optional part of the manifest must be absent before the objects are removed that it may have had:
// a part that is replaced is absent in between.
const PartGrace = 15 * time.Second

// RemovalDelay is the time between the departure of objects from the manifest and their removal, and the text about them
// meanwhile.
type RemovalDelay struct {
	Time time.Duration
	// Endless delays removals until something else ends it.
	Endless bool
	Message string
}

// Settling is the delay of every removal.
var Settling = RemovalDelay{Time: RemovalSettle, Message: policy.Settling}

// SettleRemovals removes from ids, which are to be removed, those whose removal is delayed. Deletions that have begun
// continue. Where the absence of an object counts as an edit that stays, the status announces its removal: Vidra may stop between the two.
func (p *Planner) SettleRemovals(ids []object.Identity, delay RemovalDelay) []object.Identity {
	return slices.DeleteFunc(ids, func(id object.Identity) bool {
		o := p.State.Objects.ByID[id]
		if o.Departure.At.IsZero() {
			o.Departure.At = p.Now
			if o.Departure.Lasts && p.VR.DeletionTimestamp.IsZero() && !policy.OfMode(p.VR).Reverts() {
				o.noteDeletion()
			}
		}
		due := o.Departure.At.Add(delay.Time)
		if o.In(v1alpha1.ObjectDeleting) || !delay.Endless && !p.Now.Before(due) {
			return false
		}
		if o.Fail(v1alpha1.ReasonProgressing, delay.Message); !delay.Endless {
			o.Problem.Awaited, o.Problem.Until = true, due
		}
		return true
	})
}

// BeingReplaced is the failure of an object that is applied once its deletion has ended.
var BeingReplaced = object.Failure{Reason: v1alpha1.ReasonProgressing, Message: "is being deleted, and will be created again"}

// unapplied reports whether an object of the manifest is still to be applied, so that objects that left the manifest stay. Three
// cases are ignored, because each may wait for the very object that left: an object that another owner keeps as it is, one
// that another owner releases only when it has applied an object that left, and an object that is being deleted, such as a
// claim that a Pod still uses.
func unapplied(o *Object) bool {
	if o == nil || o.Problem == nil || o.Problem.AwaitsRelease {
		return false
	}
	switch o.Problem.Reason {
	case v1alpha1.ReasonOwnershipConflict, v1alpha1.ReasonAdoptionRefused, v1alpha1.ReasonDeletionBlocked:
		return false
	}
	return o.Problem.Message != BeingReplaced.Message
}
