package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/assignment"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

func TestFollows(t *testing.T) {
	t.Parallel()
	of := func(uid types.UID, generation int64, version, manifest string, parts ...string) *v1alpha1.VidraResource {
		vr := &v1alpha1.VidraResource{}
		vr.UID, vr.Generation, vr.ResourceVersion, vr.Spec.Manifest = uid, generation, version, manifest
		for _, name := range parts {
			vr.Spec.ManifestFrom = append(vr.Spec.ManifestFrom, v1alpha1.ManifestSource{Kind: "ConfigMap", Namespace: "shop", Name: name})
		}
		return vr
	}
	with := func(change func(vr *v1alpha1.VidraResource)) *v1alpha1.VidraResource {
		vr := of("u1", 4, "110", "a", "part")
		change(vr)
		return vr
	}
	before := of("u1", 4, "100", "a", "part")
	for name, tc := range map[string]struct {
		reason string
		after  *v1alpha1.VidraResource
		want   bool
	}{
		"same":           {"Nothing has changed.", before, true},
		"status":         {"Its status has changed.", of("u1", 4, "110", "a", "part"), true},
		"spec":           {"Its spec has changed.", of("u1", 5, "110", "b"), true},
		"no number":      {"The versions have no order.", of("u1", 4, "x", "a", "part"), true},
		"former version": {"Etcd was restored.", of("u1", 4, "90", "a", "part"), false},
		"former spec":    {"Etcd was restored, and the status was written.", of("u1", 3, "110", "a", "part"), false},
		"other manifest": {"Etcd was restored, and the spec was written.", of("u1", 4, "110", "b", "part"), false},
		"other part":     {"Etcd was restored, and the spec was written.", of("u1", 4, "110", "a", "another"), false},
		"kept objects":   {"Etcd was restored, and the spec was written.", with(func(vr *v1alpha1.VidraResource) { vr.Spec.Prune = ptr.To(false) }), false},
		"suspended":      {"Etcd was restored, and the spec was written.", with(func(vr *v1alpha1.VidraResource) { vr.Spec.Suspend = true }), false},
		"blocked":        {"Etcd was restored, and the spec was written.", with(func(vr *v1alpha1.VidraResource) { vr.Spec.UnmanagedContents = v1alpha1.UnmanagedBlock }), false},
		"defaults": {"The definition has got a default.", with(func(vr *v1alpha1.VidraResource) {
			vr.Spec.Prune, vr.Spec.UnmanagedContents = ptr.To(true), v1alpha1.UnmanagedDelete
		}), true},
		"other UID": {"It is another one.", of("u2", 4, "110", "a", "part"), false},
	} {
		require.Equal(t, tc.want, follows(before, tc.after), "%s: %s", name, tc.reason)
	}
}

// TestRestored: etcd was restored from a backup, and the next spec has the generation of the former one. It is applied, and before the cache shows it, no
// object is removed.
func TestRestored(t *testing.T) {
	t.Parallel()
	l := newLab(t, colors("a"))
	l.mustPass(t)
	before := l.get(t)
	p := l.newPass(faulty, before, trigger.Causes{}, seal.Keys{seal.NewKey()})
	require.NoError(t, p.stale(t.Context()))
	after := l.get(t)
	after.Spec.Manifest = colors("a", "b")
	require.NoError(t, l.client.Update(t.Context(), after))
	require.Equal(t, before.Generation, after.Generation)
	require.ErrorContains(t, p.stale(t.Context()), "has changed since it was read")
	p.state.lane.leave()
	l.done = nil
	require.True(t, l.restored(before, after))
	l.mustPass(t)
	require.Contains(t, l.done, "b")
	require.False(t, l.restored(after, l.get(t)))
}

// TestInventoryOfARestoredStatus: the status of a backup lacks objects that were applied since, which stay in the inventory until they are removed.
func TestInventoryOfARestoredStatus(t *testing.T) {
	t.Parallel()
	l := newLab(t, colors("a", "b"))
	l.mustPass(t)
	known := l.states.of(faulty)
	require.Len(t, known.plan.Objects.Inventory(), 2)
	lost := known.plan.Objects.Inventory()[1].Entry
	lost.Sensitive, lost.Aggregated, lost.RemoveAs = true, true, "shop/former"
	backup := l.get(t)
	backup.Status.ManagedResources = backup.Status.ManagedResources[:1]
	l.states.restart(faulty, true)
	renewed := l.states.renew(faulty, backup, seal.Keys{seal.NewKey()})
	require.Len(t, renewed.plan.Objects.Inventory(), 2)
	for _, o := range renewed.plan.Objects.Inventory() {
		before := known.plan.Objects.ByID[o.ID].Entry
		require.Equal(t, []any{before.UID, before.Sensitive, before.Aggregated, before.RemoveAs}, []any{o.Entry.UID, o.Entry.Sensitive, o.Entry.Aggregated, o.Entry.RemoveAs})
	}
	l.states.restart(faulty, false)
	require.Len(t, l.states.renew(faulty, backup, seal.Keys{seal.NewKey()}).plan.Objects.Inventory(), 1, "a conflict alone")
}

// TestReleaseIsNotStale: a VidraResource of another installation keeps its objects from now on, which is no changed spec.
func TestReleaseIsNotStale(t *testing.T) {
	t.Parallel()
	l := newLab(t, colors("a"))
	l.mustPass(t)
	vr := l.get(t)
	vr.Labels = map[string]string{v1alpha1.InstallationLabel: "east"}
	require.NoError(t, l.client.Update(t.Context(), vr))
	assignment.Release(vr)
	p := l.newPass(faulty, vr, trigger.Causes{}, seal.Keys{seal.NewKey()})
	defer p.state.lane.leave()
	require.NoError(t, p.stale(t.Context()))
}
