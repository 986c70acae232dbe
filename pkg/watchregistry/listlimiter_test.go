package watchregistry

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSilentListReleasesItsSlot fills all slots with lists that the API server does not answer.
func TestSilentListReleasesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListLimiter()
		var silent atomic.Int64
		var stalled []*listSlot
		for range maxConcurrentLists {
			p, err := l.acquire(t.Context(), func() { silent.Add(1) })
			require.NoError(t, err)
			stalled = append(stalled, p)
		}
		ctx, cancel := context.WithTimeout(t.Context(), silenceTimeout-time.Millisecond)
		defer cancel()
		_, err := l.acquire(ctx, func() {})
		require.Error(t, err, "all slots are taken")

		time.Sleep(time.Millisecond) // of the bubble's clock
		synctest.Wait()
		require.EqualValues(t, maxConcurrentLists, silent.Load())
		p, err := l.acquire(t.Context(), func() {})
		require.NoError(t, err, "the silent lists released their slots")
		p.release()
		for _, p := range stalled {
			p.release()
			p.release()
		}
		require.True(t, l.slots.TryAcquire(maxConcurrentLists), "every slot was released once")
		require.False(t, l.slots.TryAcquire(1), "and not more than once")
		time.Sleep(time.Hour)
		require.EqualValues(t, maxConcurrentLists, silent.Load(), "a list that ended is not silent")
	})
}

func TestListThatMakesProgressIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := newListLimiter().acquire(t.Context(), func() { t.Error("it made progress") })
		require.NoError(t, err)
		for range 100 {
			time.Sleep(silenceTimeout / 2)
			p.progress()
		}
		p.release()
	})
}
