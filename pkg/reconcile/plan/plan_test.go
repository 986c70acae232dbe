package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/wanted"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// expecting changes what is known of one object.
func expecting(object *desired.Object, known preconditions) func(*Input) {
	return func(p *Input) {
		p.preconditions = func(o *Object) preconditions {
			if o.Desired == object {
				return known
			}
			return preconditions{}
		}
	}
}

// desiredOf returns objects as the manifest has them.
func desiredOf(objects []*Object) (all []*desired.Object) {
	for _, o := range objects {
		all = append(all, o.Desired)
	}
	return all
}

func TestMakePlan(t *testing.T) {
	a, b := wanted.ConfigMap("a"), wanted.ConfigMap("b")
	in := func(entries map[object.Identity]*v1alpha1.ManagedResourceStatus, change func(*Input)) Input {
		s := &State{}
		s.Objects.SetManifest([]*desired.Object{a, b})
		for id, entry := range entries {
			s.Objects.Track(id).Entry = entry
		}
		p := Input{
			objects: &s.Objects, all: true,
			preconditions: func(*Object) preconditions { return preconditions{} },
		}
		if change != nil {
			change(&p)
		}
		return p
	}
	inOrder := func() map[object.Identity]*v1alpha1.ManagedResourceStatus {
		return map[object.Identity]*v1alpha1.ManagedResourceStatus{
			a.ID: fixture.InState(v1alpha1.ObjectApplied, "1"), b.ID: fixture.InState(v1alpha1.ObjectApplied, "2"),
		}
	}
	drift := trigger.Cause{Deleted: true}
	warned := policy.Leave(policy.Mode, "spec.drift.mode is Warn", time.Time{})
	cases := map[string]struct {
		reason      string
		in          Input
		apply       []Task
		prune       []object.Identity
		blocked     []*desired.Object
		held        []*desired.Object
		terminating []*desired.Object
	}{
		"InOrder": {reason: "What is applied and unchanged is left alone.", in: in(inOrder(), nil)},
		"New": {
			reason: "What is not in the inventory is created, and what is only announced there too.",
			in:     in(map[object.Identity]*v1alpha1.ManagedResourceStatus{b.ID: fixture.InState(v1alpha1.ObjectPending, "")}, nil),
			apply:  []Task{{Object: a, Why: WhyNew}, {Object: b, Why: WhyNew, Begun: true}},
		},
		"Changed": {
			reason: "Only what the manifest changes is applied.",
			in:     in(inOrder(), expecting(b, preconditions{changed: true})),
			apply:  []Task{{Object: b, Why: WhyChanged}},
		},
		"Failed": {
			reason: "What failed is tried again.",
			in: in(map[object.Identity]*v1alpha1.ManagedResourceStatus{
				a.ID: fixture.InState(v1alpha1.ObjectFailed, "1"), b.ID: fixture.InState(v1alpha1.ObjectApplied, "2"),
			}, nil),
			apply: []Task{{Object: a, Why: WhyRetry, Cause: trigger.Cause{Unsure: true}}},
		},
		"Held": {
			reason: "What failed waits for its time, whatever else happens.",
			in: in(map[object.Identity]*v1alpha1.ManagedResourceStatus{
				a.ID: fixture.InState(v1alpha1.ObjectFailed, "1"), b.ID: fixture.InState(v1alpha1.ObjectApplied, "2"),
			}, expecting(a, preconditions{held: true})),
			held: []*desired.Object{a},
		},
		"Drift": {
			reason: "A cause costs one apply, and nothing else is looked at.",
			in: in(map[object.Identity]*v1alpha1.ManagedResourceStatus{
				a.ID: fixture.InState(v1alpha1.ObjectFailed, "1"), b.ID: fixture.InState(v1alpha1.ObjectApplied, "2"),
				fixture.IDOf(fixture.ConfigMapKind, "shop", "left"): fixture.InState(v1alpha1.ObjectApplied, "3"),
			}, func(p *Input) {
				p.all, p.causes = false, map[trigger.ObjectKey]trigger.Cause{b.Key: drift}
			}),
			apply: []Task{{Object: b, Why: WhyDrift, Cause: drift}},
		},
		"BackWhileDeleted": {
			reason: "The end of Vidra's own deletion is no edit.",
			in: in(map[object.Identity]*v1alpha1.ManagedResourceStatus{
				a.ID: fixture.InState(v1alpha1.ObjectDeleting, "1"), b.ID: fixture.InState(v1alpha1.ObjectApplied, "2"),
			}, func(p *Input) { p.causes = map[trigger.ObjectKey]trigger.Cause{a.Key: drift} }),
			apply: []Task{{Object: a, Why: WhyRetry, Cause: trigger.Cause{Unsure: true}}},
		},
		"BackWhileReplaced": {
			reason: "Nor is the one of a deletion for a replacement, if the manifest has the former configuration again.",
			in: in(map[object.Identity]*v1alpha1.ManagedResourceStatus{
				a.ID: {State: v1alpha1.ObjectApplied, UID: "1", Recreated: &v1alpha1.RecreatedStatus{Configuration: "other", UID: "1"}}, b.ID: fixture.InState(v1alpha1.ObjectApplied, "2"),
			}, func(p *Input) { p.causes = map[trigger.ObjectKey]trigger.Cause{a.Key: drift} }),
			apply: []Task{{Object: a, Why: WhyRetry, Cause: trigger.Cause{Unsure: true}}},
		},
		"ChangedWhileDeleted": {
			reason: "Nor is it with another configuration.",
			in: in(map[object.Identity]*v1alpha1.ManagedResourceStatus{
				a.ID: fixture.InState(v1alpha1.ObjectDeleting, "1"), b.ID: fixture.InState(v1alpha1.ObjectApplied, "2"),
			}, func(p *Input) {
				p.causes = map[trigger.ObjectKey]trigger.Cause{a.Key: drift}
				expecting(a, preconditions{changed: true})(p)
			}),
			apply: []Task{{Object: a, Why: WhyChanged, Cause: trigger.Cause{Unsure: true}}},
		},
		"Contended": {
			reason: "What another writer changes again waits for its time.",
			in: in(inOrder(), func(p *Input) {
				p.causes = map[trigger.ObjectKey]trigger.Cause{b.Key: drift}
				expecting(b, preconditions{contended: true})(p)
			}),
			held: []*desired.Object{b},
		},
		"ContendedAndChanged": {
			reason: "A changed manifest is applied meanwhile.",
			in:     in(inOrder(), expecting(b, preconditions{contended: true, changed: true})),
			apply:  []Task{{Object: b, Why: WhyChanged}},
		},
		"Left alone": {
			reason: "What is left as it was found is looked at, and stays so at a full look.",
			in: in(map[object.Identity]*v1alpha1.ManagedResourceStatus{
				a.ID: fixture.InState(v1alpha1.ObjectDrifted, "1"), b.ID: fixture.InState(v1alpha1.ObjectApplied, "2"),
			}, func(p *Input) {
				p.causes = map[trigger.ObjectKey]trigger.Cause{b.Key: drift}
				expecting(b, preconditions{decision: warned})(p)
			}),
			apply: []Task{{Object: b, Why: WhyDrift, Cause: drift, Decision: warned}},
		},
		"DriftBehindAChange": {
			reason: "What another writer changed, and what is known of it, is not forgotten when the manifest changes, too.",
			in: in(inOrder(), func(p *Input) {
				p.causes = map[trigger.ObjectKey]trigger.Cause{b.Key: {Unsure: true}}
				expecting(b, preconditions{changed: true, decision: warned, seen: []ownership.Change{{Path: "data.color"}}})(p)
			}),
			apply: []Task{{Object: b, Why: WhyChanged, Cause: trigger.Cause{Unsure: true}, Seen: []ownership.Change{{Path: "data.color"}}}},
		},
		"ChangedAgain": {
			reason: "The apply before failed, and has met an edit.",
			in: in(inOrder(), func(p *Input) {
				p.objects.Manifest[1].Attempts.Unlisted = &trigger.Cause{Unsure: true, Since: time.Unix(1, 0)}
				expecting(b, preconditions{changed: true})(p)
			}),
			apply: []Task{{Object: b, Why: WhyChanged, Cause: trigger.Cause{Unsure: true, Since: time.Unix(1, 0)}}},
		},
		"ChangedAndEditedAgain": {
			reason: "The object is as the later edit left it, since the first one.",
			in: in(inOrder(), func(p *Input) {
				p.objects.Manifest[1].Attempts.Unlisted = &trigger.Cause{Unsure: true, Since: time.Unix(1, 0)}
				p.causes = map[trigger.ObjectKey]trigger.Cause{b.Key: {Deleted: true, Since: time.Unix(2, 0)}}
				expecting(b, preconditions{changed: true})(p)
			}),
			apply: []Task{{Object: b, Why: WhyChanged, Cause: trigger.Cause{Deleted: true, Since: time.Unix(1, 0)}}},
		},
		"ExemptAndChanged": {
			reason: "A changed manifest is applied under break-glass, too.",
			in:     in(inOrder(), expecting(b, preconditions{changed: true, decision: policy.Leave(policy.BreakGlass, "", time.Now().Add(time.Hour))})),
			apply:  []Task{{Object: b, Why: WhyChanged}},
		},
		"NamespaceGoes": {
			reason: "Nothing is reverted where everything is being deleted.",
			in: in(inOrder(), func(p *Input) {
				p.causes = map[trigger.ObjectKey]trigger.Cause{b.Key: drift}
				expecting(b, preconditions{terminating: true})(p)
			}),
			terminating: []*desired.Object{b},
		},
		"KindGone": {
			reason:  "What cannot exist is not applied.",
			in:      in(inOrder(), expecting(a, preconditions{gone: true})),
			blocked: []*desired.Object{a},
		},
		"Left": {
			reason: "What left the manifest is removed, last applied first; what waits for its kind has not left.",
			in: in(map[object.Identity]*v1alpha1.ManagedResourceStatus{
				a.ID: fixture.InState(v1alpha1.ObjectApplied, "1"), b.ID: fixture.InState(v1alpha1.ObjectApplied, "2"),
				fixture.IDOf(fixture.NamespaceKind, "", "old"):                              fixture.InState(v1alpha1.ObjectApplied, "3"),
				fixture.IDOf(fixture.ConfigMapKind, "old", "c"):                             fixture.InState(v1alpha1.ObjectApplied, "4"),
				fixture.IDOf(fixture.CRDGVK, "", "widgets.example.com"):                     fixture.InState(v1alpha1.ObjectApplied, "5"),
				{GroupKind: schema.GroupKind{Kind: "Widget"}, Namespace: "shop", Name: "w"}: fixture.InState(v1alpha1.ObjectPending, "6"),
			}, func(p *Input) {
				p.objects.Unresolved = []desired.Unresolved{{ID: object.Identity{GroupKind: schema.GroupKind{Kind: "Widget"}, Name: "w"}}}
			}),
			prune: []object.Identity{
				fixture.IDOf(fixture.ConfigMapKind, "old", "c"), fixture.IDOf(fixture.CRDGVK, "", "widgets.example.com"), fixture.IDOf(fixture.NamespaceKind, "", "old"),
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Make(tc.in)
			for i := range got.Apply {
				require.Same(t, got.Apply[i].Object, got.Apply[i].Known.Desired)
				got.Apply[i].Known = nil
			}
			require.Equal(t, tc.apply, got.Apply, tc.reason)
			require.Equal(t, tc.prune, got.Prune, tc.reason)
			require.Equal(t, tc.blocked, desiredOf(got.Blocked), tc.reason)
			require.Equal(t, tc.held, desiredOf(got.Held), tc.reason)
			require.Equal(t, tc.terminating, desiredOf(got.Terminating), tc.reason)
		})
	}
}
