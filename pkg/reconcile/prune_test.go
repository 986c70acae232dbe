package reconcile

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// liveConfigMap is the ConfigMap shop/page as the API server has it, with a UID.
func liveConfigMap(uid types.UID, annotations map[string]string, appliedBy ...string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	u.SetNamespace("shop")
	u.SetName("page")
	u.SetUID(uid)
	u.SetAnnotations(annotations)
	var entries []metav1.ManagedFieldsEntry
	for _, manager := range appliedBy {
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:greeting":{}}}`),
		})
	}
	u.SetManagedFields(entries)
	return u
}

// setBy has a manager own all annotations of an object.
func setBy(u *unstructured.Unstructured, manager string) *unstructured.Unstructured {
	fields := map[string]any{}
	for key := range u.GetAnnotations() {
		fields["f:"+key] = map[string]any{}
	}
	text, _ := json.Marshal(map[string]any{"f:metadata": map[string]any{"f:annotations": fields}})
	u.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(string(text)),
	}})
	return u
}

// TestOwns says which objects under a name of the inventory are ours to remove.
func TestOwns(t *testing.T) {
	t.Parallel()
	named := map[string]string{v1alpha1.OwnerAnnotationKey("web"): "web"}
	listed := map[string]string{v1alpha1.OwnerAnnotation: "api, web"}
	cases := map[string]struct {
		reason string
		live   *unstructured.Unstructured
		uid    string
		want   bool
	}{
		"Applied":         {"We applied it.", liveConfigMap("a", nil, "vidra/web"), "a", true},
		"AppliedAnother":  {"We created it again, and were killed before that was written.", liveConfigMap("b", named, "vidra/web"), "a", true},
		"Named":           {"Somebody cleared managedFields.", liveConfigMap("a", named), "a", true},
		"NamedAnother":    {"Somebody made another one from a copy.", liveConfigMap("b", named), "a", false},
		"NamedUnknown":    {"It was about to be created, and may be ours.", liveConfigMap("b", named), "", true},
		"Copied":          {"Somebody else set our annotation, on a copy.", setBy(liveConfigMap("a", named), "kubectl-create"), "a", false},
		"CopiedUnknown":   {"The inventory proves nothing without a UID.", setBy(liveConfigMap("a", named), "kubectl-create"), "", false},
		"Cleared":         {"Somebody cleared managedFields, and somebody else applied.", setBy(liveConfigMap("a", named), "before-first-apply"), "a", true},
		"CopiedList":      {"The first operator did not write it.", setBy(liveConfigMap("a", listed), "kubectl-create"), "", false},
		"ListedByIt":      {"The first operator wrote it.", setBy(liveConfigMap("a", listed), "manager"), "", true},
		"OfFirstOperator": {"It kept no UIDs.", liveConfigMap("b", listed), "", true},
		"OfOthers":        {"Others applied it, and name themselves.", liveConfigMap("a", map[string]string{v1alpha1.OwnerAnnotationKey("api"): "api"}, "vidra/api"), "a", false},
		"Nobodys":         {"Somebody took all marks from it.", liveConfigMap("a", nil), "a", false},
		"OfASimilarOwner": {"The name is not ours.", liveConfigMap("a", nil, "vidra/web-2"), "a", false},
	}
	a := &applier{settings: &settings{claimant: claimant{owner: trigger.Owner{Name: "web"}, manager: "vidra/web"}}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, a.owns(tc.live, &v1alpha1.ManagedResourceStatus{UID: tc.uid}), tc.reason)
		})
	}
}

// TestUnlisted takes an owner from the list of the first operator.
func TestUnlisted(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		list   string
		want   map[string]any
	}{
		"None":   {"Nothing is written.", "", map[string]any{}},
		"Others": {"Nor is it for the sake of others.", "api,shop", map[string]any{}},
		"Alone":  {"No empty list is left behind.", "web", map[string]any{v1alpha1.OwnerAnnotation: nil}},
		"Among":  {"The others stay.", "api, web,shop", map[string]any{v1alpha1.OwnerAnnotation: "api,shop"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, unlisted(liveConfigMap("a", map[string]string{v1alpha1.OwnerAnnotation: tc.list}), "web"), tc.reason)
		})
	}
}

// TestGoesWith says which objects are deleted with a Namespace or a definition.
func TestGoesWith(t *testing.T) {
	t.Parallel()
	id := func(group, kind, namespace, name string) identity {
		return identity{GroupKind: schema.GroupKind{Group: group, Kind: kind}, namespace: namespace, name: name}
	}
	key := func(group, resource string) trigger.ObjectKey {
		return trigger.ObjectKey{GVR: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, Name: "one"}
	}
	shop, definition := id("", "Namespace", "", "shop"), id(crdKind.Group, crdKind.Kind, "", "things.example.com")
	cases := map[string]struct {
		reason    string
		container identity
		id        identity
		key       trigger.ObjectKey
		want      bool
	}{
		"In the Namespace":     {"It goes.", shop, id("", "ConfigMap", "shop", "one"), key("", "configmaps"), true},
		"In another":           {"It stays.", shop, id("", "ConfigMap", "bank", "one"), key("", "configmaps"), false},
		"In none":              {"It stays.", shop, id("", "PersistentVolume", "", "one"), key("", "persistentvolumes"), false},
		"Of the kind":          {"It goes.", definition, id("example.com", "Thing", "shop", "one"), key("example.com", "things"), true},
		"Of another kind":      {"It stays.", definition, id("example.com", "Other", "shop", "one"), key("example.com", "others"), false},
		"Of another group":     {"It stays.", definition, id("more.example.com", "Thing", "shop", "one"), key("more.example.com", "things"), false},
		"Of an unknown kind":   {"It may go.", definition, id("example.com", "Thing", "shop", "one"), trigger.ObjectKey{}, true},
		"Of an unknown group":  {"It stays.", definition, id("other.com", "Thing", "shop", "one"), trigger.ObjectKey{}, false},
		"With something plain": {"It stays.", id("", "ConfigMap", "shop", "shop"), id("", "ConfigMap", "shop", "one"), key("", "configmaps"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, goesWith(tc.container, tc.id, tc.key), tc.reason)
		})
	}
}
