package apply

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
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
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestProcedure gives the answers to the calls of one task, and requires the calls.
func TestProcedure(t *testing.T) {
	t.Parallel()
	const x, y, z, xy, yz = `"f:x":{}`, `"f:y":{}`, `"f:z":{}`, `"f:x":{},"f:y":{}`, `"f:y":{},"f:z":{}`
	wanted := versionOf(t, "5", `"x":"1","y":"1"`, xy, "")
	edited := versionOf(t, "6", `"x":"9","y":"1"`, y, x)
	structural := versionOf(t, "6", `"y":"1","z":"1"`, y, z)
	reclaimed := versionOf(t, "7", `"y":"1","z":"1"`, yz, "")
	raced := versionOf(t, "8", `"x":"1","y":"1","w":"1"`, xy, `"f:w":{}`)
	filled := versionOf(t, "6", `"m":{"z":"1"}`, `"f:m":{}`, `"f:m":{"f:z":{}}`)
	restored := versionOf(t, "7", `"x":"1","m":{"z":"1"}`, `"f:x":{},"f:m":{}`, `"f:m":{"f:z":{}}`)
	unlabelled := edited.DeepCopy()
	unlabelled.SetLabels(nil)
	exempt := unlabelled.DeepCopy()
	exempt.SetAnnotations(map[string]string{v1alpha1.BreakGlassUntilAnnotation: time.Now().Add(time.Hour).Format(time.RFC3339), v1alpha1.BreakGlassReasonAnnotation: "incident"})
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
	located, err := desired.Locate(&v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Drift: &v1alpha1.DriftPolicy{Ignore: []v1alpha1.IgnoreRule{{Paths: []string{"/data/x"}}}}}},
		[]desired.Part{desired.NewPart("", string(body), false)}, fixture.IDOf(fixture.ConfigMapKind, "shop", "a"))
	require.NoError(t, err)
	mapped := func(k *known) { k.task.Object.Body = []byte(strings.Replace(string(body), `"y":"1"`, `"m":{}`, 1)) }
	ignored := func(k *known) { k.task.Object.Rules = desired.Rules{Exemptions: located.Exemptions, Ignored: true} }
	warn := policy.Leave(policy.Mode, "spec.drift.mode is Warn", time.Time{})
	drift := func(found *unstructured.Unstructured) func(k *known) {
		return func(k *known) { k.task.Why, k.task.Cause.Found = plan.WhyDrift, found }
	}
	deleted := func(k *known) { k.task.Why, k.task.Cause.Deleted = plan.WhyDrift, true }
	fresh := func(k *known) { k.task.Why, k.task.Cause.Deleted = plan.WhyNew, true }
	unmet := func(k *known) { k.task.Why = plan.WhyNew }
	changed := func(k *known) { k.task.Why, k.task.Cause.Found = plan.WhyChanged, wanted }

	for name, tc := range map[string]struct {
		reason  string
		known   []func(k *known)
		answers []answer
		// others own the object, too.
		others []owners.CoOwner
		// calls are the methods of objectAPI that are called.
		calls string
		end   End
	}{
		"AsExpected": {
			reason: "Nothing is sent about what is as expected.", known: []func(*known){drift(wanted), func(k *known) { k.asExpected = true }},
			end: AsIntended,
		},
		"Terminating": {
			reason: "What is being deleted is not applied.", known: []func(*known){drift(terminating)},
			end: BeingDeleted,
		},
		"Skipped": {
			reason: "A dry run shows what differs.", known: []func(*known){drift(edited), func(k *known) { k.task.Decision = warn }},
			answers: []answer{{live: wanted}}, calls: "tryApply", end: Observed,
		},
		"SkippedSilently": {
			reason: "What is not reported needs no dry run.", known: []func(*known){drift(edited), func(k *known) { k.task.Decision = policy.Decision{Rule: policy.Mode, Silent: true} }},
			end: Observed,
		},
		"SkippedTerminating": {
			reason: "An object that lost its label and is being deleted is reported: no watch shows its end.", known: []func(*known){deleted, func(k *known) { k.task.Cause.Found, k.task.Decision = terminating, warn }},
			answers: []answer{{live: wanted}}, calls: "tryApply", end: Observed,
		},
		"SkippedDeleted": {
			reason: "A deletion is reported without a request.", known: []func(*known){deleted, func(k *known) { k.task.Decision = warn }},
			end: Observed,
		},
		"AdditionsWarn": {
			reason: "Additions alone are reported.", known: []func(*known){drift(byKubectl), additionsOfUsers(v1alpha1.AdditionsWarn, wanted)},
			end: Unchanged,
		},
		"Value": {
			reason: "The heal of a value is one request.", known: []func(*known){drift(edited)},
			answers: []answer{{live: wanted}}, calls: "apply", end: Applied,
		},
		"Fails": {
			reason: "An error ends the task.", known: []func(*known){drift(edited)},
			answers: []answer{{err: refused}}, calls: "apply", end: Failed,
		},
		"New": {
			reason: "A new object is one request.", known: []func(*known){unmet},
			answers: []answer{{live: wanted}}, calls: "apply", end: Applied,
		},
		"Exists": {
			reason: "What exists is read before it is decided about.", known: []func(*known){unmet},
			answers: []answer{{err: stale}}, calls: "apply", end: Failed,
		},
		"Gone": {
			reason: "What is gone since it was read is applied.", known: []func(*known){fresh},
			answers: []answer{{live: wanted}}, calls: "apply", end: Applied,
		},
		"Legacy": {
			reason: "The fields of the first operator are released.", known: []func(*known){fresh},
			answers: []answer{{live: listedByFirst}, {live: wanted}}, calls: "apply patch", end: Applied,
		},
		"Copied list": {
			reason: "A program of the name of the first operator keeps its fields.", known: []func(*known){fresh},
			answers: []answer{{live: listedByAnother}}, calls: "apply", end: Applied,
		},
		"Unlabelled": {
			reason: "An object that a webhook took the label from is not watched.", known: []func(*known){drift(edited)},
			answers: []answer{{live: unlabelled}}, calls: "apply", end: Failed,
		},
		"Deleted": {
			reason: "What was deleted is created with one request.", known: []func(*known){deleted},
			answers: []answer{{live: wanted}}, calls: "apply", end: Applied,
		},
		"LabelLost": {
			reason: "What lost its label is there.", known: []func(*known){deleted},
			answers: []answer{{err: stale}, {live: unlabelled}, {live: wanted}}, calls: "apply get apply", end: Applied,
		},
		"LostLabelExempt": {
			reason: "The annotations of an object without its label exempt it.", known: []func(*known){deleted, func(k *known) {
				k.settings.BreakGlass.Max, k.settings.BreakGlass.Room = 2*time.Hour, func() *atomic.Int64 { return plan.NewBreakGlassRoom(nil) }
			}},
			answers: []answer{{err: stale}, {live: exempt}, {live: wanted}}, calls: "apply get tryApply", end: Observed,
		},
		"Unreadable": {
			reason: "What server-side apply cannot read is there, too.", known: []func(*known){deleted},
			answers: []answer{{err: typed}, {live: unlabelled}, {live: wanted}}, calls: "apply get apply", end: Applied,
		},
		"CreateFails": {
			reason: "Other errors end the task.", known: []func(*known){deleted},
			answers: []answer{{err: refused}}, calls: "apply", end: Failed,
		},
		"ReadFails": {
			reason: "What cannot be read is tried again.", known: []func(*known){deleted},
			answers: []answer{{err: stale}, {err: refused}}, calls: "apply get", end: Failed,
		},
		"GoneAgain": {
			reason: "It was there for a moment.", known: []func(*known){deleted},
			answers: []answer{{err: stale}, {}, {live: wanted}}, calls: "apply get apply", end: Applied,
		},
		"ReplaceLists": {
			reason: "Lists are replaced once.", known: []func(*known){drift(edited)},
			answers: []answer{{err: typed}, {live: edited}, {}, {err: typed}}, calls: "apply get merge apply", end: Failed,
		},
		"Unanswered": {
			reason: "An apply that got no answer may have reverted the edit.", known: []func(*known){drift(edited)},
			answers: []answer{{err: lost}, {live: wanted}}, calls: "apply get", end: Applied,
		},
		"UnansweredCreate": {
			reason: "So may a create.", known: []func(*known){deleted},
			answers: []answer{{err: lost}, {live: wanted}}, calls: "apply get", end: Applied,
		},
		"UnansweredUndo": {
			reason: "The revert of a structural edit is reported when it is known to be whole.", known: []func(*known){drift(structural)},
			answers: []answer{{live: reclaimed}, {err: lost}, {live: wanted}}, calls: "patch apply get", end: Applied,
		},
		"NotReverted": {
			reason: "It is tried again if the object is not as expected.", known: []func(*known){drift(edited)},
			answers: []answer{{err: lost}, {live: edited}}, calls: "apply get", end: Failed,
		},
		"NotConfirmed": {
			reason: "So it is if that cannot be read.", known: []func(*known){drift(edited)},
			answers: []answer{{err: lost}, {err: lost}}, calls: "apply get", end: Failed,
		},
		"StillDeleted": {
			reason: "So it is if there is no object.", known: []func(*known){deleted},
			answers: []answer{{err: lost}, {}}, calls: "apply get", end: Failed,
		},
		"NothingToCount": {
			reason: "The apply of a changed manifest is no revert.", known: []func(*known){changed},
			answers: []answer{{err: lost}}, calls: "apply", end: Failed,
		},
		"Ignored": {
			reason: "Ignored fields are released before the apply.", known: []func(*known){drift(edited), ignored},
			answers: []answer{{live: wanted}, {live: wanted}}, calls: "tryApply apply", end: Applied,
		},
		"IgnoredNew": {
			reason: "A new object is created whole.", known: []func(*known){unmet, ignored},
			answers: []answer{{live: wanted}, {live: wanted}, {live: wanted}}, calls: "apply tryApply patch", end: Applied,
		},
		"IgnoredDeleted": {
			reason: "A deleted object is created whole.", known: []func(*known){deleted, ignored},
			answers: []answer{{live: wanted}, {live: wanted}, {live: wanted}}, calls: "apply tryApply patch", end: Applied,
		},
		"OtherManager": {
			reason: "A changed manifest takes fields from other managers.", known: []func(*known){changed},
			answers: []answer{{err: contested}, {live: wanted}}, calls: "apply apply", end: Applied,
		},
		"OtherOwner": {
			reason: "But not from another VidraResource.", known: []func(*known){changed},
			answers: []answer{{err: contested}}, others: []owners.CoOwner{{Name: "api", Manager: "vidra/api", Genuine: true}}, calls: "apply", end: Failed,
		},
		"Claim": {
			reason: "An object that another VidraResource holds gets our mark.", known: []func(*known){func(k *known) { k.task.Why, k.task.Cause.Found = plan.WhyNew, versionOf(t, "5", `"x":"2"`, "", "") }, func(k *known) { k.settings.Claimant.Manager = "vidra/other" }},
			answers: []answer{{err: contested}, {}}, others: []owners.CoOwner{{Name: "api", Manager: "vidra/api", Genuine: true}}, calls: "apply apply", end: Failed,
		},
		"Recheck": {
			reason: "Another client may have created a new object meanwhile.", known: []func(*known){fresh},
			answers: []answer{{err: contested}, {live: edited}, {live: edited}, {err: contested}, {live: wanted}}, calls: "apply get get apply apply", end: Applied,
		},
		"Written meanwhile": {
			reason: "A decision about an object is made again after a write of another client.", known: []func(*known){func(k *known) { k.task.Why, k.task.Cause.Found = plan.WhyNew, edited }},
			answers: []answer{{err: contested}, {err: stale}, {live: edited}, {err: contested}, {live: wanted}}, calls: "apply apply get apply apply", end: Applied,
		},
		"Written without end": {
			reason: "The next reconcile tries it again.", known: []func(*known){func(k *known) { k.task.Why, k.task.Cause.Found = plan.WhyNew, edited }},
			answers: []answer{{err: stale}, {live: edited}, {err: stale}, {live: edited}, {err: stale}, {live: edited}, {err: stale}, {live: edited}}, calls: "apply get apply get apply get apply get", end: Failed,
		},
		"Deleted meanwhile": {
			reason: "So it does with an object that is gone.", known: []func(*known){func(k *known) { k.task.Why, k.task.Cause.Found = plan.WhyNew, edited }},
			answers: []answer{{err: stale}, {}}, calls: "apply get", end: Failed,
		},
		"OtherOwners": {
			reason: "A changed manifest takes fields from other managers beside other VidraResources from the object that was read.", known: []func(*known){changed},
			answers: []answer{{err: contested}, {err: stale}, {live: edited}, {live: wanted}}, others: []owners.CoOwner{{Name: "api", Manager: "vidra/api"}}, calls: "apply apply get apply", end: Applied,
		},
		"NotAdopted": {
			reason: "Then it may not be adopted.", known: []func(*known){fresh},
			answers: []answer{{err: contested}, {live: edited}, {err: refused}}, calls: "apply get get", end: Failed,
		},
		"Structural": {
			reason: "An edit that added fields is two requests.", known: []func(*known){drift(structural)},
			answers: []answer{{live: reclaimed}, {live: wanted}}, calls: "patch apply", end: Applied,
		},
		"ReclaimConflict": {
			reason: "Another client wrote once.", known: []func(*known){drift(structural)},
			answers: []answer{{err: stale}, {live: structural}, {live: reclaimed}, {live: wanted}}, calls: "patch get patch apply", end: Applied,
		},
		"ReclaimsInVain": {
			reason: "Another client keeps writing: the apply reverts what it can.", known: []func(*known){drift(structural)},
			answers: []answer{{err: stale}, {live: structural}, {err: stale}, {live: wanted}}, calls: "patch get patch apply", end: Applied,
		},
		"Raced": {
			reason: "What was added during the apply is undone, too.", known: []func(*known){drift(structural), func(k *known) { k.before = new(ownership.Paths) }},
			answers: []answer{{live: reclaimed}, {live: raced}, {live: raced}, {live: wanted}}, calls: "patch apply patch apply", end: Applied,
		},
		"Denied": {
			reason: "What was reclaimed is returned if a webhook denies the apply.", known: []func(*known){drift(structural)},
			answers: []answer{{live: reclaimed}, {err: denial}, {live: structural}}, calls: "patch apply patch", end: Failed,
		},
		"WidensAndGivesUp": {
			reason: "More is undone if the API server calls the object invalid, and at last nothing is.", known: []func(*known){drift(structural)},
			answers: []answer{{live: reclaimed}, {err: invalid}, {live: structural}, {err: refused}}, calls: "patch apply patch tryApply", end: Failed,
		},
		"NeededAdditions": {
			reason: "If the object is invalid without them, the fields beside them are applied before.", known: []func(*known){drift(filled), mapped},
			answers: []answer{{err: invalid}, {live: restored}, {live: reclaimed}, {live: wanted}}, calls: "patch apply patch apply", end: Applied,
		},
		"NeededAdditionsStay": {
			reason: "If it is invalid without them still, their ownership alone is taken.", known: []func(*known){drift(filled), mapped},
			answers: []answer{{err: invalid}, {live: restored}, {err: invalid}, {live: reclaimed}, {live: wanted}}, calls: "patch apply patch patch apply", end: Applied,
		},
		"Cleared": {
			reason: "Without managedFields the owners of the fields are recorded first.", known: []func(*known){drift(cleared)},
			answers: []answer{{err: invalid}, {live: marked}, {live: reclaimed}, {live: wanted}}, calls: "apply apply patch apply", end: Applied,
		},
		"RemoveAdditions": {
			reason: "Additions are removed like an edit, and nothing else is applied.", known: []func(*known){drift(byKubectl), additionsOfUsers(v1alpha1.AdditionsRevert, wanted)},
			answers: []answer{{live: reclaimed}, {live: wanted}}, calls: "patch apply", end: Applied,
		},
		"UnremovableAdditions": {
			reason: "Additions without which the object is invalid stay.", known: []func(*known){drift(byKubectl), additionsOfUsers(v1alpha1.AdditionsRevert, wanted)},
			answers: []answer{{live: reclaimed}, {err: invalid}, {live: byKubectl}}, calls: "patch apply patch", end: Applied,
		},
		"Replaced": {
			reason: "With spec.force an immutable field has the object created again.", known: []func(*known){changed, func(k *known) { k.settings.Force = true }},
			answers: []answer{{err: invalid}, {live: wanted}, {}, {live: wanted}}, calls: "apply get tryApply get", end: Replaced,
		},
		"NotForced": {
			reason: "Without it the object stays.", known: []func(*known){changed},
			answers: []answer{{err: invalid}, {live: wanted}, {}, {live: wanted}}, calls: "apply get tryApply get", end: Failed,
		},
		"NotCreatable": {
			reason: "What is invalid as a new object, too, is a fault of the manifest.", known: []func(*known){changed},
			answers: []answer{{err: invalid}, {live: wanted}, {err: invalid}}, calls: "apply get tryApply", end: Failed,
		},
		"Defaults": {
			reason: "A default beside a changed field is removed, once a dry run has shown that it was in the way.", known: []func(*known){changed},
			answers: []answer{{err: invalid}, {live: withDefault}, {}, {live: withDefault}, {live: wanted}}, calls: "apply get tryPatch patch apply", end: Applied,
		},
		"DefaultsNotInTheWay": {
			reason: "Nothing is written if the dry run is refused.", known: []func(*known){changed},
			answers: []answer{{err: invalid}, {live: withDefault}, {err: invalid}, {err: invalid}}, calls: "apply get tryPatch tryApply", end: Failed,
		},
		"DefaultsUnread": {
			reason: "An object that cannot be read keeps its defaults.", known: []func(*known){changed},
			answers: []answer{{err: invalid}, {err: refused}, {err: invalid}}, calls: "apply get tryApply", end: Failed,
		},
		"InvalidNew": {
			reason: "There is nothing to replace.", known: []func(*known){fresh},
			answers: []answer{{err: invalid}}, calls: "apply", end: Failed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := known{
				task:     plan.Task{Object: &desired.Object{Body: body}, Known: &plan.Object{}},
				settings: &plan.Settings{Claimant: owners.Claimant{Owner: trigger.Owner{Name: "shop"}, Manager: ourManager}},
			}
			k.expected = trigger.Applied{Manager: ourManager, Digest: trigger.DigestOf(wanted, ourManager, false, nil), UID: "u"}
			k.expectedKnown = true
			for _, set := range tc.known {
				set(&k)
			}
			api := &script{answers: tc.answers, others: tc.others}
			p := newProcedure(k, api)
			p.result.End = p.judge()
			p.run(t.Context())
			require.Equal(t, tc.calls, strings.Join(api.calls, " "), tc.reason)
			require.Empty(t, api.answers, "each answer was asked for")
			require.Equal(t, tc.end, p.result.End, "%s: %v", tc.reason, p.result.Err)
			require.Equal(t, p.result.End == Failed, p.result.Err != nil, "%v", p.result.Err)
		})
	}
}

