package prune

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/metawatch"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

var (
	now     = time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)
	page    = fixture.IDOf(fixture.ConfigMapKind, "shop", "page")
	shop    = fixture.IDOf(fixture.NamespaceKind, "", "shop")
	pageKey = trigger.ObjectKey{GVR: fixture.ConfigMaps, Namespace: "shop", Name: "page"}
	errDown = errors.New("down")
)

// kinds answers questions about the kinds of the local cluster.
type kinds struct {
	access.Destination
	mapping    error
	definition string
	defining   error
	// unscoped reports that the objects of the kind are in no namespace.
	unscoped bool
	// asked counts the questions about a mapping. Optional.
	asked *int
	// defined counts the questions about a definition. Optional.
	defined *int
}

func (k kinds) Name() string { return "" }

func (k kinds) Mapping(context.Context, schema.GroupVersionKind) (cluster.Mapping, error) {
	if k.asked != nil {
		*k.asked++
	}
	return cluster.Mapping{GVR: fixture.ConfigMaps, Namespaced: !k.unscoped}, k.mapping
}

func (k kinds) MappingInAnyVersion(ctx context.Context, gvk schema.GroupVersionKind) (cluster.Mapping, error) {
	return k.Mapping(ctx, gvk)
}

func (k kinds) DefinitionOf(context.Context, schema.GroupKind) (string, error) {
	if k.defined != nil {
		*k.defined++
	}
	return k.definition, k.defining
}

// watched is a watch that has an object, or lacks it.
type watched struct{ found, synced bool }

func (w watched) Get(watchregistry.Key, string, string) (obj any, found, synced bool) {
	return nil, w.found, w.synced
}

// remover returns a Remover of the VidraResource web, with objects in its inventory.
func remover(ids ...object.Identity) *Remover {
	settings := &plan.Settings{Claimant: owners.Claimant{Owner: trigger.Owner{Name: "web"}, Manager: "vidra/web"}}
	vr := &v1alpha1.VidraResource{}
	vr.Name = "web"
	a := &Remover{
		Applier: &apply.Applier{
			Settings: settings, Destination: kinds{}, Index: trigger.NewIndex(), Apart: func(do func()) { do() },
			Slot: func(context.Context, trigger.ObjectKey) func(error) { return func(error) {} },
		},
		kinds: &access.Mappings{}, Interrupted: func() bool { return false },
		Plan: &plan.Planner{Env: &plan.Env{Watches: watched{synced: true}, Obstacles: &metawatch.Watches{}}, Settings: settings, State: &plan.State{}, VR: vr, Now: now},
	}
	a.Applier.Trigger = trigger.NewFactory(a.Applier.Index)
	for _, id := range ids {
		a.Plan.State.Objects.Track(id).Entry = object.NewEntry(id, id.WithVersion("v1"))
	}
	return a
}

