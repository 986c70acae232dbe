package apply

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/tracing"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Applier applies the objects of one VidraResource. It is safe for concurrent
// use on different objects.
type Applier struct {
	Settings    *plan.Settings
	Destination access.Destination
	// Client reads and writes the objects, as Vidra itself or as a ServiceAccount. It is
	// made by access.Accounts.ClientOf, and nil until the destination is connected.
	Client dynamic.Interface
	// User is the user that Client impersonates; empty for Vidra itself.
	User    string
	Trigger *trigger.Factory
	Index   *trigger.Index
	// Finder finds the other VidraResources that own an object.
	Finder *owners.Finder
	// Limit is how many objects of a kind in a stage are applied or removed at a time.
	Limit int
	// Slot waits for a slot for requests of a reconcile about an object. leave releases it after the last request, with its error.
	Slot func(ctx context.Context, key trigger.ObjectKey) (leave func(error))
	// LeftShard reports whether another shard reconciles the VidraResource by now, which changes the labels of its objects. Nil where shards are unused.
	LeftShard func(ctx context.Context) (bool, error)
	// Apart calls a function that sends requests, while heals may change the state of the VidraResource. A heal needs neither.
	Apart func(do func())
	// Orphans reports that removed objects are left in place.
	Orphans bool
}

// Apply does a task: it gathers the knowledge, runs the procedure, and records the result.
func (a *Applier) Apply(ctx context.Context, t plan.Task) (done Result) {
	ctx, end := tracing.Object(ctx, "apply object", t.Object.ID)
	defer func() { end(string(done.Change.Action), done.Err) }()
	p, err := a.prepare(ctx, t)
	if err != nil {
		return Result{Task: p.known.task, End: Failed, Err: err, Shown: p.known.disclosureWith()}
	}
	k := p.known
	gathering, warnings := withWarnings(ctx)
	began := time.Now()
	p.run(gathering)
	answered := time.Now()
	done = a.record(p, warnings.all())
	if done.End == Applied {
		done.Applied.Altered = a.alteredIn(gathering, k, &done)
	}
	if done.Began, done.Answered = began, answered; done.End == Failed && k.unmet() {
		return a.applyUnmet(ctx, t, done)
	}
	if done.Applied.Live != nil && t.Why != plan.WhyDrift { // a healed object was applied before
		if aggregated, err := a.Destination.Aggregated(ctx, t.Object.GVK.GroupVersion()); err == nil { // otherwise the next apply asks
			done.Applied.Aggregated = &aggregated
		}
	}
	return done
}

// maxGathered is how often the knowledge of a task is gathered at most.
const maxGathered = 8

// prepare gathers the knowledge of a task and begins it. The procedure would overwrite the edits that events have shown since the plan: the knowledge
// is gathered again, with them.
func (a *Applier) prepare(ctx context.Context, t plan.Task) (*procedure, error) {
	for n := 1; ; n++ {
		k, err := a.gather(ctx, t)
		p := newProcedure(k, a.calls(t.Object.Key))
		if err != nil {
			return p, err
		}
		p.result.End = p.judge()
		if !a.begin(p) || t.Why != plan.WhyChanged && t.Why != plan.WhyDrift || n == maxGathered { // the others have read the object
			return p, nil
		}
		later, found := a.Trigger.TakeCause(trigger.Heal{Owner: a.Settings.Claimant.Owner, Key: t.Object.Key})
		if !found {
			return p, nil
		}
		a.Trigger.Abort(a.Settings.Claimant.Owner, t.Object.Key)
		t = t.With(k.task.Cause.Then(later))
	}
}

// known is the knowledge of a task before the first request. The decision of
// the task is about the object as it was found.
type known struct {
	task     plan.Task
	settings *plan.Settings
	// expected is the result of the last apply of the object, if expectedKnown.
	expected      trigger.Applied
	expectedKnown bool
	// before are the paths of other owners in the object before the edit; nil if they are unknown.
	before *ownership.Paths
	// asExpected reports an object that was read and is as expected, although the
	// cause reports a change, or whose label another shard has changed.
	asExpected bool
	// completed reports that the object is gone and counts as completed.
	completed bool
	// glass is the answer to the break-glass annotations of the object.
	glass breakglass.Answer
	// wasSensitive reports a sensitive object before the change, according to its watch or the inventory.
	wasSensitive ownership.Sensitivity
	// base is the object for edits of managedFields before the apply, as for ignored fields, where the cause has no object, or nil.
	base *unstructured.Unstructured
}

// unmet reports a new object whose place is unread.
func (k known) unmet() bool {
	return k.task.Why == plan.WhyNew && !k.task.Cause.Deleted && k.task.Cause.Found == nil
}

