package progress

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// reports are what an apply reported, and when.
type reports struct {
	began time.Time
	all   []string
	// err is why the reports fail.
	err error
	// noted are when it was noted that the apply takes long, and unnoted how often that fails.
	noted   []time.Duration
	unnoted int
}

func (r *reports) note() error {
	r.noted = append(r.noted, time.Since(r.began))
	if r.unnoted--; r.unnoted >= 0 {
		return errors.New("no answer")
	}
	return nil
}

func (r *reports) add(now Report) error {
	counts, problems := "", ""
	if now.Counted {
		counts = fmt.Sprintf(" %d/%d/%d", now.Applied, now.Failed, now.Total)
	}
	for _, p := range now.Problems {
		problems += " " + p.Message
	}
	r.all = append(r.all, fmt.Sprint(time.Since(r.began))+counts+problems)
	return r.err
}

// start begins an apply, which ends with the test.
func (r *reports) start(t *testing.T, total int) *Run {
	t.Helper()
	r.began = time.Now()
	run := Start(total, r.note, r.add)
	t.Cleanup(run.Stop)
	return run
}

// failed is the problem of an object.
func failed(message string) v1alpha1.Problem { return v1alpha1.Problem{Message: message} }

func nothing() error { return nil }

// TestNoted: an apply that takes long is noted once, and again only if that failed.
func TestNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short, long := reports{}, reports{unnoted: 2}
		short.start(t, 1).While(func() { time.Sleep(Long - time.Millisecond) })
		require.Empty(t, short.noted)
		run := long.start(t, 1)
		run.While(func() { time.Sleep(Long / 2) })
		run.While(func() { time.Sleep(9 * Long) })
		require.Equal(t, []time.Duration{Long, 2 * Long, 3 * Long}, long.noted)
	})
}

// TestShort: an apply that ends within the interval has no report.
func TestShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got reports
		run := got.start(t, 2)
		run.While(func() {
			run.Failed(failed("no"))
			run.Applied()
			time.Sleep(Interval - time.Millisecond)
		})
		require.Empty(t, got.all)
	})
}

// TestReports: each report has the counts if they changed, and each problem is in one report.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got reports
		run := got.start(t, 5)
		run.While(func() {
			run.Failed(failed("a"))
			time.Sleep(Interval + time.Second)
			run.Applied()
			time.Sleep(2 * Interval) // nothing happens in the third one
		})
		run.While(func() { // the interval continues
			run.Failed(failed("b"))
			run.Failed(failed("c"))
			time.Sleep(Interval)
		})
		require.Equal(t, []string{"10s 0/1/5 a", "20s 1/1/5", "40s 1/3/5 b c"}, got.all)
	})
}

// TestFailedReport: what a report could not have reported is in the next one.
func TestFailedReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := reports{err: errors.New("no answer")}
		run := got.start(t, 3)
		run.While(func() {
			run.Failed(failed("a"))
			time.Sleep(Interval + time.Second)
			run.Failed(failed("b"))
			time.Sleep(Interval)
		})
		got.err = nil
		run.While(func() { time.Sleep(2 * Interval) })
		require.Equal(t, []string{"10s 0/1/3 a", "20s 0/2/3 a b", "30s 0/2/3 a b"}, got.all)
	})
}

// TestBounded: an apply that takes an hour has few reports of counts, and no more problems than a status lists.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts, problems := 0, 0
		run := Start(10_000, nothing, func(now Report) error {
			if now.Counted {
				counts++
			}
			problems += len(now.Problems)
			return nil
		})
		defer run.Stop()
		run.While(func() {
			for range 3600 {
				run.Applied()
				run.Failed(failed("no"))
				time.Sleep(time.Second)
			}
		})
		require.Equal(t, 12, counts)
		require.Equal(t, v1alpha1.MaxProblems, problems)
	})
}

// TestConcurrent: workers count while the reports are made.
func TestConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, objects = 8, 50
		var last Report
		run := Start(workers*objects, nothing, func(now Report) error { last = now; return nil })
		defer run.Stop()
		run.While(func() {
			done := make(chan struct{})
			for range workers {
				go func() {
					for range objects {
						run.Applied()
						time.Sleep(time.Second)
					}
					done <- struct{}{}
				}()
			}
			for range workers {
				<-done
			}
			time.Sleep(time.Minute)
		})
		require.Equal(t, workers*objects, last.Applied)
	})
}

// TestPanic: a panic of the work reaches the caller, with the stack of the work.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := Start(1, nothing, func(Report) error { return nil })
		defer run.Stop()
		defer func() { require.Regexp(t, `(?s)^broken\n.*progress\.\(\*Run\)\.While`, recover()) }()
		run.While(func() {
			time.Sleep(2 * Interval)
			panic("broken")
		})
	})
}