// TestRecordRemoval: an object stays in the inventory until it is gone, with the reason to wait, and an Event reports only a deletion that Vidra
// may have sent.
func TestRecordRemoval(t *testing.T) {
	t.Parallel()
	deleting := func(o *plan.Object) { o.Entry.State = v1alpha1.ObjectDeleting }
	known := func(o *plan.Object) { o.Entry.UID = "a" }
	first := func(a *Remover) { a.Plan.First = true }
	failing := func(o *plan.Object) { o.Fail(v1alpha1.ReasonPruneFailed, "cannot be removed") }
	forbidden := apierrors.NewForbidden(fixture.ConfigMaps.GroupResource(), "page", errors.New("no"))
	const pending = v1alpha1.ObjectPending
	type want struct {
		// state is the state in the inventory; empty for an object that has left it.
		state   v1alpha1.ObjectState
		problem *object.Failure
		action  events.Action
		note    string
		// refused reports that a refusal is noted, and missing that rights are.
		refused, missing bool
		gone, left       time.Time
		received         bool
	}
	progress := func(message string) *object.Failure {
		return &object.Failure{Reason: v1alpha1.ReasonProgressing, Message: message}
	}
	cases := map[string]struct {
		reason string
		// before changes the object, and of changes the Remover.
		before func(*plan.Object)
		of     func(*Remover)
		done   removal
		want   want
	}{
		"Absent":            {reason: "Another client deleted it.", before: known, done: removal{end: absent}},
		"AbsentAfterStart":  {reason: "A Vidra before this one may have deleted it.", before: known, of: first, done: removal{end: absent}, want: want{action: events.Pruned}},
		"NeverApplied":      {reason: "It may never have existed.", of: first, done: removal{end: absent}},
		"ForeignAfterStart": {reason: "Another client owns it.", before: known, of: first, done: removal{end: notOurs}},
		"AbsentAfterDelete": {reason: "Vidra deleted it.", before: deleting, done: removal{end: absent}, want: want{action: events.Pruned}},
		"NotedBefore": {
			reason: "The note is from the attempt that deleted it.", before: func(o *plan.Object) {
				o.Departure.Note, o.Entry.State = "with 1 unmanaged objects", v1alpha1.ObjectDeleting
			},
			done: removal{end: absent}, want: want{action: events.Pruned, note: "with 1 unmanaged objects"},
		},
		"Unmanaged":           {reason: "It stays.", before: known, done: removal{end: unmanaged, decision: policy.Keep(policy.HoldsKept, "it holds kept objects")}, want: want{action: events.Orphaned, note: "it holds kept objects"}},
		"Released":            {reason: "Others keep it.", before: deleting, done: removal{end: released}, want: want{action: events.Released}},
		"GoneWithKind":        {reason: "It was deleted with its CustomResourceDefinition.", before: known, done: removal{end: goneWithKind}, want: want{action: events.Pruned}},
		"GoneWithUnknownKind": {reason: "It may never have existed.", done: removal{end: goneWithKind}},
		"GoneWithNamespace":   {reason: "The rights in the Namespace were deleted with it.", before: deleting, done: removal{end: goneWithNamespace, err: forbidden}, want: want{action: events.Pruned}},

		"KindUnserved": {
			reason: "The kind may be served soon.", before: func(o *plan.Object) { o.Attempts.Refused = &plan.Refused{} }, done: removal{end: kindUnserved, key: pageKey},
			want: want{state: pending, problem: progress("is being removed, but its kind is not served at present"), gone: now},
		},
		"KindStaysUnserved": {
			reason: "The time counts from the first attempt.", before: func(o *plan.Object) { o.Departure.KindGoneSince = now.Add(-time.Second) }, done: removal{end: kindUnserved, key: pageKey},
			want: want{state: pending, problem: progress("is being removed, but its kind is not served at present"), gone: now.Add(-time.Second)},
		},
		"KindServedAgain": {
			reason: "The time starts again.", before: func(o *plan.Object) { o.Departure.KindGoneSince = now.Add(-time.Second) }, done: removal{end: deleted, key: pageKey},
			want: want{state: v1alpha1.ObjectDeleting, problem: progress("is being deleted")},
		},
		"KindUnknown": {
			reason: "An attempt without the resource of the kind shows nothing about it.", before: func(o *plan.Object) { o.Departure.KindGoneSince = now.Add(-time.Second) }, done: removal{end: failed, err: errDown},
			want: want{state: v1alpha1.ObjectFailed, problem: &object.Failure{Reason: v1alpha1.ReasonPruneFailed, Message: "cannot be removed: down"}, gone: now.Add(-time.Second)},
		},

		"OutOfScope": {
			reason: "No request is sent.", done: removal{end: outOfScope, outOfScope: &object.Failure{Reason: v1alpha1.ReasonOutOfScope, Message: "outside"}},
			want: want{state: pending, problem: &object.Failure{Reason: v1alpha1.ReasonOutOfScope, Message: "outside", Awaited: true}},
		},

		"Occupied": {
			reason: "A user has to remove the contents.", done: removal{end: delayed, key: pageKey, decision: policy.Wait(policy.Occupied, "is not removed", "", time.Time{})},
			want: want{state: pending, problem: &object.Failure{Reason: v1alpha1.ReasonDeletionBlocked, Message: "is not removed"}, refused: true},
		},
		"OccupiedFor": {
			reason: "The rights of the receiver may be known later.", done: removal{end: delayed, key: pageKey, decision: policy.Wait(policy.Occupied, "is not removed", "", now.Add(time.Minute))},
			want: want{state: pending, problem: &object.Failure{Reason: v1alpha1.ReasonDeletionBlocked, Message: "is not removed", Until: now.Add(time.Minute)}, refused: true},
		},
		"Unserved": {
			reason: "A user has to serve the kind.", done: removal{end: delayed, decision: policy.Wait(policy.Unserved, "is not removed", "", time.Time{})},
			want: want{state: pending, problem: progress("is not removed"), refused: true},
		},
		"Exempt": {
			reason: "The exemption has an end.", before: func(o *plan.Object) { o.Attempts.Refused = &plan.Refused{} },
			done: removal{end: delayed, key: pageKey, decision: policy.Wait(policy.Exempt, "is exempt", "", now.Add(time.Hour))},
			want: want{state: pending, problem: &object.Failure{Reason: v1alpha1.ReasonProgressing, Message: "is exempt", Awaited: true, Until: now.Add(time.Hour)}},
		},
		"Moving": {
			reason: "The move may end before its time.", done: removal{end: delayed, key: pageKey, decision: received(policy.Wait(policy.Moving, "moves", "", now.Add(time.Minute)))},
			want: want{state: pending, problem: &object.Failure{Reason: v1alpha1.ReasonProgressing, Message: "moves", Until: now.Add(time.Minute)}, received: true},
		},
		"Unreceived": {
			reason: "The object settles again, from now.", before: func(o *plan.Object) { o.Departure.Received, o.Departure.At = true, now.Add(-time.Hour) },
			done: removal{end: delayed, key: pageKey, decision: policy.Wait(policy.Unreceived, "settles", "", now.Add(plan.RemovalSettle))},
			want: want{state: pending, problem: &object.Failure{Reason: v1alpha1.ReasonProgressing, Message: "settles", Until: now.Add(plan.RemovalSettle)}, left: now},
		},
		"StaleAfterAReceiver": {
			reason: "No receiver was looked for: the object still has to settle once its last one is found to have left.", before: func(o *plan.Object) { o.Departure.Received = true },
			done: removal{end: delayed, key: pageKey, decision: policy.Wait(policy.Stale, "is not removed now", "", time.Time{})},
			want: want{state: pending, problem: &object.Failure{Reason: v1alpha1.ReasonProgressing, Message: "is not removed now"}, received: true},
		},
		"UnknownReceivers": {
			reason: "The receivers are unknown, as after a failed LIST.", before: func(o *plan.Object) { o.Departure.Received = true },
			done: removal{end: delayed, key: pageKey, decision: policy.Wait(policy.ReceiversUnknown, "is not removed", "", time.Time{})},
			want: want{state: pending, problem: &object.Failure{Reason: v1alpha1.ReasonProgressing, Message: "is not removed"}, received: true},
		},

		"Failed": {
			reason: "It is tried again.", done: removal{end: failed, key: pageKey, err: errDown},
			want: want{state: v1alpha1.ObjectFailed, problem: &object.Failure{Reason: v1alpha1.ReasonPruneFailed, Message: "cannot be removed: down"}},
		},
		"Forbidden": {
			reason: "The rights are awaited.", done: removal{end: failed, key: pageKey, err: forbidden, disclosure: disclosureOf(&v1alpha1.ManagedResourceStatus{}, fixture.LiveConfigMap("a", nil))},
			want: want{state: v1alpha1.ObjectFailed, problem: &object.Failure{Reason: v1alpha1.ReasonPruneFailed, Message: `cannot be removed: configmaps "page" is forbidden: no`}, refused: true, missing: true},
		},
		"ForbiddenUnread": {
			reason: "An object that was not read may be sensitive.", done: removal{end: failed, key: pageKey, err: forbidden},
			want: want{
				state: v1alpha1.ObjectFailed, refused: true, missing: true,
				problem: &object.Failure{Reason: v1alpha1.ReasonPruneFailed, Message: "cannot be removed: the API server answered Forbidden; its message is withheld because it may quote a sensitive value"},
			},
		},
		"FailedWhileDeleting": {
			reason: "The accepted deletion goes on.", before: deleting, done: removal{end: failed, key: pageKey, err: errDown, former: ". The former account may not either"},
			want: want{state: v1alpha1.ObjectDeleting, problem: &object.Failure{Reason: v1alpha1.ReasonPruneFailed, Message: "cannot be removed: down. The former account may not either"}},
		},

		"Deleted": {
			reason: "The deletion was accepted a moment ago.", before: func(o *plan.Object) { o.Attempts.Refused = &plan.Refused{} }, done: removal{end: deleted, key: pageKey},
			want: want{state: v1alpha1.ObjectDeleting, problem: progress("is being deleted")},
		},
		"DeletedWithFinalizers": {
			reason: "It waits for them.", done: removal{end: deleted, key: pageKey, waitsFor: "its finalizers (a)"},
			want: want{state: v1alpha1.ObjectDeleting, problem: progress("is being deleted, and waits for its finalizers (a)")},
		},
		"Blocked": {
			reason: "It waits for long.", before: deleting, done: removal{end: blocked, key: pageKey, waitsFor: "its finalizers (a)", version: "7", blockedAt: now},
			want: want{state: v1alpha1.ObjectDeleting, problem: &object.Failure{Reason: v1alpha1.ReasonDeletionBlocked, Message: "is being deleted, and waits for its finalizers (a)"}, refused: true},
		},
		"Read": {
			reason: "It is read again when its deletion counts as blocked.", before: deleting, done: removal{end: beingDeleted, key: pageKey, waitsFor: "its finalizers (a)", version: "7", blockedAt: now.Add(time.Second)},
			want: want{
				state: v1alpha1.ObjectDeleting, refused: true,
				problem: &object.Failure{Reason: v1alpha1.ReasonProgressing, Message: "is being deleted, and waits for its finalizers (a)", Until: now.Add(time.Second)},
			},
		},
		"Unread": {
			reason: "Its watch shows it as it was read last.", before: func(o *plan.Object) {
				deleting(o)
				o.Attempts.Refused = &plan.Refused{}
				o.Fail(v1alpha1.ReasonDeletionBlocked, "is being deleted, and waits for its finalizers (a)")
			},
			done: removal{end: stillThere},
			want: want{state: v1alpha1.ObjectDeleting, problem: &object.Failure{Reason: v1alpha1.ReasonDeletionBlocked, Message: "is being deleted, and waits for its finalizers (a)"}, refused: true},
		},
		"UnreadAfterStart": {
			reason: "The problem before the start is unknown.", before: deleting, done: removal{end: stillThere},
			want: want{state: v1alpha1.ObjectDeleting, problem: progress("is being deleted")},
		},
		"UnreadAfterRead": {
			reason: "It is read at the next attempt: its finalizers are unknown.", before: func(o *plan.Object) { deleting(o); o.Attempts.Refused = &plan.Refused{} }, done: removal{end: stillThere},
			want: want{state: v1alpha1.ObjectDeleting, problem: progress("is being deleted")},
		},
		"ReadAfterFailure": {
			reason: "The failure is over.", before: func(o *plan.Object) { deleting(o); failing(o) }, done: removal{end: beingDeleted, key: pageKey, waitsFor: "its finalizers (a)", version: "7"},
			want: want{state: v1alpha1.ObjectDeleting, problem: progress("is being deleted, and waits for its finalizers (a)"), refused: true},
		},
		"DeletedAfterFailure": {
			reason: "The failure is over.", before: failing, done: removal{end: deleted},
			want: want{state: v1alpha1.ObjectDeleting, problem: progress("is being deleted")},
		},
		"DeletedAgainAfterFailure": {
			reason: "The deletion that was announced before was not sent.", before: func(o *plan.Object) { deleting(o); failing(o) }, done: removal{end: deleted},
			want: want{state: v1alpha1.ObjectDeleting, problem: progress("is being deleted")},
		},
		"ExemptAfterFailure": {
			reason: "The failure is over.", before: failing, done: removal{end: delayed, key: pageKey, decision: policy.Wait(policy.Exempt, "is exempt", "", now.Add(time.Hour))},
			want: want{state: pending, problem: &object.Failure{Reason: v1alpha1.ReasonProgressing, Message: "is exempt", Awaited: true, Until: now.Add(time.Hour)}},
		},
		"FailedAgain": {
			reason: "It is the same failure.", before: failing, done: removal{end: failed, key: pageKey, err: errDown},
			want: want{state: v1alpha1.ObjectFailed, problem: &object.Failure{Reason: v1alpha1.ReasonPruneFailed, Message: "cannot be removed: down"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := remover(page)
			o := a.Plan.State.Objects.ByID[page]
			if tc.before != nil {
				tc.before(o)
			}
			if tc.of != nil {
				tc.of(a)
			}
			a.recordRemoval(o, tc.done)

			var got want
			if got.problem, got.gone, got.left, got.received = o.Problem, o.Departure.KindGoneSince, o.Departure.At, o.Departure.Received; o.Entry != nil {
				got.state = o.Entry.State
			}
			got.refused, got.missing = o.Attempts.Refused != nil, o.Attempts.MissingRights != nil
			for _, change := range a.Plan.State.Reports.Events {
				require.Equal(t, "page", change.Object.Name)
				got.action, got.note = change.Action, change.Note
			}
			require.LessOrEqual(t, len(a.Plan.State.Reports.Events), 1)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

// TestContentEndsOfALateReceiver: an object whose removal waited long for another reason, as for the end of its break-glass, waits a minute for a receiver that
// has no content yet, from its first sight, and no second minute for the next one.
func TestContentEndsOfALateReceiver(t *testing.T) {
	t.Parallel()
	a := remover(page)
	o := a.Plan.State.Objects.ByID[page]
	a.exclusions, a.Plan.Now = &exclusions{}, now.Add(-time.Hour)
	a.Plan.SettleRemovals([]object.Identity{page}, plan.Settling)
	a.Plan.Now = now
	ends := func() time.Time { return a.departure(pageKey, fixture.LiveConfigMap("a", nil), o.Entry).of.ContentEnds }
	first := ends()
	require.WithinDuration(t, time.Now().Add(moveTimeout), first, 10*time.Second)
	a.recordRemoval(o, removal{end: delayed, key: pageKey, decision: received(policy.Wait(policy.ReceiversUnknown, "is not removed", "", first))})
	time.Sleep(time.Millisecond)
	require.Equal(t, first, ends())
	a.recordRemoval(o, removal{end: delayed, key: pageKey, decision: policy.Wait(policy.Unreceived, "settles", "", now.Add(plan.RemovalSettle))})
	require.Equal(t, first, ends(), "a receiver that leaves begins no second minute")
}

// TestRemovedWhenGone tells of a removal when there is nothing left.
func TestRemovedWhenGone(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		state  v1alpha1.ObjectState
		uid    string
		first  bool
		done   removal
		told   []events.Action
		left   bool
	}{
		"Deleted":   {reason: "Its finalizers may take their time.", state: v1alpha1.ObjectApplied, uid: "u", done: removal{end: deleted}, left: true},
		"Gone":      {reason: "It was deleted, and is gone.", state: v1alpha1.ObjectDeleting, uid: "u", done: removal{end: absent}, told: []events.Action{events.Pruned}},
		"NotOurs":   {reason: "Somebody else deleted it.", state: v1alpha1.ObjectApplied, uid: "u", done: removal{end: absent}},
		"Restarted": {reason: "A Vidra that was stopped may have deleted it.", state: v1alpha1.ObjectApplied, uid: "u", first: true, done: removal{end: absent}, told: []events.Action{events.Pruned}},
		"TakenOver": {reason: "Another user owns the object that is there.", state: v1alpha1.ObjectApplied, uid: "u", first: true, done: removal{end: notOurs}},
		"NeverWas":  {reason: "It was only announced.", state: v1alpha1.ObjectPending, first: true, done: removal{end: absent}},
		"Released":  {reason: "Others have it.", state: v1alpha1.ObjectApplied, uid: "u", done: removal{end: released}, told: []events.Action{events.Released}},
		"Unknown":   {reason: "A look that failed changes nothing of its deletion.", state: v1alpha1.ObjectDeleting, uid: "u", done: removal{end: failed, err: context.DeadlineExceeded}, left: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := remover(page)
			a.Plan.First = tc.first
			o := a.Plan.State.Objects.ByID[page]
			entry := o.Entry
			entry.State, entry.UID = tc.state, tc.uid
			a.recordRemoval(o, tc.done)
			var told []events.Action
			for _, change := range a.Plan.State.Reports.Events {
				told = append(told, change.Action)
			}
			require.Equal(t, tc.told, told, tc.reason)
			if left := o.Entry != nil; tc.left {
				require.True(t, left, tc.reason)
				require.Equal(t, v1alpha1.ObjectDeleting, entry.State, tc.reason)
			} else {
				require.False(t, left, tc.reason)
			}
		})
	}
}

// TestEnds: an object leaves the inventory if it has ceased to be ours, and otherwise has a problem; its container waits for one that may have to stay.
func TestEnds(t *testing.T) {
	t.Parallel()
	for i, tc := range []struct {
		is                         end
		ceased, problem, undecided bool
	}{
		{is: skipped},
		{is: absent, ceased: true},
		{is: notOurs, ceased: true},
		{is: released, ceased: true},
		{is: unmanaged, ceased: true},
		{is: goneWithKind, ceased: true},
		{is: goneWithNamespace, ceased: true},
		{is: deleted, problem: true},
		{is: beingDeleted, problem: true},
		{is: blocked, problem: true},
		{is: stillThere, problem: true},
		{is: kindUnserved, problem: true, undecided: true},
		{is: outOfScope, problem: true, undecided: true},
		{is: delayed, problem: true, undecided: true},
		{is: failed, problem: true, undecided: true},
		{is: deletionFailed, problem: true},
		{is: deletionFailed + 1}, // an unknown one changes nothing
	} {
		require.Equal(t, end(i), tc.is, "the table has every end")
		require.Equal(t, []bool{tc.ceased, tc.undecided}, []bool{tc.is.ceased(), tc.is.undecided()}, "end %d", i)
		a := remover(page)
		o := a.Plan.State.Objects.ByID[page]
		a.recordRemoval(o, removal{end: tc.is, key: pageKey, err: errDown, outOfScope: &object.Failure{}, decision: policy.Wait(policy.Moving, "", "", time.Time{})})
		require.Equal(t, []bool{tc.ceased, tc.problem}, []bool{o.Entry == nil, o.Problem != nil}, "end %d", i)
	}
}

func received(waits policy.Removal) policy.Removal {
	waits.Receiver = &owners.Receiver{}
	return waits
}

// TestRecordedAnswer: the answer to break-glass annotations is reported also if the removal waits.
func TestRecordedAnswer(t *testing.T) {
	t.Parallel()
	a := remover(page)
	o, answer := a.Plan.State.Objects.ByID[page], &v1alpha1.BreakGlassStatus{State: v1alpha1.BreakGlassAccepted, Since: &metav1.Time{Time: now}, Until: &metav1.Time{Time: now.Add(time.Hour)}}
	a.recordRemoval(o, removal{end: delayed, key: pageKey, decision: policy.Wait(policy.Exempt, "is exempt", "", now), glass: breakglass.Answer{Seen: true, Status: answer}})
	require.Equal(t, answer, o.Entry.BreakGlass)
	require.Empty(t, o.Departure.Note, "the Event about its removal is still to come")
	require.Len(t, a.Plan.State.Reports.Events, 1)
	require.Equal(t, events.Answered, a.Plan.State.Reports.Events[0].Action)
}

// TestAdvice: a refusal for lack of a right names the account, the rights and the place.
func TestAdvice(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(fixture.ConfigMaps.GroupResource(), "page", errors.New("no"))
	denied := apierrors.NewForbidden(fixture.ConfigMaps.GroupResource(), "page", errors.New(`admission webhook "w" denied the request`))
	unused := apierrors.NewForbidden(fixture.ConfigMaps.GroupResource(), "page", errors.New(`User "vidra" cannot impersonate-on:serviceaccount:get resource "configmaps"`))
	const grant = ": grant the ServiceAccount shop/deployer get, patch and delete on configmaps in "
	anywhere := trigger.ObjectKey{GVR: fixture.ConfigMaps, Name: "page"}
	cases := map[string]struct {
		reason, user string
		done         removal
		want         string
	}{
		"Namespaced":    {"The right is for one namespace.", "deployer", removal{end: failed, key: pageKey, err: forbidden}, grant + "namespace shop, or delete the object yourself"},
		"ClusterScoped": {"The right is for the cluster.", "deployer", removal{end: failed, key: anywhere, err: forbidden}, grant + "all namespaces, or delete the object yourself"},
		"Former":        {"Both accounts are named.", "deployer", removal{end: failed, key: pageKey, err: forbidden, former: ". Neither may the former one"}, ". Neither may the former one" + grant + "namespace shop, or delete the object yourself"},
		"Vidra":         {"The administrator grants its rights.", "", removal{end: failed, key: pageKey, err: forbidden}, ""},
		"Impersonation": {"Vidra lacks the right, not the account.", "deployer", removal{end: failed, key: pageKey, err: unused}, ""},
		"Denied":        {"No right ends the refusal of a webhook.", "deployer", removal{end: failed, key: pageKey, err: denied}, ""},
		"Other":         {"A right is no remedy.", "deployer", removal{end: failed, key: pageKey, err: errDown}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := remover()
			a.Applier.User = tc.user
			a.Plan.VR.Spec.ServiceAccountName, a.Plan.VR.Spec.Destination.Namespace = "deployer", "shop"
			require.Equal(t, tc.want, a.advice(tc.done), tc.reason)
		})
	}
}

// TestRecordStage: the outcome of an object decides about its container, whose removal is in a later stage.
func TestRecordStage(t *testing.T) {
	t.Parallel()
	const (
		applied  = v1alpha1.ObjectApplied
		deleting = v1alpha1.ObjectDeleting
		// The object is kept in its container, or may be.
		keeps     = "kept"
		undecided = "undecided"
	)
	waits := policy.Wait(policy.Moving, "", "", time.Time{})
	cases := map[string]struct {
		reason string
		state  v1alpha1.ObjectState
		done   removal
		want   string
		// stayed reports that the object has left the inventory and is still there.
		stayed bool
	}{
		"Deleted":        {"It goes.", applied, removal{end: deleted, key: pageKey}, "", false},
		"Gone":           {"It is no member any more.", applied, removal{end: notOurs, key: pageKey}, "", false},
		"Kept":           {"Its annotation keeps it.", applied, removal{end: unmanaged, key: pageKey, kept: true}, keeps, true},
		"KeptAndFailed":  {"Its annotation keeps it, and its release failed.", applied, removal{end: deletionFailed, key: pageKey, err: errDown, kept: true}, keeps, false},
		"Unsure":         {"It may be kept.", applied, removal{end: failed, key: pageKey, err: errDown}, undecided, false},
		"Failed":         {"It is to be deleted.", applied, removal{end: deletionFailed, key: pageKey, err: errDown}, "", false},
		"Unserved":       {"Its annotations are unreadable.", applied, removal{end: kindUnserved}, undecided, false},
		"Waits":          {"It may stay.", applied, removal{end: delayed, key: pageKey, decision: waits}, undecided, false},
		"DeletingWaits":  {"An accepted deletion stands.", deleting, removal{end: delayed, key: pageKey, decision: waits}, "", false},
		"DeletingUnsure": {"An accepted deletion stands.", deleting, removal{end: failed, key: pageKey, err: errDown}, "", false},
		"Foreign":        {"Its annotation keeps the container, too.", applied, removal{end: notOurs, key: pageKey, kept: true}, keeps, true},
		"OutOfScope":     {"Its annotations are unreadable.", applied, removal{end: outOfScope, outOfScope: &object.Failure{}}, undecided, false},
		"Skipped":        {"The reconcile ends, and another one decides.", applied, removal{end: skipped}, "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := remover(page, shop)
			a.exclusions = a.exclude(t.Context(), []object.Identity{page, shop})
			entry := a.Plan.State.Objects.ByID[page].Entry
			entry.State = tc.state
			a.recordStage([]object.Identity{page}, []removal{tc.done})

			_, kept := a.exclusions.members.Kept.In(shop)
			_, unsure := a.exclusions.members.Undecided.In(shop)
			require.Equal(t, []bool{tc.want == keeps, tc.want == undecided}, []bool{kept, unsure}, tc.reason)
			want := map[object.Identity]stayed{}
			if tc.stayed {
				want[page] = stayed{entry, pageKey}
			}
			require.Equal(t, want, a.exclusions.stayed, tc.reason)
		})
	}
}

// TestEndRemoval: an object that was left in place is in the inventory as long as its container, so that a Vidra that starts keeps both.
func TestEndRemoval(t *testing.T) {
	t.Parallel()
	bank := fixture.IDOf(fixture.NamespaceKind, "", "bank")
	cases := map[string]struct {
		reason    string
		inventory []object.Identity
		removed   []object.Identity
		want      bool
	}{
		"Container":      {"The Namespace is still to be released.", []object.Identity{shop}, []object.Identity{page, shop}, true},
		"Released":       {"The Namespace was released.", []object.Identity{bank}, []object.Identity{page, shop, bank}, false},
		"OtherContainer": {"Another Namespace does not hold it.", []object.Identity{shop, bank}, []object.Identity{page, bank}, false},
		"Alone":          {"The Namespace is not removed.", []object.Identity{shop}, []object.Identity{page}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, entry := remover(tc.inventory...), object.NewEntry(page, fixture.ConfigMapKind)
			for _, id := range append(tc.removed, page) {
				a.Plan.State.Objects.Track(id)
			}
			a.exclusions = &exclusions{stayed: map[object.Identity]stayed{page: {entry, pageKey}}}
			a.endRemoval(tc.removed)
			if tc.want {
				require.Same(t, entry, a.Plan.State.Objects.ByID[page].Entry, tc.reason)
			} else {
				require.Nil(t, a.Plan.State.Objects.ByID[page].Entry, tc.reason)
			}
			require.Nil(t, a.exclusions)
		})
	}
}

