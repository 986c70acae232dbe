package reconcile

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// observePoll and witnessPatience are how often, and how long, it is looked whether
	// the watches have seen what a pass applied: mostly they see it within milliseconds.
	observePoll    = 2 * time.Millisecond
	observeTimeout = 500 * time.Millisecond
	// observeRetry is when it is looked for again after that.
	observeRetry = 200 * time.Millisecond
)

// waitObserved notes what was applied and that no watch has seen as it was applied yet, so
// that Ready is said of nothing that Vidra would not notice the loss of. It waits a
// moment for watches that are in order.
func (p *pass) waitObserved(ctx context.Context, applied []task) {
	s := p.state
	if !p.applier.watched {
		for o := range s.all() {
			o.unobserved = false
		}
		return
	}
	for _, t := range applied {
		if t.why != whyDrift && t.known.in(v1alpha1.ObjectApplied) {
			t.known.unobserved, t.known.watching = true, true
		}
	}
	// It is told what was not seen in time.
	_ = wait.PollUntilContextTimeout(ctx, observePoll, observeTimeout, true, func(context.Context) (bool, error) {
		waits := false
		for o := range s.all() {
			if o.unobserved {
				var seen bool
				seen, o.watching = p.isObserved(o)
				o.unobserved = !seen
				waits = waits || o.unobserved && o.watching
			}
		}
		return !waits, nil
	})
}

// isObserved reports whether a watch has seen an object as it was applied, and whether it is
// about to: what has left the manifest or failed since need not be seen.
func (p *pass) isObserved(o *objectState) (seen, watching bool) {
	d := o.desired
	if d == nil || !o.in(v1alpha1.ObjectApplied) {
		return true, false
	}
	kept, found, synced := p.Watches.Get(watchKey(d.key), d.key.Namespace, d.key.Name)
	return synced && found && p.Index.HasObserved(p.owner, d.key, kept), synced
}

// unobservedText tells what watches in order have not seen yet; empty if there is nothing.
// What others have not seen is told of them.
func (s *ownerState) unobservedText() string {
	for _, o := range s.manifest { // in order, so that the text stays
		if o.unobserved && o.watching {
			return fmt.Sprintf("%s is applied, and its watch has not seen it yet", o.id)
		}
	}
	return ""
}
