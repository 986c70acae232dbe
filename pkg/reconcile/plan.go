package reconcile

import (
	"slices"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// why says why an object is applied.
type why int

const (
	// whyNew: the object was never applied by this VidraResource.
	whyNew why = iota
	// whyChanged: the manifest has changed, or may have.
	whyChanged
	// whyRetry: the last apply failed.
	whyRetry
	// whyDrift: somebody changed or deleted the object.
	whyDrift
)

// task is one object to be applied.
type task struct {
	*desired
	why   why
	cause trigger.Cause
}

// planInput is what is known before a plan is made.
type planInput struct {
	objects    []*desired
	unresolved []unresolved
	inventory  map[identity]*v1alpha1.ManagedResourceStatus
	// changed says that an object's applied configuration is, or may be, another
	// one than was applied last.
	changed func(*desired) bool
	// gone says that the API server does not serve an object's kind at present.
	gone func(*desired) bool
	// held says that an object failed and its time to be tried again has not come.
	held func(*desired) bool
	// causes are the objects that are not as they should be.
	causes map[trigger.ObjectKey]trigger.Cause
	// all has every object considered; otherwise only causes are.
	all bool
}

// plan is what a pass has to do.
type plan struct {
	apply []task
	// prune are the objects that left the manifest, last applied first.
	prune []identity
	// blocked are the objects whose kind is gone.
	blocked []*desired
	// held are the objects that have to wait.
	held []*desired
}

// makePlan decides what to do. Objects stay in the order of the manifest.
func makePlan(in planInput) plan {
	var p plan
	for _, d := range in.objects {
		cause, drifted := in.causes[d.key]
		if !in.all && !drifted {
			continue
		}
		entry := in.inventory[d.id]
		switch {
		case in.gone(d):
			p.blocked = append(p.blocked, d)
		case in.held(d):
			p.held = append(p.held, d)
		case entry == nil || entry.UID == "":
			p.apply = append(p.apply, task{desired: d, why: whyNew})
		case in.changed(d):
			p.apply = append(p.apply, task{desired: d, why: whyChanged, cause: cause})
		case drifted:
			p.apply = append(p.apply, task{desired: d, why: whyDrift, cause: cause})
		case entry.State != v1alpha1.ObjectApplied:
			p.apply = append(p.apply, task{desired: d, why: whyRetry})
		}
	}
	if in.all {
		p.prune = leftovers(in)
	}
	return p
}

// leftovers are the objects of the inventory that the manifest does not have.
// What waits for its kind is still in the manifest, under the namespace that it
// names there or under the one that it was given.
func leftovers(in planInput) []identity {
	keep := make(map[identity]struct{}, len(in.objects))
	for _, d := range in.objects {
		keep[d.id] = struct{}{}
	}
	var gone []identity
	for id := range in.inventory {
		_, wanted := keep[id]
		if !wanted && !slices.ContainsFunc(in.unresolved, func(u unresolved) bool { return u.is(id) }) {
			gone = append(gone, id)
		}
	}
	slices.SortFunc(gone, compareForRemoval)
	return gone
}
