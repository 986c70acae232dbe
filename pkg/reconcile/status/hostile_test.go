package status

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
)

// TestHostileStatus: the next status after any that another client may write.
func TestHostileStatus(t *testing.T) {
	t.Parallel()
	keys := seal.Keys{[]byte(strings.Repeat("k", 32))}
	for seed := range uint64(fixture.HostileSeeds) {
		before, other, now := fixture.HostileStatus(seed), fixture.HostileStatus(seed+fixture.HostileSeeds), time.Now()
		vr := &v1alpha1.VidraResource{Status: before}
		require.NotPanics(t, func() {
			s := plan.NewState(vr, keys)
			TooLarge(vr, &s, 0)
			for _, o := range []Outcome{
				{vr: of(0, unwatched)}, {vr: of(0, unwatched), All: true}, {All: true, Synced: true}, {vr: of(0, unwatched), Deleting: true, All: true}, {vr: of(0, v1alpha1.VidraResourceSpec{Suspend: true}), All: true}, {vr: of(0, v1alpha1.VidraResourceSpec{Wait: true}), Health: &plan.HealthReport{}, All: true},
				{Obstacles: Obstacles{Blocked: &object.Failure{Reason: v1alpha1.ReasonApplyFailed}}, All: true}, {objects: objectFacts{unjudged: true}},
			} {
				o.now, o.objects.entries, o.objects.problems = now, s.Entries(), other.Problems
				after := Summarize(before, o)
				Changed(before, after)
				Same(before, after)
			}
			Failing(before, other.Problems, now)
			Applying(before, s.Entries(), seed%2 == 0, now)
			Changed(before, other)
			_, err := Patch(before, other, "a", "1")
			require.NoError(t, err)
		}, "seed %d", seed)
	}
}