// TestInterrupted: an interrupted removal begins with no further object, and leaves the inventory as it is.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, after := range []int{0, 1, 2} {
		a := remover(page)
		asked := 0
		a.Interrupted = func() bool {
			asked++
			return asked > after
		}
		before := *a.Plan.State.Objects.ByID[page].Entry
		a.Prune(t.Context(), []object.Identity{page})
		require.Equal(t, &before, a.Plan.State.Objects.ByID[page].Entry, "after %d questions", after)
		require.Nil(t, a.Plan.State.Objects.ByID[page].Problem)
		require.Equal(t, after+1, asked, "each step asks once")
	}
}

// TestStillThere: a deletion that its watch shows needs no request.
func TestStillThere(t *testing.T) {
	t.Parallel()
	const deleting = v1alpha1.ObjectDeleting
	cases := map[string]struct {
		reason         string
		state          v1alpha1.ObjectState
		unwatched      bool
		found, synced  bool
		retry, unknown bool
		mapping        error
		want           bool
	}{
		"Seen":        {reason: "Its watch has it.", state: deleting, found: true, synced: true, want: true},
		"Gone":        {reason: "Its watch lacks it.", state: deleting, synced: true},
		"Unsynced":    {reason: "Its watch may be behind.", state: deleting, found: true},
		"NotDeleted":  {reason: "The deletion is to be sent.", state: v1alpha1.ObjectApplied, found: true, synced: true},
		"Unwatched":   {reason: "No watch shows it.", state: deleting, unwatched: true, found: true, synced: true},
		"Retry":       {reason: "It is time to read it.", state: deleting, retry: true, found: true, synced: true},
		"Unserved":    {reason: "The kind has no watch.", state: deleting, mapping: errDown, found: true, synced: true},
		"UnknownHere": {reason: "The state knows nothing else about it.", state: deleting, unknown: true, found: true, synced: true, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := remover(page)
			entry := a.Plan.State.Objects.ByID[page].Entry
			entry.State = tc.state
			if tc.unknown {
				a.Plan.State = &plan.State{}
			}
			a.Applier.Settings.Watched = !tc.unwatched
			if o := a.Plan.State.Objects.ByID[page]; o != nil && !tc.retry {
				o.Fail(v1alpha1.ReasonProgressing, "is being deleted")
				o.Attempts.Retry.At = now.Add(time.Minute)
			}
			a.Applier.Destination, a.Plan.Env.Watches = kinds{mapping: tc.mapping}, watched{tc.found, tc.synced}
			require.Equal(t, tc.want, a.stillThere(t.Context(), entry), tc.reason)
		})
	}
}

