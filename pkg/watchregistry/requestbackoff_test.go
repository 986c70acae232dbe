package watchregistry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// waited returns how long the next attempt waits.
func waited(t *testing.T, b *requestBackoff) time.Duration {
	t.Helper()
	start := time.Now()
	require.NoError(t, b.wait(t.Context()))
	return time.Since(start)
}

func TestRequestBackoffGrows(t *testing.T) {
	cases := map[string]struct {
		reason      Reason
		least, most time.Duration
	}{
		"Forbidden":   {ReasonForbidden, 2 * time.Minute, 3 * time.Minute},
		"NotFound":    {ReasonNotFound, 2 * time.Minute, 3 * time.Minute},
		"Unavailable": {ReasonUnavailable, 15 * time.Second, 23 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newRequestBackoff()
				require.Zero(t, waited(t, b), "the first attempt is made at once")
				b.failed(tc.reason, 0)
				first := waited(t, b)
				require.LessOrEqual(t, first, 2*retrySchedules[tc.reason].Duration, "the second soon")
				for range 20 {
					b.failed(tc.reason, 0)
					waited(t, b)
				}
				different := map[time.Duration]struct{}{}
				for range 5 {
					b.failed(tc.reason, 0)
					wait := waited(t, b)
					require.GreaterOrEqual(t, wait, tc.least)
					require.LessOrEqual(t, wait, tc.most)
					different[wait] = struct{}{}
				}
				require.Greater(t, len(different), 1, "watches that fail together do not try again together")
				b.reset()
				require.Zero(t, waited(t, b), "success forgets")
				b.failed(tc.reason, 0)
				require.LessOrEqual(t, waited(t, b), 2*retrySchedules[tc.reason].Duration)
			})
		})
	}
}

// TestRequestBackoffOfAProxy: a watch is resumed soon, although the last answer had clients wait for an hour.
func TestRequestBackoffOfAProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRequestBackoff()
		b.failed(ReasonUnavailable, time.Hour)
		require.LessOrEqual(t, waited(t, b), time.Minute)
	})
}

func TestRequestBackoffEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRequestBackoff()
		for range 20 {
			b.failed(ReasonForbidden, 0)
		}
		b.retryNow()
		early := waited(t, b)
		require.GreaterOrEqual(t, early, retrySchedules[ReasonForbidden].Duration, "early, but not in a loop")
		require.Less(t, early, 2*retrySchedules[ReasonForbidden].Duration)
		b.failed(ReasonUnavailable, 30*time.Second)
		b.retryNow()
		require.GreaterOrEqual(t, waited(t, b), 30*time.Second, "what the API server asks for is kept")
	})
}

func TestRequestBackoffEndsWithItsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRequestBackoff()
		b.failed(ReasonForbidden, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.Error(t, b.wait(ctx))
		require.Equal(t, time.Second, time.Since(start))
	})
}

// TestF24ClockThatJumps: nothing that is waited for depends on the time of day. A
// time.Time with a reading of the monotonic clock prints it.
func TestF24ClockThatJumps(t *testing.T) {
	t.Parallel()
	b := newRequestBackoff()
	b.failed(ReasonForbidden, 0)
	for _, at := range []time.Time{b.until, b.earliest} {
		require.Contains(t, at.String(), " m=")
	}
	b.delay(time.Second)
	require.Contains(t, b.until.String(), " m=")
}
