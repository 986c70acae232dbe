package reconcile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

var (
	configMapKind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	configMaps    = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	crdGVK        = crdKind.WithVersion("v1")
)

// wanted is a ConfigMap of a manifest.
func wanted(name string) *desired {
	return &desired{
		id: idOf(configMapKind, "shop", name), gvk: configMapKind, stage: manifest.StageNamespaced,
		key: trigger.ObjectKey{GVR: configMaps, Namespace: "shop", Name: name}, body: []byte(name),
	}
}

func idOf(gvk schema.GroupVersionKind, namespace, name string) identity {
	return identity{GroupKind: gvk.GroupKind(), namespace: namespace, name: name}
}

func inState(state v1alpha1.ObjectState, uid string) *v1alpha1.ManagedResourceStatus {
	return &v1alpha1.ManagedResourceStatus{State: state, UID: uid}
}

// expecting changes what is known of one object.
func expecting(object *desired, known preconditions) func(*planInput) {
	return func(p *planInput) {
		p.preconditions = func(o *objectState) preconditions {
			if o.desired == object {
				return known
			}
			return preconditions{}
		}
	}
}

// desiredOf returns objects as the manifest has them.
func desiredOf(objects []*objectState) (all []*desired) {
	for _, o := range objects {
		all = append(all, o.desired)
	}
	return all
}

