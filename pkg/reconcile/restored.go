package reconcile

import (
	"slices"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// restored reports whether an update of a VidraResource shows another one of its name, or that etcd was restored from a backup, after which
// generations count anew: its state is made anew from the cache.
func (r *Reconciler) restored(before, after *v1alpha1.VidraResource) bool {
	if follows(before, after) {
		return false
	}
	r.states.restart(trigger.Owner{Name: after.Name}, true)
	return true
}

// follows reports whether a VidraResource may be the same one at a later time. Two specs have one generation if etcd was restored in between: the
// fields that decide about removals are compared, and not all, as the cache may lack a new default.
func follows(before, after *v1alpha1.VidraResource) bool {
	if after.UID != before.UID || after.Generation < before.Generation || cluster.Older(after.ResourceVersion, before.ResourceVersion) {
		return false
	}
	return after.Generation > before.Generation || after.Spec.Manifest == before.Spec.Manifest && slices.Equal(source.KeysOf(after), source.KeysOf(before)) &&
		after.Orphans() == before.Orphans() && after.Spec.Suspend == before.Spec.Suspend && after.Spec.UnmanagedContents.Blocks() == before.Spec.UnmanagedContents.Blocks()
}
