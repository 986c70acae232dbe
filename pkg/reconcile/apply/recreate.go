package apply

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// immutable is why an object is not changed although the API server would accept it as a new one.
type immutable struct {
	text string
	// timed reports that the time ends it.
	timed bool
}

// Error implements error.
func (i *immutable) Error() string { return i.text }

// Lasts reports whether the refusal lasts while nothing changes: that of break-glass ends by itself.
func (i *immutable) Lasts() bool { return !i.timed }

// AsFailure returns why the object is not changed.
func (i *immutable) AsFailure(whole error, _ ownership.Disclosure) object.Failure {
	return object.Failure{Reason: v1alpha1.ReasonApplyFailed, Message: whole.Error()}
}

// refuse follows an apply that the API server called invalid, if the object exists.
func (r request) refuse() request {
	r.refused = r.err
	if object.InvalidFields(r.refused) == nil {
		return r.unreplaceable(nil)
	}
	r.kind = probe
	return r
}

// probed follows the question whether the API server accepts the object as a new one.
func (r request) probed(got answer) request {
	if fields := object.InvalidFields(r.refused); got.err != nil || r.Why == plan.WhyDrift && !r.SetsAll(fields) {
		return r.unreplaceable(fields) // a default is in the way
	}
	r.kind = readReplaced
	return r
}

// unreplaceable ends the task of an object that cannot become what the manifest says.
func (r request) unreplaceable(fields []string) request {
	if r.kind, r.err = failed, r.naming(r.Cause.Found, fields); r.err == nil {
		r.err = r.refused
	}
	return r
}

// replacement ends the task with the object that is to be deleted, so that it is created anew,
// because its fields cannot become equal to the manifest. It has none if the object is being
// deleted.
func (r request) replacement(got answer) request {
	if r.err = r.irreplaceable(got); r.err != nil {
		r.kind = failed
		return r
	}
	if r.kind = replaced; got.live.GetDeletionTimestamp() == nil {
		r.replace = got.live
	}
	return r
}

