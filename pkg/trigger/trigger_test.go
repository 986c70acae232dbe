package trigger

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	owner      = Owner{Name: "web"}
	manager    = v1alpha1.FieldManager("web")
	key        = ObjectKey{GVR: configMaps, Namespace: "shop", Name: "settings"}
)

// configMap is an object as the API server returns it after we applied it with
// a value, at a resourceVersion.
func configMap(value, version string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": key.Name, "namespace": key.Namespace, "uid": "u1", "resourceVersion": version,
			"annotations": map[string]any{v1alpha1.OwnerAnnotationKey("web"): "web"},
			"managedFields": []any{map[string]any{
				"manager": manager, "operation": "Apply",
				"fieldsV1": map[string]any{"f:data": map[string]any{"f:color": map[string]any{}}},
			}},
		},
		"data": map[string]any{"color": value},
	}}
	return u
}

func digestOf(u *unstructured.Unstructured) ownership.Digest {
	d, _ := ownership.Of(u, manager)
	return d
}

// appliedAt is what an apply of the value left behind.
func appliedAt(value, version string) Applied {
	return Applied{Manager: manager, Digest: digestOf(configMap(value, version)), UID: "u1", ResourceVersion: version}
}

func TestJudge(t *testing.T) {
	expected := appliedAt("blue", "100")
	snap := func(value, version string) *Snapshot {
		u := configMap(value, version)
		return &Snapshot{
			version: newVersion(version),
			owned:   []owned{{manager: identify(manager), digest: digestOf(u)}},
		}
	}
	terminating := snap("blue", "103")
	terminating.special, terminating.owned = newSpecial(Health{Status: status.TerminatingStatus}, "", false, false, nil), nil

	cases := map[string]struct {
		reason string
		claim  claim
		seen   observation
		want   Verdict
	}{
		"Echo": {
			reason: "The event of our own apply has its resourceVersion.",
			claim:  claim{expected: expect(expected)}, seen: observation{snapshot: snap("blue", "100")}, want: VerdictEcho,
		},
		"OlderDrift": {
			reason: "What our apply has overwritten is over.",
			claim:  claim{expected: expect(expected)}, seen: observation{snapshot: snap("red", "99")}, want: VerdictStale,
		},
		"Foreign": {
			reason: "A later event with our digest is a change of what is not ours.",
			claim:  claim{expected: expect(expected)}, seen: observation{snapshot: snap("blue", "101")}, want: VerdictAsExpected,
		},
		"Drift": {
			reason: "A later event with another digest is a change of what is ours.",
			claim:  claim{expected: expect(expected)}, seen: observation{snapshot: snap("red", "101")}, want: VerdictDrift,
		},
		"DriftWithLongerVersion": {
			reason: "ResourceVersions are numbers, not words: 1000 is newer than 100.",
			claim:  claim{expected: expect(expected)}, seen: observation{snapshot: snap("red", "1000")}, want: VerdictDrift,
		},
		"OwnershipGone": {
			reason: "An object without our entry is not as we left it.",
			claim:  claim{expected: expect(expected)},
			seen:   observation{snapshot: &Snapshot{version: newVersion("101")}}, want: VerdictDrift,
		},
		"Deleted": {
			reason: "A deletion always counts, whatever the object looked like.",
			claim:  claim{expected: expect(expected)}, seen: observation{snapshot: snap("blue", "101"), deleted: true}, want: VerdictDeleted,
		},
		"DeletedBeforeOurApply": {
			reason: "We have created the object again since.",
			claim:  claim{expected: expect(expected)}, seen: observation{snapshot: snap("blue", "99"), deleted: true}, want: VerdictStale,
		},
		"DeletionMissed": {
			reason: "A tombstone has the last state that was seen, which is older than the deletion.",
			claim:  claim{expected: expect(expected)}, seen: observation{snapshot: snap("blue", "99"), deleted: true, missed: true}, want: VerdictDeleted,
		},
		"AfterRestart": {
			reason: "Without a resourceVersion to compare with, the digest decides.",
			claim:  claim{expected: expect(Applied{Manager: manager, Digest: expected.Digest})}, seen: observation{snapshot: snap("red", "1")}, want: VerdictDrift,
		},
		"VersionsThatAreNoNumbers": {
			reason: "A server whose resourceVersions have no order makes nothing stale.",
			claim:  claim{expected: expect(Applied{Manager: manager, Digest: expected.Digest, ResourceVersion: "abc"})},
			seen:   observation{snapshot: snap("red", "abd")}, want: VerdictDrift,
		},
		"InFlight": {
			reason: "While we apply, nobody can tell.",
			claim:  claim{expected: expect(expected), is: claimFlags{inFlight: true}}, seen: observation{snapshot: snap("red", "101")}, want: VerdictInFlight,
		},
		"Terminating": {
			reason: "What is being deleted is not healed; its end is another event.",
			claim:  claim{expected: expect(expected)}, seen: observation{snapshot: terminating}, want: VerdictTerminating,
		},
		"LeavingChanged": {
			reason: "What is to be removed is not healed.",
			claim:  claim{expected: expect(expected), is: claimFlags{expectsRemoval: true}}, seen: observation{snapshot: snap("red", "101")}, want: VerdictTerminating,
		},
		"LeavingGone": {
			reason: "The end of what was to be removed is news, not drift.",
			claim:  claim{expected: expect(expected), is: claimFlags{expectsRemoval: true}}, seen: observation{snapshot: snap("blue", "101"), deleted: true}, want: VerdictGone,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, judge(&tc.claim, tc.seen), tc.reason)
		})
	}
}

