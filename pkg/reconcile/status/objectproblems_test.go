package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/wanted"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

func TestObjectProblems(t *testing.T) {
	t.Parallel()
	contended := func(delayed bool) *contention.Tracker {
		return &contention.Tracker{Began: time.Now(), Delayed: delayed}
	}
	left := func(until time.Time) *plan.Drift {
		return &plan.Drift{Decision: policy.Leave(policy.BreakGlass, "because", until), Deleted: true}
	}
	keepsChanging := (&contention.Tracker{}).Describe(v1alpha1.IgnoreTarget{})
	type problem struct {
		reason, message  string
		ready, transient bool
	}
	const leftText = "it was deleted. It is not reverted: because"
	cases := map[string]struct {
		reason  string
		state   v1alpha1.ObjectState
		object  func(o *plan.Object)
		pending bool
		want    []problem
	}{
		"Applied": {reason: "Nothing is wrong.", state: v1alpha1.ObjectApplied},
		"Failed": {
			"Ready is False for it.", v1alpha1.ObjectFailed, func(o *plan.Object) { o.Fail(v1alpha1.ReasonApplyFailed, "no") }, false,
			[]problem{{v1alpha1.ReasonApplyFailed, "no", true, false}},
		},
		"Waits": {
			"It ends without a user.", v1alpha1.ObjectDeleting, func(o *plan.Object) { o.Fail(v1alpha1.ReasonProgressing, "is being deleted") }, false,
			[]problem{{v1alpha1.ReasonProgressing, "is being deleted", true, true}},
		},
		"HealFails": {
			"It is not reverted, and that failed.", v1alpha1.ObjectFailed, func(o *plan.Object) { o.Fail(v1alpha1.ReasonApplyFailed, "no") }, true,
			[]problem{{v1alpha1.ReasonApplyFailed, "no", true, false}, {v1alpha1.ReasonDriftDetected, "changed and not reverted yet", false, true}},
		},
		"Skipped": {
			"It is not as applied.", v1alpha1.ObjectDrifted, func(o *plan.Object) { o.Edits.Drift = left(time.Time{}) }, false,
			[]problem{{v1alpha1.ReasonDriftDetected, leftText, true, false}},
		},
		"Exempt": {
			"Break-glass ends without a user.", v1alpha1.ObjectDrifted, func(o *plan.Object) { o.Edits.Drift = left(time.Now().Add(time.Hour)) }, false,
			[]problem{{v1alpha1.ReasonDriftDetected, leftText, true, true}},
		},
		"SkippedBefore": {
			"A restart forgets what differs.", v1alpha1.ObjectDrifted, nil, false,
			[]problem{{v1alpha1.ReasonDriftDetected, "it was changed, and is not reverted", true, false}},
		},
		"Contended": {
			"It is reverted at once, and then as the manifest has it.", v1alpha1.ObjectContended, func(o *plan.Object) { o.Edits.Contention = contended(false) }, true,
			[]problem{{v1alpha1.ReasonDriftContended, keepsChanging, false, false}},
		},
		"Delayed": {
			"It is reverted with a delay.", v1alpha1.ObjectContended, func(o *plan.Object) { o.Edits.Contention = contended(true) }, true,
			[]problem{{v1alpha1.ReasonDriftContended, keepsChanging, true, false}},
		},
		"Additions": {
			"What is the manifest's is applied.", v1alpha1.ObjectApplied, func(o *plan.Object) { o.Edits.Additions = "x was added" }, false,
			[]problem{{v1alpha1.ReasonDriftDetected, "x was added", false, false}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, s, pending := wanted.ConfigMap("a"), &plan.State{}, map[trigger.ObjectKey]trigger.Cause{}
			s.Objects.SetManifest([]*desired.Object{a})
			o := s.Objects.ByID[a.ID]
			o.Entry = fixture.InState(tc.state, "1")
			if tc.object != nil {
				tc.object(o)
			}
			if tc.pending {
				pending[a.Key] = trigger.Cause{}
			}
			var got []problem
			for _, p := range s.ObjectProblems(pending) {
				require.Equal(t, "ConfigMap shop/a", events.ProblemNames([]v1alpha1.Problem{p}, nil)[0])
				require.Equal(t, "v1", p.Object.APIVersion)
				require.Equal(t, p.Reason == v1alpha1.ReasonDriftDetected || p.Reason == v1alpha1.ReasonDriftContended, p.In(v1alpha1.ConditionDrifted))
				got = append(got, problem{p.Reason, p.Message, p.In(v1alpha1.ConditionReady), p.Transient})
			}
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

// TestObjectProblemsNameTheVersion: an object whose kind is not served has the version of the
// manifest, one that left the manifest that of the inventory.
func TestObjectProblemsNameTheVersion(t *testing.T) {
	t.Parallel()
	widget := schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Widget"}
	s := &plan.State{Objects: plan.Objects{Unresolved: []desired.Unresolved{{ID: fixture.IDOf(widget, "shop", "w"), GVK: widget}}}}
	s.Objects.Track(fixture.IDOf(widget, "shop", "w")).Fail(v1alpha1.ReasonKindUnavailable, "is not served")
	old := fixture.IDOf(widget, "shop", "old")
	s.Objects.Track(old).Entry = object.NewEntry(old, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
	s.Objects.Track(old).Fail(v1alpha1.ReasonPruneFailed, "no")
	var got []string
	for _, p := range s.ObjectProblems(nil) {
		got = append(got, events.ProblemNames([]v1alpha1.Problem{p}, nil)[0]+" "+p.Object.APIVersion)
	}
	require.Equal(t, []string{"Widget shop/w example.com/v2", "Widget shop/old example.com/v1"}, got)
}
