package reconcile

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

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
			return true, nil, runtime.NewMissingKindErr(`{"items":[{"spec":{"manifest":"hunter2"}}]}`)
		}
		return true, listed, nil
	})
	caughtUp, resource := &catchUp{}, fake.Resource(v1alpha1.Resource)
	_, err := caughtUp.reached(t.Context(), resource, &v1alpha1.VidraResource{})
	require.EqualError(t, err, "list the VidraResources, as the cache may be behind the API server: Object 'Kind' is missing in an answer of the API server", "the log has it")

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
		now, err := (&catchUp{}).latest(t.Context(), resource, api, &v1alpha1.VidraResource{ObjectMeta: tc.cached}, everyShard)
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

// everyShard is the shard of an operator without one.
func everyShard(*v1alpha1.VidraResource) bool { return true }

// TestCatchUpAfterAConflict: the API server is read until the cache has caught up. Where the read shows another spec, the cache is awaited, and the read is repeated
// after its next event, and after a minute: a read may be wrong: a proxy answers, too.
func TestCatchUpAfterAConflict(t *testing.T) {
	t.Parallel()
	deletion := metav1.Now()
	of := func(uid types.UID, generation int64, version string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "shop", UID: uid, Generation: generation, ResourceVersion: version}
	}
	leaving := of("u5", 3, "120")
	leaving.DeletionTimestamp = &deletion
	cached := of("u5", 3, "110")
	notFound := apierrors.NewNotFound(v1alpha1.Resource.GroupResource(), "shop")
	ofProxy := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", v1alpha1.Resource.GroupResource(), "shop", "404 page not found", 0, true)
	cases := map[string]struct {
		reason   string
		live     metav1.ObjectMeta
		fails    error
		left     bool
		current  bool
		reads    int
		awaited  bool
		nextRead bool
	}{
		"status changed":    {reason: "It is read until the cache has it.", live: of("u5", 3, "120"), current: true, reads: 2, nextRead: true},
		"no other write":    {reason: "The conflict has ended.", live: cached, current: true, reads: 1},
		"spec changed":      {reason: "Its event is awaited.", live: of("u5", 4, "120"), reads: 1, awaited: true, nextRead: true},
		"leaving":           {reason: "Its event is awaited.", live: leaving, reads: 1, awaited: true, nextRead: true},
		"recreated":         {reason: "Its event is awaited.", live: of("u9", 1, "120"), reads: 1, awaited: true, nextRead: true},
		"gone":              {reason: "Its event is awaited.", fails: notFound, reads: 1, awaited: true, nextRead: true},
		"left the shard":    {reason: "Another operator reconciles it.", live: of("u5", 3, "120"), left: true, reads: 1, awaited: true, nextRead: true},
		"answer of a proxy": {reason: "It is no answer of the API server.", fails: ofProxy, reads: 2, awaited: true, nextRead: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, api := &catchUp{listed: map[string]listedVersion{}, version: "100"}, &fakeReader{vr: &v1alpha1.VidraResource{ObjectMeta: tc.live}, fails: tc.fails}
			latest := func(is metav1.ObjectMeta) *v1alpha1.VidraResource {
				now, err := c.latest(t.Context(), nil, api, &v1alpha1.VidraResource{ObjectMeta: is}, func(*v1alpha1.VidraResource) bool { return !tc.left })
				require.Equal(t, tc.fails != nil && !errors.Is(tc.fails, notFound) && api.reads > 0, err != nil, tc.reason)
				return now
			}
			next := func(version string) bool {
				after := of("u5", 3, version)
				return c.awaits(event.UpdateEvent{ObjectOld: &v1alpha1.VidraResource{ObjectMeta: cached}, ObjectNew: &v1alpha1.VidraResource{ObjectMeta: after}})
			}
			require.NotNil(t, latest(cached))
			require.False(t, next("111"), "no write met a conflict")
			c.conflicted(&v1alpha1.VidraResource{ObjectMeta: cached})
			require.True(t, next("111"))
			require.False(t, next("110"), "a resync shows nothing new")
			for range 2 {
				now := latest(cached)
				require.Equal(t, tc.current, now != nil, tc.reason)
				if tc.current {
					require.Equal(t, tc.live.ResourceVersion, now.ResourceVersion, tc.reason)
				}
			}
			require.Equal(t, tc.reads, api.reads, tc.reason)
			require.Equal(t, tc.awaited, next("111"), tc.reason)
			latest(of("u5", 3, "111"))
			require.Equal(t, tc.nextRead, api.reads > tc.reads, "another version that is not the last one")

			api.fails, api.vr.ObjectMeta, tc.left, tc.fails = nil, of("u5", 3, "130"), false, nil
			is := c.listed["shop"]
			is.awaited = time.Now().Add(-time.Second)
			c.listed["shop"] = is
			require.NotNil(t, latest(of("u5", 3, "111")), "whatever was read before")
			require.Equal(t, "130", latest(of("u5", 3, "130")).ResourceVersion)
			require.False(t, next("131"))
		})
	}
}