// rig is a factory with a queue, fed as an informer would.
type rig struct {
	*Factory
	queue   priorityqueue.PriorityQueue[reconcile.Request]
	handler cache.ResourceEventHandler
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Factory: NewFactory(NewIndex()), queue: priorityqueue.New[reconcile.Request](t.Name())}
	t.Cleanup(r.queue.ShutDown)
	require.NoError(t, r.Source().Start(t.Context(), r.queue))
	r.handler = r.HandlerFor("", configMaps)
	return r
}

// event delivers an object as the informer does: transformed, then handled.
func (r *rig) event(t *testing.T, u *unstructured.Unstructured) *Snapshot {
	t.Helper()
	kept, err := r.TransformFor("", configMaps)(u)
	require.NoError(t, err)
	r.handler.OnUpdate(nil, kept)
	return kept.(*Snapshot)
}

// apply does what the reconciler does around a PATCH.
func (r *rig) apply(value, version string, meanwhile func()) {
	r.index.Begin(owner, key, manager)
	if meanwhile != nil {
		meanwhile()
	}
	r.Commit(owner, key, appliedAt(value, version))
}

// next is the owner that a worker would get; empty if there is none.
func (r *rig) next() (name string, priority int) {
	if r.queue.Len() == 0 {
		return "", 0
	}
	request, priority, _ := r.queue.GetWithPriority()
	r.queue.Done(request)
	return request.Name, priority
}

func TestEditBecomesACause(t *testing.T) {
	r := newRig(t)
	r.apply("blue", "100", nil)
	r.event(t, configMap("blue", "100"))
	name, _ := r.next()
	require.Empty(t, name, "our own echo is no work")

	snapshot := r.event(t, configMap("red", "101"))
	name, priority := r.next()
	require.Equal(t, "web", name)
	require.Equal(t, driftPriority, priority, "drift goes ahead of routine work")
	require.Nil(t, snapshot.pending.Load(), "the store lets go of the object once it was judged")

	causes := r.TakeCauses(owner)
	require.Equal(t, "red", causes.Objects[key].Found.Object["data"].(map[string]any)["color"])
	require.True(t, r.TakeCauses(owner).Empty(), "a cause is handed over once")
}