// additionsOfUsers is a policy for additions by kubectl-edit to an object that was last applied
// as it is in applied.
func additionsOfUsers(policy v1alpha1.AdditionsPolicy, applied *unstructured.Unstructured) func(k *known) {
	return func(k *known) {
		k.settings.Additions = plan.Additions{Policy: policy, Tools: ownership.Tools{"kubectl-edit"}}
		k.task.Known.Entry = &v1alpha1.ManagedResourceStatus{Digest: trigger.DigestOf(applied, ourManager, false, nil).String()}
	}
}

// answer is the answer to a call.
type answer struct {
	live *unstructured.Unstructured
	err  error
}

// script is an objectAPI with given answers. It records the calls.
type script struct {
	answers []answer
	others  []owners.CoOwner
	calls   []string
}

func (s *script) next(call string) (*unstructured.Unstructured, error) {
	s.calls = append(s.calls, call)
	if len(s.answers) == 0 {
		return nil, errors.New("no answer is left")
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a.live, a.err
}

func (s *script) get(context.Context) (*unstructured.Unstructured, error) { return s.next("get") }

func (s *script) apply(context.Context, []byte, bool) (*unstructured.Unstructured, error) {
	return s.next("apply")
}

func (s *script) tryApply(context.Context, string, []byte) (*unstructured.Unstructured, error) {
	return s.next("tryApply")
}

func (s *script) patch(_ context.Context, _ any, dryRun ...string) (*unstructured.Unstructured, error) {
	if len(dryRun) > 0 {
		return s.next("tryPatch")
	}
	return s.next("patch")
}

func (s *script) merge(context.Context, []byte) error {
	_, err := s.next("merge")
	return err
}

func (s *script) coOwners(context.Context, *unstructured.Unstructured) ([]owners.CoOwner, error) {
	return s.others, nil
}

func (s *script) conflicting(context.Context, *unstructured.Unstructured) ([]owners.CoOwner, error) {
	return s.others, nil
}

func (s *script) contents(context.Context, *unstructured.Unstructured) (owners.Inside, error) {
	return owners.Inside{}, nil
}
