package reconcile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestObjectStateLives shows how long the state of an object is kept, and where it is listed.
func TestObjectStateLives(t *testing.T) {
	t.Parallel()
	a, b := wanted("a"), wanted("b")
	cases := map[string]struct {
		reason string
		change func(o *objectState)
		kept   bool
	}{
		"Nothing":    {"Nothing refers to it.", func(*objectState) {}, false},
		"Health":     {"The health of an object that is gone is of no use.", func(o *objectState) { o.lastHealth = &trigger.Health{} }, false},
		"Inventory":  {"It has to be removed.", func(o *objectState) { o.entry = inState(v1alpha1.ObjectApplied, "1") }, true},
		"Problem":    {"A condition names it.", func(o *objectState) { o.fail(v1alpha1.ReasonKindUnavailable, "no") }, true},
		"Drift":      {"Its time has to be kept.", func(o *objectState) { o.drift = &drift{skipReason: skipReason{until: time.Now()}} }, true},
		"Contention": {"The trigger has to be told of its end.", func(o *objectState) { o.contention = contention.New() }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &vrState{}
			s.setManifest([]*desired{a, b})
			o := s.objects[b.id]
			s.setManifest([]*desired{a})
			require.Equal(t, []*objectState{s.objects[a.id]}, s.manifest)
			require.Equal(t, []*objectState{o}, s.others)
			require.Nil(t, o.desired)
			tc.change(o)
			s.forgetUnused()
			if !tc.kept {
				require.Empty(t, s.others, tc.reason)
				require.Len(t, s.objects, 1)
				return
			}
			require.Same(t, o, s.track(b.id), tc.reason)
			s.setManifest([]*desired{b, a})
			require.Equal(t, []*objectState{o, s.objects[a.id]}, s.manifest, "the manifest has it again, in its order")
			require.Empty(t, s.others)
			require.Len(t, s.objects, 2)
		})
	}
}
