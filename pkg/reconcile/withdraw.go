package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// withdraw removes the objects that this reconcile has created, and only these, as the VidraResource is gone without a finalization: the API server
// asks for finalizers at the begin of a deletion, so that one that had begun ended although this reconcile added the finalizer
// meanwhile. All guards of a removal hold (ADR 123).
func (p *pass) withdraw(ctx context.Context) error {
	var err error
	p.state.lane.apart(func() {
		read := wait.ExponentialBackoffWithContext(ctx, withdrawalBackoff, func(ctx context.Context) (bool, error) {
			err = p.isGone(ctx)
			return err == nil || errors.Is(err, errReplaced), nil
		})
		err = cmp.Or(err, read)
	})
	if err != nil {
		p.requeuePending(true)
		return fmt.Errorf("objects of a VidraResource that is gone stay: %s: %w", p.finalizer.created, err)
	}
	gone := p.plan.VR.DeepCopy()
	gone.DeletionTimestamp = &metav1.Time{Time: p.plan.Now}
	p.plan.VR = gone
	if why := p.uninstalling(ctx); why != "" {
		log.FromContext(ctx).Info("Objects of a VidraResource that is gone stay.", "objects", p.finalizer.created, "why", why)
		return nil
	}
	p.state.lane.closeLocked()
	p.state.adopt(p.plan.VR.Generation, nil, nil)
	created := slices.DeleteFunc(p.finalizer.created, func(id object.Identity) bool {
		return p.state.plan.Objects.ByID[id] == nil || p.state.plan.Objects.ByID[id].Entry == nil
	})
	slices.SortFunc(created, plan.CompareForRemoval)
	remover := p.remover()
	var replaced atomic.Bool
	remover.Interrupted = func() bool { return false }
	remover.Stale = func(ctx context.Context) error {
		err := p.isGone(ctx)
		replaced.Store(errors.Is(err, errReplaced))
		return err
	}
	failed := func(id object.Identity) bool {
		o := p.state.plan.Objects.ByID[id]
		return o != nil && o.Entry != nil && o.Problem != nil
	}
	remover.Prune(ctx, created)
	for pause := withdrawalBackoff; pause.Steps > 1 && ctx.Err() == nil && !replaced.Load() && slices.ContainsFunc(created, failed); {
		p.state.lane.pause(ctx, pause.Step())
		remover.Prune(ctx, slices.DeleteFunc(slices.Clone(created), func(id object.Identity) bool { return !failed(id) }))
	}
	for _, id := range created {
		if failed(id) {
			log.FromContext(ctx).Info("An object of a VidraResource that is gone stays. Delete it, or have another VidraResource adopt it.", "object", id.String(), "problem", p.state.plan.Objects.ByID[id].Problem.Message)
		}
	}
	changes := p.state.plan.Reports.Events
	p.state.plan.Reports.Events = nil
	p.reconciler.record(p.plan.Settings.Claimant.Owner, object.ReferenceToOwner(p.plan.VR), p.before, p.before, changes)
	return nil
}

// withdrawalBackoff has the attempts to remove the objects of a VidraResource that is gone, a minute in all: no status has the objects, so that no later
// reconcile removes them.
var withdrawalBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 7}

// errReplaced is the error of a VidraResource with the name of one that is gone.
var errReplaced = errors.New("another VidraResource of the name was created")

// isGone returns nil if the API server has no VidraResource of the name.
func (p *pass) isGone(ctx context.Context) error {
	switch err := p.reconciler.Clients.API.Get(ctx, p.plan.Settings.Claimant.Owner, &v1alpha1.VidraResource{}); {
	case object.IsAbsent(err, p.plan.Settings.Claimant.Owner.Name):
		return nil
	case err != nil:
		return fmt.Errorf("read VidraResource %s: %w", p.plan.Settings.Claimant.Owner.Name, err)
	}
	return errReplaced
}
