package reconcile

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// watch makes the registry watch the kinds that the VidraResource needs: the kinds of its
// manifest, of the manifest that waits, and of objects that are still to be removed, and missing kinds.
func (p *pass) watch(ctx context.Context) {
	s := p.state
	p.plan.Findings.KindsNoticed = p.applier.Settings.Watched && p.applier.Destination != nil && p.reconciler.Watching.Watches.NoticesKinds(p.applier.Destination.Name())
	switch {
	case !p.applier.Settings.Watched:
		p.reconciler.Watching.Watches.Release(p.plan.Settings.Claimant.Owner)
		p.reconciler.Watching.Trigger.Release(p.plan.Settings.Claimant.Owner)
		// It is known, and no event of its objects is work.
		p.reconciler.Watching.Index.Load(p.plan.Settings.Claimant.Owner, nil)
		s.plan.Watching.Watches, s.inventory.loaded = nil, false
		return
	case !p.plan.Scope.All:
		return // nothing that a watch depends on has changed
	}
	want, kinds, complete := p.needed(ctx)
	if complete {
		s.plan.Watching.Watches = p.reconciler.Watching.Watches.Sync(p.plan.Settings.Claimant.Owner, want)
	} else {
		s.plan.Watching.Watches = p.reconciler.Watching.Watches.Ensure(p.plan.Settings.Claimant.Owner, want)
	}
	for _, u := range s.plan.Objects.Unresolved {
		if u.AwaitsKind() {
			kinds = append(kinds, watchregistry.Kind{Cluster: p.applier.Destination.Name(), GVK: u.GVK})
		}
	}
	p.reconciler.Watching.Watches.Await(p.plan.Settings.Claimant.Owner, append(kinds, s.read.awaited...))
}

// needed lists the kinds to watch, and the kinds of objects to be removed that are unserved. It is incomplete when discovery
// leaves open how something is served that is still to be removed.
func (p *pass) needed(ctx context.Context) (want []watchregistry.Key, missing []watchregistry.Kind, complete bool) {
	complete = true
	var served access.Mappings
	for _, o := range p.state.plan.Objects.Manifest {
		want = append(want, p.applier.Settings.WatchKey(o.Desired.Key))
	}
	for _, d := range p.state.revision.objects { // other VidraResources leave objects to the manifest that waits
		want = append(want, p.applier.Settings.WatchKey(d.Key))
	}
	for _, o := range p.state.plan.Objects.Others {
		if o.Entry == nil || access.ObjectOutOfScope(p.applier.Settings.Allowed, o.ID) != nil {
			continue
		}
		var mapping cluster.Mapping
		var err error
		p.state.lane.apart(func() { mapping, err = served.InAnyVersion(ctx, p.applier.Destination, object.GVKOf(o.Entry)) })
		switch {
		case err == nil:
			want = append(want, p.applier.Settings.WatchKey(trigger.ObjectKey{Cluster: p.applier.Destination.Name(), GVR: mapping.GVR, Namespace: o.ID.Namespace}))
		case meta.IsNoMatchError(err):
			missing = append(missing, watchregistry.Kind{Cluster: p.applier.Destination.Name(), GVK: object.GVKOf(o.Entry)})
		default:
			complete = false
		}
	}
	return want, missing, complete
}
