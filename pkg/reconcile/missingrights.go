package reconcile

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// subject is as whom the objects are read and written.
func (a *applier) subject() subject {
	return subject{cluster: a.destination.Name(), user: a.user}
}

// refused notes the rights that a request about an object failed for, if it did.
func (a *applier) refused(o *objectState, err error, key trigger.ObjectKey, verbs ...string) {
	if rights := a.subject().refused(err, key.GVR, key.Namespace, verbs...); rights != nil {
		o.missingRights = rights
	}
}

// awaitRights has it noticed when the rights are granted that are missing now.
func (p *pass) awaitRights(all bool) {
	s := p.state
	if p.grants == nil || !all || p.applier.client == nil { // nil if no request is sent
		return
	}
	missing := maps.Clone(s.unreadable)
	if missing == nil {
		missing = map[access]dynamic.Interface{}
	}
	for o := range s.all() {
		if o.problem == nil {
			o.missingRights = nil
		}
		for _, right := range o.missingRights {
			missing[right] = p.applier.client
		}
	}
	for key, status := range s.watches {
		if status.State == watchregistry.Degraded && status.Reason == watchregistry.ReasonForbidden {
			for _, right := range (subject{cluster: key.Cluster}).rights(key.GVR, "", "list", "watch") {
				missing[right] = reviewsAsVidra(p.applier.destination)
			}
		}
	}
	p.grants.await(p.owner, missing)
}

// granted makes an owner retry what it lacked a right for.
func (r *Reconciler) granted(owner trigger.Owner, right access) {
	gvr := schema.GroupVersionResource{Group: right.Group, Version: right.Version, Resource: right.Resource}
	r.Watches.WakeWatch(watchregistry.Key{Cluster: right.cluster, GVR: gvr})
	r.Trigger.EnqueueRetry(owner)
}

// runGrants asks for the rights until ctx ends. It makes the grants a manager's runnable.
func (r *Reconciler) runGrants(ctx context.Context) error {
	r.grants.run(ctx)
	return nil
}