// TestCatchUpAfterARestoration: etcd was restored from a backup after the list. A VidraResource that stays older than the list is read after a second.
func TestCatchUpAfterARestoration(t *testing.T) {
	t.Parallel()
	former := metav1.ObjectMeta{Name: "shop", UID: "u1", Generation: 2, ResourceVersion: "80"}
	later := metav1.ObjectMeta{Name: "shop", UID: "u1", Generation: 3, ResourceVersion: "90"}
	for name, tc := range map[string]struct {
		reason string
		listed map[string]listedVersion
		live   metav1.ObjectMeta
		want   bool
	}{
		"changed since": {"The backup has a former spec.", map[string]listedVersion{"shop": versionOf(&later)}, former, true},
		"deleted since": {"The backup has it again.", map[string]listedVersion{}, former, true},
		"behind":        {"The cache is behind.", map[string]listedVersion{"shop": versionOf(&later)}, later, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, api := &catchUp{listed: tc.listed, version: "100"}, &fakeReader{vr: &v1alpha1.VidraResource{ObjectMeta: tc.live}}
				latest := func() *v1alpha1.VidraResource {
					now, err := c.latest(t.Context(), nil, api, &v1alpha1.VidraResource{ObjectMeta: former}, everyShard)
					require.NoError(t, err)
					return now
				}
				require.Nil(t, latest())
				time.Sleep(catchUpRead - time.Millisecond)
				require.Nil(t, latest())
				require.Zero(t, api.reads, "the cache has a second to catch up")
				time.Sleep(time.Millisecond)
				require.Equal(t, tc.want, latest() != nil, tc.reason)
				require.Equal(t, tc.want, latest() != nil, tc.reason)
				require.Equal(t, 1, api.reads)
				c.forget("shop")
				require.Empty(t, c.listed)
			})
		})
	}
}

// TestCatchUpWithAnother: the cache shows a VidraResource for longer than a second that was deleted before the list, and then another one of its name.
func TestCatchUpWithAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		former := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "u1", Generation: 2, ResourceVersion: "80"}}
		another := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "u2", Generation: 1, ResourceVersion: "90"}}
		c, api := &catchUp{listed: map[string]listedVersion{"shop": versionOf(another)}, version: "100"}, &fakeReader{vr: another}
		latest := func(cached *v1alpha1.VidraResource) *v1alpha1.VidraResource {
			now, err := c.latest(t.Context(), nil, api, cached, everyShard)
			require.NoError(t, err)
			return now
		}
		require.Nil(t, latest(former))
		time.Sleep(catchUpRead)
		require.Nil(t, latest(former))
		require.Nil(t, latest(former))
		require.Equal(t, 1, api.reads)
		require.True(t, c.awaits(event.UpdateEvent{ObjectOld: former, ObjectNew: another}))
		require.Equal(t, another, latest(another), "without a wait")
		require.Equal(t, another, latest(another))
		require.Equal(t, 2, api.reads)
	})
}

// fakeReader has one VidraResource, or fails.
type fakeReader struct {
	vr    *v1alpha1.VidraResource
	fails error
	reads int
}

func (f *fakeReader) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	f.reads++
	f.vr.DeepCopyInto(obj.(*v1alpha1.VidraResource))
	return f.fails
}

func (f *fakeReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("not expected")
}

// TestCatchUpForgets forgets a VidraResource that was deleted before the list, and that the cache showed for longer.
func TestCatchUpForgets(t *testing.T) {
	t.Parallel()
	c := &catchUp{listed: map[string]listedVersion{}, version: "100"}
	gone := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "u1", Generation: 2, ResourceVersion: "80"}}
	now, err := c.latest(t.Context(), nil, &fakeReader{vr: gone}, gone, everyShard)
	require.NoError(t, err)
	require.Nil(t, now)
	c.forget("shop")
	require.Empty(t, c.listed)
}
