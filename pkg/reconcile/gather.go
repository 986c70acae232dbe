package reconcile

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// known is all that is known of a task before the first request is sent. The skip reason of
// the task is the one that holds for the object as it was found.
type known struct {
	task
	settings *settings
	// expected is what the last apply of the object resulted in, if expectedKnown.
	expected      trigger.Applied
	expectedKnown bool
	// before are the paths that others owned in the object before it was edited; nil if that
	// is not known.
	before *ownership.Paths
	// asExpected reports that the object was read, and is as expected: unlike what the cause
	// says.
	asExpected bool
	// glass is the answer to the break-glass annotations of the object.
	glass glassAnswer
	// base is the object whose ignored fields are released, where the cause has no object;
	// nil if there is none.
	base *unstructured.Unstructured
}

// gather returns what is known of a task. It reads the object only if the cause does not have
// it and the decision needs it: the heal of an edit needs no read.
func (a *applier) gather(ctx context.Context, t task) (known, error) {
	k := known{task: t, settings: a.settings}
	if t.cause.Unsure {
		live, err := a.get(ctx, t.key)
		if err != nil {
			return k, err
		}
		k.cause = trigger.Cause{Deleted: live == nil, Found: live, Since: t.cause.Since}
	}
	k.expected, k.expectedKnown = a.expected(t)
	k.before = k.cause.Before
	if a.watched && k.before == nil {
		if before, is := a.index.Before(a.owner, t.key); is {
			k.before = &before
		}
	}
	found := k.cause.Found
	k.asExpected = t.cause.Unsure && t.why == whyDrift && found != nil && k.expectedKnown && asExpected(found, k.expected)
	if !k.asExpected && found != nil && found.GetDeletionTimestamp() != nil {
		return k, nil
	}
	k.skip, k.glass = a.skipReason(k.task)
	var err error
	switch {
	case k.asExpected || found != nil:
	case k.skip != nil && !k.skip.silent: // what lost its label looks as if it were deleted
		k.cause.Found, err = a.get(ctx, t.key)
	case k.skip == nil && t.ignored != nil && !k.cause.Deleted:
		k.base, err = a.get(ctx, t.key)
	}
	return k, err
}

// expected is what the last apply of an object resulted in.
func (a *applier) expected(t task) (trigger.Applied, bool) {
	if a.watched {
		return a.index.Expected(a.owner, t.key)
	}
	if entry := t.entry(); entry != nil {
		applied, known := appliedBefore(a.manager, entry)
		applied.Tools = a.additions.tools
		return applied, known
	}
	return trigger.Applied{}, false
}

// asExpected reports whether what is ours in live is as expected, and its label.
func asExpected(live *unstructured.Unstructured, expected trigger.Applied) bool {
	return trigger.DigestOf(live, expected.Manager, expected.Unreverted, expected.Tools) == expected.Digest && labelled(live)
}

// labelled reports whether an object has the label by which it is watched.
func labelled(live *unstructured.Unstructured) bool {
	return live.GetLabels()[v1alpha1.ManagedByLabel] == v1alpha1.ManagedByValue
}
