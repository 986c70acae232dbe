package apply

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
)

// immutable is the reason against the change of an object that the API server would accept as a new one.
type immutable struct {
	text string
	// timed reports a reason that ends by time.
	timed bool
	// cause is a part of the reason, or nil.
	cause error
}

func (i *immutable) Error() string { return i.text }

func (i *immutable) Unwrap() error { return i.cause }

// Lasts reports whether the refusal lasts until something changes: break-glass ends by itself.
func (i *immutable) Lasts() bool { return !i.timed }

// AsFailure returns the reason as a failure.
func (i *immutable) AsFailure(whole error, _ ownership.Disclosure) object.Failure {
	return object.Failure{Reason: v1alpha1.ReasonApplyFailed, Message: whole.Error()}
}

// replace ends the task of an object whose apply the API server called invalid: with the object that is to be deleted, so that it is
// created anew, because its fields cannot become equal to the manifest; or with the reason against that.
func (p *procedure) replace(ctx context.Context, refused error) {
	p.result.End, p.refused = Failed, refused
	fields := object.InvalidFields(refused)
	if fields == nil || p.probe(ctx) != nil || p.known.task.Why == plan.WhyDrift && !p.known.task.Object.SetsAll(fields) { // a default is in the way
		p.result.Err = cmp.Or(p.naming(refused, p.known.task.Cause.Found), refused)
		return
	}
	live, err := p.replacement(ctx, refused)
	if p.result.Err = err; err != nil {
		return
	}
	if p.result.End = Replaced; live.GetDeletionTimestamp() == nil {
		p.result.Recreation.Delete = live
	}
}

// replacement reads the object that is to be deleted and created anew. It fails with the reason against that.
func (p *procedure) replacement(ctx context.Context, refused error) (live *unstructured.Unstructured, err error) {
	if live, err = p.api.get(ctx); err != nil {
		return nil, err
	}
	if live == nil { // it is created with the next attempt
		return nil, refused
	}
	r := &Replacement{Settings: p.known.settings, Object: p.known.task.Object, Entry: p.known.task.Entry(), Live: live, Refusal: p.refusal(refused, live), Drift: p.known.task.Why == plan.WhyDrift}
	if r.Others, err = p.api.coOwners(ctx, live); err != nil {
		return nil, err
	}
	if p.known.settings.Force && p.known.task.Object.ID.IsContainer() {
		if r.Inside, err = p.api.contents(ctx, live); err != nil {
			return nil, err
		}
	}
	if live.GetDeletionTimestamp() != nil {
		return live, nil
	}
	if r.Drift {
		if named := p.naming(refused, live); named != nil {
			return nil, named
		}
	}
	return live, r.Blocked()
}

// Replacement is an object whose change the API server refuses, and which it accepts as a new one.
type Replacement struct {
	Settings *plan.Settings
	Object   *desired.Object
	// Entry is the inventory entry of the object, and Live the object in the cluster.
	Entry *v1alpha1.ManagedResourceStatus
	Live  *unstructured.Unstructured
	// Others are the other VidraResources that own the object, and Inside the contents of a container.
	Others []owners.CoOwner
	Inside owners.Inside
	// Refusal describes the refused change.
	Refusal object.Refusal
	// Drift reports that the refused change reverts an edit. Otherwise the manifest has changed.
	Drift bool
}

