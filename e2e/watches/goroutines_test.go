package watches

import (
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// goroutines returns a function that counts the goroutines that run code of a
// registry or of its informers and that this test has started: they inherit a
// label from it. It has to be called before the registry is made.
func goroutines(t *testing.T) func() int {
	t.Helper()
	pprof.SetGoroutineLabels(pprof.WithLabels(t.Context(), pprof.Labels("test", t.Name())))
	label := `{"test":` + strconv.Quote(t.Name()) + `}`
	return func() int {
		var profile strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&profile, 1) // a Builder takes everything
		// The goroutines with the same stack are one paragraph, "n @ addresses",
		// their labels and the functions.
		total := 0
		_, paragraphs, _ := strings.Cut(profile.String(), "\n")
		for paragraph := range strings.SplitSeq(paragraphs, "\n\n") {
			registry := strings.Contains(paragraph, "/pkg/watchregistry.")
			informer := strings.Contains(paragraph, "client-go/tools/cache.")
			if strings.Contains(paragraph, label) && (registry || informer) {
				count, _, _ := strings.Cut(paragraph, " @ ")
				n, err := strconv.Atoi(count)
				assert.NoError(t, err)
				total += n
			}
		}
		return total
	}
}

// settled waits until a count has not changed for a while, and returns it.
func settled(t *testing.T, count func() int) int {
	t.Helper()
	const while, looks = 100 * time.Millisecond, 3 // a look may take long
	last, times, since := count(), 0, time.Now()
	await(t, func(c *assert.CollectT) {
		if now := count(); now == last {
			times++
		} else {
			last, times, since = now, 0, time.Now()
		}
		assert.True(c, times >= looks && time.Since(since) >= while, "%d looks, %s", times, time.Since(since))
	})
	return last
}

// heap is how many bytes of the heap of this process are in use.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one has found to need a finalizer
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
