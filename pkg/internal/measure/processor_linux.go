// Package measure measures work for tests of packages below pkg.
package measure

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ProcessorTime is the processor time that one call of do takes. Other work on the machine is
// excluded. It calls do until the result is precise.
func ProcessorTime(tb testing.TB, do func()) time.Duration {
	tb.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		var usage syscall.Rusage
		const ofThread = 1 // RUSAGE_THREAD
		require.NoError(tb, syscall.Getrusage(ofThread, &usage))
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	const enough = 40 * time.Millisecond // the kernel counts in steps of some milliseconds
	start, times := used(), time.Duration(0)
	for used()-start < enough {
		do()
		times++
	}
	return (used() - start) / times
}