// TestAcceptedDeletion: the time to look for the end of a deletion begins anew when it is accepted, however long it was refused before. A request that is
// accepted again and again, and deletes nothing, begins it only once.
func TestAcceptedDeletion(t *testing.T) {
	t.Parallel()
	a := remover(page)
	o := a.Plan.State.Objects.ByID[page]
	o.Fail(v1alpha1.ReasonPruneFailed, "cannot be removed")
	o.Attempts.Retry = plan.Retry{At: now, Failures: 9}
	for failures := range 2 {
		a.recordRemoval(o, removal{end: deleted, key: pageKey})
		a.Plan.NoteFailures(plan.Ending{})
		require.Equal(t, failures+1, o.Attempts.Retry.Failures)
		a.Plan.Now = o.Attempts.Retry.At
	}
	require.WithinRange(t, a.Plan.Now, now, now.Add(2*time.Second))
}

// TestStillThereUnread: an object that its watch shows is recorded as it was read last.
func TestStillThereUnread(t *testing.T) {
	t.Parallel()
	a := remover(page)
	o := a.Plan.State.Objects.ByID[page]
	o.Entry.State = v1alpha1.ObjectDeleting
	a.Plan.NoteRefusedRemoval(o, pageKey, apierrors.NewForbidden(fixture.ConfigMaps.GroupResource(), "page", errors.New("no")))
	o.Fail(v1alpha1.ReasonProgressing, "is being deleted, and waits for its finalizers (a)")
	o.Attempts.Retry.At = now.Add(time.Minute)
	a.Applier.Settings.Watched, a.Plan.Env.Watches = true, watched{found: true, synced: true}
	a.Prune(t.Context(), []object.Identity{page})
	require.True(t, o.In(v1alpha1.ObjectDeleting))
	require.NotNil(t, o.Attempts.Refused)
}

