package limits

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

const (
	// workerPatience is how long a reconcile has its worker.
	workerPatience = 500 * time.Millisecond
	// maxDetached is how many reconciles continue without a worker.
	maxDetached = 240
)

// Workers takes the workers of reconciles that last long, as while a webhook does not answer: they continue without a worker, and delay no
// other VidraResource. It is safe for concurrent use. With a nil one, each reconcile has its worker until its end.
type Workers struct {
	// Ended enqueues a VidraResource whose reconcile has ended without a worker: by its result, or at once if it was to be reconciled again
	// meanwhile.
	Ended func(owner trigger.Owner, again bool, result reconcile.Result, err error)

	// mu guards detached.
	mu sync.Mutex
	// detached are the VidraResources whose reconciles have no worker, and whether each is to be reconciled again.
	detached map[trigger.Owner]bool
}

// Worker is the worker of one reconcile. It is safe for concurrent use.
type Worker struct {
	// mu guards the fields below.
	mu       sync.Mutex
	given    bool
	releases []func()
}

// With has release called once: when the worker is given back, or by the returned function. It releases a share of the workers.
func (w *Worker) With(release func()) func() {
	release = sync.OnceFunc(release)
	w.mu.Lock()
	given := w.given
	w.releases = append(w.releases, release)
	w.mu.Unlock()
	if given {
		release()
	}
	return release
}

// giveBack releases the shares that the worker has.
func (w *Worker) giveBack() {
	w.mu.Lock()
	w.given = true
	releases := w.releases
	w.mu.Unlock()
	for _, release := range releases {
		release()
	}
}

// reconciled is the result of a reconcile.
type reconciled struct {
	result reconcile.Result
	err    error
}

// Run reconciles an owner, unless a reconcile of it without a worker runs: the end of that one enqueues it, and runs is called.
func (w *Workers) Run(owner trigger.Owner, do func(*Worker) (reconcile.Result, error), runs func()) (reconcile.Result, error) {
	worker := &Worker{}
	if w == nil {
		return do(worker)
	}
	if w.again(owner) {
		runs()
		return reconcile.Result{}, nil
	}
	ended := make(chan reconciled, 1)
	go func() { ended <- recovered(worker, do) }()
	patience := time.NewTimer(workerPatience)
	defer patience.Stop()
	select {
	case r := <-ended:
		return r.result, r.err
	case <-patience.C:
	}
	if !w.detach(owner) {
		r := <-ended
		return r.result, r.err
	}
	worker.giveBack()
	go func() {
		r := <-ended
		w.Ended(owner, w.attach(owner), r.result, r.err)
	}()
	return reconcile.Result{}, nil
}

// again notes that an owner is to be reconciled again after the reconcile without a worker; false if there is none.
func (w *Workers) again(owner trigger.Owner) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, is := w.detached[owner]
	if is {
		w.detached[owner] = true
	}
	return is
}

// detach has the reconcile of an owner continue without a worker; false if too many do.
func (w *Workers) detach(owner trigger.Owner) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.detached) >= maxDetached {
		return false
	}
	if w.detached == nil {
		w.detached = map[trigger.Owner]bool{}
	}
	w.detached[owner] = false
	return true
}

// attach ends the reconcile of an owner without a worker, and reports whether the owner is to be reconciled again.
func (w *Workers) attach(owner trigger.Owner) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	again = w.detached[owner]
	delete(w.detached, owner)
	return again
}

// recovered calls do, and returns its panic as an error.
func recovered(worker *Worker, do func(*Worker) (reconcile.Result, error)) (r reconciled) {
	defer func() {
		if why := recover(); why != nil {
			r.err = fmt.Errorf("panic: %v\n%s", why, debug.Stack())
		}
	}()
	r.result, r.err = do(worker)
	return r
}
