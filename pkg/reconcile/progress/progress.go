package progress

import (
	"slices"
	"sync"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/parallel"
)

const (
	// Interval is the time between two reports.
	Interval = 10 * time.Second
	// Long is how long an apply takes until it is noted that it is under way.
	Long = time.Second
	// evenly is how many reports have the counts before they have them less and less often: in the
	// report 8, 16, 32 and so on. An hour has twelve of them.
	evenly = 6
)

// Report is the known state of an apply that is under way.
type Report struct {
	// Total is how many objects are to be applied. Applied of them are, and Failed have failed.
	Total, Applied, Failed int
	// Counted reports that the counts are due. They have to differ from the last report that had them.
	Counted bool
	// Problems are problems of objects that all successful reports lack, at most v1alpha1.MaxProblems
	// in all reports.
	Problems []v1alpha1.Problem
}

// Run is one apply of several objects. Applied and Failed are safe for concurrent use. The other methods
// belong to the goroutine that called Start.
type Run struct {
	ticker *time.Ticker
	report func(Report) error
	// long fires when the apply has taken Long, and note notes that.
	long *time.Timer
	note func() error
	// ticks counts the intervals that are over, and reported the problems that reports had.
	ticks, reported int
	// counted is the last report that had the counts.
	counted Report

	// mu guards now.
	mu sync.Mutex
	// now is the next report.
	now Report
}

// Start begins an apply of total objects. While calls note once the apply has taken Long, and if that fails, each Long
// again; and report once an Interval: if it fails, the next report has the same problems again. Stop must be called at
// the end.
func Start(total int, note func() error, report func(Report) error) *Run {
	return &Run{
		ticker: time.NewTicker(Interval), report: report, long: time.NewTimer(Long), note: note,
		now: Report{Total: total}, counted: Report{Applied: -1},
	}
}

// Stop ends the apply.
func (r *Run) Stop() {
	r.ticker.Stop()
	r.long.Stop()
}

// Applied notes that an object is applied.
func (r *Run) Applied() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Applied++
}

// Failed notes the failed apply of an object, and its reason.
func (r *Run) Failed(why v1alpha1.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Failed++
	r.now.Problems = append(r.now.Problems, why)
}

// While calls work, and reports until that returns. It panics if work does.
func (r *Run) While(work func()) {
	done := make(chan struct{})
	var caught parallel.Panic
	go func() {
		defer close(done)
		defer caught.Catch()
		work()
	}()
	for {
		select {
		case <-done:
			caught.Raise()
			return
		case <-r.long.C:
			if r.note() != nil {
				r.long.Reset(Long)
			}
		case <-r.ticker.C:
			r.tick()
		}
	}
}

// tick makes a report, if there is something to report.
func (r *Run) tick() {
	r.ticks++
	now := r.next()
	if !now.Counted && len(now.Problems) == 0 {
		return
	}
	if r.report(now) != nil {
		return
	}
	if now.Counted {
		r.counted = now
	}
	r.reported += len(now.Problems)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Problems = r.now.Problems[len(now.Problems):]
}

// next returns the report that is due.
func (r *Run) next() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now
	due := r.ticks <= evenly || r.ticks&(r.ticks-1) == 0
	now.Counted = due && (now.Applied != r.counted.Applied || now.Failed != r.counted.Failed)
	room := min(len(now.Problems), v1alpha1.MaxProblems-r.reported)
	now.Problems = slices.Clone(now.Problems[:room])
	return now
}
