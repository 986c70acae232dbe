package owners

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
)

func TestRivals(t *testing.T) {
	conflict := func(with ...string) error {
		var causes []metav1.StatusCause
		for _, w := range with {
			causes = append(causes, metav1.StatusCause{
				Type: metav1.CauseTypeFieldManagerConflict, Message: "conflict with " + w, Field: ".data.color",
			})
		}
		return apierrors.NewApplyConflict(causes, "conflict")
	}
	shop := []CoOwner{{Name: "shop", Manager: "vidra/shop"}}
	require.NoError(t, conflictIn(conflict(`"kubectl-edit" using v1`, `"helm"`), nil, nil, shop), "fields of anybody else are taken back")
	require.EqualError(t, conflictIn(conflict(`"helm"`, `"vidra/shop"`), nil, nil, shop),
		"VidraResource shop wants another value of data.color: let only one of them set it")
	elsewhere := []CoOwner{{Manager: "vidra/shop@east"}}
	require.EqualError(t, conflictIn(conflict(`"helm"`, `"vidra/shop@east"`), nil, nil, elsewhere), "the field manager \"vidra/shop@east\" of another "+
		"Vidra installation wants another value of data.color: let only one of them set it, or set spec.adopt to Always to take it")
	require.NoError(t, conflictIn(conflict(`"vidra/shop"`), nil, nil, nil), "the name of a VidraResource that does not own the object is anybody's")
	require.NoError(t, conflictIn(conflict(`"vidra/shop" using v1 at 2026-01-01T00:00:00Z`), nil, nil, shop), "Vidra owns no field by an update")
	require.NoError(t, conflictIn(conflict(`"vidra/shop" with subresource "status"`), nil, nil, shop), "or by a subresource")
	gone := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("uid"))
	require.Equal(t, gone, conflictIn(gone, nil, nil, shop), "a conflict that is not about fields stays an error")
}

// configMap is an object with a value of data.color, applied by managers.
func configMap(t *testing.T, color string, appliedBy ...string) *unstructured.Unstructured {
	t.Helper()
	u := fixture.LiveConfigMap("a", nil)
	require.NoError(t, unstructured.SetNestedField(u.Object, color, "data", "color"))
	var entries []metav1.ManagedFieldsEntry
	for _, manager := range appliedBy {
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:color":{}}}`),
		})
	}
	u.SetManagedFields(entries)
	return u
}

