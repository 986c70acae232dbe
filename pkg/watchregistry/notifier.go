package watchregistry

import (
	"context"
	"sync"

	"github.com/vidra-operator/vidra/pkg/internal/parallel"
)

// notifier runs the callbacks of the owners, one at a time and in the order of the changes.
// A callback must not run under the registry's mutex, and with a goroutine for each callback
// an owner could receive the newer state first.
type notifier struct {
	// wake holds a token when calls wait.
	wake parallel.Signal

	// mu guards calls.
	mu    sync.Mutex
	calls []func()
}

func newNotifier() *notifier { return &notifier{wake: parallel.NewSignal()} }

// add enqueues call. call is skipped if subject, the context of the watch, cluster or
// registry that it is about, has ended by then. add returns at once.
func (n *notifier) add(subject context.Context, call func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, func() {
		if subject.Err() == nil {
			call()
		}
	})
	n.wake.Send()
}

// run makes the calls until ctx ends.
func (n *notifier) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		}
		n.mu.Lock()
		calls := n.calls
		n.calls = nil
		n.mu.Unlock()
		for _, call := range calls {
			if ctx.Err() != nil {
				return
			}
			call()
		}
	}
}
