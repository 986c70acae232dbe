package reconcile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
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
		s := &vrState{}
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

// asking has rights asked for by a client.
func asking(client dynamic.Interface, rights ...access) map[access]dynamic.Interface {
	all := map[access]dynamic.Interface{}
	for _, right := range rights {
		all[right] = client
	}
	return all
}
