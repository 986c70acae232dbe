package sync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// maxNames is how many names a message, or the status, has.
const maxNames = 10

// removals are the VidraResources whose artifacts are gone.
type removals struct {
	// now are deleted.
	now []*v1alpha1.VidraResource
	// pending are deleted only after a confirmation; optional.
	pending *v1alpha1.PendingRemovals
	// why is its reason, for messages.
	why string
	// confirmed are the VidraResources whose removal was confirmed, and that exist.
	confirmed map[types.UID]bool
}

// planRemovals decides which of the VidraResources that an InfrahubSync controls are deleted. listed are the names of those
// whose artifacts a complete answer has, and unapplied is how many of these artifacts are unapplied. confirmed are the
// VidraResources whose removal was confirmed before: some of them may be deleted already.
func planRemovals(is *v1alpha1.InfrahubSync, controlled []*v1alpha1.VidraResource, listed map[string]bool, unapplied int, confirmed map[types.UID]bool) removals {
	var gone []*v1alpha1.VidraResource
	existing := 0
	for _, vr := range controlled {
		if !metav1.IsControlledBy(vr, is) || !vr.DeletionTimestamp.IsZero() {
			continue
		}
		existing++
		if !listed[vr.Name] {
			gone = append(gone, vr)
		}
	}
	if len(gone) == 0 {
		return removals{}
	}
	slices.SortFunc(gone, func(a, b *v1alpha1.VidraResource) int { return cmp.Compare(a.Name, b.Name) })
	why := ""
	switch {
	case is.Spec.Prune.Waits():
		why = "spec.prune is " + string(is.Spec.Prune)
	case len(listed) == 0:
		why = "the server lists no artifact any more"
	case 2*len(gone) > existing:
		why = fmt.Sprintf("these are more than half of the %d VidraResources", existing)
	case unapplied > 0: // one of these artifacts may have the same objects
		why = fmt.Sprintf("%d artifacts are not applied, and may have objects of these VidraResources", unapplied)
	}
	pending, all := pendingOf(is, gone)
	remains := map[types.UID]bool{}
	for _, vr := range gone {
		if confirmed[vr.UID] || all {
			remains[vr.UID] = true
		}
	}
	if why == "" || len(remains) == len(gone) {
		return removals{now: gone, confirmed: remains}
	}
	return removals{pending: pending, why: why}
}

// pendingOf describes VidraResources that are deleted only after a confirmation, which are in the order of their names, and reports whether they are
// confirmed.
func pendingOf(is *v1alpha1.InfrahubSync, gone []*v1alpha1.VidraResource) (pending *v1alpha1.PendingRemovals, confirmed bool) {
	ids, names := make([]string, 0, 2*len(gone)), make([]string, 0, len(gone))
	for _, vr := range gone {
		ids, names = append(ids, vr.Name, string(vr.UID)), append(names, vr.Name)
	}
	return pendingRemovals(is, names, ids...)
}

// pendingRemovals describes removals that wait, and reports whether the InfrahubSync confirms them. ids identify them.
func pendingRemovals(is *v1alpha1.InfrahubSync, names []string, ids ...string) (pending *v1alpha1.PendingRemovals, confirmed bool) {
	wait := cmp.Or(waitOf(is), digest(is.Annotations[v1alpha1.ConfirmRemovalAnnotation]))
	pending = &v1alpha1.PendingRemovals{Confirmation: digest(ids...) + "-" + wait, Count: count(len(names)), Names: names[:min(len(names), maxNames)]}
	return pending, confirmationOf(is) == pending.Confirmation
}

// waitOf returns the last part of the confirmations that an InfrahubSync asks for, which is the same while removals wait; empty if none do.
func waitOf(is *v1alpha1.InfrahubSync) string {
	if pending := is.Status.PendingRemovals; pending != nil {
		if ids, wait, _ := strings.Cut(pending.Confirmation, "-"); len(wait) == len(ids) {
			return wait
		}
	}
	return ""
}

