package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// applier applies the objects of one VidraResource. It is safe for concurrent
// use on different objects.
type applier struct {
	destination Destination
	// client reads and writes the objects, as Vidra itself or as a ServiceAccount. It is
	// made by clientOf, and nil until connect has succeeded that far.
	client dynamic.Interface
	// user is whom client impersonates; nobody if empty.
	user    string
	trigger *trigger.Factory
	index   *trigger.Index
	owner   trigger.Owner
	// installation is the one that this operator belongs to; manager is its field manager
	// for the owner.
	installation v1alpha1.Installation
	manager      string
	// adopt says what is done about objects that exist.
	adopt v1alpha1.AdoptPolicy
	// force says that what cannot be changed is deleted and created again.
	force bool
	// maxBreakGlass is how long break-glass annotations exempt an object at most.
	maxBreakGlass time.Duration
	// glassRoom is how many more objects may get an answer to such annotations.
	glassRoom func() *breakGlassRoom
	// additions says what is done about what people add to the objects.
	additions additions
	// orphans says that what is to be removed is left in place.
	orphans bool
	// watched says whether events of the objects are wanted.
	watched bool
	// vidraResources reads them from the cache.
	vidraResources client.Reader
	// spared is what the removal of objects that is under way must not take along.
	spared *spared
}

// signature is what the objects show of the VidraResource.
func (a *applier) signature() signature { return signatureOf(a.installation, a.owner.Name) }

// result is what came of a task.
type result struct {
	task
	err error
	// live is the object as the API server has it now; nil if err is set, and
	// when a look showed that there was nothing to do.
	live *unstructured.Unstructured
	// digest of what is ours in live, and of what is counted with it.
	digest ownership.Digest
	// compared says that additions are what people added to the object and what is left so.
	compared  bool
	additions []ownership.Change
	// action and fields tell what was done; no action if nothing was. reverted is what
	// somebody had changed and the new configuration of the manifest has put back.
	action   events.Action
	fields   []ownership.Change
	reverted []ownership.Change
	// left is why the object was left as it was found; nil if it was not. unknown is
	// why it cannot be told what differs then.
	left    *leave
	unknown string
	// asLeft says that the object is as it was left before.
	asLeft bool
	// glass is the answer to its break-glass annotations.
	glass glassAnswer
	// ending says that the object is being deleted.
	ending bool
	// replaced is why it is deleted to be created again; empty if it is not. replace is
	// the object that is still to be deleted then.
	replaced string
	replace  *unstructured.Unstructured
	// warnings are what the API server said of it besides.
	warnings []string
}

// apply does a task.
func (a *applier) apply(ctx context.Context, t task) result {
	r := result{task: t}
	if t.cause.Unsure {
		live, err := a.get(ctx, t.key)
		if err != nil {
			r.err = err
			return r
		}
		if t.why == whyDrift && live != nil {
			var inOrder bool
			if inOrder, r.asLeft = a.inOrder(t, live); inOrder {
				r.cause.Found, r.glass = live, a.answerTo(t.known.entry, t.desired, live)
				return r
			}
		}
		r.cause = trigger.Cause{Deleted: live == nil, Found: live, Since: t.cause.Since}
	}
	if found := r.cause.Found; found != nil && found.GetDeletionTimestamp() != nil {
		if r.ending = true; t.why == whyNew && a.watched {
			a.index.ExpectRemoval(a.owner, t.key) // its end is no drift
		}
		return r
	}
	var left *leave
	if left, r.glass = a.leaves(r.task); left != nil {
		return a.observe(ctx, r, left)
	}
	if a.additions.policy == v1alpha1.AdditionsWarn && a.onlyAdditions(r.task) {
		return a.observeAdditions(r)
	}
	expected, known := a.expected(t)
	ctx, heard := withWarnings(ctx)
	r.live, r.digest, r.err = a.patch(ctx, &r.task)
	r.warnings = heard.all()
	if len(r.warnings) > 0 && (t.sensitive || r.live == nil || ownership.Sensitive(r.live)) {
		r.warnings = []string{"the API server warns of it; the warning is withheld because it may quote a value"}
	}
	switch {
	case r.err == nil:
		if !r.glass.seen {
			r.glass = a.answerTo(t.known.entry, t.desired, r.live)
		}
		r.describe(a.manager, expected, known)
		a.describeAdditions(&r)
		r.ending = t.why != whyDrift && r.live.GetDeletionTimestamp() != nil
		if t.ignored == nil { // otherwise not all of it was sent
			r.warnings = append(r.warnings, altered(t.object(), r.live)...)
		}
	case apierrors.IsInvalid(r.err) && !denied(r.err) && (t.why != whyNew || t.cause.Found != nil):
		refused := r.err
		if r.replace, r.err = a.replaceable(ctx, t, refused); r.err == nil {
			r.ending, r.replaced = true, message(refused, r.sensitive)
		}
	}
	return r
}