// gather returns the knowledge of a task. It reads the object only if the cause lacks
// it and the decision needs it: the heal of an edit needs no read of it. Owners that the manifest names are read.
func (a *Applier) gather(ctx context.Context, t plan.Task) (known, error) {
	k := known{task: t, settings: a.Settings, wasSensitive: t.Known.WasSensitive()}
	k.expected, k.expectedKnown = a.expected(t)
	// An earlier process applied the object, and this one is still to see it as expected: its watch may be behind the apply.
	t.Cause.Unsure = t.Cause.Unsure || a.Settings.Watched && k.expectedKnown && k.expected.ResourceVersion == "" && t.Cause.Found != nil && !t.Cause.Unanswered
	if t.Cause.Unsure {
		live, err := a.Get(ctx, t.Object.Key)
		if err != nil {
			return k, err
		}
		k.task.Cause = trigger.Cause{Deleted: live == nil, Found: live, Since: t.Cause.Since}
	}
	if (t.Completes || t.Object.Lifetime.Apply.Leaves() && t.Why != plan.WhyNew) && k.task.Cause.Found == nil {
		live := (*unstructured.Unstructured)(nil)
		if !t.Cause.Unsure { // an object without its label looks deleted
			var err error
			if live, err = a.Get(ctx, t.Object.Key); err != nil {
				return k, err
			}
		}
		if k.completed = live == nil && t.Completes; k.completed {
			return k, nil
		}
		k.task.Cause = trigger.Cause{Found: live, Deleted: live == nil, Since: t.Cause.Since}
	}
	if found := k.task.Cause.Found; found != nil && t.Object.Lifetime.Apply.Leaves() && t.Why != plan.WhyNew && !a.Settings.Claimant.Applied(found) && string(found.GetUID()) != t.Entry().UID {
		return k, ErrForeign
	}
	k.wasSensitive = k.wasSensitive || k.expected.Sensitive
	k.before = k.task.Cause.Before
	if a.Settings.Watched && k.before == nil {
		if before, is := a.Index.Before(a.Settings.Claimant.Owner, t.Object.Key); is {
			k.before = &before
		}
	}
	found := k.task.Cause.Found
	k.asExpected = t.Cause.Unsure && t.Why == plan.WhyDrift && found != nil && k.expectedKnown && asExpected(found, k.expected) && a.Settings.Claimant.Signature().MissingLabel(found) == ""
	if !k.asExpected && found != nil && found.GetDeletionTimestamp() != nil {
		return k, nil
	}
	var err error
	if found == nil && !t.Decision.Reverts() && !t.Decision.Silent { // an object without its label looks deleted
		if found, err = a.Get(ctx, t.Object.Key); err != nil {
			return k, err
		}
		k.task.Cause.Found = found
	}
	k.task.Decision, k.glass = a.Settings.Decide(k.task)
	if k.task.Decision.Reverts() && !k.asExpected && a.losesLabel(k) {
		k.asExpected, err = a.LeftShard(ctx)
	}
	if err == nil && k.task.Decision.Reverts() && !k.asExpected {
		err = CheckReferences(ctx, t.Object, a.Destination, a.Get)
	}
	switch {
	case err != nil, k.asExpected, found != nil:
	case k.task.Decision.Reverts() && !k.task.Cause.Deleted && !k.unmet() && (t.Object.Rules.Ignored || t.Why != plan.WhyDrift && t.Object.MayRelease()):
		k.base, err = a.Get(ctx, t.Object.Key)
	}
	return k, err
}

// losesLabel reports whether the object may have lost a label of its shard. The watch of a shard shows that as a deletion.
func (a *Applier) losesLabel(k known) bool {
	found := k.task.Cause.Found
	return a.LeftShard != nil && k.task.Why == plan.WhyDrift && (k.task.Cause.Deleted || found != nil && a.Settings.Claimant.Signature().MissingLabel(found) != "")
}

// disclosureWith decides about values of the object, from the object before the change, the object as it
// was found, further versions of it, and the manifest.
func (k known) disclosureWith(after ...*unstructured.Unstructured) ownership.Disclosure {
	return k.task.Object.Disclosure(k.wasSensitive, append(after, k.task.Cause.Found, k.base)...)
}

// beforeEdit returns the paths of other owners in the found object before the edit, from events, or else from the
// status; nil if they are unknown. observed reports that events showed them, or that the status lacks an entry of the object.
func (k known) beforeEdit() (before *ownership.Paths, observed bool) {
	entry, found := k.task.Entry(), k.task.Cause.Found
	if k.before != nil || entry == nil || found == nil {
		return k.before, true
	}
	if !k.settings.Watched {
		return nil, false
	}
	if recorded, known := ownership.RecordedPaths(entry.Others, k.settings.OthersOf(found.GetUID())); known {
		return &recorded, false
	}
	return nil, false
}

// expected is the result of the last apply of an object.
func (a *Applier) expected(t plan.Task) (trigger.Applied, bool) {
	if a.Settings.Watched {
		return a.Index.Expected(a.Settings.Claimant.Owner, t.Object.Key)
	}
	if entry := t.Entry(); entry != nil {
		applied, known := plan.AppliedBefore(a.Settings.Claimant.Manager, entry)
		applied.Tools = a.Settings.Additions.Tools
		return applied, known
	}
	return trigger.Applied{}, false
}

// asExpected reports whether our fields in live are as expected, and its label.
func asExpected(live *unstructured.Unstructured, expected trigger.Applied) bool {
	return trigger.DigestOf(live, expected.Manager, expected.Unreverted, expected.Tools) == expected.Digest && object.Labelled(live)
}
