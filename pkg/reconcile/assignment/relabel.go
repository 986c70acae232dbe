package assignment

import (
	"context"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/retry"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Relabel gives the applied objects of the manifest the labels of shards, and takes the labels of other shards from
// them. It leaves other fields as they are: the watch, which shows the object from now
// on, finds an edited one. An object whose relabel fails is missing in the watch, and is applied as one that has lost
// its label.
func Relabel(ctx context.Context, a *apply.Applier, s *plan.State, shards []string) {
	var objects []*plan.Object
	for _, o := range s.Objects.Manifest {
		if o.Entry != nil && o.Entry.UID != "" {
			objects = append(objects, o)
		}
	}
	failed := make([]error, len(objects))
	a.Parallel(len(objects), func(i int) {
		failed[i] = retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error { return relabel(ctx, a, objects[i]) })
	})
	for i, err := range failed {
		if err != nil {
			ctrllog.FromContext(ctx).Info("Cannot write the label of the shard alone. The object is applied instead.", "object", objects[i].ID.String(),
				"error", object.Message(err, objects[i].Desired.Disclosure(objects[i].WasSensitive())))
		}
	}
	s.Origin.Provenance.Shards = shards
}

// Unlabelled returns the shards in the status of a VidraResource that changes from the shards before to others, while its
// objects, a number of them, fail to get their labels. They differ from the others until then, and have them as far as
// possible.
func Unlabelled(before, others []string, objects int) []string {
	if objects == 0 {
		return others
	}
	i := slices.IndexFunc(before, func(s string) bool { return !slices.Contains(others, s) })
	if i < 0 { // none before, or more of them now
		return before
	}
	return slices.Sorted(slices.Values(append(slices.Clone(others[:min(len(others), v1alpha1.MaxShards-1)]), before[i])))
}

// relabel relabels one object, by an apply of our fields in it as they are.
func relabel(ctx context.Context, a *apply.Applier, o *plan.Object) error {
	key := o.Desired.Key
	live, err := a.Get(ctx, key)
	if err != nil || live == nil || live.GetDeletionTimestamp() != nil {
		return err
	}
	ours, ok := ownership.Extract(live, a.Settings.Claimant.Manager)
	if !ok || !mark(ours, a) {
		return nil
	}
	ours.SetUID(live.GetUID()) // an apply creates what does not exist, unless it names the one that it is for
	ours.SetResourceVersion(live.GetResourceVersion())
	body, err := desired.Encode(ours)
	if err != nil {
		return err
	}
	written, err := a.ApplyBody(ctx, key, body, false)
	if err != nil {
		return err
	}
	if digest := trigger.DigestOf(live, a.Settings.Claimant.Manager, false, nil); digest.String() == o.Entry.Digest {
		o.Entry.Digest = trigger.DigestOf(written, a.Settings.Claimant.Manager, false, nil).String()
	}
	return nil
}

// mark sets the labels of the shards, and reports whether that is a change.
func mark(u *unstructured.Unstructured, a *apply.Applier) (changed bool) {
	before, all := u.GetLabels(), labels.Set{}
	for _, key := range a.Settings.Claimant.ShardLabels {
		all[key] = ""
	}
	all = labels.Merge(all, before)
	maps.DeleteFunc(all, func(key, _ string) bool {
		return a.Settings.Claimant.Installation.IsShardLabel(key) && !slices.Contains(a.Settings.Claimant.ShardLabels, key)
	})
	u.SetLabels(all)
	return !maps.Equal(all, before)
}
