package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestEdits: each rule about an edit, and the first that leaves it decides.
func TestEdits(t *testing.T) {
	t.Parallel()
	vr := func(mode v1alpha1.DriftMode, suspend bool) *v1alpha1.VidraResource {
		v := &v1alpha1.VidraResource{}
		v.Spec.Suspend, v.Spec.Drift = suspend, &v1alpha1.DriftPolicy{Mode: mode}
		return v
	}
	answer := func(state v1alpha1.BreakGlassState, since, until time.Duration) *v1alpha1.BreakGlassStatus {
		return &v1alpha1.BreakGlassStatus{
			State: state, Message: "incident 42", Since: &metav1.Time{Time: now.Add(since)}, Until: &metav1.Time{Time: now.Add(until)},
		}
	}
	const exempt = "its annotations exempt it until 2026-01-31T11:00:00Z: incident 42"
	accepted := answer(v1alpha1.BreakGlassAccepted, 0, time.Hour)
	silent := func(d Decision) Decision {
		d.Silent = true
		return d
	}
	cases := map[string]struct {
		reason string
		got    Decision
		want   Decision
	}{
		"NotSuspended": {"The default.", OfSuspend(vr("", false)), Revert},
		"Suspended":    {"Nothing is written.", OfSuspend(vr("", true)), Leave(Suspended, "spec.suspend is true", time.Time{})},
		"Default":      {"The mode is Correct.", OfMode(vr("", false)), Revert},
		"Correct":      {"It is reverted.", OfMode(vr(v1alpha1.DriftCorrect, true)), Revert},
		"Warn":         {"It is reported.", OfMode(vr(v1alpha1.DriftWarn, false)), Leave(Mode, "spec.drift.mode is Warn", time.Time{})},
		"Ignore":       {"It is not even reported.", OfMode(vr(v1alpha1.DriftIgnore, false)), silent(Leave(Mode, "spec.drift.mode is Ignore", time.Time{}))},

		"UnknownMode": {"Another version knows it.", OfMode(vr("Audit", false)), Leave(Mode, "spec.drift.mode is Audit", time.Time{})},

		"NoBreakGlass":  {"The object has no annotations.", OfBreakGlass(nil, time.Hour, now), Revert},
		"Exempt":        {"Until its end.", OfBreakGlass(accepted, 2*time.Hour, now), Leave(BreakGlass, exempt, now.Add(time.Hour))},
		"Ended":         {"Its time is over.", OfBreakGlass(answer(v1alpha1.BreakGlassAccepted, -time.Hour, 0), 2*time.Hour, now), Revert},
		"Endless":       {"Another client wrote the status.", OfBreakGlass(&v1alpha1.BreakGlassStatus{State: v1alpha1.BreakGlassAccepted}, time.Hour, now), Revert},
		"Beginless":     {"Another client wrote the status.", OfBreakGlass(&v1alpha1.BreakGlassStatus{State: v1alpha1.BreakGlassAccepted, Until: accepted.Until}, time.Hour, now), Revert},
		"Ignored":       {"The request was refused.", OfBreakGlass(answer(v1alpha1.BreakGlassIgnored, 0, time.Hour), 2*time.Hour, now), Revert},
		"LowerMaximum":  {"The maximum was lowered since, and is over.", OfBreakGlass(answer(v1alpha1.BreakGlassAccepted, -time.Hour, time.Hour), time.Hour, now), Revert},
		"WithinMaximum": {"The maximum was lowered since, and is not over.", OfBreakGlass(answer(v1alpha1.BreakGlassAccepted, 1-time.Hour, time.Hour), time.Hour, now), Leave(BreakGlass, exempt, now.Add(time.Hour))},

		"Unreadable":       {"The wanted object is unknown.", OfUnreadable(vr("", false), "SourceUnavailable"), Leave(Unreadable, "nothing is reverted until the manifest can be read (SourceUnavailable)", time.Time{})},
		"UnreadableIgnore": {"It is not reported in this mode.", OfUnreadable(vr(v1alpha1.DriftIgnore, false), "SourceUnavailable"), silent(Leave(Unreadable, "nothing is reverted until the manifest can be read (SourceUnavailable)", time.Time{}))},

		"AdditionsRevert": {"They are removed.", OfAdditions(v1alpha1.AdditionsRevert), Revert},
		"AdditionsWarn":   {"They are reported.", OfAdditions(v1alpha1.AdditionsWarn), Leave(Additions, "spec.drift.additions is Warn", time.Time{})},
		"AdditionsKeep":   {"They are not even reported.", OfAdditions(v1alpha1.AdditionsKeep), silent(Leave(Additions, "spec.drift.additions is Keep", time.Time{}))},

		"ApplyAlways":  {"It is reverted.", OfApply(""), Revert},
		"IfNotPresent": {"It is created alone.", OfApply(v1alpha1.ApplyIfNotPresent), silent(Leave(Apply, "its annotation vidraresource.infrahub.operators.com/apply is IfNotPresent, so that Vidra creates it and changes nothing of it", time.Time{}))},
		"CreateOnly":   {"It is created once.", OfApply(v1alpha1.ApplyCreateOnly), silent(Leave(Apply, "its annotation vidraresource.infrahub.operators.com/apply is CreateOnly, so that Vidra creates it and changes nothing of it", time.Time{}))},

		"None":           {"No rule leaves it.", FirstOf(Revert, Revert), Revert},
		"NoRule":         {"There is none.", FirstOf(), Revert},
		"First":          {"The first in the order has the reason.", FirstOf(OfSuspend(vr(v1alpha1.DriftWarn, true)), OfMode(vr(v1alpha1.DriftWarn, true)), OfBreakGlass(accepted, time.Hour, now)), Leave(Suspended, "spec.suspend is true", time.Time{})},
		"Second":         {"A rule that reverts does not end the others.", FirstOf(OfSuspend(vr(v1alpha1.DriftWarn, false)), OfMode(vr(v1alpha1.DriftWarn, false)), OfBreakGlass(accepted, time.Hour, now)), Leave(Mode, "spec.drift.mode is Warn", time.Time{})},
		"LastOfTheRules": {"Break-glass alone.", FirstOf(OfSuspend(vr("", false)), OfMode(vr("", false)), OfBreakGlass(accepted, time.Hour, now)), Leave(BreakGlass, exempt, now.Add(time.Hour))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.got, tc.reason)
			require.Equal(t, tc.want == Revert, tc.got.Reverts(), tc.reason)
		})
	}
}

