package status

import (
	"strconv"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// wrong returns a problem of a ConfigMap, as ObjectProblems makes it.
func wrong(id object.Identity, reason, message string) v1alpha1.Problem {
	conditions := []string{v1alpha1.ConditionReady}
	if reason == v1alpha1.ReasonDriftDetected || reason == v1alpha1.ReasonDriftContended {
		conditions = []string{v1alpha1.ConditionDrifted, v1alpha1.ConditionReady}
	}
	return object.ProblemOf(object.ProblemObject(fixture.ConfigMapKind, id), reason, message, conditions...)
}

// unreverted returns the problem of a ConfigMap whose drift is still to be reverted.
func unreverted(id object.Identity) v1alpha1.Problem {
	p := object.ProblemOf(object.ProblemObject(fixture.ConfigMapKind, id), v1alpha1.ReasonDriftDetected, "changed and not reverted yet", v1alpha1.ConditionDrifted)
	p.Transient = true
	return p
}

func TestSummarize(t *testing.T) {
	now := time.Now()
	watch := watchregistry.Key{GVR: fixture.ConfigMaps}
	id := fixture.IDOf(fixture.ConfigMapKind, "shop", "a")
	watches := func(s watchregistry.Status) map[watchregistry.Key]watchregistry.Status {
		return map[watchregistry.Key]watchregistry.Status{watch: s}
	}
	synced := watches(watchregistry.Status{State: watchregistry.Synced})
	failed := func(reason string) Outcome {
		return Outcome{watching: plan.Watching{Watches: synced}, objects: objectFacts{problems: []v1alpha1.Problem{wrong(id, reason, "no")}}}
	}
	cases := map[string]struct {
		reason string
		in     Outcome
		ready  string // status/reason
		other  map[string]string
		deploy v1alpha1.DeployState
	}{
		"InOrder": {
			"Everything is applied and watched.", Outcome{watching: plan.Watching{Watches: synced}}, "True/Applied",
			map[string]string{v1alpha1.ConditionWatching: "True/Synced", v1alpha1.ConditionDrifted: "False/InSync"}, v1alpha1.DeploySucceeded,
		},
		"Unwatched": {
			"Who switched events off is ready without a watch.", Outcome{vr: of(0, unwatched)}, "True/Applied",
			map[string]string{v1alpha1.ConditionWatching: "False/EventsOff"}, v1alpha1.DeploySucceeded,
		},
		"Starting": {
			"Ready means seen live.", Outcome{watching: plan.Watching{Watches: watches(watchregistry.Status{State: watchregistry.Starting})}}, "False/Starting",
			map[string]string{v1alpha1.ConditionReconciling: "True/Starting"}, v1alpha1.DeployRunning,
		},
		"Restarts": {
			"A restart of Vidra does not rewrite every status: what was watched will be.",
			Outcome{vr: of(1, v1alpha1.VidraResourceSpec{}), now: now, watching: plan.Watching{Watches: watches(watchregistry.Status{State: watchregistry.Starting, Since: now})}},
			"True/Applied", map[string]string{v1alpha1.ConditionWatching: "True/Synced"}, v1alpha1.DeploySucceeded,
		},
		"RestartsWithAnotherGeneration": {
			"The manifest may have a kind that was never watched.",
			Outcome{vr: of(2, v1alpha1.VidraResourceSpec{}), now: now, watching: plan.Watching{Watches: watches(watchregistry.Status{State: watchregistry.Starting, Since: now})}},
			"False/Starting", nil, v1alpha1.DeployRunning,
		},
		"DoesNotStart": {
			"A watch that takes long to start is said after a while.",
			Outcome{vr: of(1, v1alpha1.VidraResourceSpec{}), now: now, watching: plan.Watching{Watches: watches(watchregistry.Status{
				State: watchregistry.Starting, Since: now.Add(-plan.WatchGrace),
			}),
			}}, "False/Starting", nil, v1alpha1.DeployRunning,
		},
		"Forbidden": {
			"What may not be watched cannot be kept.",
			Outcome{watching: plan.Watching{Watches: watches(watchregistry.Status{State: watchregistry.Degraded, Reason: watchregistry.ReasonForbidden, Since: now})}},
			"False/WatchFailed", map[string]string{v1alpha1.ConditionWatching: "False/WatchFailed"}, v1alpha1.DeployFailed,
		},
		"APIServerRestarts": {
			"A restart of the API server does not rewrite every status.",
			Outcome{vr: of(1, v1alpha1.VidraResourceSpec{}), now: now, watching: plan.Watching{Watches: watches(watchregistry.Status{
				State: watchregistry.Degraded, Reason: watchregistry.ReasonUnavailable, Since: now.Add(-plan.WatchGrace / 2),
			}),
			}}, "True/Applied", nil, v1alpha1.DeploySucceeded,
		},
		"APIServerStaysAway": {
			"An outage is said after a while.",
			Outcome{vr: of(1, v1alpha1.VidraResourceSpec{}), now: now, watching: plan.Watching{Watches: watches(watchregistry.Status{
				State: watchregistry.Degraded, Reason: watchregistry.ReasonUnavailable, Since: now.Add(-plan.WatchGrace),
			}),
			}}, "False/WatchFailed", nil, v1alpha1.DeployFailed,
		},
		"Invalid": {
			"Only the author can mend the manifest.", Outcome{Obstacles: Obstacles{Stalled: &object.Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: "line 3"}}}, "False/ManifestInvalid",
			map[string]string{v1alpha1.ConditionStalled: "True/ManifestInvalid"}, v1alpha1.DeployFailed,
		},
		"InvalidAndChanged": {
			"What somebody changes meanwhile is said, too.", Outcome{
				Obstacles: Obstacles{Stalled: &object.Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: "line 3"}, Compared: true},
				objects:   objectFacts{problems: []v1alpha1.Problem{wrong(id, v1alpha1.ReasonDriftDetected, "it was deleted")}},
			}, "False/ManifestInvalid",
			map[string]string{v1alpha1.ConditionDrifted: "True/DriftDetected"}, v1alpha1.DeployFailed,
		},
		"InvalidAndSuspended": {
			"That the user paused does not wait for the manifest.",
			Outcome{Obstacles: Obstacles{Stalled: &object.Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: "line 3"}}, vr: of(0, v1alpha1.VidraResourceSpec{Suspend: true})}, "False/ManifestInvalid",
			map[string]string{v1alpha1.ConditionSuspended: "True/Suspended", v1alpha1.ConditionDrifted: ""}, v1alpha1.DeployFailed,
		},
		"AwayAndSuspended": {
			"Nor for the destination.",
			Outcome{Obstacles: Obstacles{Blocked: &object.Failure{Reason: v1alpha1.ReasonDestinationUnreachable, Message: "no answer"}}, vr: of(0, v1alpha1.VidraResourceSpec{Suspend: true})}, "False/DestinationUnreachable",
			map[string]string{v1alpha1.ConditionSuspended: "True/Suspended"}, v1alpha1.DeployFailed,
		},
		"ApplyFailed":     {"An object is not accepted.", failed(v1alpha1.ReasonApplyFailed), "False/ApplyFailed", nil, v1alpha1.DeployFailed},
		"KindUnavailable": {"A kind is waited for.", failed(v1alpha1.ReasonKindUnavailable), "False/KindUnavailable", nil, v1alpha1.DeployPending},
		"PruneFailed":     {"An object that should be gone is there.", failed(v1alpha1.ReasonPruneFailed), "False/PruneFailed", nil, v1alpha1.DeployStale},
		"LeftAlone": {
			"What is left as somebody changed it is not as applied; nobody works on it.", failed(v1alpha1.ReasonDriftDetected), "False/DriftDetected",
			map[string]string{v1alpha1.ConditionDrifted: "True/DriftDetected"}, v1alpha1.DeployStale,
		},
		"Contended": {
			"A fight is said.", failed(v1alpha1.ReasonDriftContended), "False/DriftContended",
			map[string]string{v1alpha1.ConditionDrifted: "True/DriftContended", v1alpha1.ConditionReconciling: "True/DriftContended"}, v1alpha1.DeployFailed,
		},
		"Suspended": {
			"What waits is said.", Outcome{
				vr: of(0, v1alpha1.VidraResourceSpec{Suspend: true}), watching: plan.Watching{Watches: synced},
				objects: objectFacts{problems: []v1alpha1.Problem{wrong(id, v1alpha1.ReasonSuspended, "waits")}},
			}, "False/Suspended", map[string]string{v1alpha1.ConditionSuspended: "True/Suspended"}, v1alpha1.DeployStale,
		},
		"UnmatchedRule": {
			"A rule that matches nothing is said.", Outcome{watching: plan.Watching{Watches: synced}, objects: objectFacts{unmatched: []string{"spec.drift.ignore[0]"}}}, "True/Applied",
			map[string]string{v1alpha1.ConditionUnmatchedIgnoreRules: "True/NothingMatches"}, v1alpha1.DeploySucceeded,
		},
		"Drifted": {
			"A drift that could not be put back is said.",
			Outcome{watching: plan.Watching{Watches: synced}, objects: objectFacts{problems: []v1alpha1.Problem{unreverted(id)}}}, "True/Applied",
			map[string]string{v1alpha1.ConditionDrifted: "True/DriftDetected"}, v1alpha1.DeploySucceeded,
		},
		"Unjudged": {
			"What is not looked at yet may be as it was.", Outcome{watching: plan.Watching{Watches: synced}, objects: objectFacts{unjudged: true}}, "True/Applied",
			map[string]string{v1alpha1.ConditionDrifted: ""}, v1alpha1.DeploySucceeded,
		},
		"Deleting": {"It waits for its objects.", Outcome{Deleting: true}, "False/Deleting", nil, v1alpha1.DeployRunning},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := v1alpha1.VidraResourceStatus{LastError: "an old error", ObservedGeneration: 1, Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionWatching, Status: metav1.ConditionTrue, ObservedGeneration: 1},
			}}
			after := Summarize(before, tc.in)
			condition := func(kind string) string {
				c := meta.FindStatusCondition(after.Conditions, kind)
				if c == nil {
					return ""
				}
				return string(c.Status) + "/" + c.Reason
			}
			require.Equal(t, tc.ready, condition(v1alpha1.ConditionReady), tc.reason)
			require.Equal(t, tc.deploy, after.DeployState, tc.reason)
			for kind, want := range tc.other {
				require.Equal(t, want, condition(kind), tc.reason)
			}
			if after.DeployState == v1alpha1.DeploySucceeded {
				require.Empty(t, after.LastError)
				require.Empty(t, condition(v1alpha1.ConditionReconciling), "kstatus wants it gone when it is not true")
			}
			require.Equal(t, after, Summarize(after, tc.in), "a pass that finds the same writes nothing")
		})
	}
}