func TestMakePlan(t *testing.T) {
	a, b := wanted("a"), wanted("b")
	in := func(entries map[identity]*v1alpha1.ManagedResourceStatus, change func(*planInput)) planInput {
		s := &ownerState{}
		s.setManifest([]*desired{a, b})
		for id, entry := range entries {
			s.track(id).entry = entry
		}
		p := planInput{
			manifest: s.manifest, others: s.others, all: true,
			preconditions: func(*objectState) preconditions { return preconditions{} },
		}
		if change != nil {
			change(&p)
		}
		return p
	}
	inOrder := func() map[identity]*v1alpha1.ManagedResourceStatus {
		return map[identity]*v1alpha1.ManagedResourceStatus{
			a.id: inState(v1alpha1.ObjectApplied, "1"), b.id: inState(v1alpha1.ObjectApplied, "2"),
		}
	}
	drift := trigger.Cause{Deleted: true}
	warned := &skipReason{why: "spec.drift.mode is Warn"}
	cases := map[string]struct {
		reason      string
		in          planInput
		apply       []task
		prune       []identity
		blocked     []*desired
		held        []*desired
		terminating []*desired
	}{
		"InOrder": {reason: "What is applied and unchanged is left alone.", in: in(inOrder(), nil)},
		"New": {
			reason: "What is not in the inventory is created, and what is only announced there too.",
			in:     in(map[identity]*v1alpha1.ManagedResourceStatus{b.id: inState(v1alpha1.ObjectPending, "")}, nil),
			apply:  []task{{desired: a, why: whyNew}, {desired: b, why: whyNew}},
		},
		"Changed": {
			reason: "Only what the manifest changes is applied.",
			in:     in(inOrder(), expecting(b, preconditions{changed: true})),
			apply:  []task{{desired: b, why: whyChanged}},
		},
		"Failed": {
			reason: "What failed is tried again.",
			in: in(map[identity]*v1alpha1.ManagedResourceStatus{
				a.id: inState(v1alpha1.ObjectFailed, "1"), b.id: inState(v1alpha1.ObjectApplied, "2"),
			}, nil),
			apply: []task{{desired: a, why: whyRetry, cause: trigger.Cause{Unsure: true}}},
		},
		"Held": {
			reason: "What failed waits for its time, whatever else happens.",
			in: in(map[identity]*v1alpha1.ManagedResourceStatus{
				a.id: inState(v1alpha1.ObjectFailed, "1"), b.id: inState(v1alpha1.ObjectApplied, "2"),
			}, expecting(a, preconditions{held: true})),
			held: []*desired{a},
		},
		"Drift": {
			reason: "A cause costs one apply, and nothing else is looked at.",
			in: in(map[identity]*v1alpha1.ManagedResourceStatus{
				a.id: inState(v1alpha1.ObjectFailed, "1"), b.id: inState(v1alpha1.ObjectApplied, "2"),
				idOf(configMapKind, "shop", "left"): inState(v1alpha1.ObjectApplied, "3"),
			}, func(p *planInput) {
				p.all, p.causes = false, map[trigger.ObjectKey]trigger.Cause{b.key: drift}
			}),
			apply: []task{{desired: b, why: whyDrift, cause: drift}},
		},
		"Contended": {
			reason: "What somebody changes back waits for its time.",
			in: in(inOrder(), func(p *planInput) {
				p.causes = map[trigger.ObjectKey]trigger.Cause{b.key: drift}
				expecting(b, preconditions{contended: true})(p)
			}),
			held: []*desired{b},
		},
		"ContendedAndChanged": {
			reason: "A changed manifest is applied meanwhile.",
			in:     in(inOrder(), expecting(b, preconditions{contended: true, changed: true})),
			apply:  []task{{desired: b, why: whyChanged}},
		},
		"Left alone": {
			reason: "What is left as it was found is looked at, and stays so at a full look.",
			in: in(map[identity]*v1alpha1.ManagedResourceStatus{
				a.id: inState(v1alpha1.ObjectDrifted, "1"), b.id: inState(v1alpha1.ObjectApplied, "2"),
			}, func(p *planInput) {
				p.causes = map[trigger.ObjectKey]trigger.Cause{b.key: drift}
				expecting(b, preconditions{skip: warned})(p)
			}),
			apply: []task{{desired: b, why: whyDrift, cause: drift, skip: warned}},
		},
		"DriftBehindAChange": {
			reason: "What somebody changed, and what is known of it, is not forgotten for the manifest that changes, too.",
			in: in(inOrder(), func(p *planInput) {
				p.causes = map[trigger.ObjectKey]trigger.Cause{b.key: {Unsure: true}}
				expecting(b, preconditions{changed: true, skip: warned, seen: []ownership.Change{{Path: "data.color"}}})(p)
			}),
			apply: []task{{desired: b, why: whyChanged, cause: trigger.Cause{Unsure: true}, seen: []ownership.Change{{Path: "data.color"}}}},
		},
		"ExemptAndChanged": {
			reason: "A changed manifest is applied under break-glass, too.",
			in:     in(inOrder(), expecting(b, preconditions{changed: true, skip: &skipReason{until: time.Now().Add(time.Hour)}})),
			apply:  []task{{desired: b, why: whyChanged}},
		},
		"NamespaceGoes": {
			reason: "Nothing is put back where everything is being deleted.",
			in: in(inOrder(), func(p *planInput) {
				p.causes = map[trigger.ObjectKey]trigger.Cause{b.key: drift}
				expecting(b, preconditions{terminating: true})(p)
			}),
			terminating: []*desired{b},
		},
		"KindGone": {
			reason:  "What cannot exist is not applied.",
			in:      in(inOrder(), expecting(a, preconditions{gone: true})),
			blocked: []*desired{a},
		},
		"Left": {
			reason: "What left the manifest is removed, last applied first; what waits for its kind has not left.",
			in: in(map[identity]*v1alpha1.ManagedResourceStatus{
				a.id: inState(v1alpha1.ObjectApplied, "1"), b.id: inState(v1alpha1.ObjectApplied, "2"),
				idOf(namespaceKind, "", "old"):                                              inState(v1alpha1.ObjectApplied, "3"),
				idOf(configMapKind, "old", "c"):                                             inState(v1alpha1.ObjectApplied, "4"),
				idOf(crdGVK, "", "widgets.example.com"):                                     inState(v1alpha1.ObjectApplied, "5"),
				{GroupKind: schema.GroupKind{Kind: "Widget"}, namespace: "shop", name: "w"}: inState(v1alpha1.ObjectPending, "6"),
			}, func(p *planInput) {
				p.unresolved = []unresolved{{id: identity{GroupKind: schema.GroupKind{Kind: "Widget"}, name: "w"}}}
			}),
			prune: []identity{
				idOf(configMapKind, "old", "c"), idOf(crdGVK, "", "widgets.example.com"), idOf(namespaceKind, "", "old"),
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := makePlan(tc.in)
			for i := range got.apply {
				require.Same(t, got.apply[i].desired, got.apply[i].known.desired)
				got.apply[i].known = nil
			}
			require.Equal(t, tc.apply, got.apply, tc.reason)
			require.Equal(t, tc.prune, got.prune, tc.reason)
			require.Equal(t, tc.blocked, desiredOf(got.blocked), tc.reason)
			require.Equal(t, tc.held, desiredOf(got.held), tc.reason)
			require.Equal(t, tc.terminating, desiredOf(got.terminating), tc.reason)
		})
	}
}

