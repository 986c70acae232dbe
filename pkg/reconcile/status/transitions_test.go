package status

import (
	"fmt"
	"strings"
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// TestEveryFailureIsNamed: an object that fails besides others is named in the Event
// that its failure makes, however many fail already and however much is said of them.
func TestEveryFailureIsNamed(t *testing.T) {
	for name, text := range map[string]string{"Many": "no", "Long": strings.Repeat("it is denied for a long reason ", 33)} {
		t.Run(name, func(t *testing.T) {
			var o Outcome
			var before v1alpha1.VidraResourceStatus
			for i := range 8 {
				id := fixture.IDOf(fixture.ConfigMapKind, "shop", fmt.Sprintf("page-%d", i))
				o.objects.problems = append(o.objects.problems, wrong(id, v1alpha1.ReasonApplyFailed, text))
				after := Summarize(before, o)
				told := toldOf(before, after)
				require.Len(t, told, 1)
				require.Contains(t, told[0].Note, id.String()+": ")
				require.Equal(t, 1, strings.Count(told[0].Note, "ConfigMap"), "the others were told before")
				before = after
			}
		})
	}
}

func toldOf(before, after v1alpha1.VidraResourceStatus) []events.Event {
	return events.Transitions(corev1.ObjectReference{Kind: v1alpha1.Kind, Name: "web"}, before, after, nil)
}

// TestBeginningsAndEnds holds the statuses that passes write one after the other
// against what is told of them: whatever begins ends, and each of it is told once.
func TestBeginningsAndEnds(t *testing.T) {
	key := watchregistry.Key{}
	one, two := fixture.IDOf(fixture.ConfigMapKind, "shop", "a"), fixture.IDOf(fixture.ConfigMapKind, "shop", "b")
	watch := func(state watchregistry.State) map[watchregistry.Key]watchregistry.Status {
		return map[watchregistry.Key]watchregistry.Status{key: {State: state, Reason: watchregistry.ReasonForbidden}}
	}
	well := Outcome{All: true, watching: plan.Watching{Watches: watch(watchregistry.Synced)}}
	fails := func(id object.Identity, reason string) Outcome {
		o, text := well, "no"
		if !events.IsProblem(reason) {
			text = "differs"
		}
		o.objects.problems = []v1alpha1.Problem{wrong(id, reason, text)}
		return o
	}
	and := func(o Outcome, how func(o *Outcome)) Outcome { how(&o); return o }
	blind := and(well, func(o *Outcome) { o.watching.Watches = watch(watchregistry.Degraded) })
	unseen := and(well, func(o *Outcome) { o.Unobserved = object.ProblemObject(fixture.ConfigMapKind, one) })
	away := Outcome{All: true, Obstacles: Obstacles{Blocked: &object.Failure{Reason: v1alpha1.ReasonDestinationUnreachable, Message: "https://far:6443 is away"}}}
	bad := Outcome{All: true, Obstacles: Obstacles{Stalled: &object.Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: "document 1: bad"}}}
	healthy := func(s kstatus.Status) Outcome {
		return and(well, func(o *Outcome) {
			o.vr.Spec.Wait, o.Health = true, &plan.HealthReport{Ill: []plan.Illness{{Object: *object.ProblemObject(fixture.ConfigMapKind, one), Health: trigger.Health{Status: s, Message: "no"}}}}
			if s == kstatus.CurrentStatus {
				o.Health.Ill = nil
			}
		})
	}
	unhealed := func(reason string) Outcome {
		return and(fails(one, reason), func(o *Outcome) { o.objects.problems = append(o.objects.problems, unreverted(one)) })
	}
	suspended := func(o Outcome) Outcome {
		return and(o, func(o *Outcome) {
			o.vr.Spec.Suspend, o.objects.wanted = true, map[v1alpha1.Subject]bool{one.Subject(): true, two.Subject(): true}
		})
	}
	for name, tc := range map[string]struct {
		reason string
		passes []Outcome
		want   []string
	}{
		"BehindAWatch": {
			"An object is accepted before its kind can be watched.",
			[]Outcome{and(fails(one, v1alpha1.ReasonApplyFailed), func(o *Outcome) { o.watching.Watches = blind.watching.Watches }), blind, well},
			[]string{"WatchFailed", "ApplyFailed ConfigMap shop/a: no", "Recovered ConfigMap shop/a: no", "WatchRestored"},
		},
		"SeenLater": {
			"What is applied is seen a moment after its kind can be watched.",
			[]Outcome{blind, unseen, well}, []string{"WatchFailed", "WatchRestored"},
		},
		"UnderWay": {
			"It is removed, which takes a while.",
			[]Outcome{fails(one, v1alpha1.ReasonPruneFailed), fails(one, v1alpha1.ReasonProgressing), well},
			[]string{"PruneFailed ConfigMap shop/a: no", "Recovered ConfigMap shop/a: no"},
		},
		"FailsAgainWhileUnderWay": {
			"It has not ended in between.",
			[]Outcome{fails(one, v1alpha1.ReasonApplyFailed), fails(one, v1alpha1.ReasonProgressing), fails(one, v1alpha1.ReasonApplyFailed), well},
			[]string{"ApplyFailed ConfigMap shop/a: no", "Recovered ConfigMap shop/a: no"},
		},
		"OneAfterTheOther": {
			"The end of each is told, and told once.",
			[]Outcome{
				and(well, func(o *Outcome) {
					o.objects.problems = []v1alpha1.Problem{wrong(one, v1alpha1.ReasonApplyFailed, "no"), wrong(two, v1alpha1.ReasonApplyFailed, "never")}
				}), fails(one, v1alpha1.ReasonApplyFailed), fails(one, v1alpha1.ReasonProgressing), well,
			},
			[]string{"ApplyFailed ConfigMap shop/a: no; ConfigMap shop/b: never", "Recovered ConfigMap shop/b: never", "Recovered ConfigMap shop/a: no"},
		},
		"ManifestInBetween": {
			"Nothing is known of the objects while it cannot be read.",
			[]Outcome{fails(one, v1alpha1.ReasonApplyFailed), bad, fails(one, v1alpha1.ReasonApplyFailed), well},
			[]string{
				"ApplyFailed ConfigMap shop/a: no", "ManifestInvalid document 1: bad",
				"Recovered document 1: bad", "Recovered ConfigMap shop/a: no",
			},
		},
		"DestinationAndManifest": {
			"Both end.", []Outcome{away, bad, well},
			[]string{"DestinationUnreachable", "DestinationRestored", "ManifestInvalid document 1: bad", "Recovered document 1: bad"},
		},
		"DestinationInBetween": {
			"A problem outlasts the absence of the destination.",
			[]Outcome{fails(one, v1alpha1.ReasonApplyFailed), away, fails(one, v1alpha1.ReasonApplyFailed), away, away, well},
			[]string{
				"ApplyFailed ConfigMap shop/a: no", "DestinationUnreachable", "DestinationRestored",
				"DestinationUnreachable", "DestinationRestored", "Recovered ConfigMap shop/a: no",
			},
		},
		"SuspendedInBetween": {
			"What is not written has not recovered, and drift ends when it is gone.",
			[]Outcome{fails(one, v1alpha1.ReasonApplyFailed), suspended(fails(one, v1alpha1.ReasonSuspended)), suspended(fails(two, v1alpha1.ReasonDriftDetected)), well},
			[]string{"ApplyFailed ConfigMap shop/a: no", "Suspended", "Recovered ConfigMap shop/a: no", "Recovered ConfigMap shop/b: differs", "Resumed"},
		},
		"SuspendedWithAnotherManifest": {
			"A manifest that can be read again, and an object that left it, have no problem.",
			[]Outcome{bad, fails(one, v1alpha1.ReasonApplyFailed), and(suspended(fails(two, v1alpha1.ReasonSuspended)), func(o *Outcome) { delete(o.objects.wanted, one.Subject()) }), well},
			[]string{"ManifestInvalid document 1: bad", "ApplyFailed ConfigMap shop/a: no", "Recovered document 1: bad", "Recovered ConfigMap shop/a: no", "Suspended", "Resumed"},
		},
		"SuspendedWhenItCanBeRead": {
			"The manifest is read while suspended, too.",
			[]Outcome{bad, suspended(well)}, []string{"ManifestInvalid document 1: bad", "Recovered document 1: bad", "Suspended"},
		},
		"HealFails": {
			"What cannot be put back is drifted, and a problem.",
			[]Outcome{unhealed(v1alpha1.ReasonApplyFailed), unhealed(v1alpha1.ReasonProgressing), away, unhealed(v1alpha1.ReasonProgressing), well},
			[]string{"ApplyFailed ConfigMap shop/a: no", "DestinationUnreachable", "DestinationRestored", "Recovered ConfigMap shop/a: no"},
		},
		"BeingDeleted": {
			"The deletion of the VidraResource is no recovery.",
			[]Outcome{fails(one, v1alpha1.ReasonApplyFailed), and(well, func(o *Outcome) { o.Deleting = true }), well},
			[]string{"ApplyFailed ConfigMap shop/a: no", "Recovered ConfigMap shop/a: no"},
		},
		"OtherText": {
			"Another message is news, and one problem ends once.",
			[]Outcome{fails(one, v1alpha1.ReasonApplyFailed), and(fails(one, v1alpha1.ReasonApplyFailed), func(o *Outcome) { o.objects.problems[0].Message = "never" }), well},
			[]string{"ApplyFailed ConfigMap shop/a: no", "ApplyFailed ConfigMap shop/a: never", "Recovered ConfigMap shop/a: never"},
		},
		"SuspendedAlone": {
			"Resumed is its end.", []Outcome{well, suspended(fails(one, v1alpha1.ReasonSuspended)), well}, []string{"Suspended", "Resumed"},
		},
		"Waiting": {
			"Healthy is the end of what is waited for.",
			[]Outcome{healthy(kstatus.FailedStatus), healthy(kstatus.InProgressStatus), healthy(kstatus.CurrentStatus)}, []string{"Unhealthy", "Recovered ConfigMap shop/a: Failed: no", "Healthy"},
		},
		"Drift": {
			"It was changed back, while something else went on.",
			[]Outcome{fails(one, v1alpha1.ReasonDriftDetected), fails(two, v1alpha1.ReasonProgressing), well}, []string{"Recovered ConfigMap shop/a: differs"},
		},
		"DriftAndDestination": {
			"It was changed back while the destination was away.", []Outcome{fails(one, v1alpha1.ReasonDriftDetected), away, well},
			[]string{"DestinationUnreachable", "DestinationRestored", "Recovered ConfigMap shop/a: differs"},
		},
		"Starting": {
			"A watch that starts takes nothing away, and what is healthy is told once.",
			[]Outcome{fails(one, v1alpha1.ReasonApplyFailed), and(well, func(o *Outcome) { o.watching.Watches = watch(watchregistry.Starting) }), well},
			[]string{"ApplyFailed ConfigMap shop/a: no", "Recovered ConfigMap shop/a: no"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var before v1alpha1.VidraResourceStatus
			var got []string
			ready := 0
			for _, o := range tc.passes {
				after := Summarize(before, o)
				for _, e := range toldOf(before, after) {
					told := e.Reason
					if told == events.ReasonReady {
						ready++
						continue
					}
					if events.IsProblem(e.Reason) && e.Reason != v1alpha1.ReasonDestinationUnreachable || e.Reason == events.ReasonRecovered {
						told += " " + strings.TrimPrefix(e.Note, "No longer the case: ")
					}
					got = append(got, told)
				}
				require.Empty(t, toldOf(after, Summarize(after, o)), "a pass that finds the same tells nothing")
				before = after
			}
			require.Equal(t, tc.want, got, tc.reason)
			require.Equal(t, 1, ready, "it is told the first time only")
			require.True(t, meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionReady))
			require.Empty(t, before.LastError)
		})
	}
}