// irreplaceable returns why an object must not be deleted and created anew; nil if it may.
func (r request) irreplaceable(got answer) error {
	entry, live := r.Entry(), got.live
	refusal := r.refusal(live)
	switch {
	case got.err != nil:
		return got.err
	case live == nil:
		return r.refused // it is created with the next attempt
	case live.GetDeletionTimestamp() != nil:
		return nil
	case r.Why == plan.WhyDrift:
		if named := r.naming(live, object.InvalidFields(r.refused)); named != nil {
			return named
		}
	}
	replacement := &Replacement{
		Settings: r.settings, Object: r.Object, Entry: entry, Live: live, Others: got.others, Inside: got.inside, Refusal: refusal, Drift: r.Why == plan.WhyDrift,
	}
	return replacement.Blocked()
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

// Blocked returns why the object must not be deleted and created anew; nil if it may. Its text has no values that are
// not shown.
func (r *Replacement) Blocked() error {
	live, entry, d := r.Live, r.Entry, r.Object
	why := func(text string, args ...any) error {
		return &immutable{text: fmt.Sprintf("%s. It is not deleted and created again: %s", r.Refusal, fmt.Sprintf(text, args...))}
	}
	switch {
	case r.Drift:
		return &immutable{text: fmt.Sprintf("%s. Another user set it, when the object was created again, for example. %s", r.Refusal, r.afterEdit())}
	case !r.Settings.Owns(live, entry):
		return why("Vidra does not own it. Delete it, so that Vidra can create it, or fix the manifest")
	case r.Refusal.Unset, !r.Settings.Force:
		return &immutable{text: r.Refusal.WithAdvice()}
	case len(r.Others) > 0:
		return why("another VidraResource owns the object, too")
	case object.HoldsData(d.ID.GroupKind) && !allowsRecreate(live) && !allowsRecreate(d.Unstructured()):
		return why("a %s holds data, which is lost then, and lacks the annotation %s: \"true\". %s", d.ID.Kind, v1alpha1.AllowRecreateAnnotation, r.Refusal.Advice())
	case r.Inside.Kept.Count > 0:
		return why("it holds %s with the annotation keep", r.Inside.Kept)
	case r.Inside.Blocked(r.Settings.UnmanagedContents) != "":
		return why("%s", r.Inside.Blocked(r.Settings.UnmanagedContents))
	case AsksToStay(live) || AsksToStay(d.Unstructured()):
		return why("it has the annotation %s: \"true\". Remove that from the manifest and from the object, fix the manifest, or delete the object", v1alpha1.KeepAnnotation)
	case entry != nil && entry.Recreated != nil && entry.Recreated.Configuration == d.Configuration && entry.Recreated.UID != string(live.GetUID()):
		return why("it was created again for this manifest before, and another client changes it")
	}
	if glass := r.Settings.AnswerTo(entry, d, live); breakglass.Exempts(glass.Status, time.Now()) {
		return &immutable{timed: true, text: fmt.Sprintf("%s. It is not deleted and created again: this waits for the end of its break-glass: %s",
			r.Refusal, plan.Exemption(glass.Status).Why)}
	}
	return nil
}

// refusal describes the refused change of an object that exists.
func (r request) refusal(live *unstructured.Unstructured) object.Refusal {
	refusal := object.Refusal{ID: r.ID, Fields: object.FieldNames(r.refused), Answer: object.Message(r.refused, r.disclosureWith(live)), Unset: !r.SetsAll(object.InvalidFields(r.refused))}
	if live != nil {
		refusal.Differing = desired.Differing(r.Unstructured(), live)
	}
	return refusal
}

// afterEdit is the step after an edit that the API server refuses to revert.
func (r *Replacement) afterEdit() string {
	if object.HoldsData(r.Object.ID.GroupKind) {
		return r.Refusal.Advice()
	}
	return "Delete the object, so that Vidra creates it again"
}

// naming returns the error of a refused heal with the names of what is in the way; nil if
// nothing is.
func (r request) naming(live *unstructured.Unstructured, fields []string) error {
	if r.Why != plan.WhyDrift || live == nil {
		return nil
	}
	others := r.inTheWay(live)
	if others == "" {
		return nil
	}
	return &immutable{text: fmt.Sprintf(
		"the API server refused to revert %s: %s. In the way may be %s, which Vidra does not change: remove it from the object, or change the manifest or spec.drift.ignore",
		strings.Join(r.shownFields(fields, live), ", "), object.Message(r.refused, r.disclosureWith(live)), others)}
}

// shownFields are fields as the API server names them, without values that are withheld.
func (r request) shownFields(fields []string, live *unstructured.Unstructured) []string {
	shown := make([]string, len(fields))
	for i, field := range fields {
		shown[i] = object.FieldWithoutValues(field, r.disclosureWith(live))
	}
	return shown
}

// inTheWay names what other field managers own beside what the API server refused to
// revert: an ignore rule leaves it to them, or it was there before. Empty if there is nothing.
func (r request) inTheWay(live *unstructured.Unstructured) string {
	undo := r.undoOf()
	undo.Scope, undo.Keep, undo.Before, undo.BeforeKnown = ownership.BesideChanged, nil, "", true
	found := r.Cause.Found
	if entry := r.Entry(); found == nil || entry == nil || entry.UID != string(found.GetUID()) {
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

// probe asks whether the API server would accept as a new object what it refused as a change.
func (a *Applier) probe(ctx context.Context, t plan.Task) error {
	probe := t.Probe()
	body, err := desired.Encode(probe)
	if err != nil {
		return err
	}
	key := t.Key
	key.Name = probe.GetName()
	_, err = a.patchDry(ctx, key, body)
	return err
}

func allowsRecreate(object *unstructured.Unstructured) bool {
	return object.GetAnnotations()[v1alpha1.AllowRecreateAnnotation] == "true"
}