// of is a VidraResource with a spec.
func of(generation int64, spec v1alpha1.VidraResourceSpec) v1alpha1.VidraResource {
	return v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Generation: generation}, Spec: spec}
}

// unwatched is a spec without events.
var unwatched = v1alpha1.VidraResourceSpec{Destination: v1alpha1.Destination{ReconcileOnEvents: new(bool)}}

// TestSince has a problem stay, change and end: since is when the object got a problem with
// its reason, and what stays writes nothing.
func TestSince(t *testing.T) {
	t.Parallel()
	id, other := fixture.IDOf(fixture.ConfigMapKind, "shop", "a"), fixture.IDOf(fixture.ConfigMapKind, "shop", "b")
	began := time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	pass := func(before v1alpha1.VidraResourceStatus, seconds int, problems ...v1alpha1.Problem) v1alpha1.VidraResourceStatus {
		return Summarize(before, Outcome{All: true, now: began.Add(time.Duration(seconds) * time.Second), objects: objectFacts{problems: problems}})
	}
	since := func(status v1alpha1.VidraResourceStatus) (all []int) {
		for _, p := range status.Problems {
			all = append(all, int(p.Since.Sub(began).Seconds()))
		}
		return all
	}
	first := pass(v1alpha1.VidraResourceStatus{}, 0, wrong(id, v1alpha1.ReasonApplyFailed, "no"))
	require.Equal(t, first, pass(first, 5, wrong(id, v1alpha1.ReasonApplyFailed, "no")), "nothing is to be written")
	require.Equal(t, []int{0}, since(pass(first, 5, wrong(id, v1alpha1.ReasonApplyFailed, "never"))), "it still fails")
	require.Equal(t, []int{5}, since(pass(first, 5, wrong(id, v1alpha1.ReasonAdoptionRefused, "no"))), "it fails in another way")
	require.Equal(t, []int{5, 0}, since(pass(first, 5, wrong(other, v1alpha1.ReasonApplyFailed, "no"), wrong(id, v1alpha1.ReasonApplyFailed, "no"))))

	waits := pass(first, 5, wrong(id, v1alpha1.ReasonProgressing, "waits"))
	require.Equal(t, []int{0, 5}, since(waits), "it is not known to be over")
	require.True(t, waits.Problems[0].Unconfirmed)
	require.Equal(t, "ConfigMap shop/a: no", waits.LastError)
	require.Equal(t, v1alpha1.ReasonProgressing, meta.FindStatusCondition(waits.Conditions, v1alpha1.ConditionReady).Reason)
	again := pass(waits, 9, wrong(id, v1alpha1.ReasonApplyFailed, "no"))
	require.Equal(t, []int{0}, since(again))
	require.False(t, again.Problems[0].Unconfirmed)
	require.Empty(t, pass(waits, 9).Problems, "it is over")
}

