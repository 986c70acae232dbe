package reconcile

import (
	"context"

	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

// noteRivals has the VidraResource enqueued at the end of those that had its applies refused: no event of an object may show that.
func (p *pass) noteRivals() {
	p.reconciler.related.rivals.Set(p.plan.Settings.Claimant.Owner, func(yield func(string) bool) {
		for o := range p.state.plan.Objects.All() {
			if o.Attempts.Refused != nil && o.Attempts.Refused.Other != "" && !yield(o.Attempts.Refused.Other) {
				return
			}
		}
	})
}

// forgetRefusals has applies retried that were refused for a VidraResource that is gone, although its field manager is still on the
// object: its finalizer was removed, for example. The cache of a shard lacks all of them.
func (p *pass) forgetRefusals(ctx context.Context) {
	if p.reconciler.Assignment.Elsewhere != nil {
		return
	}
	for _, o := range p.state.plan.Objects.Manifest {
		if o.Attempts.Refused == nil || o.Attempts.Refused.Other == "" {
			continue
		}
		if other, err := owners.Cached(ctx, p.reconciler.Clients.Client, o.Attempts.Refused.Other); err == nil && other == nil {
			o.Attempts.Refused = nil
		}
	}
}
