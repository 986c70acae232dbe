package apply

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestRequests gives the answers to the requests of one task, and requires the requests.
func TestRequests(t *testing.T) {
	t.Parallel()
	const x, y, z, xy, yz = `"f:x":{}`, `"f:y":{}`, `"f:z":{}`, `"f:x":{},"f:y":{}`, `"f:y":{},"f:z":{}`
	wanted := versionOf(t, "5", `"x":"1","y":"1"`, xy, "")
	edited := versionOf(t, "6", `"x":"9","y":"1"`, y, x)
	structural := versionOf(t, "6", `"y":"1","z":"1"`, y, z)
	reclaimed := versionOf(t, "7", `"y":"1","z":"1"`, yz, "")
	raced := versionOf(t, "8", `"x":"1","y":"1","w":"1"`, xy, `"f:w":{}`)
	unlabelled := edited.DeepCopy()
	unlabelled.SetLabels(nil)
	terminating := wanted.DeepCopy()
	terminating.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	cleared := structural.DeepCopy()
	cleared.SetManagedFields(nil)
	marked := structural.DeepCopy()
	marked.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: ourManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:managed-by":{}}}}`)},
		{Manager: "before-first-apply", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:y":{},"f:z":{}}}`)},
	})
	byKubectl := versionOf(t, "6", `"x":"1","y":"1","z":"1"`, xy, "")
	byKubectl.SetManagedFields(append(byKubectl.GetManagedFields(), metav1.ManagedFieldsEntry{
		Manager: "kubectl-edit", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:z":{}}}`),
	}))
	withDefault := versionOf(t, "5", `"x":"0","y":"1","z":"default"`, xy, "")
	listedByFirst := wanted.DeepCopy()
	listedByFirst.SetAnnotations(map[string]string{v1alpha1.OwnerAnnotation: "shop"})
	listedByFirst.SetManagedFields(append(listedByFirst.GetManagedFields(), metav1.ManagedFieldsEntry{
		Manager: owners.FirstOperator, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + v1alpha1.OwnerAnnotation + `":{}}}}`),
	}))
	listedByAnother := listedByFirst.DeepCopy()
	entries := listedByAnother.GetManagedFields()
	entries[len(entries)-1].Manager = "kubectl-create"
	listedByAnother.SetManagedFields(entries)

	configMap := schema.GroupResource{Resource: "configmaps"}
	stale := apierrors.NewConflict(configMap, "a", errors.New("changed"))
	contested := &apierrors.StatusError{ErrStatus: metav1.Status{
		Reason: metav1.StatusReasonConflict, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
			Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "vidra/api"`, Field: ".data.x",
		}}},
	}}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "a", field.ErrorList{field.Forbidden(field.NewPath("data", "x"), "immutable")})
	denial := errors.New(`admission webhook "w" denied the request: no`)
	typed := errors.New("failed to create typed live object: duplicate")
	refused := apierrors.NewForbidden(configMap, "a", errors.New("refused"))
	lost := errors.New("connection reset by peer")

	body := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop"},"data":{"x":"1","y":"1"}}`)
	rules := &desired.Ignored{Paths: [][]string{{"data", "x"}}}
	warn := &plan.SkipReason{Why: "spec.drift.mode is Warn"}
	drift := func(found *unstructured.Unstructured) func(k *known) {
		return func(k *known) { k.Why, k.Cause.Found = plan.WhyDrift, found }
	}
	deleted := func(k *known) { k.Why, k.Cause.Deleted = plan.WhyDrift, true }
	fresh := func(k *known) { k.Why, k.Cause.Deleted = plan.WhyNew, true }
	unmet := func(k *known) { k.Why = plan.WhyNew }
	changed := func(k *known) { k.Why, k.Cause.Found = plan.WhyChanged, wanted }
	forced := func(live *unstructured.Unstructured) answer { return answer{live: live, forced: true} }

	for name, tc := range map[string]struct {
		reason  string
		known   []func(k *known)
		answers []answer
		want    []kind
	}{
		"AsExpected":  {"Nothing is sent about what is as expected.", []func(*known){drift(wanted), func(k *known) { k.asExpected = true }}, nil, []kind{asIntended}},
		"Terminating": {"What is being deleted is not applied.", []func(*known){drift(terminating)}, nil, []kind{beingDeleted}},
		"Skipped": {
			"A dry run shows what differs.", []func(*known){drift(edited), func(k *known) { k.Skip = warn }}, []answer{{live: wanted}}, []kind{observe, observed},
		},
		"SkippedSilently": {
			"What is not reported needs no dry run.", []func(*known){drift(edited), func(k *known) { k.Skip = &plan.SkipReason{Silent: true} }}, nil, []kind{observed},
		},
		"SkippedTerminating": {
			"An object that lost its label and is being deleted is reported: no watch shows its end.",
			[]func(*known){deleted, func(k *known) { k.Cause.Found, k.Skip = terminating, warn }}, []answer{{live: wanted}}, []kind{observe, observed},
		},
		"SkippedDeleted": {"A deletion is reported without a request.", []func(*known){deleted, func(k *known) { k.Skip = warn }}, nil, []kind{observed}},
		"AdditionsWarn":  {"Additions alone are reported.", []func(*known){drift(byKubectl), additionsOfUsers(v1alpha1.AdditionsWarn, wanted)}, nil, []kind{unchanged}},

		"Value":       {"The heal of a value is one request.", []func(*known){drift(edited)}, []answer{forced(wanted)}, []kind{apply, applied}},
		"Fails":       {"An error ends the task.", []func(*known){drift(edited)}, []answer{{err: refused, forced: true}}, []kind{apply, failed}},
		"New":         {"A new object is one request.", []func(*known){unmet}, []answer{{live: wanted}}, []kind{create, applied}},
		"Exists":      {"What exists is read before it is decided about.", []func(*known){unmet}, []answer{{err: stale}}, []kind{create, failed}},
		"Gone":        {"What is gone since it was read is applied.", []func(*known){fresh}, []answer{{live: wanted}}, []kind{apply, applied}},
		"Legacy":      {"The fields of the first operator are released.", []func(*known){fresh}, []answer{{live: listedByFirst}, {live: wanted}}, []kind{apply, migrate, applied}},
		"Copied list": {"A program of the name of the first operator keeps its fields.", []func(*known){fresh}, []answer{{live: listedByAnother}}, []kind{apply, applied}},
		"Unlabelled": {
			"An object that a webhook took the label from is not watched.", []func(*known){drift(edited)}, []answer{forced(unlabelled)}, []kind{apply, failed},
		},
		"Deleted":      {"What was deleted is created with one request.", []func(*known){deleted}, []answer{{live: wanted}}, []kind{create, applied}},
		"LabelLost":    {"What lost its label is there.", []func(*known){deleted}, []answer{{err: stale, fresh: unlabelled}, forced(wanted)}, []kind{create, apply, applied}},
		"Unreadable":   {"What server-side apply cannot read is there, too.", []func(*known){deleted}, []answer{{err: typed, fresh: unlabelled}, forced(wanted)}, []kind{create, apply, applied}},
		"CreateFails":  {"Other errors end the task.", []func(*known){deleted}, []answer{{err: refused}}, []kind{create, failed}},
		"ReadFails":    {"What cannot be read is tried again.", []func(*known){deleted}, []answer{{err: stale, freshErr: refused}}, []kind{create, failed}},
		"GoneAgain":    {"It was there for a moment.", []func(*known){deleted}, []answer{{err: stale}, forced(wanted)}, []kind{create, apply, applied}},
		"ReplaceLists": {"Lists are replaced once.", []func(*known){drift(edited)}, []answer{{err: typed, forced: true}, {}, {err: typed, forced: true}}, []kind{apply, replaceLists, apply, failed}},

		"Unanswered":       {"An apply that got no answer may have reverted the edit.", []func(*known){drift(edited)}, []answer{{err: lost, forced: true}, {live: wanted}}, []kind{apply, confirm, applied}},
		"UnansweredCreate": {"So may a create.", []func(*known){deleted}, []answer{{err: lost}, {live: wanted}}, []kind{create, confirm, applied}},
		"UnansweredUndo": {
			"The revert of a structural edit is reported when it is known to be whole.", []func(*known){drift(structural)},
			[]answer{{live: reclaimed}, {err: lost, forced: true}, {live: wanted}}, []kind{reclaim, apply, confirm, applied},
		},
		"NotReverted":    {"It is tried again if the object is not as expected.", []func(*known){drift(edited)}, []answer{{err: lost, forced: true}, {live: edited}}, []kind{apply, confirm, failed}},
		"NotConfirmed":   {"So it is if that cannot be read.", []func(*known){drift(edited)}, []answer{{err: lost, forced: true}, {err: lost}}, []kind{apply, confirm, failed}},
		"StillDeleted":   {"So it is if there is no object.", []func(*known){deleted}, []answer{{err: lost}, {}}, []kind{create, confirm, failed}},
		"NothingToCount": {"The apply of a changed manifest is no revert.", []func(*known){changed}, []answer{{err: lost}}, []kind{apply, failed}},

		"Ignored": {
			"Ignored fields are released before the apply.", []func(*known){drift(edited), func(k *known) { k.Ignored = rules }},
			[]answer{{live: edited, reduced: []byte("{}")}, forced(wanted)}, []kind{releaseIgnored, apply, applied},
		},
		"IgnoredNew": {
			"A new object is created whole.", []func(*known){unmet, func(k *known) { k.Ignored = rules }}, []answer{{live: wanted}, {live: wanted}},
			[]kind{create, releaseIgnored, applied},
		},
		"IgnoredDeleted": {
			"A deleted object is created whole.", []func(*known){deleted, func(k *known) { k.Ignored = rules }}, []answer{{live: wanted}, {live: wanted}},
			[]kind{create, releaseIgnored, applied},
		},

		"OtherManager": {
			"A changed manifest takes fields from other managers.", []func(*known){changed}, []answer{{err: contested}, {live: wanted}, forced(wanted)},
			[]kind{apply, askOwners, apply, applied},
		},
		"OtherOwner": {
			"But not from another VidraResource.", []func(*known){changed},
			[]answer{{err: contested}, {live: wanted, others: []owners.CoOwner{{Name: "api", Manager: "vidra/api", Genuine: true}}}}, []kind{apply, askOwners, failed},
		},
		"Claim": {
			"An object that another VidraResource holds gets our mark.",
			[]func(*known){func(k *known) { k.Why, k.Cause.Found = plan.WhyNew, versionOf(t, "5", `"x":"2"`, "", "") }, func(k *known) { k.settings.Manager = "vidra/other" }},
			[]answer{{err: contested}, {live: wanted, others: []owners.CoOwner{{Name: "api", Manager: "vidra/api", Genuine: true}}}, {}}, []kind{apply, askOwners, claim, failed},
		},
		"Recheck": {
			"Another client may have created a new object meanwhile.", []func(*known){fresh},
			[]answer{{err: contested}, {live: edited}, {live: edited}, {err: contested}, {live: edited}, forced(wanted)},
			[]kind{apply, askOwners, recheck, apply, askOwners, apply, applied},
		},
		"Written meanwhile": {
			"A decision about an object is made again after a write of another client.", []func(*known){func(k *known) { k.Why, k.Cause.Found = plan.WhyNew, edited }},
			[]answer{{err: contested}, {live: edited}, {err: stale, forced: true}, {live: edited}, {err: contested}, {live: edited}, forced(wanted)},
			[]kind{apply, askOwners, apply, recheck, apply, askOwners, apply, applied},
		},
		"Written without end": {
			"The next reconcile tries it again.", []func(*known){func(k *known) { k.Why, k.Cause.Found = plan.WhyNew, edited }},
			[]answer{{err: stale}, {live: edited}, {err: stale}, {live: edited}, {err: stale}, {live: edited}, {err: stale}, {live: edited}},
			[]kind{apply, recheck, apply, recheck, apply, recheck, apply, recheck, failed},
		},
		"Deleted meanwhile": {
			"So it does with an object that is gone.", []func(*known){func(k *known) { k.Why, k.Cause.Found = plan.WhyNew, edited }}, []answer{{err: stale}, {}},
			[]kind{apply, recheck, failed},
		},
		"OtherOwners": {
			"A changed manifest takes fields from other managers beside other VidraResources from the object that was read.", []func(*known){changed},
			[]answer{{err: contested}, {live: edited, others: []owners.CoOwner{{Name: "api", Manager: "vidra/api"}}}, {err: contested},
				{live: edited, others: []owners.CoOwner{{Name: "api", Manager: "vidra/api"}}}, {err: stale, forced: true}, {live: edited}, {live: wanted}},
			[]kind{apply, askOwners, apply, askOwners, apply, recheck, apply, applied},
		},
		"NotAdopted": {
			"Then it may not be adopted.", []func(*known){fresh}, []answer{{err: contested}, {live: edited}, {err: refused}}, []kind{apply, askOwners, recheck, failed},
		},

		"Structural": {"An edit that added fields is two requests.", []func(*known){drift(structural)}, []answer{{live: reclaimed}, forced(wanted)}, []kind{reclaim, apply, applied}},
		"ReclaimConflict": {
			"Another client wrote once.", []func(*known){drift(structural)}, []answer{{err: stale, fresh: structural}, {live: reclaimed}, forced(wanted)},
			[]kind{reclaim, reclaim, apply, applied},
		},
		"ReclaimsInVain": {
			"Another client keeps writing: the apply reverts what it can.", []func(*known){drift(structural)},
			[]answer{{err: stale, fresh: structural}, {err: stale}, forced(wanted)}, []kind{reclaim, reclaim, apply, applied},
		},
		"Raced": {
			"What was added during the apply is undone, too.", []func(*known){drift(structural), func(k *known) { k.before = new(ownership.Paths) }},
			[]answer{{live: reclaimed}, forced(raced), {live: raced}, forced(wanted)}, []kind{reclaim, apply, reclaim, apply, applied},
		},
		"Denied": {
			"What was reclaimed is returned if a webhook denies the apply.", []func(*known){drift(structural)},
			[]answer{{live: reclaimed}, {err: denial, forced: true}, {live: structural}}, []kind{reclaim, apply, returnReclaimed, failed},
		},
		"WidensAndGivesUp": {
			"More is undone if the API server calls the object invalid, and at last nothing is.", []func(*known){drift(structural)},
			[]answer{{live: reclaimed}, {err: invalid, forced: true}, {live: structural}, {err: refused}}, []kind{reclaim, apply, returnReclaimed, probe, failed},
		},
		"Cleared": {
			"Without managedFields the owners of the fields are recorded first.", []func(*known){drift(cleared)},
			[]answer{{err: invalid, forced: true}, {live: marked}, {live: reclaimed}, forced(wanted)}, []kind{apply, applyMarks, reclaim, apply, applied},
		},

		"RemoveAdditions": {
			"Additions are removed like an edit, and nothing else is applied.", []func(*known){drift(byKubectl), additionsOfUsers(v1alpha1.AdditionsRevert, wanted)},
			[]answer{{live: reclaimed}, forced(wanted)}, []kind{reclaim, apply, applied},
		},
		"UnremovableAdditions": {
			"Additions without which the object is invalid stay.", []func(*known){drift(byKubectl), additionsOfUsers(v1alpha1.AdditionsRevert, wanted)},
			[]answer{{live: reclaimed}, {err: invalid, forced: true}, {live: byKubectl}}, []kind{reclaim, apply, returnReclaimed, applied},
		},

		"Replaced": {
			"With spec.force an immutable field has the object created again.", []func(*known){changed, func(k *known) { k.settings.Force = true }},
			[]answer{{err: invalid}, {live: wanted}, {}, {live: wanted}}, []kind{apply, readUnowned, probe, readReplaced, replaced},
		},
		"NotForced": {
			"Without it the object stays.", []func(*known){changed}, []answer{{err: invalid}, {live: wanted}, {}, {live: wanted}},
			[]kind{apply, readUnowned, probe, readReplaced, failed},
		},
		"NotCreatable": {
			"What is invalid as a new object, too, is a fault of the manifest.", []func(*known){changed}, []answer{{err: invalid}, {live: wanted}, {err: invalid}},
			[]kind{apply, readUnowned, probe, failed},
		},
		"Defaults": {
			"A default beside a changed field is removed, once a dry run has shown that it was in the way.", []func(*known){changed},
			[]answer{{err: invalid}, {live: withDefault}, {}, {live: withDefault}, {live: wanted}}, []kind{apply, readUnowned, tryWithoutUnowned, reclaim, apply, applied},
		},
		"DefaultsNotInTheWay": {
			"Nothing is written if the dry run is refused.", []func(*known){changed}, []answer{{err: invalid}, {live: withDefault}, {err: invalid}, {err: invalid}},
			[]kind{apply, readUnowned, tryWithoutUnowned, probe, failed},
		},
		"DefaultsUnread": {
			"An object that cannot be read keeps its defaults.", []func(*known){changed}, []answer{{err: invalid}, {err: refused}, {err: invalid}},
			[]kind{apply, readUnowned, probe, failed},
		},
		"InvalidNew": {"There is nothing to replace.", []func(*known){fresh}, []answer{{err: invalid}}, []kind{apply, failed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := known{
				Task:     plan.Task{Object: &desired.Object{Body: body}, Known: &plan.Object{}},
				settings: &plan.Settings{Claimant: owners.Claimant{Owner: trigger.Owner{Name: "shop"}, Manager: ourManager}},
			}
			k.expected = trigger.Applied{Manager: ourManager, Digest: trigger.DigestOf(wanted, ourManager, false, nil), UID: "u"}
			k.expectedKnown = true
			for _, set := range tc.known {
				set(&k)
			}
			r := decide(k)
			got := []kind{r.kind}
			for _, a := range tc.answers {
				if r.kind.ends() {
					break
				}
				r = next(r, a)
				got = append(got, r.kind)
			}
			require.Equal(t, names(tc.want), names(got), tc.reason)
			require.Equal(t, r.kind == failed, r.err != nil, "%v", r.err)
		})
	}
}

