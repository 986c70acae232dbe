package limits

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

const (
	// workerPatience is how long a reconcile has its worker.
	workerPatience = 500 * time.Millisecond
	// maxDetached is how many reconciles continue without a worker.
	maxDetached = 240
)

// Workers takes the workers of reconciles that last long, as while a webhook is silent: they continue without a worker, and leave
// other VidraResources undelayed. It is safe for concurrent use. With a nil one, each reconcile has its worker until its end.
type Workers struct {
	// Ended enqueues a VidraResource whose reconcile has ended without a worker: by its result, which has the backoff after an error, and at
	// once if it was to be reconciled again meanwhile.
	Ended func(owner trigger.Owner, again bool, result reconcile.Result, err error)

	// mu guards the fields below.
	mu sync.Mutex
	// failures spaces the reconciles after errors of reconciles without a worker: the controller takes these for successes.
	failures workqueue.TypedRateLimiter[reconcile.Request]
	// detached are the VidraResources whose reconciles have no worker, and whether each is to be reconciled again.
	detached map[trigger.Owner]bool
}

// reconciled is the result of a reconcile. After an error, the result has the backoff.
type reconciled struct {
	result reconcile.Result
	err    error
}

// ofWorker is the result for the controller, which has a backoff of its own.
func (r reconciled) ofWorker() (reconcile.Result, error) {
	if r.err != nil {
		return reconcile.Result{}, r.err
	}
	return r.result, nil
}

// spaced returns the result of a reconcile with the backoff after an error.
func (w *Workers) spaced(owner trigger.Owner, r reconciled) reconciled {
	w.mu.Lock()
	if w.failures == nil {
		w.failures = NewRateLimiter()
	}
	failures := w.failures
	w.mu.Unlock()
	request := reconcile.Request{NamespacedName: owner}
	if r.err == nil {
		failures.Forget(request)
		return r
	}
	r.result = reconcile.Result{RequeueAfter: failures.When(request)}
	return r
}

// Run reconciles an owner, unless a reconcile of it without a worker runs: the end of that one enqueues it, and runs is called. do may call leave, at any
// time, to continue without the worker at once, unless too many do.
func (w *Workers) Run(owner trigger.Owner, do func(leave func()) (reconcile.Result, error), runs func()) (reconcile.Result, error) {
	if w == nil {
		return do(func() {})
	}
	if w.again(owner) {
		runs()
		return reconcile.Result{}, nil
	}
	left, ended := make(chan struct{}), make(chan reconciled, 1)
	leave := sync.OnceFunc(func() { close(left) })
	go func() {
		ended <- w.spaced(owner, recovered(func() (reconcile.Result, error) { return do(leave) }))
	}()
	patience := time.NewTimer(workerPatience)
	defer patience.Stop()
	select {
	case r := <-ended:
		return r.ofWorker()
	case <-patience.C:
	case <-left:
	}
	if !w.detach(owner) {
		r := <-ended
		return r.ofWorker()
	}
	go func() {
		r := <-ended
		w.Ended(owner, w.attach(owner), r.result, r.err)
	}()
	return reconcile.Result{}, nil
}

// again notes that an owner is to be reconciled again after the reconcile without a worker; false if it is absent.
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
func recovered(do func() (reconcile.Result, error)) (r reconciled) {
	defer func() {
		if why := recover(); why != nil {
			r.err = fmt.Errorf("panic: %v\n%s", why, debug.Stack())
		}
	}()
	r.result, r.err = do()
	return r
}