func TestSummarize(t *testing.T) {
	now := time.Now()
	watch := watchregistry.Key{GVR: configMaps}
	id := idOf(configMapKind, "shop", "a")
	watches := func(s watchregistry.Status) map[watchregistry.Key]watchregistry.Status {
		return map[watchregistry.Key]watchregistry.Status{watch: s}
	}
	synced := watches(watchregistry.Status{State: watchregistry.Synced})
	failed := func(reason string) outcome {
		return outcome{watched: true, watches: synced, order: []identity{id}, failures: map[identity]failure{id: {reason, "no"}}}
	}
	cases := map[string]struct {
		reason string
		in     outcome
		ready  string // status/reason
		other  map[string]string
		deploy v1alpha1.DeployState
	}{
		"InOrder": {
			"Everything is applied and watched.", outcome{watched: true, watches: synced}, "True/Applied",
			map[string]string{v1alpha1.ConditionWatching: "True/Synced", v1alpha1.ConditionDrifted: "False/InSync"}, v1alpha1.DeploySucceeded,
		},
		"Unwatched": {
			"Who switched events off is ready without a watch.", outcome{}, "True/Applied",
			map[string]string{v1alpha1.ConditionWatching: "False/EventsOff"}, v1alpha1.DeploySucceeded,
		},
		"Starting": {
			"Ready means seen live.", outcome{watched: true, watches: watches(watchregistry.Status{State: watchregistry.Starting})}, "False/Starting",
			map[string]string{v1alpha1.ConditionReconciling: "True/Starting"}, v1alpha1.DeployRunning,
		},
		"Restarts": {
			"A restart of Vidra does not rewrite every status: what was watched will be.",
			outcome{watched: true, generation: 1, now: now, watches: watches(watchregistry.Status{State: watchregistry.Starting, Since: now})},
			"True/Applied", map[string]string{v1alpha1.ConditionWatching: "True/Synced"}, v1alpha1.DeploySucceeded,
		},
		"RestartsWithAnotherGeneration": {
			"The manifest may have a kind that was never watched.",
			outcome{watched: true, generation: 2, now: now, watches: watches(watchregistry.Status{State: watchregistry.Starting, Since: now})},
			"False/Starting", nil, v1alpha1.DeployRunning,
		},
		"DoesNotStart": {
			"A watch that takes long to start is said after a while.",
			outcome{watched: true, generation: 1, now: now, watches: watches(watchregistry.Status{
				State: watchregistry.Starting, Since: now.Add(-watchGrace),
			})}, "False/Starting", nil, v1alpha1.DeployRunning,
		},
		"Forbidden": {
			"What may not be watched cannot be kept.",
			outcome{watched: true, watches: watches(watchregistry.Status{State: watchregistry.Degraded, Reason: watchregistry.ReasonForbidden, Since: now})},
			"False/WatchFailed", map[string]string{v1alpha1.ConditionWatching: "False/WatchFailed"}, v1alpha1.DeployFailed,
		},
		"APIServerRestarts": {
			"A restart of the API server does not rewrite every status.",
			outcome{watched: true, generation: 1, now: now, watches: watches(watchregistry.Status{
				State: watchregistry.Degraded, Reason: watchregistry.ReasonUnavailable, Since: now.Add(-watchGrace / 2),
			})}, "True/Applied", nil, v1alpha1.DeploySucceeded,
		},
		"APIServerStaysAway": {
			"An outage is said after a while.",
			outcome{watched: true, generation: 1, now: now, watches: watches(watchregistry.Status{
				State: watchregistry.Degraded, Reason: watchregistry.ReasonUnavailable, Since: now.Add(-watchGrace),
			})}, "False/WatchFailed", nil, v1alpha1.DeployFailed,
		},
		"Invalid": {
			"Only the author can mend the manifest.", outcome{stalled: &failure{v1alpha1.ReasonManifestInvalid, "line 3"}}, "False/ManifestInvalid",
			map[string]string{v1alpha1.ConditionStalled: "True/ManifestInvalid"}, v1alpha1.DeployFailed,
		},
		"InvalidAndChanged": {
			"What somebody changes meanwhile is said, too.", outcome{
				stalled: &failure{v1alpha1.ReasonManifestInvalid, "line 3"}, compared: true, order: []identity{id},
				failures: map[identity]failure{id: {v1alpha1.ReasonDriftDetected, "it was deleted"}},
			}, "False/ManifestInvalid",
			map[string]string{v1alpha1.ConditionDrifted: "True/DriftDetected"}, v1alpha1.DeployFailed,
		},
		"InvalidAndSuspended": {
			"That the user paused does not wait for the manifest.",
			outcome{stalled: &failure{v1alpha1.ReasonManifestInvalid, "line 3"}, suspended: true}, "False/ManifestInvalid",
			map[string]string{v1alpha1.ConditionSuspended: "True/Suspended", v1alpha1.ConditionDrifted: ""}, v1alpha1.DeployFailed,
		},
		"AwayAndSuspended": {
			"Nor for the destination.",
			outcome{blocked: &failure{v1alpha1.ReasonDestinationUnreachable, "no answer"}, suspended: true}, "False/DestinationUnreachable",
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
			"What waits is said.", outcome{
				watched: true, watches: synced, suspended: true, order: []identity{id},
				failures: map[identity]failure{id: {v1alpha1.ReasonSuspended, "waits"}},
			}, "False/Suspended", map[string]string{v1alpha1.ConditionSuspended: "True/Suspended"}, v1alpha1.DeployStale,
		},
		"UnmatchedRule": {
			"A rule that matches nothing is said.", outcome{watched: true, watches: synced, unmatched: []string{"spec.drift.ignore[0]"}}, "True/Applied",
			map[string]string{v1alpha1.ConditionUnmatchedIgnoreRules: "True/NothingMatches"}, v1alpha1.DeploySucceeded,
		},
		"Drifted": {
			"A drift that could not be put back is said.",
			outcome{watched: true, watches: synced, drifted: []identity{id}, order: []identity{id}}, "True/Applied",
			map[string]string{v1alpha1.ConditionDrifted: "True/DriftDetected"}, v1alpha1.DeploySucceeded,
		},
		"Unjudged": {
			"What is not looked at yet may be as it was.", outcome{watched: true, watches: synced, unjudged: true}, "True/Applied",
			map[string]string{v1alpha1.ConditionDrifted: ""}, v1alpha1.DeploySucceeded,
		},
		"Deleting": {"It waits for its objects.", outcome{deleting: true}, "False/Deleting", nil, v1alpha1.DeployRunning},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := v1alpha1.VidraResourceStatus{LastError: "an old error", ObservedGeneration: 1, Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionWatching, Status: metav1.ConditionTrue},
			}}
			after := summarize(before, tc.in)
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
			require.Equal(t, after, summarize(after, tc.in), "a pass that finds the same writes nothing")
		})
	}
}

// asking has rights asked for by a client.
func asking(client dynamic.Interface, rights ...access) map[access]dynamic.Interface {
	all := map[access]dynamic.Interface{}
	for _, right := range rights {
		all[right] = client
	}
	return all
}
