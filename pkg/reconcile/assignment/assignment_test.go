package assignment

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

func TestRequested(t *testing.T) {
	t.Parallel()
	labelled := func(key, value string) func(*v1alpha1.VidraResource) {
		return func(vr *v1alpha1.VidraResource) { vr.Labels = map[string]string{key: value} }
	}
	shards := func(all ...string) func(*v1alpha1.VidraResource) {
		return func(vr *v1alpha1.VidraResource) {
			vr.Labels, vr.Status.Shards = map[string]string{"key": "one"}, all
		}
	}
	held := func(vr *v1alpha1.VidraResource) { vr.Finalizers = []string{v1alpha1.Installation("east").Finalizer()} }
	request := func(vr *v1alpha1.VidraResource) {
		vr.Annotations = map[string]string{v1alpha1.ReconcileRequestedAtAnnotation: "now"}
	}
	none := func(*v1alpha1.VidraResource) {}
	cases := map[string]struct {
		reason        string
		before, after func(*v1alpha1.VidraResource)
		own           v1alpha1.Shard
		want          bool
	}{
		"Nothing":      {"Nothing has changed.", none, none, "", false},
		"A label":      {"It is not one of Vidra's.", none, labelled("team", "web"), "", false},
		"Installation": {"Another one reconciles it.", none, labelled(v1alpha1.InstallationLabel, "east"), "", true},
		"Held":         {"It has to wait.", none, held, "", false},
		"Released":     {"It need not wait any more.", held, none, "", true},
		"Request":      {"A user asks for it.", none, request, "", true},
		"Own shard":    {"The operator wrote it.", shards(), shards("key=one"), "key=one", false},
		"Overlap":      {"Another operator reconciles it, too.", shards("key=one"), shards("key", "key=one"), "key=one", true},
		"Left":         {"The shard is left.", shards("key=one"), func(vr *v1alpha1.VidraResource) { vr.Status.Shards = []string{"key=one"} }, "", true},
		"Old one":      {"The shard before does not match.", shards("key=two"), shards("key=one"), "key=one", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := &v1alpha1.VidraResource{}, &v1alpha1.VidraResource{}
			tc.before(before)
			tc.after(after)
			a := &Assignment{Shard: tc.own}
			require.Equal(t, tc.want, a.Requested(before, after), tc.reason)
		})
	}
}

// TestLeft: the reconcile of a VidraResource that leaves the shard ends, and no other one.
func TestLeft(t *testing.T) {
	t.Parallel()
	a := &Assignment{Shard: "key=one"}
	web, _, endWeb := a.Running(t.Context(), trigger.Owner{Name: "web"})
	api, left, endAPI := a.Running(t.Context(), trigger.Owner{Name: "api"})
	gone := &v1alpha1.VidraResource{}
	gone.Name = "web"
	require.True(t, a.Left(event.DeleteEvent{Object: gone}), "it is forgotten next")
	require.ErrorIs(t, web.Err(), context.Canceled)
	require.NoError(t, api.Err())
	deleted := &v1alpha1.VidraResource{}
	deleted.Name, deleted.DeletionTimestamp = "api", new(metav1.Now())
	require.True(t, a.Left(event.DeleteEvent{Object: deleted}))
	require.NoError(t, api.Err(), "its finalizer was removed by that reconcile")
	endWeb()
	endAPI()
	require.Empty(t, slices.Collect(a.cancels.All()))
	require.False(t, left)
	_, left, endWeb = a.Running(t.Context(), trigger.Owner{Name: "web"})
	require.True(t, left, "another shard may have reconciled it")
	endWeb()
	_, left, endWeb = a.Running(t.Context(), trigger.Owner{Name: "web"})
	require.False(t, left)
	endWeb()
	require.True(t, a.Left(event.DeleteEvent{Object: gone}), "none runs")

	all := &Assignment{}
	ctx, _, end := all.Running(t.Context(), trigger.Owner{Name: "web"})
	require.True(t, all.Left(event.DeleteEvent{Object: gone}))
	require.NoError(t, ctx.Err(), "without a shard nothing leaves it")
	require.Empty(t, all.left)
	end()
}

// TestUnlabelled has shards change while a manifest is invalid. The labels of objects are written afterwards, unless the shards
// are those before again.
func TestUnlabelled(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason               string
		before, others, want []string
	}{
		"First":   {"No shard had it: the status has none.", nil, []string{"b"}, nil},
		"Moved":   {"The one before stays as a mark.", []string{"a"}, []string{"b"}, []string{"a", "b"}},
		"Again":   {"The mark stays.", []string{"a", "b"}, []string{"b"}, []string{"a", "b"}},
		"Third":   {"One mark is enough.", []string{"a", "b"}, []string{"c"}, []string{"a", "c"}},
		"Back":    {"It has the labels.", []string{"a"}, []string{"a"}, []string{"a"}},
		"Overlap": {"The new one is added later.", []string{"a"}, []string{"a", "b"}, []string{"a"}},
		"None":    {"The labels are removed later.", []string{"a"}, nil, []string{"a"}},
	}
	require.Equal(t, []string{"b"}, Unlabelled([]string{"a"}, []string{"b"}, 0), "no object has a label")
	many := []string{"1", "2", "3", "4", "5", "6", "7", "8"}
	require.Len(t, Unlabelled([]string{"a"}, many, 1), v1alpha1.MaxShards, "the status has no more")
	for name, tc := range cases {
		require.Equal(t, tc.want, Unlabelled(tc.before, tc.others, 1), "%s: %s", name, tc.reason)
	}
}
