package ownership

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const manager = "vidra/web"

// goldenDigest is the digest of the deployment, without its version.
const goldenDigest = "3b5tftatDVbHPWYuwx5fGg"

// deployment is an object as the API server returns it: ours are replicas, a
// label with a slash, and an item of an associative list.
const deployment = `{
  "apiVersion": "apps/v1", "kind": "Deployment",
  "metadata": {
    "name": "web", "namespace": "shop", "generation": 3, "resourceVersion": "17",
    "labels": {"app.kubernetes.io/name": "web", "foreign": "yes"},
    "managedFields": [
      {"manager": "vidra/web", "operation": "Apply", "apiVersion": "apps/v1", "time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1",
       "fieldsV1": {
         "f:metadata": {"f:labels": {"f:app.kubernetes.io/name": {}}},
         "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
           "k:{\"name\":\"web\"}": {".": {}, "f:image": {}, "f:name": {}, "f:args": {}}}}}}}},
      {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "apps/v1", "subresource": "status",
       "time": "2026-01-02T03:04:06Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:replicas": {}}}}
    ]
  },
  "spec": {"replicas": 2, "paused": false, "template": {"spec": {"containers": [
    {"name": "sidecar", "image": "proxy:1"}, {"name": "web", "image": "web:1", "args": ["-v", "2"]}]}}},
  "status": {"replicas": 2}
}`

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, u.UnmarshalJSON([]byte(text)))
	return u
}

// edited is the deployment after an edit of its content.
func edited(t *testing.T, edit func(t *testing.T, u *unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	u := object(t, deployment)
	edit(t, u)
	return u
}

func set(value any, fields ...string) func(*testing.T, *unstructured.Unstructured) {
	return func(t *testing.T, u *unstructured.Unstructured) {
		t.Helper()
		require.NoError(t, unstructured.SetNestedField(u.Object, value, fields...))
	}
}

// takeReplicas does what the API server does when kubectl edit changes
// spec.replicas: the field leaves our entry and enters the editor's.
func takeReplicas(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	set(int64(5), "spec", "replicas")(t, u)
	list, _, err := unstructured.NestedSlice(u.Object, "metadata", "managedFields")
	require.NoError(t, err)
	unstructured.RemoveNestedField(list[0].(map[string]any), "fieldsV1", "f:spec", "f:replicas")
	list = append(list, map[string]any{
		"manager": "kubectl-edit", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
		"time": "2026-01-02T03:05:00Z", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}},
	})
	require.NoError(t, unstructured.SetNestedSlice(u.Object, list, "metadata", "managedFields"))
}

func TestDigestChangesIfAndOnlyIfOwnedFieldsDo(t *testing.T) {
	before, recorded := Of(object(t, deployment), manager)
	require.True(t, recorded)

	cases := map[string]struct {
		reason string
		edit   func(*testing.T, *unstructured.Unstructured)
		same   bool
	}{
		"StatusUpdate": {
			reason: "A status that others write is not ours.",
			edit:   set(int64(7), "status", "replicas"), same: true,
		},
		"ForeignLabel": {
			reason: "A label that somebody else set is not ours.",
			edit:   set("no", "metadata", "labels", "foreign"), same: true,
		},
		"UnownedSpecField": {
			reason: "A spec field that we leave alone is not ours.",
			edit:   set(true, "spec", "paused"), same: true,
		},
		"MetadataOfWrites": {
			reason: "Every write changes the resourceVersion, and most the generation.",
			edit: func(_ *testing.T, u *unstructured.Unstructured) {
				u.SetResourceVersion("18")
				u.SetGeneration(4)
			},
			same: true,
		},
		"OtherItemOfTheList": {
			reason: "An item of an associative list is found by its keys, wherever it stands.",
			edit: func(t *testing.T, u *unstructured.Unstructured) {
				list, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
				require.NoError(t, err)
				set([]any{list[1]}, "spec", "template", "spec", "containers")(t, u)
			},
			same: true,
		},
		"ItemWithoutItsKey": {
			reason: "Server-side apply cannot read a list with such an item.",
			edit: func(t *testing.T, u *unstructured.Unstructured) {
				list, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
				require.NoError(t, err)
				set(append(list, map[string]any{"image": "x"}), "spec", "template", "spec", "containers")(t, u)
			},
		},
		"AnotherItem": {
			reason: "An item with a key of its own is an addition.",
			edit: func(t *testing.T, u *unstructured.Unstructured) {
				list, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
				require.NoError(t, err)
				set(append(list, map[string]any{"name": "another"}), "spec", "template", "spec", "containers")(t, u)
			},
			same: true,
		},
		"FieldTaken": {
			reason: "A field that somebody changed leaves our entry.",
			edit:   takeReplicas,
		},
		"SameManagerOtherValue": {
			reason: "Whoever writes under our name changes the value at a path that stays ours.",
			edit:   set(int64(3), "spec", "replicas"),
		},
		"LabelRemoved": {
			reason: "What is missing is not what we applied.",
			edit: func(_ *testing.T, u *unstructured.Unstructured) {
				unstructured.RemoveNestedField(u.Object, "metadata", "labels", "app.kubernetes.io/name")
			},
		},
		"ManagedFieldsCleared": {
			reason: "Without an entry of ours, nothing vouches for the object.",
			edit: func(_ *testing.T, u *unstructured.Unstructured) {
				unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after, _ := Of(edited(t, tc.edit), manager)
			require.Equal(t, tc.same, before == after, tc.reason)
		})
	}
}

func TestDigestText(t *testing.T) {
	d, _ := Of(object(t, deployment), manager)
	require.Equal(t, "1:", d.String()[:2])
	back, err := ParseDigest(d.String())
	require.NoError(t, err)
	require.Equal(t, d, back)
	// A digest that changes between two builds would make every object drift
	// after an upgrade. Whoever changes the algorithm changes the version.
	require.Equal(t, "1:"+goldenDigest, d.String())

	for _, bad := range []string{"", "1:", "2:" + goldenDigest, "1:short", "1:" + goldenDigest + "A", goldenDigest} {
		_, err := ParseDigest(bad)
		require.Error(t, err, bad)
	}
}

func TestManagers(t *testing.T) {
	u := object(t, deployment)
	require.Equal(t, []string{manager}, Managers(u, "vidra/"))
	require.Empty(t, Managers(u, "kube-"), "an Update entry, and one of a subresource, do not apply the object")
}
