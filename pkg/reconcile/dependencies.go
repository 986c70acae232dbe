package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

const (
	// dependsOnField is the field by which the cache finds the VidraResources that depend on one.
	dependsOnField = "spec.dependsOn"
	// dependentsGrace is how long a deletion waits for VidraResources that depend on it and are not being deleted: they may be deleted
	// by the same command. dependentsLimit is how long it waits for those that are.
	dependentsGrace, dependentsLimit = time.Minute, 10 * time.Minute
	// maxDependencies is how many VidraResources are searched for dependencies, and for a cycle of them.
	maxDependencies = 1000
	// elsewhereRetry is the delay of the next read of a dependency of another shard, which the cache lacks.
	elsewhereRetry = 30 * time.Second
)

// dependsOn returns the names of the dependencies of a VidraResource, for the cache.
func dependsOn(obj client.Object) []string {
	vr, is := obj.(*v1alpha1.VidraResource)
	if !is || len(vr.Spec.DependsOn) == 0 {
		return nil
	}
	names := make([]string, 0, len(vr.Spec.DependsOn))
	for _, d := range vr.Spec.DependsOn {
		names = append(names, d.Name)
	}
	return names
}

// awaitedDependency returns why the VidraResource waits for others; nil if all are Ready. It sends requests only for VidraResources of
// other shards.
func (p *pass) awaitedDependency(ctx context.Context) *object.Failure {
	if len(p.plan.VR.Spec.DependsOn) == 0 {
		return nil
	}
	var waits []string
	until := time.Time{}
	lookup := owners.Lookup{Cache: p.reconciler.Clients.Client, Elsewhere: p.reconciler.Assignment.Elsewhere}
	for _, d := range p.plan.VR.Spec.DependsOn {
		vr, elsewhere, err := lookup.Get(ctx, d.Name)
		if why := unreadiness(d.Name, vr, err); why != "" {
			waits = append(waits, why)
			if elsewhere || err != nil || p.reconciler.Assignment.Elsewhere != nil && vr == nil { // no event of the cache ends it
				until = p.plan.Now.Add(elsewhereRetry)
			}
		}
	}
	if len(waits) == 0 {
		return nil
	}
	message := "spec.dependsOn: " + strings.Join(waits, "; ")
	if _, path := reach(ctx, &lookup, p.plan.VR); path != "" {
		message += ". They depend on each other, so that none is applied: " + path + ". Remove one of them from spec.dependsOn"
	}
	return &object.Failure{Reason: v1alpha1.ReasonDependencyNotReady, Message: message, Awaited: true, Until: until}
}

// unreadiness returns why a dependency is not Ready; empty if it is.
func unreadiness(name string, vr *v1alpha1.VidraResource, err error) string {
	switch {
	case err != nil:
		return fmt.Sprintf("VidraResource %s cannot be read: %v", name, err)
	case vr == nil:
		return fmt.Sprintf("VidraResource %s does not exist", name)
	case vr.IsReady():
		return ""
	case !vr.DeletionTimestamp.IsZero():
		return fmt.Sprintf("VidraResource %s is being deleted", name)
	}
	ready := meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return fmt.Sprintf("VidraResource %s is not Ready at generation %d yet", name, vr.Generation)
	}
	return fmt.Sprintf("VidraResource %s is not Ready (%s)", name, ready.Reason)
}

// reach returns the names of the VidraResources that one depends on, itself or through others, and a path of dependencies that ends where it has been
// before, or empty.
func reach(ctx context.Context, lookup *owners.Lookup, from *v1alpha1.VidraResource) (all map[string]bool, cycle string) {
	all = map[string]bool{}
	var path []string
	at := map[string]int{} // the places of the names in path
	var visit func(vr *v1alpha1.VidraResource)
	visit = func(vr *v1alpha1.VidraResource) {
		at[vr.Name] = len(path)
		path = append(path, vr.Name)
		defer func() {
			path = path[:len(path)-1]
			delete(at, vr.Name)
		}()
		for _, next := range dependsOn(vr) {
			if i, is := at[next]; is {
				if cycle == "" {
					cycle = strings.Join(append(slices.Clone(path[i:]), next), " -> ")
				}
				continue
			}
			if all[next] || len(all) == maxDependencies {
				continue
			}
			all[next] = true
			if of, _, err := lookup.Get(ctx, next); err == nil && of != nil { // one that cannot be read is reported as such
				visit(of)
			}
		}
	}
	visit(from)
	return all, cycle
}

