package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
)

// TestHostileStatus: the state and the decisions of any status that another client may write.
func TestHostileStatus(t *testing.T) {
	t.Parallel()
	keys := seal.Keys{[]byte(strings.Repeat("k", 32))}
	for seed := range uint64(fixture.HostileSeeds) {
		vr := &v1alpha1.VidraResource{Status: fixture.HostileStatus(seed)}
		ids := map[object.Identity]bool{}
		for i := range vr.Status.ManagedResources {
			ids[object.IdentityOf(&vr.Status.ManagedResources[i])] = true
		}
		require.NotPanics(t, func() {
			s := NewState(vr, keys)
			require.Len(t, s.Entries(), len(ids), "seed %d: each object has one entry", seed)
			s.SetAccount("shop/other", 2)
			s.ObjectProblems(nil)
			s.WarningProblems()
			HealthOf(vr.Status)
			Watched(vr.Status, 1)
			for _, e := range s.Entries() {
				AppliedBefore("vidra/shop", &e)
				policy.OfEdit(vr, e.BreakGlass, time.Hour, time.Now())
			}
		}, "seed %d", seed)
	}
}
