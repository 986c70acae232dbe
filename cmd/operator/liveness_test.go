package main

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLiveness: /healthz fails while a lock is held for long, and at no other time.
func TestLiveness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		calls := 0
		held := make(chan struct{}) // synctest cannot wait for a mutex
		close(held)
		l := &liveness{lock: func() {
			mu.Lock()
			calls++
			free := held
			mu.Unlock()
			<-free
		}}
		require.NoError(t, l.check(nil))
		synctest.Wait()
		require.NoError(t, l.check(nil))
		synctest.Wait()
		require.Equal(t, 2, calls)

		stuck := make(chan struct{})
		mu.Lock()
		held = stuck
		mu.Unlock()
		require.NoError(t, l.check(nil), "a lock may be held for a moment")
		time.Sleep(stuckAfter - 3*probeWait)
		require.NoError(t, l.check(nil))
		time.Sleep(probeWait)
		for range 3 {
			require.ErrorContains(t, l.check(nil), "the operator is stuck")
		}
		synctest.Wait()
		require.Equal(t, 3, calls, "probes do not pile up")
		close(stuck)
		synctest.Wait()
		require.NoError(t, l.check(nil))
		synctest.Wait()
	})
}