// Blocked returns the reason against the deletion and new creation of the object, or nil. Its text omits withheld
// values.
func (r *Replacement) Blocked() error {
	live, entry, d := r.Live, r.Entry, r.Object
	why := func(text string, args ...any) error {
		cause := fmt.Errorf(text, args...)
		return &immutable{text: fmt.Sprintf("%s. It is not deleted and created again: %s", r.Refusal, cause), cause: cause}
	}
	keeps, occupied := r.Inside.Keeps(), r.Inside.Blocked(r.Settings.UnmanagedContents)
	switch {
	case r.Drift:
		return &immutable{text: fmt.Sprintf("%s. Another user set it, when the object was created again, for example. %s", r.Refusal, r.afterEdit())}
	case !r.Settings.Claimant.Owns(live, entry):
		return why("Vidra does not own it. Delete it, so that Vidra can create it, or fix the manifest")
	case r.Refusal.Unset, !r.Settings.Force:
		return &immutable{text: r.Refusal.WithAdvice()}
	case len(r.Others) > 0:
		return why("another VidraResource owns the object, too")
	case object.HoldsData(d.ID.GroupKind) && !allowsRecreate(live) && !allowsRecreate(d.Unstructured()):
		return why("a %s holds data, which is lost then, and lacks the annotation %s: \"true\". %s", d.ID.Kind, v1alpha1.AllowRecreateAnnotation, r.Refusal.Advice())
	case keeps != nil:
		return why("%w", keeps)
	case occupied != nil:
		return why("%w", occupied)
	case policy.AsksToStay(live) || policy.AsksToStay(d.Unstructured()):
		return why("it has the annotation %s: \"true\". Remove that from the manifest and from the object, fix the manifest, or delete the object", v1alpha1.KeepAnnotation)
	case entry != nil && entry.Recreated != nil && entry.Recreated.Configuration == d.Configuration && entry.Recreated.UID != string(live.GetUID()):
		return why("it was created again for this manifest before, and another client changes it")
	}
	exempt := ""
	if glass := r.Settings.AnswerTo(entry, d, live); breakglass.Exempts(glass.Status, time.Now()) {
		exempt = "its break-glass: " + policy.Exemption(glass.Status)
	} else if d.ID.IsContainer() {
		if member := r.Settings.BreakGlass.Within(d.ID); member != "" {
			exempt = "the break-glass of " + member
		}
	}
	if exempt == "" {
		return nil
	}
	return &immutable{timed: true, text: fmt.Sprintf("%s. It is not deleted and created again: this waits for the end of %s", r.Refusal, exempt)}
}

// refusal describes the refused change of an object that exists.
func (p *procedure) refusal(refused error, live *unstructured.Unstructured) object.Refusal {
	return object.Refusal{
		ID: p.known.task.Object.ID, Fields: object.FieldNames(refused), Answer: object.Message(refused, p.known.disclosureWith(live)),
		Differing: desired.Differing(p.known.task.Object.Unstructured(), live), Unset: !p.known.task.Object.SetsAll(object.InvalidFields(refused)),
	}
}

// afterEdit is the step after an edit that the API server refuses to revert.
func (r *Replacement) afterEdit() string {
	if object.HoldsData(r.Object.ID.GroupKind) {
		return r.Refusal.Advice()
	}
	return "Delete the object, so that Vidra creates it again"
}

// naming returns the error of a refused heal with the names of the fields in the way; nil without
// such fields.
func (p *procedure) naming(refused error, live *unstructured.Unstructured) error {
	if p.known.task.Why != plan.WhyDrift || live == nil {
		return nil
	}
	others := p.inTheWay(live)
	if others == "" {
		return nil
	}
	return &immutable{text: fmt.Sprintf(
		"the API server refused to revert %s: %s. In the way may be %s, which Vidra does not change: remove it from the object, or change the manifest or spec.drift.ignore",
		shownFields(object.InvalidFields(refused), p.known.disclosureWith(live)), object.Message(refused, p.known.disclosureWith(live)), others)}
}

// maxRefused is how many refused fields are named.
const maxRefused = 10

// shownFields names fields as the API server does, without withheld values.
func shownFields(fields []string, known ownership.Disclosure) string {
	var shown []string
	for _, field := range fields[:min(len(fields), maxRefused)] {
		shown = append(shown, object.FieldWithoutValues(field, known))
	}
	return display.First(shown, maxRefused, len(fields))
}

// inTheWay names the fields of other field managers beside the fields whose revert the API server
// refused: an ignore rule leaves them, or they are older than the edit; else empty.
func (p *procedure) inTheWay(live *unstructured.Unstructured) string {
	undo := p.known.undoOf()
	undo.Scope, undo.Keep, undo.Before, undo.BeforeKnown = ownership.BesideChanged, nil, "", true
	found := p.known.task.Cause.Found
	if entry := p.known.task.Entry(); found == nil || entry == nil || entry.UID != string(found.GetUID()) {
		return "" // another user created the object, and nothing in it was beside ours before
	}
	var named []string
	for _, c := range undo.Added(found, live).Changes {
		if len(named) < desired.MaxAltered {
			named = append(named, fmt.Sprintf("%s of %q", c.Path, c.Manager))
		}
	}
	return strings.Join(named, ", ")
}

// probe asks whether the API server would accept the refused configuration as a new object.
func (p *procedure) probe(ctx context.Context) error {
	probe := p.known.task.Object.Probe()
	body, err := desired.Encode(probe)
	if err != nil {
		return err
	}
	_, err = p.api.tryApply(ctx, probe.GetName(), body)
	return err
}

func allowsRecreate(object *unstructured.Unstructured) bool {
	return object.GetAnnotations()[v1alpha1.AllowRecreateAnnotation] == "true"
}