// TestRenewed: an answer counts for its age from its arrival, whether it is an error or none.
func TestRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, answer := 0, error(nil)
		ask := renewed(staleFor, func() (int, error) {
			asked++
			time.Sleep(2 * staleFor)
			return asked, answer
		})
		requireAnswer := func(n int, err error) {
			t.Helper()
			got, is := ask()
			require.Equal(t, n, got)
			require.ErrorIs(t, is, err)
		}
		requireAnswer(1, nil)
		answer = errDown
		time.Sleep(staleFor)
		requireAnswer(1, nil)
		time.Sleep(time.Nanosecond)
		requireAnswer(2, errDown)
		requireAnswer(2, errDown)
	})
}

// TestKindsAreAskedOnce: thousands of objects of a kind that is unserved, or whose server does not answer, have one answer in each removal.
func TestKindsAreAskedOnce(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{"Unserved": &meta.NoKindMatchError{}, "Unanswered": errDown} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ids []object.Identity
			for i := range 1000 {
				ids = append(ids, fixture.IDOf(fixture.ConfigMapKind, "shop", fmt.Sprintf("page-%d", i)))
			}
			a, asked, defined := remover(ids...), 0, 0
			a.Applier.Limit, a.Applier.Destination = 8, kinds{mapping: answer, asked: &asked, defined: &defined}
			for _, o := range a.Plan.State.Objects.ByID {
				o.Entry.State, o.Departure.KindGoneSince = v1alpha1.ObjectDeleting, now.Add(-plan.KindGoneTimeout)
			}
			a.Applier.Settings.Watched = true
			a.Prune(t.Context(), ids)
			require.Equal(t, 1, asked)
			require.LessOrEqual(t, defined, 1)
			for _, o := range a.Plan.State.Objects.ByID {
				require.Equal(t, name == "Unanswered", o.Entry != nil)
			}
			if name == "Unanswered" {
				a.Prune(t.Context(), ids)
				require.Equal(t, 2, asked, "the next removal asks again")
			}
		})
	}
}

