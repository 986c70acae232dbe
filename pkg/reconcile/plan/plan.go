package plan

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Why is the cause of the apply of an object.
type Why int

const (
	// WhyNew reports that the object was never applied by this VidraResource.
	WhyNew Why = iota
	// WhyChanged reports that the manifest has changed, or may have.
	WhyChanged
	// WhyRetry reports that the last apply failed.
	WhyRetry
	// WhyDrift reports that another writer changed or deleted the object.
	WhyDrift
)

// Task is one object to be applied.
type Task struct {
	Object *desired.Object
	// Known is the knowledge about the object. An applier only reads it.
	Known *Object
	Why   Why
	Cause trigger.Cause
	// Decision is the decision about a change of the object.
	Decision policy.Decision
	// Seen are the changes of another writer that were seen before and stayed.
	Seen []ownership.Change
	// Completes reports that the object counts as completed if it is absent.
	Completes bool
	// Begun reports that an apply with an unreported answer may have been sent before.
	Begun bool
	// Synced is when the manifest was last applied in full; nil if it never was.
	Synced *metav1.Time
}

// Entry is the inventory entry of the object, or nil.
func (t Task) Entry() *v1alpha1.ManagedResourceStatus { return t.Known.Entry }

// Input is the knowledge before a plan is made.
type Input struct {
	objects *Objects
	// preconditions returns the obstacles of an object.
	preconditions func(*Object) preconditions
	// causes are the objects that are not as they should be.
	causes map[trigger.ObjectKey]trigger.Cause
	// all has every object considered; otherwise only causes are.
	all bool
	// synced is when the manifest was last applied in full; nil if it never was.
	synced *metav1.Time
}

// preconditions is the knowledge about an object of the manifest before a plan is made.
type preconditions struct {
	// changed reports that its applied configuration is, or may be, another one than
	// was applied last.
	changed bool
	// unobserved reports that all watches lack the object, as after a restart.
	unobserved bool
	// coOwned reports that another field manager owns fields that Vidra applied to it.
	coOwned bool
	// terminating reports that its namespace is being deleted.
	terminating bool
	// gone reports that its kind is unserved at present.
	gone bool
	// held reports that it failed, and its time to be tried again is still to come.
	held bool
	// contended reports that it is contended, and its next heal is still to become due.
	contended bool
	// completes reports that it counts as completed if it is absent.
	completes bool
	// decision is the decision about a change of it.
	decision policy.Decision
	// seen are the changes of another writer that were seen before and stayed.
	seen []ownership.Change
}

// Plan is the work of a reconcile.
type Plan struct {
	Apply []Task
	// Prune are the objects that left the manifest, last applied first.
	Prune []object.Identity
	// Blocked are the objects whose kind is gone.
	Blocked []*Object
	// Terminating are the objects whose namespace is being deleted.
	Terminating []*Object
	// Held are the objects that have to wait.
	Held []*Object
}

// Make plans the work. Objects stay in the order of the manifest.
func Make(in Input) Plan {
	var p Plan
	for _, o := range in.objects.Manifest {
		d, entry := o.Desired, o.Entry
		cause, drifted := in.causes[d.Key]
		if !in.all && !drifted {
			continue
		}
		deletedByVidra := o.DeletedByVidra()
		if deletedByVidra {
			cause, drifted = trigger.Cause{Unsure: true}, false
		}
		is := in.preconditions(o)
		switch {
		case is.terminating:
			p.Terminating = append(p.Terminating, o)
		case is.gone:
			p.Blocked = append(p.Blocked, o)
		case is.held, drifted && is.contended && !is.changed:
			p.Held = append(p.Held, o)
		case entry == nil || entry.UID == "":
			p.Apply = append(p.Apply, Task{Object: d, Known: o, Why: WhyNew, Begun: entry != nil, Synced: in.synced})
		case is.changed:
			// A changed manifest is applied in spite of policies and break-glass. An edit that every
			// watch has missed is reported, too, so the object is read first, and so are the owners of fields that
			// the manifest may have dropped.
			switch {
			case o.Attempts.Unlisted == nil:
			case drifted:
				cause = o.Attempts.Unlisted.Then(cause)
			case !cause.Unsure:
				cause = *o.Attempts.Unlisted
			}
			cause.Unsure = cause.Unsure || cause.Found == nil && (is.unobserved || is.coOwned)
			p.Apply = append(p.Apply, Task{Object: d, Known: o, Why: WhyChanged, Cause: cause, Seen: is.seen})
		case deletedByVidra:
			p.Apply = append(p.Apply, Task{Object: d, Known: o, Why: WhyRetry, Cause: cause, Decision: is.decision})
		case drifted:
			p.Apply = append(p.Apply, Task{Object: d, Known: o, Why: WhyDrift, Cause: cause, Decision: is.decision, Completes: is.completes})
		case o.unfinished():
			p.Apply = append(p.Apply, Task{Object: d, Known: o, Why: WhyRetry, Cause: trigger.Cause{Unsure: true}, Decision: is.decision, Completes: is.completes})
		}
	}
	if in.all {
		p.Prune = in.objects.Leftovers()
	}
	return p
}

// unfinished reports whether an object of the inventory has still to be applied. A completed one with a problem is read again.
func (o *Object) unfinished() bool {
	return o.In(v1alpha1.ObjectPending) || o.In(v1alpha1.ObjectFailed) || o.In(v1alpha1.ObjectCompleted) && o.Problem != nil
}

// Leftovers returns the objects of the inventory that the manifest lacks, the last applied one first. An object that waits for its kind is still in the
// manifest, under its namespace there or under the namespace that it was given.
func (s *Objects) Leftovers() []object.Identity {
	var gone []object.Identity
	waits := desired.MayBe(s.Unresolved)
	for _, o := range s.Others {
		if o.Entry != nil && !waits(o.ID) {
			gone = append(gone, o.ID)
		}
	}
	slices.SortFunc(gone, CompareForRemoval)
	return gone
}

// With returns the task with another cause.
func (t Task) With(cause trigger.Cause) Task {
	if t.Cause = cause; t.Why == WhyDrift {
		t.Completes = t.Known.Completes(cause)
	}
	return t
}

// Done reports whether the loop of objects has applied the changed object of the task since a time.
func (t Task) Done(since time.Time) bool {
	o := t.Known
	return t.Why == WhyChanged && !o.Attempts.LastApply.Before(since) && o.Entry != nil && o.Entry.Configuration == t.Object.Configuration && o.Problem == nil
}

// Settled returns the task without the state of the object that its cause has, if a later apply has reverted that: the object is read before
// a change of it is reported. now is the time at which causes that no event reported were found.
func (t Task) Settled(now time.Time) Task {
	if t.Known.Attempts.LastApply.After(cmp.Or(t.Cause.Since, now)) && (t.Cause.Deleted || t.Cause.Found != nil) {
		t.Cause.Deleted, t.Cause.Succeeded, t.Cause.Found, t.Cause.Unsure = false, false, nil, true
	}
	return t
}