// meet looks at an object that was never applied, and refuses it if it exists
// and may not be taken. The cause then says what was found.
func (a *applier) meet(ctx context.Context, t task) (task, error) {
	live, err := a.get(ctx, t.key)
	if err != nil {
		return t, err
	}
	if live != nil {
		if err := a.mayTake(ctx, t, live); err != nil {
			return t, err
		}
	}
	t.cause = trigger.Cause{Deleted: live == nil, Found: live}
	t.begun = live != nil && t.known.entry != nil && a.applied(live)
	return t, nil
}

// applied reports whether managedFields say that we applied an object.
func (a *applier) applied(live *unstructured.Unstructured) bool {
	return slices.Contains(ownership.Managers(live, a.manager), a.manager)
}

// get reads an object; nil if it does not exist.
func (a *applier) get(ctx context.Context, key trigger.ObjectKey) (*unstructured.Unstructured, error) {
	live, err := a.resource(key).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && isObject(err, key.Name) {
		return nil, nil
	}
	return live, err
}

// isObject says whether a NotFound error is about the object name rather than
// about its resource, for which the API server answers without details.
func isObject(err error, name string) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == name
}

func (a *applier) resource(key trigger.ObjectKey) dynamic.ResourceInterface {
	return a.client.Resource(key.GVR).Namespace(key.Namespace)
}

// expected is what the last apply of an object left behind.
func (a *applier) expected(t task) (trigger.Applied, bool) {
	if a.watched {
		return a.index.Expected(a.owner, t.key)
	}
	if entry := t.known.entry; entry != nil {
		applied, known := appliedBefore(a.manager, entry)
		applied.Tools = a.additions.tools
		return applied, known
	}
	return trigger.Applied{}, false
}

// inOrder says whether what is ours in live is as expected, and whether that means
// as it was left.
func (a *applier) inOrder(t task, live *unstructured.Unstructured) (inOrder, asLeft bool) {
	expected, known := a.expected(t)
	return known && asExpected(live, expected), expected.Unreverted
}

// asExpected says whether what is ours in live is as expected, and its label.
func asExpected(live *unstructured.Unstructured, expected trigger.Applied) bool {
	return trigger.DigestOf(live, expected.Manager, expected.Unreverted, expected.Tools) == expected.Digest && labelled(live)
}

// labelled says whether an object has the label by which it is watched.
func labelled(live *unstructured.Unstructured) bool {
	return live.GetLabels()[v1alpha1.ManagedByLabel] == v1alpha1.ManagedByValue
}

// mayTake fails if an object that exists may not be applied for the first time. It may
// be if we applied it before, if it names us as an owner, as the first Vidra operator
// noted it, if other VidraResources own it, to own it together, or if it is adopted.
func (a *applier) mayTake(ctx context.Context, t task, live *unstructured.Unstructured) error {
	if a.applied(live) {
		return nil
	}
	others, err := a.coOwners(ctx, t.key, live)
	switch {
	case err != nil:
		return err
	case len(others) >= maxOwners:
		return crowded(others)
	case len(others) > 0, slices.Contains(a.installation.Owners(live.GetAnnotations()), a.owner.Name):
		return nil
	}
	return a.adopts(ctx, t, live)
}

// patch sends the apply, and tells the trigger when it begins and ends. It takes
// fields from other managers, but never from another VidraResource: two of them
// would take the field from each other for ever. What it finds of the object
// meanwhile it notes in the cause.
func (a *applier) patch(ctx context.Context, t *task) (*unstructured.Unstructured, ownership.Digest, error) {
	if a.watched {
		a.index.Begin(a.owner, t.key, a.manager)
	}
	live, err := a.sendAnew(ctx, t)
	if live == nil && err == nil {
		live, err = a.sendReverting(ctx, t)
	}
	if err == nil {
		live, err = a.succeed(ctx, *t, live)
	}
	if err == nil && !labelled(live) {
		err = fmt.Errorf("the API server took it without its label %s=%s, by which it is watched: look for a mutating webhook that removes the label",
			v1alpha1.ManagedByLabel, v1alpha1.ManagedByValue)
	}
	if err != nil {
		if a.watched {
			a.trigger.Abort(a.owner, t.key)
		}
		return nil, ownership.Digest{}, err
	}
	applied := a.expectation(live)
	if a.watched {
		applied.Raced = t.raced(applied.Others)
		a.trigger.Commit(a.owner, t.key, applied)
	}
	return live, applied.Digest, nil
}