// TestRemoveUnserved: an object of an unserved kind is gone if the kind is, after the time that an API server takes to start.
func TestRemoveUnserved(t *testing.T) {
	t.Parallel()
	unserved := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "ConfigMap"}}
	cases := map[string]struct {
		reason  string
		since   time.Time
		kinds   kinds
		orphans bool
		want    removal
	}{
		"First":      {"The API server may have just started.", time.Time{}, kinds{mapping: unserved}, false, removal{end: kindUnserved}},
		"Early":      {"It may still be starting.", now.Add(1 - plan.KindGoneTimeout), kinds{mapping: unserved}, false, removal{end: kindUnserved}},
		"Gone":       {"The object was deleted with its kind.", now.Add(-plan.KindGoneTimeout), kinds{mapping: unserved}, false, removal{end: goneWithKind}},
		"Orphaned":   {"It stays in any case, and the kind is irrelevant.", now.Add(-plan.KindGoneTimeout), kinds{mapping: unserved, defining: errDown}, true, removal{end: unmanaged}},
		"Unreadable": {"Discovery fails, and the object may be kept.", now.Add(-plan.KindGoneTimeout), kinds{mapping: errDown}, false, removal{end: failed, err: errDown}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := remover(page)
			a.Applier.Destination, a.Applier.Orphans = tc.kinds, tc.orphans
			a.Plan.State.Objects.ByID[page].Departure.KindGoneSince = tc.since
			require.Equal(t, tc.want, a.remove(t.Context(), a.Plan.State.Objects.ByID[page].Entry), tc.reason)
		})
	}
	for name, known := range map[string]kinds{"Defined": {mapping: unserved, definition: "CustomResourceDefinition pages"}, "Unknown": {mapping: unserved, defining: errDown}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := remover(page)
			a.Applier.Destination, a.Plan.State.Objects.ByID[page].Departure.KindGoneSince = known, now.Add(-plan.KindGoneTimeout)
			done := a.remove(t.Context(), a.Plan.State.Objects.ByID[page].Entry)
			require.Equal(t, delayed, done.end, "its kind exists, or may")
			require.True(t, done.decision.Waits())
		})
	}
}