// additionsOfUsers is a policy for additions by kubectl-edit to an object that was last applied
// as it is in applied.
func additionsOfUsers(policy v1alpha1.AdditionsPolicy, applied *unstructured.Unstructured) func(k *known) {
	return func(k *known) {
		k.settings.Additions = plan.Additions{Policy: policy, Tools: ownership.Tools{"kubectl-edit"}}
		k.Known.Entry = &v1alpha1.ManagedResourceStatus{Digest: trigger.DigestOf(applied, ourManager, false, nil).String()}
	}
}

// names are kinds as they are written in this file.
func names(kinds []kind) []string {
	all := map[kind]string{
		observe: "observe", create: "create", reclaim: "reclaim", releaseIgnored: "releaseIgnored", apply: "apply", replaceLists: "replaceLists",
		askOwners: "askOwners", claim: "claim", recheck: "recheck", read: "read", readUnowned: "readUnowned", tryWithoutUnowned: "tryWithoutUnowned", returnReclaimed: "returnReclaimed", applyMarks: "applyMarks", migrate: "migrate",
		probe: "probe", readReplaced: "readReplaced", confirm: "confirm", asIntended: "asIntended", beingDeleted: "beingDeleted", unchanged: "unchanged", observed: "observed",
		applied: "applied", replaced: "replaced", failed: "failed",
	}
	texts := make([]string, 0, len(kinds))
	for _, k := range kinds {
		texts = append(texts, fmt.Sprint(all[k]))
	}
	return texts
}
