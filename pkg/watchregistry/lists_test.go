package watchregistry

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSilentListGivesUpItsPlace fills all places with lists that nobody answers.
func TestSilentListGivesUpItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLists()
		var silent atomic.Int64
		var stalled []*place
		for range maxLists {
			p, err := l.enter(t.Context(), func() { silent.Add(1) })
			require.NoError(t, err)
			stalled = append(stalled, p)
		}
		ctx, cancel := context.WithTimeout(t.Context(), silence-time.Millisecond)
		defer cancel()
		_, err := l.enter(ctx, func() {})
		require.Error(t, err, "all places are taken")

		time.Sleep(time.Millisecond) // of the bubble's clock
		synctest.Wait()
		require.EqualValues(t, maxLists, silent.Load())
		p, err := l.enter(t.Context(), func() {})
		require.NoError(t, err, "the silent ones gave up their places")
		p.leave()
		for _, p := range stalled {
			p.leave()
			p.leave()
		}
		require.True(t, l.places.TryAcquire(maxLists), "every place was given back once")
		require.False(t, l.places.TryAcquire(1), "and not more than once")
		time.Sleep(time.Hour)
		require.EqualValues(t, maxLists, silent.Load(), "who has left is not silent")
	})
}

func TestListThatMakesProgressIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := newLists().enter(t.Context(), func() { t.Error("it gave signs") })
		require.NoError(t, err)
		for range 100 {
			time.Sleep(silence / 2)
			p.sign()
		}
		p.leave()
	})
}
