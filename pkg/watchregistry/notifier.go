package watchregistry

import (
	"context"
	"sync"
)

// notifier calls the owners back, one call at a time and in the order in which
// there was something to tell: no callback may run under the registry's mutex,
// and goroutines of their own would tell an owner the newer state first.
type notifier struct {
	// wake holds a token when calls wait.
	wake chan struct{}

	// mu guards calls.
	mu    sync.Mutex
	calls []func()
}

func newNotifier() *notifier { return &notifier{wake: make(chan struct{}, 1)} }

// add has call made soon, unless about ends before: it is the context of what there
// is something to tell of. It does not block.
func (n *notifier) add(about context.Context, call func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, func() {
		if about.Err() == nil {
			call()
		}
	})
	select {
	case n.wake <- struct{}{}:
	default:
	}
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
