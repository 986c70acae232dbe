package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

func TestCatchUp(t *testing.T) {
	t.Parallel()
	deletion := metav1.NewTime(time.Now())
	of := func(name string, uid types.UID, generation int64, version string, deleting bool) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Name: name, UID: uid, Generation: generation, ResourceVersion: version}
		if deleting {
			m.DeletionTimestamp = &deletion
		}
		return m
	}
	listed := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "100"}, Items: []runtime.RawExtension{
		{Object: &metav1.PartialObjectMetadata{ObjectMeta: of("shop", "u1", 3, "90", false)}},
		{Object: &metav1.PartialObjectMetadata{ObjectMeta: of("leaving", "u2", 2, "95", true)}},
	}}
	scheme := runtime.NewScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	fake, failures, lists := metadatafake.NewSimpleMetadataClient(scheme), 1, 0
	fake.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		lists++
		if failures > 0 {
			failures--
			return true, nil, errors.New("away")
		}
		return true, listed, nil
	})
	caughtUp, resource := &catchUp{}, fake.Resource(v1alpha1.Resource)
	_, err := caughtUp.reached(t.Context(), resource, &v1alpha1.VidraResource{})
	require.ErrorContains(t, err, "away")

	cases := map[string]struct {
		reason string
		seen   metav1.ObjectMeta
		want   bool
	}{
		"current":               {"The cache shows the version of the list.", of("shop", "u1", 3, "90", false), true},
		"behind":                {"Its spec has changed since.", of("shop", "u1", 2, "80", false), false},
		"status behind":         {"Its status alone has changed since: it is read.", of("shop", "u1", 3, "85", false), true},
		"changed since":         {"A later version than the list.", of("shop", "u1", 4, "101", false), true},
		"not yet leaving":       {"It is being deleted.", of("leaving", "u2", 2, "85", false), false},
		"leaving":               {"The cache shows that, too.", of("leaving", "u2", 2, "95", true), true},
		"deleted":               {"The list does not have it.", of("gone", "u3", 1, "50", false), false},
		"created since":         {"After the list.", of("new", "u4", 1, "101", false), true},
		"deleted and recreated": {"Another one of its name is in the list.", of("shop", "u0", 9, "70", false), false},
		"no number":             {"Versions that cannot be compared show nothing.", of("gone", "u3", 1, "abc", false), true},
	}
	for name, tc := range cases {
		current, err := caughtUp.reached(t.Context(), resource, &v1alpha1.VidraResource{ObjectMeta: tc.seen})
		require.NoError(t, err, name)
		require.Equal(t, tc.want, current, "%s: %s", name, tc.reason)
	}
	require.Equal(t, 2, lists, "one list answers all")
	for name, tc := range map[string]struct {
		reason         string
		cached, live   metav1.ObjectMeta
		read, requeued bool
	}{
		"current":       {"The cache has its version.", of("shop", "u1", 3, "90", false), of("shop", "u1", 3, "90", false), false, false},
		"later":         {"The cache has a later version.", of("shop", "u1", 3, "99", false), of("shop", "u1", 3, "120", false), false, false},
		"created since": {"The list does not have it.", of("new", "u4", 1, "101", false), of("new", "u4", 1, "120", false), false, false},
		"status behind": {"The cache has a former status.", of("shop", "u1", 3, "85", false), of("shop", "u1", 3, "120", false), true, false},
		"spec changed":  {"Its event follows.", of("shop", "u1", 3, "85", false), of("shop", "u1", 4, "120", false), true, true},
		"recreated":     {"Its event follows.", of("shop", "u1", 3, "85", false), of("shop", "u9", 3, "120", false), true, true},
		"deleted since": {"Its event follows.", of("shop", "u1", 3, "85", false), of("shop", "u1", 3, "120", true), true, true},
	} {
		api := &fakeReader{vr: &v1alpha1.VidraResource{ObjectMeta: tc.live}}
		now, err := (&catchUp{}).latest(t.Context(), resource, api, &v1alpha1.VidraResource{ObjectMeta: tc.cached})
		require.NoError(t, err, name)
		switch {
		case tc.requeued:
			require.Nil(t, now, "%s: %s", name, tc.reason)
		case tc.read:
			require.Equal(t, tc.live.ResourceVersion, now.ResourceVersion, "%s: %s", name, tc.reason)
		default:
			require.Equal(t, tc.cached.ResourceVersion, now.ResourceVersion, "%s: %s", name, tc.reason)
		}
	}
	// After a conflict, the cache of any version is behind; one read tells the state to wait for.
	for name, tc := range map[string]struct {
		reason       string
		live         metav1.ObjectMeta
		reads, again int
		current      bool
		next         metav1.ObjectMeta
	}{
		"status changed": {"It is read until the cache has it.", of("stuck", "u5", 3, "120", false), 1, 2, true, of("stuck", "u5", 3, "120", false)},
		"spec changed":   {"Its event is awaited without requests.", of("stuck", "u5", 4, "120", false), 1, 1, false, of("stuck", "u5", 4, "121", false)},
		"leaving":        {"Its event is awaited without requests.", of("stuck", "u5", 3, "120", true), 1, 1, false, of("stuck", "u5", 3, "120", true)},
		"recreated":      {"Its event is awaited without requests.", of("stuck", "u9", 1, "120", false), 1, 1, false, of("stuck", "u9", 1, "120", false)},
		"gone":           {"Its event is awaited without requests.", metav1.ObjectMeta{}, 1, 1, false, of("stuck", "u9", 1, "120", false)},
		"no other write": {"The conflict has ended.", of("stuck", "u5", 3, "110", false), 1, 1, true, of("stuck", "u5", 3, "110", false)},
	} {
		cached, api := &v1alpha1.VidraResource{ObjectMeta: of("stuck", "u5", 3, "110", false)}, &fakeReader{vr: &v1alpha1.VidraResource{ObjectMeta: tc.live}}
		caughtUp := &catchUp{}
		latest := func(vr *v1alpha1.VidraResource) *v1alpha1.VidraResource {
			now, err := caughtUp.latest(t.Context(), resource, api, vr)
			require.NoError(t, err, name)
			return now
		}
		require.Same(t, cached, latest(cached), name)
		caughtUp.conflicted(cached)
		for _, reads := range []int{tc.reads, tc.again} {
			now := latest(cached)
			require.Equal(t, tc.current, now != nil, "%s: %s", name, tc.reason)
			require.Equal(t, reads, api.reads, "%s: %s", name, tc.reason)
			if tc.current {
				require.Equal(t, tc.live.ResourceVersion, now.ResourceVersion, name)
			}
		}
		shown := &v1alpha1.VidraResource{ObjectMeta: tc.next}
		require.Same(t, shown, latest(shown), "%s: its event came", name)
		require.Equal(t, tc.again, api.reads, name)
	}
	recreated := &catchUp{}
	for _, uid := range []types.UID{"u0", "u1"} {
		current, err := recreated.reached(t.Context(), resource, &v1alpha1.VidraResource{ObjectMeta: of("shop", uid, 3, "90", false)})
		require.NoError(t, err)
		require.Equal(t, uid == "u1", current, "the one of the list, after another one of its name was seen to be gone")
		recreated.forget("shop")
	}
	caughtUp.forget("shop")
	current, err := caughtUp.reached(t.Context(), resource, &v1alpha1.VidraResource{ObjectMeta: of("shop", "u1", 3, "90", false)})
	require.NoError(t, err)
	require.False(t, current, "it was seen to be gone")
}

// fakeReader has one VidraResource, or none if that has no name.
type fakeReader struct {
	vr    *v1alpha1.VidraResource
	reads int
}

func (f *fakeReader) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	f.reads++
	if f.vr.Name == "" {
		return apierrors.NewNotFound(v1alpha1.Resource.GroupResource(), key.Name)
	}
	f.vr.DeepCopyInto(obj.(*v1alpha1.VidraResource))
	return nil
}

func (f *fakeReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("not expected")
}