// noVersion is a resourceVersion that no object has: an apply with it creates an object,
// and is refused with a conflict if there is one.
const noVersion = "1"

// sendAnew creates an object that was deleted. What has lost the label by which it is
// watched looks deleted, too: then it returns nil, and the cause says what was found. So
// it costs one request to put back what was deleted, and nobody's change goes unseen.
func (a *applier) sendAnew(ctx context.Context, t *task) (*unstructured.Unstructured, error) {
	if !t.cause.Deleted || t.why == whyNew {
		return nil, nil
	}
	anew := t.object()
	anew.SetResourceVersion(noVersion)
	body, err := encode(anew)
	if err != nil {
		return nil, err
	}
	live, err := a.send(ctx, t.key, body, true)
	switch {
	case apierrors.IsConflict(err):
		t.cause.Found, err = a.get(ctx, t.key)
		return nil, err
	case err == nil && t.ignored != nil:
		live, _, err = a.cede(ctx, *t, live)
	}
	return live, err
}

// sendCeding sends the apply without what is left to others. What does not exist
// yet is created whole, and the fields of others are given up then.
func (a *applier) sendCeding(ctx context.Context, t task) (*unstructured.Unstructured, error) {
	if t.ignored == nil {
		return a.sendUnlessRival(ctx, t)
	}
	live := t.cause.Found
	if live == nil && !t.cause.Deleted {
		var err error
		if live, err = a.get(ctx, t.key); err != nil {
			return nil, err
		}
	}
	if live != nil {
		_, body, err := a.cede(ctx, t, live)
		if err != nil {
			return nil, err
		}
		lean := *t.desired
		lean.body = body
		t.desired = &lean
		return a.sendUnlessRival(ctx, t)
	}
	live, err := a.sendUnlessRival(ctx, t)
	if err == nil {
		live, _, err = a.cede(ctx, t, live)
	}
	return live, err
}

// sendUnlessRival sends the apply, and takes fields from other managers unless
// they are other VidraResources.
func (a *applier) sendUnlessRival(ctx context.Context, t task) (*unstructured.Unstructured, error) {
	var others []coOwner
	if t.why == whyDrift && t.cause.Found != nil {
		var err error
		if others, err = a.coOwners(ctx, t.key, t.cause.Found); err != nil {
			return nil, err
		}
	}
	force := t.why == whyDrift && len(others) == 0
	live, err := a.send(ctx, t.key, t.body, force)
	if unreadable(err) && t.why != whyNew {
		if err := a.replaceLists(ctx, t); err != nil {
			return nil, err
		}
		live, err = a.send(ctx, t.key, t.body, force)
	}
	if force || !apierrors.IsConflict(err) {
		return live, err
	}
	if err := a.rivals(ctx, t, err); err != nil {
		return nil, errors.Join(err, a.stake(ctx, t))
	}
	if t.why == whyNew { // somebody may have made or changed it since it was looked at
		if _, err := a.meet(ctx, t); err != nil {
			return nil, err
		}
	}
	return a.send(ctx, t.key, t.body, true)
}

// lastAnswer is how long an answer is waited for after Vidra was told to end. The
// operator waits for passes a little longer.
const lastAnswer = 1500 * time.Millisecond

// send sends an apply. If ctx ends meanwhile, it waits for the answer all the same, for
// lastAnswer at most: nobody could tell later of a heal that nobody has seen succeed.
func (a *applier) send(ctx context.Context, key trigger.ObjectKey, body []byte, force bool) (*unstructured.Unstructured, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ended := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ended))
	defer cancel()
	defer context.AfterFunc(ended, func() { time.AfterFunc(lastAnswer, cancel) })()
	return a.resource(key).Patch(ctx, key.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: a.manager, Force: ptr.To(force)})
}
