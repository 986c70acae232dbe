package reconcile

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

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
		"status behind":         {"Its status has changed since.", of("shop", "u1", 3, "85", false), false},
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
