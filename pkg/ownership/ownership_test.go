package ownership

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

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
		"NumberEncoding": {
			reason: "2 and 2.0 are the same number.",
			edit:   set(float64(2), "spec", "replicas"), same: true,
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
		"AtomicListChanged": {
			reason: "A list that is owned as a whole counts with all its items.",
			edit: func(t *testing.T, u *unstructured.Unstructured) {
				list, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
				require.NoError(t, err)
				list[1].(map[string]any)["args"] = []any{"-v", "3"}
				set(list, "spec", "template", "spec", "containers")(t, u)
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

func TestDigestWithoutRecordedOwnership(t *testing.T) {
	bare := func(generation int64, version string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		u.SetGeneration(generation)
		u.SetResourceVersion(version)
		return u
	}
	digest := func(generation int64, version string) Digest {
		d, recorded := Of(bare(generation, version), manager)
		require.False(t, recorded)
		return d
	}
	require.Equal(t, digest(1, "10"), digest(1, "11"), "generation is what counts where there is one")
	require.NotEqual(t, digest(1, "10"), digest(2, "10"))
	require.NotEqual(t, digest(0, "10"), digest(0, "11"), "resourceVersion counts where there is no generation")
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

func TestDriftSaysWhatAndWho(t *testing.T) {
	restored := object(t, deployment)
	cases := map[string]struct {
		reason string
		edit   func(*testing.T, *unstructured.Unstructured)
		want   []Change
	}{
		"Nothing": {reason: "An object as it should be has no drift.", edit: func(*testing.T, *unstructured.Unstructured) {}},
		"Taken": {
			reason: "The manager that owns the field now is the one that changed it.",
			edit:   takeReplicas,
			want: []Change{{
				Path: "spec.replicas", Found: "5", Restored: "2", Manager: "kubectl-edit", Operation: "Update",
				Time: time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC),
			}},
		},
		"Removed": {
			reason: "Nobody owns what was removed, so nobody is named.",
			edit: func(_ *testing.T, u *unstructured.Unstructured) {
				unstructured.RemoveNestedField(u.Object, "metadata", "labels", "app.kubernetes.io/name")
			},
			want: []Change{{Path: `metadata.labels["app.kubernetes.io/name"]`, Restored: `"web"`, Removed: true}},
		},
		"ListItemRemoved": {
			reason: "An item that is missing is one change, not one for each of its fields.",
			edit:   set([]any{}, "spec", "template", "spec", "containers"),
			want: []Change{{
				Path: `spec.template.spec.containers[name="web"]`, Removed: true,
				Restored: `{"args":["-v","2"],"image":"web:1","name":"web"}`,
			}},
		},
		"UnownedIsNotOurs": {reason: "What we do not own is nobody's drift.", edit: set(true, "spec", "paused")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, Drift(edited(t, tc.edit), restored, manager), tc.reason)
		})
	}
}

func TestDriftOfASecretWithholdsValues(t *testing.T) {
	const text = `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "managedFields": [
	  {"manager": "vidra/web", "operation": "Apply", "fieldsV1": {"f:data": {"f:password": {}}}}]}, "data": {"password": "aHVudGVyMg=="}}`
	restored, found := object(t, text), object(t, text)
	require.NoError(t, unstructured.SetNestedField(found.Object, "c3RvbGVu", "data", "password"))
	changes := Drift(found, restored, manager)
	require.Equal(t, []Change{{Path: "data.password", Withheld: true}}, changes)
}

func TestLongValuesAreCutAtARune(t *testing.T) {
	restored, found := object(t, deployment), object(t, deployment)
	long := strings.Repeat("ä", 2*maxValue)
	set(long, "metadata", "labels", "app.kubernetes.io/name")(t, found)
	changes := Drift(found, restored, manager)
	require.Len(t, changes, 1)
	require.Len(t, []rune(changes[0].Found), maxValue)
	require.True(t, strings.HasSuffix(changes[0].Found, "ä…"))
}

func TestManagers(t *testing.T) {
	u := object(t, deployment)
	require.Equal(t, []string{manager}, Managers(u, "vidra/"))
	require.Empty(t, Managers(u, "kube-"), "an Update entry, and one of a subresource, do not apply the object")
}

// FuzzDigest holds the law for arbitrary content: no panic, and a change of the
// value at an owned path changes the digest while one elsewhere does not.
func FuzzDigest(f *testing.F) {
	f.Add(deployment, `{"f:spec":{"f:replicas":{}}}`)
	f.Add(`{"kind":"A","a":[1,{"b":null}]}`, `{"f:a":{"i:1":{"f:b":{}},"v:1":{},".":{}}}`)
	f.Add(`{"kind":"A","a":{"b":1e300}}`, `{"f:a":{"k:{\"x\":1}":{}}}`)
	f.Fuzz(func(t *testing.T, content, fields string) {
		u := &unstructured.Unstructured{}
		var tree map[string]any
		if u.UnmarshalJSON([]byte(content)) != nil || json.Unmarshal([]byte(fields), &tree) != nil || tree == nil {
			return // not an object
		}
		u.Object["metadata"] = map[string]any{"managedFields": []any{
			map[string]any{"manager": manager, "operation": "Apply", "fieldsV1": tree},
		}}
		first, recorded := Of(u, manager)
		require.True(t, recorded)
		again, _ := Of(u.DeepCopy(), manager)
		require.Equal(t, first, again, "a copy has the same digest")
		require.Empty(t, Drift(u, u.DeepCopy(), manager), "nothing drifts from itself")
	})
}

func BenchmarkOf(b *testing.B) {
	u := &unstructured.Unstructured{}
	require.NoError(b, u.UnmarshalJSON([]byte(deployment)))
	b.ReportAllocs()
	for b.Loop() {
		Of(u, manager)
	}
}