// TestRemoveOfAnotherScope: the kind has another CustomResourceDefinition now, and the object was deleted with the former one. The objects of an extension
// API server exist wherever that keeps them.
func TestRemoveOfAnotherScope(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason                        string
		unscoped, aggregated, orphans bool
		want                          end
	}{
		"Same":       {"Discovery may be behind.", false, false, false, delayed},
		"Other":      {"It was deleted.", true, false, false, goneWithKind},
		"Aggregated": {"No definition had it.", true, true, false, delayed},
		"Orphaned":   {"It stays in any case.", true, false, true, unmanaged},
	} {
		r := &requests{getErr: notFound("")}
		a := reading(r)
		a.Applier.Destination, a.Applier.Orphans = asVidra{kinds: kinds{unscoped: tc.unscoped, definition: "CustomResourceDefinition pages"}, own: r}, tc.orphans
		o := a.Plan.State.Objects.ByID[page]
		o.Entry.Aggregated = tc.aggregated
		require.Equal(t, kindUnserved, a.remove(t.Context(), o.Entry).end, "%s: discovery may be behind", name)
		o.Departure.KindGoneSince = now.Add(-plan.KindGoneTimeout)
		require.Equal(t, tc.want, a.remove(t.Context(), o.Entry).end, "%s: %s", name, tc.reason)
	}
}

