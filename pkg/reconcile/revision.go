package reconcile

import (
	"context"
	"slices"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// awaits returns why a newer manifest has to wait; nil if it has not.
func (p *pass) awaits(ctx context.Context) *object.Failure {
	if p.VR.Holds() {
		return &object.Failure{Reason: v1alpha1.ReasonRevisionHeld, Awaited: true, Message: "a new revision of the manifest waits, because spec.revision.hold is true: " +
			"`vidra diff` shows its changes. Set spec.revision.hold to false to apply it"}
	}
	return p.awaitedDependency(ctx)
}

// keepsApplied reports whether the manifest that was applied is used without a read of the newer one, which has to wait.
func (p *pass) keepsApplied() bool {
	s := p.state
	return p.hasApplied() && s.behind && s.Generation == p.VR.Generation && !p.Scope.Sources
}

// hasApplied reports whether the state has the manifest that was applied, while a newer one has to wait.
func (p *pass) hasApplied() bool {
	s := p.state
	return p.waiting != nil && !s.unapplied && !s.dropped && s.Stalled == nil && len(s.Manifest) > 0 && s.scope.Same(p.applier.Allowed)
}

// sameRevision reports whether the state has been read from the same parts.
func (s *ownerState) sameRevision(got desired.Parts) bool {
	return s.revision != "" && !s.unapplied && s.revision == got.Revision()
}

// keepsRevision reports whether the manifest that was applied is used instead of the parts that were read, because those have to wait: the
// one in the state, or after a start the kept one. What is known of a kept one is compared with the inventory by the plan, so that a kept
// manifest that is older than the applied one changes nothing, either.
func (p *pass) keepsRevision(ctx context.Context, got desired.Parts) bool {
	s := p.state
	if p.waiting == nil || s.sameRevision(got) {
		return false
	}
	if !p.hasApplied() && (len(s.Inventory()) == 0 || !p.loadKept(ctx, got)) {
		return false
	}
	s.Generation, s.behind, s.unapplied, s.unread, p.unread = p.VR.Generation, true, false, nil, false
	s.sources, s.missingParts = got.Versions, got.Missing
	return true
}

// loadKept resolves the kept manifest into the state, if there is one, it is another one than the one that was read, and it is the
// applied one.
func (p *pass) loadKept(ctx context.Context, now desired.Parts) bool {
	texts, err := p.Kept.Load(ctx, p.VR)
	if err != nil {
		logf.FromContext(ctx).Error(err, "Cannot read the manifest that was kept: edits of objects that the waiting manifest changes are not reverted")
	}
	for _, text := range texts {
		kept, err := desired.UnpackHeld(p.VR, text)
		if err != nil || kept.Revision() == now.Revision() || p.resolve(ctx, kept) != nil {
			continue
		}
		isApplied := !slices.ContainsFunc(p.state.Manifest, func(o *plan.Object) bool {
			return o.Entry == nil || o.Entry.Configuration != o.Desired.Configuration
		})
		if isApplied {
			p.state.revision = kept.Revision()
			p.state.SetAccount(access.Account(p.VR), p.VR.Generation)
			return true
		}
	}
	return false // the manifest is read, and waits
}

// keepHeld keeps the manifest of a VidraResource that holds new revisions, once all of it is applied.
func (p *pass) keepHeld(ctx context.Context) {
	s := p.state
	if !p.VR.Holds() || p.waiting != nil || !p.Scope.All || s.behind || s.revision == "" || s.revision == s.keptRevision || s.Problems() > 0 {
		return
	}
	from := desired.Reader{Sources: &p.sources, Local: p.Local, Scope: p.LocalScope, Accounts: p.accounts()}
	var got desired.Parts
	var why *object.Failure
	s.lane.apart(func() { got, why = from.Gather(ctx, p.Owner, p.VR) })
	if why == nil && got.Revision() == s.revision && p.save(ctx, got) {
		s.keptRevision = s.revision
	}
}

// holdBack takes from a plan what has to wait. What waits for nothing is not reported.
func (p *pass) holdBack(todo plan.Plan) plan.Plan {
	s := p.state
	if p.waiting == nil {
		s.unapplied, s.waits = false, false
		return todo
	}
	todo, waits := p.HoldBack(todo, *p.waiting)
	p.Waits = p.Waits || s.behind
	if p.Scope.All || waits {
		s.waits = waits || s.behind
	}
	if !s.waits {
		p.waiting, s.unapplied = nil, false
	}
	return todo
}
