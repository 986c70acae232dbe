package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/progress"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
)

// noteApplying writes the status of a VidraResource that lacks one: with the inventory, except where the annotation has it.
func (p *pass) noteApplying(ctx context.Context) error {
	p.state.lane.enter()
	defer p.state.lane.leave()
	if len(p.state.plan.Status.Conditions) > 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	return p.writeStatus(ctx, false, status.Applying(p.state.plan.Status, p.state.plan.Entries(), p.finalizer.listed, p.plan.Now))
}

// reportProgress reports an apply that is under way. Problems of objects are written into the status first, so that
// their Events have the reason of a condition, and neither the end of the reconcile nor the next process reports
// them again. It fails if the next report is to have them.
func (p *pass) reportProgress(ctx context.Context, now progress.Report) error {
	if ctx.Err() != nil { // Vidra ends, and requests fail for that
		return ctx.Err()
	}
	if !access.Usable(p.applier.Destination) { // all that failed may have failed for that
		return fmt.Errorf("the destination of VidraResource %s may be unreachable", p.plan.VR.Name)
	}
	s, before := p.state, p.before
	s.lane.enter()
	defer s.lane.leave()
	if len(now.Problems) > 0 {
		if err := p.writeStatus(ctx, false, status.Failing(s.plan.Status, now.Problems, time.Now())); err != nil {
			return err
		}
		p.before = s.plan.Status
	}
	var changes []events.Change
	if now.Counted {
		changes = append(changes, events.Change{Action: events.Progressed, Object: object.ReferenceToOwner(p.plan.VR), Note: fmt.Sprintf(
			"is being applied: %d of %d objects are applied, %d failed", now.Applied, now.Total, now.Failed)})
	}
	p.reconciler.record(p.plan.Settings.Claimant.Owner, object.ReferenceToOwner(p.plan.VR), before, p.before, changes)
	return nil
}