// dependents returns why the deletion of the VidraResource waits for those that depend on it, and until when; else nil. One that
// the VidraResource depends on itself is left out.
func (p *pass) dependents(ctx context.Context) (*object.Failure, time.Time) {
	if p.plan.VR.DeletionTimestamp.IsZero() {
		return nil, time.Time{}
	}
	p.state.deletion.ordered = cmp.Or(p.state.deletion.ordered, p.plan.Now)
	var list v1alpha1.VidraResourceList
	if err := p.reconciler.Clients.Client.List(ctx, &list, client.MatchingFields{dependsOnField: p.plan.VR.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return &object.Failure{Reason: v1alpha1.ReasonDeleting, Message: "it is not known which VidraResources depend on it: " + err.Error()}, p.plan.Now.Add(time.Second)
	}
	lookup := owners.Lookup{Cache: p.reconciler.Clients.Client, Elsewhere: p.reconciler.Assignment.Elsewhere}
	needs, _ := reach(ctx, &lookup, p.plan.VR)
	for i := range list.Items {
		dependent := &list.Items[i]
		limit, state := dependentsGrace, "delete it, too, or remove this one from its spec.dependsOn"
		if !dependent.DeletionTimestamp.IsZero() {
			limit, state = dependentsLimit, "it is being deleted"
		}
		until := p.state.deletion.ordered.Add(limit) // the operator may have been down since the deletion, and its clock is another one
		if dependent.Name == p.plan.VR.Name || needs[dependent.Name] || !p.plan.Now.Before(until) {
			continue
		}
		return &object.Failure{Reason: v1alpha1.ReasonDeleting, Awaited: true, Message: fmt.Sprintf(
			"the objects are removed when VidraResource %s is gone, which depends on this one (%s), and at the latest at %s",
			dependent.Name, state, until.UTC().Format(time.RFC3339))}, until
	}
	return nil, time.Time{}
}

// onDependency reconciles the VidraResources that wait for another one: for it to be Ready, or for its deletion.
func (r *Reconciler) onDependency() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, _ queue) { r.wakeDependents(ctx, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, _ queue) {
			r.wakeDependents(ctx, e.Object)
			r.wakeDeleted(ctx, dependsOn(e.Object))
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, _ queue) {
			before, is := e.ObjectOld.(*v1alpha1.VidraResource)
			after, are := e.ObjectNew.(*v1alpha1.VidraResource)
			if !is || !are {
				return
			}
			if unreadiness("", before, nil) != unreadiness("", after, nil) { // the text that the dependents show
				r.wakeDependents(ctx, after)
			}
			if before.Generation != after.Generation || isReplaced(before, after) { // a deletion is a generation, too
				r.wakeDeleted(ctx, append(dependsOn(before), dependsOn(after)...))
			}
		},
	}
}

// wakeDependents reconciles the VidraResources that depend on one.
func (r *Reconciler) wakeDependents(ctx context.Context, on client.Object) {
	var list v1alpha1.VidraResourceList
	if err := r.Clients.Client.List(ctx, &list, client.MatchingFields{dependsOnField: on.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		return // only the end of ctx ends a list of the cache
	}
	for i := range list.Items {
		r.Watching.Trigger.EnqueueRetry(trigger.Owner{Name: list.Items[i].Name})
	}
}

// wakeDeleted reconciles the VidraResources among names that are being deleted.
func (r *Reconciler) wakeDeleted(ctx context.Context, names []string) {
	for _, name := range names {
		if vr, err := owners.Cached(ctx, r.Clients.Client, name); err == nil && vr != nil && !vr.DeletionTimestamp.IsZero() {
			r.Watching.Trigger.EnqueueAll(trigger.Owner{Name: name})
		}
	}
}
