package owners

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestInside decides for each object in a container whether it blocks the deletion.
func TestInside(t *testing.T) {
	t.Parallel()
	content := func(group, resource, kind, name string, change func(m *metav1.PartialObjectMetadata)) cluster.Content {
		m := &metav1.PartialObjectMetadata{}
		m.Namespace, m.Name = "shop", name
		if change != nil {
			change(m)
		}
		return cluster.Content{PartialObjectMetadata: m, GVR: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, Kind: kind}
	}
	page := func(change func(m *metav1.PartialObjectMetadata)) cluster.Content {
		return content("", "configmaps", "ConfigMap", "page", change)
	}
	goes := func(m *metav1.PartialObjectMetadata) { now := metav1.Now(); m.DeletionTimestamp = &now }
	keep := func(value string) func(m *metav1.PartialObjectMetadata) {
		return func(m *metav1.PartialObjectMetadata) {
			m.Annotations = map[string]string{v1alpha1.KeepAnnotation: value}
		}
	}
	dependent := func(m *metav1.PartialObjectMetadata) {
		m.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "a"}}
	}
	token := func(account string) func(m *metav1.PartialObjectMetadata) {
		return func(m *metav1.PartialObjectMetadata) {
			m.Annotations = map[string]string{"kubernetes.io/service-account.name": account}
		}
	}
	const kept, owned, unmanaged = "kept", "owned", "unmanaged"
	cases := map[string]struct {
		reason  string
		content cluster.Content
		others  []string
		ours    bool
		want    string
	}{
		"Unmanaged":      {"An object without an owner.", page(nil), nil, false, unmanaged},
		"Ours":           {"The object goes with the container of its owner.", page(nil), nil, true, ""},
		"Owned":          {"An object of another VidraResource.", page(nil), []string{"VidraResource b"}, false, owned},
		"Shared":         {"An object of two.", page(nil), []string{"VidraResource b"}, true, owned},
		"Kept":           {"An object that is kept.", page(keep("true")), nil, true, kept},
		"KeptOfOther":    {"An object of another that is kept.", page(keep("true")), []string{"VidraResource b"}, false, kept},
		"NotKept":        {"The annotation has another value.", page(keep("false")), nil, false, unmanaged},
		"Going":          {"An object that is being deleted, even a kept one.", page(func(m *metav1.PartialObjectMetadata) { keep("true")(m); goes(m) }), []string{"VidraResource b"}, false, ""},
		"Dependent":      {"The garbage collector deletes it with its owner.", page(dependent), nil, false, ""},
		"DependentOwned": {"A dependent that another VidraResource owns.", page(dependent), []string{"VidraResource b"}, false, owned},
		"RootCA":         {"The root CA publisher writes it.", content("", "configmaps", "ConfigMap", "kube-root-ca.crt", nil), nil, false, ""},
		"ServiceCA":      {"OpenShift writes it.", content("", "configmaps", "ConfigMap", "openshift-service-ca.crt", nil), nil, false, ""},
		"Account":        {"The controller of accounts writes it.", content("", "serviceaccounts", "ServiceAccount", "default", nil), nil, false, ""},
		"OtherAccount":   {"A user wrote it.", content("", "serviceaccounts", "ServiceAccount", "app", nil), nil, false, unmanaged},
		"Token":          {"The token of such an account.", content("", "secrets", "Secret", "default-token-x", token("default")), nil, false, ""},
		"OtherToken":     {"The token of another account.", content("", "secrets", "Secret", "app-token-x", token("app")), nil, false, unmanaged},
		"Secret":         {"A Secret of a user.", content("", "secrets", "Secret", "default", nil), nil, false, unmanaged},
		"Event":          {"Events expire.", content("", "events", "Event", "e", nil), nil, false, ""},
		"NewEvent":       {"Events expire.", content("events.k8s.io", "events", "Event", "e", nil), nil, false, ""},
		"OtherEvents":    {"A kind of the same name in another group.", content("example.com", "events", "Event", "e", nil), nil, false, unmanaged},
		"Endpoints":      {"The controller of Services writes them.", content("", "endpoints", "Endpoints", "web", nil), nil, false, ""},
		"KnownName":      {"A known name of another kind.", content("", "pods", "Pod", "default", nil), nil, false, unmanaged},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var inside Inside
			m := Member{Content: tc.content, Ours: tc.ours}
			if len(tc.others) > 0 {
				m.Of = " of " + strings.Join(tc.others, " and ")
			}
			inside.Add(m)
			count := map[string]int{kept: inside.Kept.Count, owned: inside.Owned.Count, unmanaged: inside.Unmanaged.Count}
			for kind, n := range count {
				require.Equal(t, kind == tc.want, n == 1, "%s: %s", kind, tc.reason)
			}
			require.Equal(t, tc.want == owned, inside.Blocked(v1alpha1.UnmanagedDelete) != nil, tc.reason)
			require.Equal(t, tc.want == owned || tc.want == unmanaged, inside.Blocked(v1alpha1.UnmanagedBlock) != nil, tc.reason)
		})
	}
}

// TestBlockedNamesObjects names the first objects in the way, and counts the rest.
func TestBlockedNamesObjects(t *testing.T) {
	t.Parallel()
	var inside Inside
	add := func(some *Some, name, of string) {
		some.add(Member{Key: trigger.ObjectKey{Namespace: "shop", Name: name}}, "ConfigMap shop/"+name+of)
	}
	for _, name := range []string{"a", "b", "c"} {
		add(&inside.Unmanaged, name, "")
	}
	require.EqualError(t, inside.Blocked(v1alpha1.UnmanagedBlock), "it holds 3 unmanaged objects, and spec.unmanagedContents is Block: ConfigMap shop/a, ConfigMap shop/b, ConfigMap shop/c")
	require.Equal(t, "a", inside.Blocked(v1alpha1.UnmanagedBlock).Object.Name)
	require.ErrorContains(t, inside.Blocked("Snapshot"), "spec.unmanagedContents is Snapshot", "another version knows it")
	add(&inside.Unmanaged, "d", "")
	require.Equal(t, "ConfigMap shop/a, ConfigMap shop/b, ConfigMap shop/c and 1 more", inside.Unmanaged.String())
	add(&inside.Owned, "e", " of VidraResource b")
	require.EqualError(t, inside.Blocked(v1alpha1.UnmanagedBlock), "it holds ConfigMap shop/e of VidraResource b", "an object with an owner comes first")
	require.Equal(t, "e", inside.Blocked(v1alpha1.UnmanagedBlock).Object.Name)
	require.False(t, inside.Blocked(v1alpha1.UnmanagedBlock).Received)
	var received Inside
	received.Owned.add(Member{Of: " in the manifest of VidraResource b", Received: true}, "ConfigMap shop/f")
	require.True(t, received.Blocked(v1alpha1.UnmanagedDelete).Received)
}
