package prune

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
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
		"Applied":         {"We applied it.", fixture.LiveConfigMap("a", nil, "vidra/web"), "a", true},
		"AppliedAnother":  {"We created it again, and were killed before that was written.", fixture.LiveConfigMap("b", named, "vidra/web"), "a", true},
		"Restored":        {"Somebody made another one from a copy, with managedFields.", appliedBefore(time.Hour, fixture.LiveConfigMap("b", named, "vidra/web")), "a", false},
		"RestoredSame":    {"The inventory lists this object.", appliedBefore(time.Hour, fixture.LiveConfigMap("a", named, "vidra/web")), "a", true},
		"RestoredUnknown": {"The inventory was lost, and it is a copy with managedFields.", appliedBefore(time.Hour, fixture.LiveConfigMap("b", named, "vidra/web")), "", false},
		"AppliedUnknown":  {"It was created, and its UID is still to be listed.", appliedBefore(0, fixture.LiveConfigMap("b", named, "vidra/web")), "", true},
		"AppliedSlowly":   {"Webhooks took long to answer.", appliedBefore(30*time.Second, fixture.LiveConfigMap("b", named, "vidra/web")), "a", true},
		"Named":           {"Somebody cleared managedFields.", fixture.LiveConfigMap("a", named), "a", true},
		"NamedAnother":    {"Somebody made another one from a copy.", fixture.LiveConfigMap("b", named), "a", false},
		"NamedUnknown":    {"It was about to be created, and may be ours.", fixture.LiveConfigMap("b", named), "", true},
		"Copied":          {"Somebody else set our annotation, on a copy.", fixture.SetBy(fixture.LiveConfigMap("a", named), "kubectl-create"), "a", false},
		"CopiedUnknown":   {"The inventory proves nothing without a UID.", fixture.SetBy(fixture.LiveConfigMap("a", named), "kubectl-create"), "", false},
		"Cleared":         {"A user cleared managedFields, and another one applied.", fixture.SetBy(fixture.LiveConfigMap("a", named), "before-first-apply"), "a", true},
		"CopiedList":      {"The first operator did not write it.", fixture.SetBy(fixture.LiveConfigMap("a", listed), "kubectl-create"), "", false},
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
			require.Equal(t, tc.want, a.Settings.Claimant.Owns(tc.live, &v1alpha1.ManagedResourceStatus{UID: tc.uid}), tc.reason)
			require.Equal(t, (tc.want || strings.HasPrefix(name, "Restored")) && ownership.Recorded(tc.live) && name != "Cleared", a.Settings.Claimant.Owns(tc.live, nil), "without an entry of the inventory, only managedFields prove who applied it")
		})
	}
}

// appliedBefore has the last apply of an object before its creation.
func appliedBefore(d time.Duration, u *unstructured.Unstructured) *unstructured.Unstructured {
	entries, created := u.GetManagedFields(), time.Now()
	for i := range entries {
		entries[i].Time = &metav1.Time{Time: created.Add(-d)}
	}
	u.SetManagedFields(entries)
	u.SetCreationTimestamp(metav1.NewTime(created))
	return u
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
