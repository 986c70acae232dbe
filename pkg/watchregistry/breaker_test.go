package watchregistry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// waited is how long a breaker has its next attempt wait.
func waited(t *testing.T, b *breaker) time.Duration {
	t.Helper()
	start := time.Now()
	require.NoError(t, b.wait(t.Context()))
	return time.Since(start)
}

func TestBreakerBacksOff(t *testing.T) {
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
				b := newBreaker()
				require.Zero(t, waited(t, b), "the first attempt is made at once")
				b.trip(tc.reason, 0)
				first := waited(t, b)
				require.LessOrEqual(t, first, 2*schedules[tc.reason].Duration, "the second soon")
				for range 20 {
					b.trip(tc.reason, 0)
					waited(t, b)
				}
				different := map[time.Duration]struct{}{}
				for range 5 {
					b.trip(tc.reason, 0)
					wait := waited(t, b)
					require.GreaterOrEqual(t, wait, tc.least)
					require.LessOrEqual(t, wait, tc.most)
					different[wait] = struct{}{}
				}
				require.Greater(t, len(different), 1, "watches that fail together do not try again together")
				b.reset()
				require.Zero(t, waited(t, b), "success forgets")
				b.trip(tc.reason, 0)
				require.LessOrEqual(t, waited(t, b), 2*schedules[tc.reason].Duration)
			})
		})
	}
}

func TestBreakerIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		for range 20 {
			b.trip(ReasonForbidden, 0)
		}
		b.wake()
		early := waited(t, b)
		require.GreaterOrEqual(t, early, schedules[ReasonForbidden].Duration, "early, but not in a loop")
		require.Less(t, early, 2*schedules[ReasonForbidden].Duration)
		b.trip(ReasonUnavailable, 30*time.Second)
		b.wake()
		require.GreaterOrEqual(t, waited(t, b), 30*time.Second, "what the API server asks for is kept")
	})
}

func TestBreakerEndsWithItsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		b.trip(ReasonForbidden, time.Hour)
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
	b := newBreaker()
	b.trip(ReasonForbidden, 0)
	for _, at := range []time.Time{b.until, b.floor} {
		require.Contains(t, at.String(), " m=")
	}
	b.hold(time.Second)
	require.Contains(t, b.until.String(), " m=")
}