// TestHealthMessages: messages that count replicas are not written for another number, but
// with another object.
func TestHealthMessages(t *testing.T) {
	t.Parallel()
	is := kstatus.InProgressStatus
	pass := func(before v1alpha1.VidraResourceStatus, texts ...string) v1alpha1.VidraResourceStatus {
		report := &plan.HealthReport{}
		for i, text := range texts {
			report.Ill = append(report.Ill, plan.Illness{
				Object: *object.ProblemObject(fixture.ConfigMapKind, fixture.IDOf(fixture.ConfigMapKind, "shop", strconv.Itoa(i))),
				Health: trigger.Health{Status: is, Message: text},
			})
		}
		return Summarize(before, Outcome{All: true, Health: report})
	}
	messages := func(status v1alpha1.VidraResourceStatus) (all []string) {
		for _, p := range status.Problems {
			all = append(all, p.Message)
		}
		return all
	}
	first := pass(v1alpha1.VidraResourceStatus{}, "0 of 3", "0 of 2")
	require.Equal(t, []string{"InProgress: 0 of 3", "InProgress: 0 of 2"}, messages(first))
	require.Equal(t, first, pass(first, "1 of 3", "1 of 2"), "nothing is to be written")
	require.Equal(t, []string{"InProgress: 1 of 3"}, messages(pass(first, "1 of 3")), "another set of objects is written anyway")

	is = kstatus.UnknownStatus
	unknown := pass(first, "cannot be read", "0 of 2")
	is = kstatus.FailedStatus
	require.Equal(t, []string{"Failed: broken", "Failed: 0 of 2"}, messages(pass(unknown, "broken", "0 of 2")), "both are unhealthy, for other reasons")
}

