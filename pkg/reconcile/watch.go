package reconcile

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// watch makes the registry watch what the VidraResource needs: the kinds of its
// manifest, those of what is still to be removed, and the ones that are missing.
func (p *pass) watch(ctx context.Context) {
	s := p.state
	switch {
	case !p.applier.watched:
		p.Watches.Release(p.owner)
		p.Trigger.Release(p.owner)
		// It is known, and no event of its objects is work.
		p.Index.Load(p.owner, nil)
		s.watches, s.loaded = nil, false
		return
	case !p.scope.all:
		return // nothing that a watch depends on has changed
	}
	want, complete := p.needed(ctx)
	if complete {
		s.watches = p.Watches.Sync(p.owner, want)
	} else {
		s.watches = p.Watches.Ensure(p.owner, want)
	}
	var kinds []watchregistry.Kind
	for _, u := range s.unresolved {
		kinds = append(kinds, watchregistry.Kind{Cluster: p.applier.destination.Name(), GVK: u.gvk})
	}
	p.Watches.Await(p.owner, kinds)
}

// watchOf is the watch of a kind at the destination.
func (a *applier) watchOf(mapping cluster.Mapping) watchregistry.Key {
	return watchregistry.Key{Cluster: a.destination.Name(), GVR: mapping.GVR}
}

// needed lists what has to be watched. It is not complete when discovery cannot
// say how something is served that is still to be removed.
func (p *pass) needed(ctx context.Context) (want []watchregistry.Key, complete bool) {
	complete = true
	for _, o := range p.state.manifest {
		want = append(want, watchKey(o.desired.key))
	}
	for _, o := range p.state.others {
		if o.entry == nil {
			continue
		}
		mapping, err := p.applier.destination.MappingInAnyVersion(ctx, gvkOf(o.entry))
		switch {
		case err == nil:
			want = append(want, p.applier.watchOf(mapping))
		case !meta.IsNoMatchError(err):
			complete = false
		}
	}
	return want, complete
}