// conflictAbout is the answer of the API server to an apply that changes data.color of managers.
func conflictAbout(managers ...string) error {
	var causes []metav1.StatusCause
	for _, manager := range managers {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "` + manager + `"`, Field: ".data.color"})
	}
	return apierrors.NewApplyConflict(causes, "conflict")
}

// TestContested decides whether an apply may take fields from others.
func TestContested(t *testing.T) {
	t.Parallel()
	const shop, east = "vidra/shop", "vidra/shop@east"
	live, wanted := configMap(t, "blue", shop, east, "helm"), configMap(t, "red")
	owner := func(change func(o *CoOwner)) CoOwner {
		o := CoOwner{Name: "shop", Manager: shop, Genuine: true, Intact: true, Recorded: true, wanted: configMap(t, "blue")}
		if change != nil {
			change(&o)
		}
		return o
	}
	edited := func(o *CoOwner) { o.Genuine, o.Intact = false, false }
	cases := map[string]struct {
		reason            string
		refused           error
		others, elsewhere []CoOwner
		drift             bool
		want              string
	}{
		"Tool":    {reason: "A field of a tool is taken.", refused: conflictAbout("helm")},
		"Owner":   {reason: "A field of another VidraResource is not.", refused: conflictAbout("helm", shop), others: []CoOwner{owner(nil)}, want: "VidraResource shop wants another value of data.color"},
		"Drift":   {reason: "Neither for an edit.", refused: conflictAbout(shop), others: []CoOwner{owner(nil)}, drift: true, want: "VidraResource shop wants another value"},
		"Leaving": {reason: "It waits for the release.", refused: conflictAbout(shop), others: []CoOwner{owner(func(o *CoOwner) { o.Leaving, o.wanted = true, nil })}, want: "VidraResource shop owns it, and releases it"},
		"Agrees":  {reason: "Its latest manifest has the same value.", refused: conflictAbout(shop), others: []CoOwner{owner(func(o *CoOwner) { o.wanted = wanted })}},
		"Forged":  {reason: "Another client wrote under its name, and it owns nothing.", refused: conflictAbout(shop)},
		"Edited":  {reason: "Another client changed its fields: the value that it wants counts.", refused: conflictAbout(shop), others: []CoOwner{owner(edited)}, want: "VidraResource shop wants another value of data.color"},
		"UnderWay": {
			reason: "Its apply may be under way, and the object shows a part of its fields.", refused: conflictAbout("helm"),
			others: []CoOwner{owner(func(o *CoOwner) { o.UnderWay = true })}, want: "VidraResource shop wants another value of data.color",
		},
		"Unlisted": {
			reason: "Its status is still to list its apply.", refused: conflictAbout(shop),
			others: []CoOwner{owner(func(o *CoOwner) { o.Genuine, o.Intact, o.Recorded, o.UnderWay = false, false, false, true })}, want: "VidraResource shop wants another value of data.color",
		},
		"UnderWayAndReverted": {
			reason: "The revert of an edit waits for no status.", refused: conflictAbout(shop),
			others: []CoOwner{owner(func(o *CoOwner) { o.Genuine, o.Intact, o.UnderWay = false, false, true })}, drift: true,
		},
		"Reverted": {reason: "The revert of an edit asks for no wish.", refused: conflictAbout(shop), others: []CoOwner{owner(edited)}, drift: true},
		"EditedAs": {reason: "It wants the same value.", refused: conflictAbout("helm"), others: []CoOwner{owner(func(o *CoOwner) { edited(o); o.wanted = wanted })}},
		"EditedElsewhere": {
			reason: "The owner is of another shard, and another client changed its fields.", refused: conflictAbout("helm"),
			others: []CoOwner{owner(func(o *CoOwner) { o.Intact = false })}, want: "VidraResource shop wants another value of data.color",
		},
		"UnreadElsewhere": {
			reason: "It may be as its owner applied it.", refused: conflictAbout("helm"), others: []CoOwner{owner(func(o *CoOwner) { o.Intact, o.wanted = false, nil })},
		},
		"Unapplied": {reason: "Its inventory does not have the object: it has a wish alone.", refused: conflictAbout("helm"), others: []CoOwner{owner(func(o *CoOwner) { edited(o); o.Recorded = false })}},
		"Unread": {
			reason: "Its manifest cannot be read: an edit meanwhile gives the object to no other owner.", refused: conflictAbout("helm"),
			others: []CoOwner{owner(func(o *CoOwner) { edited(o); o.wanted = nil })}, want: "VidraResource shop owns it, another client has edited it, and the manifest",
		},
		"UnreadAndUnderWay": {
			reason: "The object is as its owner applied it.", refused: conflictAbout("helm"),
			others: []CoOwner{owner(func(o *CoOwner) { o.UnderWay, o.wanted = true, nil })},
		},
		"UnreadAndReverted": {reason: "The revert of an edit asks for no wish.", refused: conflictAbout("helm"), others: []CoOwner{owner(func(o *CoOwner) { edited(o); o.wanted = nil })}, drift: true},
		"EditedAndLeaving":  {reason: "It releases the object.", refused: conflictAbout("helm"), others: []CoOwner{owner(func(o *CoOwner) { edited(o); o.Leaving, o.wanted = true, nil })}},
		"Elsewhere":         {reason: "A field of another installation is not taken.", refused: conflictAbout(east), elsewhere: []CoOwner{{Manager: east}}, want: `the field manager "vidra/shop@east" of another Vidra installation`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Contested(tc.refused, live, wanted, tc.others, tc.elsewhere, tc.drift)
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.want, tc.reason)
			var conflict *Conflict
			require.ErrorAs(t, err, &conflict)
			require.Equal(t, len(tc.elsewhere) > 0, conflict.Other == "", "the name of another installation's VidraResource is unknown")
		})
	}
}

// TestConflictAsFailure reports a conflict without values of a sensitive object.
func TestConflictAsFailure(t *testing.T) {
	t.Parallel()
	conflict := &Conflict{Other: "shop", field: `spec.tags[="token"]`}
	shown, withheld := ownership.Disclose(false, false, false), ownership.Disclose(true, false, false)
	require.Equal(t, v1alpha1.ReasonOwnershipConflict, conflict.AsFailure(nil, shown).Reason)
	require.Contains(t, conflict.AsFailure(nil, shown).Message, "token")
	require.NotContains(t, conflict.AsFailure(nil, withheld).Message, "token")
	conflict.Leaving = true
	require.Equal(t, v1alpha1.ReasonProgressing, conflict.AsFailure(nil, shown).Reason, "the end of a wait is no failure")
}

func TestFieldConflictsIn(t *testing.T) {
	t.Parallel()
	require.Equal(t, []FieldConflict{{"data.color", "helm"}, {"data.color", "vidra/shop"}}, FieldConflictsIn(conflictAbout("helm", "vidra/shop")))
	require.Empty(t, FieldConflictsIn(errors.New("no answer")))
	require.Empty(t, FieldConflictsIn(apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("uid"))))
}

// TestOnlyClaimed tells owners with fields from owners with marks.
func TestOnlyClaimed(t *testing.T) {
	t.Parallel()
	marked := fmt.Sprintf(`{"f:metadata":{"f:labels":{"f:%s":{}},"f:annotations":{".":{},"f:%s":{}}}}`, v1alpha1.ManagedByLabel, v1alpha1.OwnerAnnotationKey("shop"))
	cases := map[string]struct {
		reason, fields, manager string
		operation               metav1.ManagedFieldsOperationType
		want                    bool
	}{
		"Marks":      {"The marks state a wish.", marked, "vidra/shop", metav1.ManagedFieldsOperationApply, true},
		"Field":      {"A field is more than a wish.", `{"f:data":{"f:color":{}}}`, "vidra/shop", metav1.ManagedFieldsOperationApply, false},
		"Label":      {"A label of the manifest, too.", `{"f:metadata":{"f:labels":{"f:app":{}}}}`, "vidra/shop", metav1.ManagedFieldsOperationApply, false},
		"Annotation": {"An annotation of the manifest, too.", `{"f:metadata":{"f:annotations":{"f:app":{}}}}`, "vidra/shop", metav1.ManagedFieldsOperationApply, false},
		"Below":      {"An annotation that begins alike is no mark.", `{"f:metadata":{"f:annotations":{"f:app":{"f:x":{}}}}}`, "vidra/shop", metav1.ManagedFieldsOperationApply, false},
		"Top":        {"A field at the top.", `{"f:immutable":{}}`, "vidra/shop", metav1.ManagedFieldsOperationApply, false},
		"Finalizer":  {"An item of a set.", `{"f:metadata":{"f:finalizers":{"v:\"a\"":{}}}}`, "vidra/shop", metav1.ManagedFieldsOperationApply, false},
		"Unreadable": {"Unreadable fields are more than a wish.", `[]`, "vidra/shop", metav1.ManagedFieldsOperationApply, false},
		"Tool":       {"A tool is no owner.", `{"f:data":{"f:color":{}}}`, "helm", metav1.ManagedFieldsOperationApply, true},
		"Update":     {"An update under its name is of another client.", `{"f:data":{"f:color":{}}}`, "vidra/shop", metav1.ManagedFieldsOperationUpdate, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := fixture.LiveConfigMap("a", nil)
			live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: tc.operation}, {Manager: tc.manager, Operation: tc.operation, FieldsV1: metav1.NewFieldsV1(tc.fields)}})
			require.Equal(t, tc.want, OnlyClaimed(live, []CoOwner{{Name: "shop", Manager: "vidra/shop"}, {Name: "x", Manager: "kubelet"}}), tc.reason)
		})
	}
}
