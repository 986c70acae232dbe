package reconcile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestEarliest(t *testing.T) {
	t.Parallel()
	now := time.Now()
	cases := map[string]struct {
		reason string
		wakes  []wake
		want   wake
	}{
		"First":  {"The first one wakes.", []wake{{now.Add(2), wakeResync}, {now.Add(1), wakeRetry}, {now.Add(3), wakeFlush}}, wake{now.Add(1), wakeRetry}},
		"NoTime": {"What is not to be done has no time.", []wake{{time.Time{}, wakeRetry}, {now, wakeResync}}, wake{now, wakeResync}},
	}
	for name, tc := range cases {
		require.Equal(t, tc.want, earliest(tc.wakes), "%s: %s", name, tc.reason)
	}
}

// TestAttempted shows when what failed is tried again.
func TestAttempted(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var s schedule
	s.attempted(true, true, now)
	require.WithinRange(t, s.retry, now.Add(retryMin), now.Add(2*retryMin))
	first := s
	s.attempted(true, false, now)
	require.Equal(t, first, s, "a failure before it is due does not postpone it")
	s.attempted(false, false, now)
	require.Equal(t, first, s, "a reconcile of some objects does not end it")
	for range 50 {
		now = s.retry
		s.attempted(true, true, now)
	}
	require.WithinRange(t, s.retry, now.Add(retryMax/2), now.Add(retryMax+retryMax/4))
	s.attempted(false, true, now)
	require.Equal(t, schedule{}, s, "nothing is left to be retried")
}

// TestErrorsAreRetriedSoon: a reconcile that returned an error, for instance because its
// status could not be written, is repeated after retryMax at the latest.
func TestErrorsAreRetriedSoon(t *testing.T) {
	t.Parallel()
	limiter, request := newRateLimiter(), reconcile.Request{NamespacedName: faulty}
	require.LessOrEqual(t, limiter.When(request), errorRetryMin)
	longest := time.Duration(0)
	for range errorRetryBurst / 2 {
		longest = max(longest, limiter.When(request))
	}
	require.Equal(t, retryMax, longest)
}
