package parallel

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPanic: a panic of one of several objects reaches the caller, after the others have ended.
func TestPanic(t *testing.T) {
	t.Parallel()
	var ended atomic.Int32
	defer func() {
		require.Regexp(t, `(?s)^broken\n.*parallel\.Do`, recover())
		require.EqualValues(t, 9, ended.Load())
	}()
	Do(3, 10, func(i int) {
		if i == 4 {
			panic("broken")
		}
		ended.Add(1)
	})
}

// TestOrder: with four slots, the first calls have them: slots that stay taken are lost for the rest. It is not parallel: on one processor, no other goroutine
// runs between the begin of a call and its slot.
func TestOrder(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range 30 {
		const slots, calls = 4, 60
		var entered atomic.Int32
		var first atomic.Bool
		Do(16, calls, func(i int) {
			if entered.Add(1) <= slots && i == 0 {
				first.Store(true)
			}
		})
		require.True(t, first.Load(), "the first call is among the first %d to run", slots)
	}
}

// TestSignal: the sends before a receipt are one.
func TestSignal(t *testing.T) {
	t.Parallel()
	s := NewSignal()
	require.Empty(t, s)
	s.Send()
	s.Send()
	require.Len(t, s, 1)
	<-s
	s.Send()
	require.Len(t, s, 1)
}
