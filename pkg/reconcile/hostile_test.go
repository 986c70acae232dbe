package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/internal/fixture"
)

// TestHostileStatus: reconciles of a VidraResource with statuses of another client, before and between them.
func TestHostileStatus(t *testing.T) {
	for seed := range uint64(fixture.HostileSeeds) / 4 {
		l := newLab(t, colors("web", "page"))
		write := func(seed uint64) {
			vr := l.get(t)
			vr.Status = fixture.HostileStatus(seed)
			require.NoError(t, l.client.Status().Update(t.Context(), vr))
		}
		pass := func() {
			require.NotPanics(t, func() {
				if _, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: faulty}); err != nil {
					require.NotContains(t, err.Error(), "panic", "seed %d", seed)
				}
			}, "seed %d", seed)
		}
		write(seed)
		pass()
		pass()
		write(seed + fixture.HostileSeeds)
		pass()
		require.NoError(t, l.client.Delete(t.Context(), l.get(t)))
		for range 3 {
			pass()
		}
	}
}
