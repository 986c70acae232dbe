package policy

import (
	"fmt"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
)

// Rule names the policy that leaves a change.
type Rule int

// The policies that leave a change.
const (
	// Suspended is spec.suspend.
	Suspended Rule = iota + 1
	// Mode is spec.drift.mode.
	Mode
	// BreakGlass is the exemption by the annotations of the object.
	BreakGlass
	// Unreadable is the rule of an unreadable manifest, so that the wanted object is unknown.
	Unreadable
	// Dependency is spec.dependsOn: the applied configuration of the object is unknown, and the manifest has to wait.
	Dependency
	// Additions is spec.drift.additions.
	Additions
	// Adopt is spec.adopt, for an object that existed without an owner.
	Adopt
	// Apply is the annotation of an object that is created once.
	Apply
	// Elsewhere is the rule of an object that another Vidra installation applies.
	Elsewhere
)

// Decision is the decision about a change that another writer made to an object: Revert or Leave. Of an object that existed without an
// owner, Revert adopts it.
type Decision struct {
	// Rule is the policy that leaves the change; 0 if it is reverted.
	Rule Rule
	// Reason is the part of messages that explains it to users.
	Reason string
	// Silent reports that the change stays unreported.
	Silent bool
	// Until is the time of the next decision; zero if a change of the VidraResource or of the object brings it.
	Until time.Time
}

// Revert is the decision to revert a change.
var Revert = Decision{}

// Leave is the decision to leave a change as it is.
func Leave(rule Rule, reason string, until time.Time) Decision {
	return Decision{Rule: rule, Reason: reason, Until: until}
}

// Reverts reports whether the change is reverted.
func (d Decision) Reverts() bool { return d.Rule == 0 }

// silently returns the decision for a change that stays unreported.
func (d Decision) silently(silent bool) Decision {
	d.Silent = silent
	return d
}

// FirstOf combines rules: the first that leaves a change decides.
func FirstOf(decisions ...Decision) Decision {
	for _, d := range decisions {
		if !d.Reverts() {
			return d
		}
	}
	return Revert
}

// OfEdit is the decision about an edit, as far as the VidraResource and the answer to the break-glass annotations of the object show.
func OfEdit(vr *v1alpha1.VidraResource, answer *v1alpha1.BreakGlassStatus, longest time.Duration, now time.Time) Decision {
	return FirstOf(OfMode(vr), OfBreakGlass(answer, longest, now))
}

// OfSuspend is the decision of spec.suspend.
func OfSuspend(vr *v1alpha1.VidraResource) Decision {
	if vr.Spec.Suspend {
		return Leave(Suspended, "spec.suspend is true", time.Time{})
	}
	return Revert
}

// OfMode is the decision of spec.drift.mode. A mode that only another version knows reverts nothing.
func OfMode(vr *v1alpha1.VidraResource) Decision {
	mode := vr.DriftMode()
	if mode == v1alpha1.DriftCorrect {
		return Revert
	}
	return Leave(Mode, "spec.drift.mode is "+string(mode), time.Time{}).silently(mode == v1alpha1.DriftIgnore)
}

// OfBreakGlass is the decision of the break-glass annotations that answer is about, or nil. longest is the present maximum,
// which may be lower than at the time of the answer. An answer without a begin, which another client wrote to the status, exempts nothing.
func OfBreakGlass(answer *v1alpha1.BreakGlassStatus, longest time.Duration, now time.Time) Decision {
	if !breakglass.Exempts(answer, now) || answer.Since == nil || !now.Before(answer.Since.Add(longest)) {
		return Revert
	}
	return Exempted(answer)
}

// Exempted is the decision about an object that its annotations exempt.
func Exempted(answer *v1alpha1.BreakGlassStatus) Decision {
	return Leave(BreakGlass, Exemption(answer), answer.Until.Time)
}

// Exemption describes the break-glass of an object.
func Exemption(answer *v1alpha1.BreakGlassStatus) string {
	return fmt.Sprintf("its annotations exempt it until %s: %s", answer.Until.UTC().Format(time.RFC3339), answer.Message)
}

// OfUnreadable is the decision while the manifest is unreadable, for a reason of conditions.
func OfUnreadable(vr *v1alpha1.VidraResource, reason string) Decision {
	return Leave(Unreadable, "nothing is reverted until the manifest can be read ("+reason+")", time.Time{}).silently(vr.DriftMode() == v1alpha1.DriftIgnore)
}

// OfApply is the decision about an object that exists and that the manifest has created alone, if its annotation says so.
func OfApply(policy v1alpha1.ApplyPolicy) Decision {
	if !policy.Leaves() {
		return Revert
	}
	return Leave(Apply, "its annotation "+v1alpha1.ApplyAnnotation+" is "+string(policy)+", so that Vidra creates it and changes nothing of it", time.Time{}).silently(true)
}

// OfAdditions is the decision of spec.drift.additions about additions of users.
func OfAdditions(policy v1alpha1.AdditionsPolicy) Decision {
	if policy == v1alpha1.AdditionsRevert {
		return Revert
	}
	return Leave(Additions, "spec.drift.additions is "+string(policy), time.Time{}).silently(policy == v1alpha1.AdditionsKeep)
}

// Adoption is an existing, unmanaged object.
type Adoption struct {
	// Policy is spec.adopt.
	Policy v1alpha1.AdoptPolicy
	// Differences describes the fields that its adoption would change, or empty. It counts with IfIdentical alone.
	Differences string
	// Manager is the field manager of another Vidra installation that applies the object, or empty.
	Manager string
}

// Decide returns Revert if the object is adopted.
func (a Adoption) Decide() Decision {
	const unmanaged = "it exists and Vidra does not manage it: "
	switch {
	case a.Policy != v1alpha1.AdoptAlways && a.Policy != v1alpha1.AdoptIfIdentical: // Never, or a policy that only another version knows
		return Leave(Adopt, unmanaged+"spec.adopt is "+string(a.Policy)+". Remove it from the manifest, or delete the object so that Vidra can create it", time.Time{})
	case a.Policy == v1alpha1.AdoptAlways, a.Differences == "":
		return Revert
	case a.Manager != "":
		return Leave(Elsewhere, fmt.Sprintf("it exists, and the field manager %q of another Vidra installation applied it: %s. Make the manifests the same, take it out "+
			"of one of them, or set spec.adopt to Always to have it changed", a.Manager, a.Differences), time.Time{})
	}
	return Leave(Adopt, unmanaged+a.Differences+
		". Make the manifest the same, set spec.adopt to Always to have it changed, or delete the object so that Vidra can create it", time.Time{})
}