// TestUpgradeKeepsHealth: a status of an earlier version lists no problems. While the watches
// start, Ready is not True for what that version reported.
func TestUpgradeKeepsHealth(t *testing.T) {
	t.Parallel()
	before := v1alpha1.VidraResourceStatus{}
	meta.SetStatusCondition(&before.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUnhealthy, Message: "Deployment shop/web: Failed: no",
	})
	o := Outcome{vr: of(0, v1alpha1.VidraResourceSpec{Wait: true}), All: true, Health: &plan.HealthReport{Unknown: true, Starting: true}}
	after := Summarize(before, o)
	ready := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	require.Equal(t, v1alpha1.ReasonUnhealthy, ready.Reason)
	require.Equal(t, "Deployment shop/web: Failed: no", ready.Message)
	require.Equal(t, after, Summarize(after, o))
}

// TestHealthWhileDeleting: what was not healthy is no reason of Ready while a VidraResource with
// spec.wait is being deleted.
func TestHealthWhileDeleting(t *testing.T) {
	t.Parallel()
	ill := *object.ProblemObject(fixture.ConfigMapKind, fixture.IDOf(fixture.ConfigMapKind, "shop", "a"))
	before := Summarize(v1alpha1.VidraResourceStatus{}, Outcome{
		vr: of(0, v1alpha1.VidraResourceSpec{Wait: true}), All: true,
		Health: &plan.HealthReport{Ill: []plan.Illness{{Object: ill, Health: trigger.Health{Status: kstatus.FailedStatus, Message: "no"}}}},
	})
	require.Equal(t, v1alpha1.ReasonUnhealthy, meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionReady).Reason)
	after := Summarize(before, Outcome{vr: of(0, v1alpha1.VidraResourceSpec{Wait: true}), All: true, Deleting: true})
	ready := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	require.Equal(t, v1alpha1.ReasonDeleting, ready.Reason, ready.Message)
	require.Empty(t, after.LastError)
}

// TestInheritedInPart: texts of a status that lists not all problems count as reported only until all
// objects were compared.
func TestInheritedInPart(t *testing.T) {
	t.Parallel()
	s := &plan.State{Inherited: plan.Inherited{InPart: true}}
	p := Recorder{Plan: &plan.Planner{Settings: &plan.Settings{}, VR: &v1alpha1.VidraResource{}, State: s}}
	p.Conclusion(&Outcome{})
	require.True(t, s.Inherited.InPart, "a revert compares one object")
	p.Plan.Scope.All = true
	p.Conclusion(&Outcome{Obstacles: Obstacles{Blocked: &object.Failure{}}})
	require.True(t, s.Inherited.InPart, "nothing was compared")
	p.Conclusion(&Outcome{})
	require.False(t, s.Inherited.InPart)
}
