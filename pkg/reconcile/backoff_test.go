package reconcile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
)

// TestErrorsAreRetriedSoon: a reconcile that returned an error, for instance because its
// status could not be written, is repeated after limits.RetryMax at the latest.
func TestErrorsAreRetriedSoon(t *testing.T) {
	t.Parallel()
	limiter, request := limits.NewRateLimiter(), reconcile.Request{NamespacedName: faulty}
	require.LessOrEqual(t, limiter.When(request), limits.ErrorRetryMin)
	longest := time.Duration(0)
	for range limits.ErrorRetryBurst / 2 {
		longest = max(longest, limiter.When(request))
	}
	require.Equal(t, limits.RetryMax, longest)
}