// TestRemoveOutOfScope: no request is sent about an object that Vidra may not use.
func TestRemoveOutOfScope(t *testing.T) {
	t.Parallel()
	scope, err := cluster.LocalScope("bank")
	require.NoError(t, err)
	for _, orphans := range []bool{true, false} {
		a := remover(page)
		a.Applier.Settings.Allowed, a.Applier.Orphans = scope, orphans
		done := a.remove(t.Context(), a.Plan.State.Objects.ByID[page].Entry)
		if orphans {
			require.Equal(t, removal{end: unmanaged, kept: true}, done, "it stays in any case")
			continue
		}
		require.Equal(t, outOfScope, done.end)
		require.True(t, done.end.undecided(), "its annotations are unreadable, so that its container stays")
		require.Equal(t, v1alpha1.ReasonOutOfScope, done.outOfScope.Reason)
		require.Contains(t, done.outOfScope.Message, "is to be removed, and is not: ")
	}
}

// TestRetryOthers: the other owners of the own installation attempt their applies at once.
func TestRetryOthers(t *testing.T) {
	t.Parallel()
	a := remover()
	shop, bank, far := trigger.Owner{Name: "shop"}, trigger.Owner{Name: "bank"}, trigger.Owner{Name: "far"}
	others := []owners.CoOwner{{Name: "shop", Manager: "vidra/shop"}, {Name: "far", Manager: v1alpha1.Installation("other").FieldManager("far")}, {Name: "bank", Manager: "vidra/bank"}}
	failed := removal{end: failed, err: errDown}
	require.Equal(t, failed, a.retry(failed, others...))
	require.False(t, a.Applier.Trigger.TakeCauses(shop).Retry, "the object has kept our fields")
	released := removal{end: released}
	require.Equal(t, released, a.retry(released, others...))
	for owner, want := range map[trigger.Owner]bool{shop: true, bank: true, far: false} {
		require.Equal(t, want, a.Applier.Trigger.TakeCauses(owner).Retry, owner.Name)
	}
}