func TestEventsDuringAnApplyAreJudgedAfterIt(t *testing.T) {
	cases := map[string]struct {
		reason    string
		meanwhile *unstructured.Unstructured
		work      bool
	}{
		"Echo":        {"The echo of an apply may overtake its response.", configMap("blue", "100"), false},
		"Overwritten": {"An edit that came before the apply was overwritten by it.", configMap("red", "99"), false},
		"RealEdit":    {"An edit that came after the apply is drift.", configMap("red", "101"), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var snapshot *Snapshot
			r.apply("blue", "100", func() { snapshot = r.event(t, tc.meanwhile) })
			name, _ := r.next()
			require.Equal(t, tc.work, name != "", tc.reason)
			require.Equal(t, !tc.work, r.TakeCauses(owner).Empty(), tc.reason)
			require.Nil(t, snapshot.pending.Load())
		})
	}
}

func TestApplySettlesWhatCameBeforeIt(t *testing.T) {
	r := newRig(t)
	r.apply("blue", "100", nil)
	r.event(t, configMap("red", "101"))
	r.apply("blue", "102", nil)
	require.Empty(t, r.TakeCauses(owner).Objects, "one edit is put back once")
}

func TestRemovalIsToldBesidesDrift(t *testing.T) {
	r := newRig(t)
	r.apply("blue", "100", nil)
	other := key
	other.Name = "other"
	r.index.Begin(owner, other, manager)
	r.Commit(owner, other, appliedAt("blue", "100"))
	r.event(t, configMap("red", "101"))

	r.index.ExpectRemoval(owner, other)
	left := configMap("blue", "102")
	left.SetName("other")
	r.handler.OnDelete(r.event(t, left))
	causes := r.TakeCauses(owner)
	require.True(t, causes.All)
	require.Len(t, causes.Objects, 1)
	require.Contains(t, causes.Objects, key)
}

func TestFailedApplyKeepsWhatItExpected(t *testing.T) {
	r := newRig(t)
	r.apply("blue", "100", nil)
	r.index.Begin(owner, key, manager)
	r.event(t, configMap("red", "101"))
	r.Abort(owner, key)
	require.Len(t, r.TakeCauses(owner).Objects, 1, "the edit is still drift")

	other := key
	other.Name = "new"
	r.index.Begin(owner, other, manager)
	r.Abort(owner, other)
	_, known := r.index.Expected(owner, other)
	require.False(t, known, "an object that was never applied has no claim")
}

func TestPutBackByHandIsNoWorkAnyMore(t *testing.T) {
	r := newRig(t)
	r.apply("blue", "100", nil)
	r.event(t, configMap("red", "101"))
	r.event(t, configMap("blue", "102"))
	require.Empty(t, r.TakeCauses(owner).Objects)
}

func TestF18Tombstones(t *testing.T) {
	r := newRig(t)
	r.apply("blue", "100", nil)
	snapshot := r.event(t, configMap("blue", "100"))
	r.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "shop/settings", Obj: snapshot})
	causes := r.TakeCauses(owner)
	require.Equal(t, Cause{Deleted: true, Unsure: true, Since: causes.Objects[key].Since}, causes.Objects[key],
		"a deletion that a relist concluded counts, and has to be looked at")
}

func TestUnknownObjects(t *testing.T) {
	r := newRig(t)
	kept, err := r.TransformFor("", configMaps)(configMap("blue", "100"))
	require.NoError(t, err)
	require.Nil(t, kept.(*Snapshot).waiting().object, "the first list after a restart does not keep every object until it is handled")
	r.handler.OnAdd(kept, true)
	require.Nil(t, kept.(*Snapshot).pending.Load())
	name, _ := r.next()
	require.Empty(t, name, "after a restart, each VidraResource is reconciled without an event of its objects")

	r.index.Load(owner, nil)
	r.event(t, configMap("blue", "101"))
	name, _ = r.next()
	require.Empty(t, name, "an owner that is known and does not list the object does not own it: the annotation was copied")
}

