package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/wanted"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestObjectStateLives shows how long the state of an object is kept, and where it is listed.
func TestObjectStateLives(t *testing.T) {
	t.Parallel()
	a, b := wanted.ConfigMap("a"), wanted.ConfigMap("b")
	cases := map[string]struct {
		reason string
		change func(o *Object)
		kept   bool
	}{
		"Nothing":    {"Nothing refers to it.", func(*Object) {}, false},
		"Health":     {"The health of an object that is gone is of no use.", func(o *Object) { o.Seen.answer.health = &trigger.Health{} }, false},
		"Inventory":  {"It has to be removed.", func(o *Object) { o.Entry = fixture.InState(v1alpha1.ObjectApplied, "1") }, true},
		"Problem":    {"A condition names it.", func(o *Object) { o.Fail(v1alpha1.ReasonKindUnavailable, "no") }, true},
		"Drift":      {"Its time has to be kept.", func(o *Object) { o.Edits.Drift = &Drift{Decision: policy.Leave(policy.BreakGlass, "", time.Now())} }, true},
		"Contention": {"The trigger has to be told of its end.", func(o *Object) { o.Edits.Contention = contention.New() }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &State{}
			s.Objects.SetManifest([]*desired.Object{a, b})
			o := s.Objects.ByID[b.ID]
			s.Objects.SetManifest([]*desired.Object{a})
			require.Equal(t, []*Object{s.Objects.ByID[a.ID]}, s.Objects.Manifest)
			require.Equal(t, []*Object{o}, s.Objects.Others)
			require.Nil(t, o.Desired)
			tc.change(o)
			s.Objects.ForgetUnused()
			if !tc.kept {
				require.Empty(t, s.Objects.Others, tc.reason)
				require.Len(t, s.Objects.ByID, 1)
				return
			}
			require.Same(t, o, s.Objects.Track(b.ID), tc.reason)
			s.Objects.SetManifest([]*desired.Object{b, a})
			require.Equal(t, []*Object{o, s.Objects.ByID[a.ID]}, s.Objects.Manifest, "the manifest has it again, in its order")
			require.Empty(t, s.Objects.Others)
			require.Len(t, s.Objects.ByID, 2)
		})
	}
}

// TestKnowledgeEndsWithItsCause: the knowledge about a departure ends when the manifest has the object again, and all remarks when Vidra leaves
// the object.
func TestKnowledgeEndsWithItsCause(t *testing.T) {
	t.Parallel()
	a := wanted.ConfigMap("a")
	s := &State{}
	s.Objects.SetManifest([]*desired.Object{a})
	o := s.Objects.ByID[a.ID]
	o.Entry = fixture.InState(v1alpha1.ObjectApplied, "1")
	s.Objects.SetManifest(nil)
	o.Departure = Departure{At: time.Now(), Received: true, KindGoneSince: time.Now(), Note: "it holds an object that stays"}
	s.Objects.SetManifest([]*desired.Object{a})
	require.Empty(t, o.Departure, "the next removal has to find it anew that the kind is unserved")
	s.Objects.SetManifest(nil)
	o.Departure = Departure{At: time.Now(), KindGoneSince: time.Now()}
	unserved := a.ID
	unserved.Namespace = "" // the manifest leaves it to the destination, and the scope of the kind is unknown
	s.Objects.SetUnresolved([]desired.Unresolved{{ID: unserved}})
	require.Empty(t, o.Departure, "an object of an unserved kind is in the manifest, too")
	o.Remarks = Remarks{Warnings: []string{"deprecated"}, Known: true}
	o.Leave()
	require.Equal(t, Remarks{Known: true}, o.Remarks, "the warnings in the status end, too")
}