// confirmationOf returns the confirmation of an InfrahubSync; empty without one. It counts while removals wait: the server may list the artifacts again
// before it comes, and lack them later by a fault.
func confirmationOf(is *v1alpha1.InfrahubSync) string {
	confirmation, wait := is.Annotations[v1alpha1.ConfirmRemovalAnnotation], waitOf(is)
	if wait == "" || !strings.HasSuffix(confirmation, "-"+wait) {
		return ""
	}
	return confirmation
}

// deleteAttempts is how often a deletion is tried while another client changes the VidraResource.
const deleteAttempts = 3

// controlled returns the VidraResources that the InfrahubSync controls, before the sync changes any. If one of them is
// unlisted, they come from the API server, since the cache may lack some that were written recently: then more than half seem
// to be gone. listed are the names of the VidraResources of listed artifacts.
func (r *run) controlled(ctx context.Context, listed map[string]bool) (found []*v1alpha1.VidraResource, err error) {
	if r.reconciler.Options.Shard == "" && !r.session.results.wroteOthers(listed) {
		list := &v1alpha1.VidraResourceList{}
		if err := r.reconciler.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list VidraResources: %w", err)
		}
		gone := false
		for i := range list.Items {
			if vr := &list.Items[i]; metav1.IsControlledBy(vr, r.is) {
				found, gone = append(found, vr), gone || !listed[vr.Name]
			}
		}
		if !gone {
			return found, nil
		}
	}
	return r.controlledNow(ctx)
}

// controlledNow lists the VidraResources that the InfrahubSync controls at the API server, without their content.
func (r *run) controlledNow(ctx context.Context) (found []*v1alpha1.VidraResource, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind + "List"))
	if err := r.reconciler.API.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list VidraResources: %w: grant list on vidraresources to the operator", err)
	}
	exists := map[string]bool{}
	for i := range list.Items {
		if one := &list.Items[i]; metav1.IsControlledBy(one, r.is) {
			exists[one.Name] = true
			found = append(found, &v1alpha1.VidraResource{ObjectMeta: one.ObjectMeta})
		}
	}
	r.session.results.retain(exists)
	return found, nil
}

// remove deletes the VidraResources whose artifacts are gone, as far as that is permitted.
func (r *run) remove(ctx context.Context, controlled []*v1alpha1.VidraResource, listed map[string]bool) error {
	plan := planRemovals(r.is, controlled, listed, len(r.result.artifacts.problems), r.session.confirmed)
	r.result.removals.pending, r.result.removals.why = plan.pending, plan.why
	r.session.confirmed = plan.confirmed
	var faults []error
	for _, vr := range plan.now {
		if err := r.unchanged(ctx); err != nil {
			return errors.Join(append(faults, err)...)
		}
		deleted, err := r.delete(ctx, vr)
		if err != nil { // a policy may quote the manifest, which was not read
			faults = append(faults, fmt.Errorf("delete VidraResource %s: %s", vr.Name, textOf(err, ownership.Disclosure{})))
		} else if deleted {
			r.result.written.deleted = append(r.result.written.deleted, vr.Name)
		}
	}
	return errors.Join(faults...)
}

// delete deletes a VidraResource that this InfrahubSync controls.
func (r *run) delete(ctx context.Context, vr *v1alpha1.VidraResource) (bool, error) {
	key := client.ObjectKeyFromObject(vr)
	for attempt := 1; ; attempt++ {
		err := r.reconciler.Client.Delete(ctx, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: vr.Name}}, client.Preconditions{UID: &vr.UID, ResourceVersion: &vr.ResourceVersion})
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case !apierrors.IsConflict(err) || attempt == deleteAttempts:
			return err == nil, err
		}
		now := &v1alpha1.VidraResource{}
		if err := r.reconciler.API.Get(ctx, key, now); apierrors.IsNotFound(err) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		if now.UID != vr.UID || !metav1.IsControlledBy(now, r.is) {
			return false, nil // it is not ours any more
		}
		vr = now
	}
}