// TestAdoption: an object that exists is adopted, or stays as it is.
func TestAdoption(t *testing.T) {
	t.Parallel()
	const differs = `data.a is "1" and should be "2"`
	cases := map[string]struct {
		reason string
		of     Adoption
		rule   Rule
		text   string
	}{
		"Always":           {"All fields are taken.", Adoption{v1alpha1.AdoptAlways, differs, "vidra-bank/shop"}, 0, ""},
		"Never":            {"An identical object is refused, too.", Adoption{v1alpha1.AdoptNever, "", ""}, Adopt, "it exists and Vidra does not manage it: spec.adopt is Never. Remove it from the manifest, or delete the object so that Vidra can create it"},
		"Identical":        {"Nothing changes.", Adoption{v1alpha1.AdoptIfIdentical, "", ""}, 0, ""},
		"IdenticalAndElse": {"Another installation applies the same.", Adoption{v1alpha1.AdoptIfIdentical, "", "vidra-bank/shop"}, 0, ""},
		"Unknown":          {"Another version knows it.", Adoption{"Ask", "", ""}, Adopt, "it exists and Vidra does not manage it: spec.adopt is Ask. Remove it from the manifest, or delete the object so that Vidra can create it"},
		"Different": {
			"It would change.", Adoption{v1alpha1.AdoptIfIdentical, differs, ""}, Adopt, "it exists and Vidra does not manage it: " + differs +
				". Make the manifest the same, set spec.adopt to Always to have it changed, or delete the object so that Vidra can create it",
		},
		"Elsewhere": {
			"Another installation would revert it.", Adoption{v1alpha1.AdoptIfIdentical, differs, "vidra-bank/shop"}, Elsewhere,
			`it exists, and the field manager "vidra-bank/shop" of another Vidra installation applied it: ` + differs +
				". Make the manifests the same, take it out of one of them, or set spec.adopt to Always to have it changed",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, Leave(tc.rule, tc.text, time.Time{}), tc.of.Decide(), tc.reason)
		})
	}
}