func TestCausesThatDoNotFitBecomeALookAtEverything(t *testing.T) {
	l := newPendingCauses(newMetrics().overflows, &heldObjects{})
	for i := range maxCauses + 1 {
		k := key
		k.Name = string(rune(i + 1))
		l.add(owner, k, Cause{Deleted: true}, false)
	}
	causes := l.take(owner)
	require.Len(t, causes.Objects, maxCauses)
	require.True(t, causes.All)
}

func TestRequeueKeepsNewerCauses(t *testing.T) {
	r := newRig(t)
	r.apply("blue", "100", nil)
	r.event(t, configMap("red", "101"))
	old := r.TakeCauses(owner)
	r.event(t, configMap("green", "102"))
	r.RequeueCauses(owner, old)
	require.Equal(t, "green", r.TakeCauses(owner).Objects[key].Found.Object["data"].(map[string]any)["color"])
}

func TestOwnersThatComeBeforeTheQueueAreNotLost(t *testing.T) {
	f := NewFactory(NewIndex())
	f.EnqueueAll(owner)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	require.NoError(t, f.Source().Start(t.Context(), queue))
	require.Equal(t, 1, queue.Len())
}

func TestEventsBetweenTheCommitsOfTwoOwnersAreNotLost(t *testing.T) {
	r := newRig(t)
	other := Owner{Name: "other"}
	both := configMap("blue", "10")
	expected := Applied{Manager: manager, Digest: digestOf(both)}
	for _, o := range []Owner{owner, other} {
		r.index.Load(o, map[ObjectKey]Applied{key: expected})
		r.index.Begin(o, key, manager)
	}
	r.event(t, both) // deferred for both
	r.Commit(owner, key, Applied{Manager: manager, Digest: expected.Digest, ResourceVersion: "9"})
	r.event(t, configMap("red", "12")) // drift: judged for one, deferred for the other
	r.Commit(other, key, Applied{Manager: manager, Digest: expected.Digest, ResourceVersion: "11"})
	require.Len(t, r.TakeCauses(owner).Objects, 1)
	require.Len(t, r.TakeCauses(other).Objects, 1)
}

func TestLandingOfAnOldEventDoesNotSettleANewerCause(t *testing.T) {
	r := newRig(t)
	r.apply("blue", "9", nil)
	r.index.Begin(owner, key, manager)
	r.event(t, configMap("blue", "10"))
	deferred := r.index.commit(owner, compact(key), appliedAt("blue", "9"))
	r.event(t, configMap("red", "12")) // arrives before the worker goes on
	require.NotNil(t, deferred)
	r.finishApply(key, deferred)
	require.Len(t, r.TakeCauses(owner).Objects, 1)
}

func TestEventsOffOwnersAreKnown(t *testing.T) {
	r := newRig(t)
	r.Release(owner)
	r.index.Load(owner, nil)
	r.event(t, configMap("red", "101"))
	name, _ := r.next()
	require.Empty(t, name, "an event of an object whose owner wants no events is no work")
}

func TestLookLeavesToTheHandlerWhatItHasNotJudged(t *testing.T) {
	r := newRig(t)
	r.apply("blue", "100", nil)
	kept, err := r.TransformFor("", configMaps)(configMap("red", "101"))
	require.NoError(t, err)
	require.True(t, r.index.AsExpected(owner, key, kept, true), "the store has it before the handler")
	r.handler.OnUpdate(nil, kept)
	require.False(t, r.index.AsExpected(owner, key, kept, true), "what was judged is as it is")
	require.Len(t, r.TakeCauses(owner).Objects, 1)
}

func TestLookSettlesNothing(t *testing.T) {
	r := newRig(t)
	r.apply("blue", "100", nil)
	r.event(t, configMap("red", "101"))
	require.Len(t, r.TakeCauses(owner).Objects, 1)
	r.event(t, configMap("green", "102")) // before the look at the first one begins
	r.index.Begin(owner, key, manager)
	left := appliedAt("red", "101")
	left.Unreverted = true
	r.Observed(owner, key, left)
	require.Len(t, r.TakeCauses(owner).Objects, 1, "nothing was put right")
}
