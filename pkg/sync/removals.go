package sync

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// maxNames is how many names a message, or the status, has.
const maxNames = 10

// removals are the VidraResources whose artifacts are gone.
type removals struct {
	// now are deleted.
	now []*v1alpha1.VidraResource
	// pending are not deleted without a confirmation; nil if there are none.
	pending *v1alpha1.PendingRemovals
	// why is the reason for that, for messages.
	why string
	// confirmed are the VidraResources whose removal was confirmed, and that exist.
	confirmed map[types.UID]bool
}

// planRemovals decides which of the VidraResources that an InfrahubSync controls are deleted. listed are the names of those
// whose artifacts a complete answer has, and unapplied is how many of these artifacts are not applied. confirmed are the
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
	case is.Spec.Prune == v1alpha1.SyncPruneConfirm:
		why = "spec.prune is Confirm"
	case len(listed) == 0:
		why = "the server lists no artifact any more"
	case 2*len(gone) > existing:
		why = fmt.Sprintf("these are more than half of the %d VidraResources", existing)
	case unapplied > 0: // one of these artifacts may have the same objects
		why = fmt.Sprintf("%d artifacts are not applied, and may have objects of these VidraResources", unapplied)
	}
	pending := pendingOf(gone)
	remains := map[types.UID]bool{}
	for _, vr := range gone {
		if confirmed[vr.UID] || is.Annotations[v1alpha1.ConfirmRemovalAnnotation] == pending.Confirmation {
			remains[vr.UID] = true
		}
	}
	if why == "" || len(remains) == len(gone) {
		return removals{now: gone, confirmed: remains}
	}
	return removals{pending: pending, why: why}
}

// pendingOf describes VidraResources that are not deleted without a confirmation, which are in the order of their names.
func pendingOf(gone []*v1alpha1.VidraResource) *v1alpha1.PendingRemovals {
	ids, names := make([]string, 0, 2*len(gone)), make([]string, 0, len(gone))
	for _, vr := range gone {
		ids, names = append(ids, vr.Name, string(vr.UID)), append(names, vr.Name)
	}
	return &v1alpha1.PendingRemovals{
		Confirmation: digest(ids...), Count: int32(min(len(gone), 1<<30)), Names: names[:min(len(names), maxNames)], //nolint:gosec // it is bounded
	}
}
