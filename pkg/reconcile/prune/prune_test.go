package prune

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

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
		"Applied":        {"We applied it.", fixture.LiveConfigMap("a", nil, "vidra/web"), "a", true},
		"AppliedAnother": {"We created it again, and were killed before that was written.", fixture.LiveConfigMap("b", named, "vidra/web"), "a", true},
		"Named":          {"Somebody cleared managedFields.", fixture.LiveConfigMap("a", named), "a", true},
		"NamedAnother":   {"Somebody made another one from a copy.", fixture.LiveConfigMap("b", named), "a", false},
		"NamedUnknown":   {"It was about to be created, and may be ours.", fixture.LiveConfigMap("b", named), "", true},
		"Copied":         {"Somebody else set our annotation, on a copy.", fixture.SetBy(fixture.LiveConfigMap("a", named), "kubectl-create"), "a", false},
		"CopiedUnknown":  {"The inventory proves nothing without a UID.", fixture.SetBy(fixture.LiveConfigMap("a", named), "kubectl-create"), "", false},
		"Cleared":        {"A user cleared managedFields, and another one applied.", fixture.SetBy(fixture.LiveConfigMap("a", named), "before-first-apply"), "a", true},
		"CopiedList":     {"The first operator did not write it.", fixture.SetBy(fixture.LiveConfigMap("a", listed), "kubectl-create"), "", false},
		"CopiedListBeside": {
			"Another program of the name of the first operator wrote a field.",
			writtenBy(fixture.SetBy(fixture.LiveConfigMap("a", listed), "kubectl-create"), "manager", `{"f:data":{"f:x":{}}}`), "", false,
		},
		"ListChanged": {
			"A user changed the list on an object of the first operator.",
			writtenBy(fixture.SetBy(fixture.LiveConfigMap("a", listed), "kubectl-edit"), "manager", `{"f:metadata":{"f:labels":{"f:managed-by":{}}}}`), "", true,
		},
		"ListedByIt":      {"The first operator wrote it.", fixture.SetBy(fixture.LiveConfigMap("a", listed), "manager"), "", true},
		"OfFirstOperator": {"It kept no UIDs.", fixture.LiveConfigMap("b", listed), "", true},
		"OfOthers":        {"Others applied it, and name themselves.", fixture.LiveConfigMap("a", map[string]string{v1alpha1.OwnerAnnotationKey("api"): "api"}, "vidra/api"), "a", false},
		"Nobodys":         {"Somebody took all marks from it.", fixture.LiveConfigMap("a", nil), "a", false},
		"OfASimilarOwner": {"The name is not ours.", fixture.LiveConfigMap("a", nil, "vidra/web-2"), "a", false},
	}
	a := &apply.Applier{Settings: &plan.Settings{Claimant: owners.Claimant{Owner: trigger.Owner{Name: "web"}, Manager: "vidra/web"}}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, a.Owns(tc.live, &v1alpha1.ManagedResourceStatus{UID: tc.uid}), tc.reason)
			require.Equal(t, tc.want && ownership.Recorded(tc.live) && name != "Cleared", a.Owns(tc.live, nil), "without an entry of the inventory, only managedFields prove who applied it")
		})
	}
}

// writtenBy adds an update of a manager to managedFields.
func writtenBy(u *unstructured.Unstructured, manager, fields string) *unstructured.Unstructured {
	u.SetManagedFields(append(u.GetManagedFields(), metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(fields),
	}))
	return u
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
			require.Equal(t, tc.want, unlisted(fixture.LiveConfigMap("a", map[string]string{v1alpha1.OwnerAnnotation: tc.list}), "web"), tc.reason)
		})
	}
}

// TestGoesWith says which objects are deleted with a Namespace or a definition.
func TestGoesWith(t *testing.T) {
	t.Parallel()
	id := func(group, kind, namespace, name string) object.Identity {
		return object.Identity{GroupKind: schema.GroupKind{Group: group, Kind: kind}, Namespace: namespace, Name: name}
	}
	key := func(group, resource string) trigger.ObjectKey {
		return trigger.ObjectKey{GVR: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, Name: "one"}
	}
	shop, definition := id("", "Namespace", "", "shop"), id(object.CRDKind.Group, object.CRDKind.Kind, "", "things.example.com")
	cases := map[string]struct {
		reason    string
		container object.Identity
		id        object.Identity
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
			require.Equal(t, tc.want, GoesWith(tc.container, tc.id, tc.key), tc.reason)
		})
	}
}
