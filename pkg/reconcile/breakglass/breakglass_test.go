package breakglass

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// TestAnswerBreakGlass answers the annotations of an object, with a maximum of four hours
// unless a row says otherwise.
func TestAnswerBreakGlass(t *testing.T) {
	t.Parallel()
	at := func(clock string) time.Time {
		parsed, err := time.Parse("15:04", clock)
		require.NoError(t, err)
		return time.Date(2026, 1, 31, parsed.Hour(), parsed.Minute(), 0, 0, time.UTC)
	}
	stamp := func(clock string) string { return at(clock).Format(time.RFC3339) }
	request := func(until, reason string) string { return object.Identify([]byte(until), []byte(reason)) }
	record := func(state v1alpha1.BreakGlassState, since, until, asked string) *v1alpha1.BreakGlassStatus {
		r := &v1alpha1.BreakGlassStatus{State: state, Message: "incident 42"}
		if since != "" {
			r.Since, r.Until = &metav1.Time{Time: at(since)}, &metav1.Time{Time: at(until)}
		}
		if asked != "" {
			r.Request = request(stamp(asked), "incident 42")
		}
		return r
	}
	const accepted, ignored, ended = v1alpha1.BreakGlassAccepted, v1alpha1.BreakGlassIgnored, v1alpha1.BreakGlassEnded
	const gone = "-"
	cases := map[string]struct {
		reason string
		now    string
		// until is the annotation: a clock time, another text, or gone.
		until, why string
		known      *v1alpha1.BreakGlassStatus
		limits     func(*Limits)
		// state is empty for no answer. since and end are its times.
		state      v1alpha1.BreakGlassState
		since, end string
		message    string
	}{
		"Nothing":  {reason: "No annotation, no answer.", now: "10:00", until: gone},
		"Accepted": {reason: "It counts from now.", now: "10:00", until: "11:00", state: accepted, since: "10:00", end: "11:00", message: "incident 42"},
		"Cut":      {reason: "A longer one is cut, and says so.", now: "10:00", until: "23:00", state: accepted, since: "10:00", end: "14:00", message: "cut to the maximum of 4h0m0s"},
		"Zone":     {reason: "Any zone will do.", now: "10:00", until: "2026-01-31T12:30:00+01:00", state: accepted, since: "10:00", end: "11:30", message: "incident 42"},
		"Malformed": {
			reason: "A duration is no time.", now: "10:00", until: "1h", state: ignored, message: `RFC 3339, such as 2026-01-31T18:00:00Z: "1h"`,
		},
		"Long": {
			reason: "What somebody wrote does not fill the status.", now: "10:00", until: strings.Repeat("x", 100_000), state: ignored, message: "RFC 3339",
		},
		"Empty":      {reason: "No time is no time.", now: "10:00", until: "", state: ignored, message: "RFC 3339"},
		"NoReason":   {reason: "Everybody has to say why.", now: "10:00", until: "11:00", why: "  ", state: ignored, message: v1alpha1.BreakGlassReasonAnnotation},
		"Past":       {reason: "The past is over.", now: "10:00", until: "09:00", state: ignored, message: "is in the past"},
		"Now":        {reason: "So is this moment.", now: "10:00", until: "10:00", state: ignored, message: "is in the past"},
		"InManifest": {reason: "An author has spec.drift and spec.suspend.", now: "10:00", until: "11:00", limits: func(l *Limits) { l.InManifest = true }, state: ignored, message: "the manifest sets the annotation"},
		"Closed":     {reason: "0s accepts none.", now: "10:00", until: "11:00", limits: func(l *Limits) { l.Max = 0 }, state: ignored, message: "spec.drift.maxBreakGlass"},
		"Full":       {reason: "The status has room for some.", now: "10:00", until: "11:00", limits: func(l *Limits) { l.Full = true }, state: ignored, message: "100 objects"},

		"Goes on":  {reason: "The same request has the same answer.", now: "10:30", until: "11:00", known: record(accepted, "10:00", "11:00", "11:00"), state: accepted, since: "10:00", end: "11:00", message: "incident 42"},
		"Renewed":  {reason: "A renewal counts to the first one.", now: "10:30", until: "23:00", known: record(accepted, "10:00", "11:00", "11:00"), state: accepted, since: "10:00", end: "14:00", message: "cut to the maximum"},
		"Shorter":  {reason: "It may end sooner.", now: "10:30", until: "10:45", known: record(accepted, "10:00", "11:00", "11:00"), state: accepted, since: "10:00", end: "10:45", message: "incident 42"},
		"Removed":  {reason: "Without annotations it ends at once.", now: "10:30", until: gone, known: record(accepted, "10:00", "11:00", "11:00"), state: ended, since: "10:00", end: "10:30", message: "its annotations are gone"},
		"Over":     {reason: "It ends on time.", now: "11:00", until: "11:00", known: record(accepted, "10:00", "11:00", "11:00"), state: ended, since: "10:00", end: "11:00", message: "its time is over"},
		"LongOver": {reason: "Also if Vidra was away.", now: "23:00", until: "11:00", known: record(accepted, "10:00", "11:00", "11:00"), state: ended, since: "10:00", end: "11:00", message: "its time is over"},
		"GoneLongOver": {
			reason: "Also without the annotations.", now: "23:00", until: gone, known: record(accepted, "10:00", "11:00", "11:00"), state: ended, since: "10:00", end: "11:00", message: "its time is over",
		},
		"Maximum": {reason: "The maximum ends it.", now: "14:00", until: "23:00", known: record(accepted, "10:00", "14:00", "23:00"), state: ended, since: "10:00", end: "14:00", message: "the maximum of 4h0m0s since 2026-01-31T10:00:00Z is over"},
		"Shortened": {
			reason: "The author shortens the maximum.", now: "12:00", until: "14:00", known: record(accepted, "10:00", "14:00", "14:00"),
			limits: func(l *Limits) { l.Max = time.Hour }, state: ended, since: "10:00", end: "12:00", message: "the maximum of 1h0m0s",
		},
		"ClosedMeanwhile": {
			reason: "The author closes it.", now: "12:00", until: "14:00", known: record(accepted, "10:00", "14:00", "14:00"),
			limits: func(l *Limits) { l.Max = 0 }, state: ended, since: "10:00", end: "12:00", message: "spec.drift.maxBreakGlass",
		},
		"BrokenMeanwhile": {
			reason: "A value that cannot be read ends it.", now: "12:00", until: "whenever", known: record(accepted, "10:00", "14:00", "14:00"),
			state: ended, since: "10:00", end: "12:00", message: "RFC 3339",
		},

		"StaysEnded": {reason: "The same annotations do not begin again.", now: "23:00", until: "23:30", known: record(ended, "10:00", "14:00", "23:30"), state: ended, since: "10:00", end: "14:00", message: "incident 42"},
		"UsedUp": {
			reason: "Another request does not begin at once.", now: "15:00", until: "22:00", known: record(ended, "10:00", "14:00", "23:00"),
			state: ignored, since: "10:00", end: "14:00", message: "is used up: annotate it again after 2026-01-31T18:00:00Z",
		},
		"RestOfIt": {
			reason: "What is left of the maximum may be used.", now: "11:10", until: "22:00", known: record(ended, "10:00", "11:00", ""),
			state: accepted, since: "10:00", end: "14:00", message: "incident 42",
		},
		"Rested": {
			reason: "A new count begins when it was without for as long as it was exempt.", now: "18:00", until: "20:00", known: record(ended, "10:00", "14:00", "23:00"),
			state: accepted, since: "18:00", end: "20:00", message: "incident 42",
		},
		"Remembered":    {reason: "While it counts, it is remembered.", now: "11:30", until: gone, known: record(ended, "10:00", "11:00", ""), state: ended, since: "10:00", end: "11:00", message: "incident 42"},
		"Forgotten":     {reason: "Then it is forgotten.", now: "12:00", until: gone, known: record(ended, "10:00", "11:00", "")},
		"IgnoredIsGone": {reason: "What was ignored leaves nothing.", now: "10:00", until: gone, known: record(ignored, "", "", "11:00")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			annotations := map[string]string{}
			if tc.until != gone {
				if len(tc.until) == len("15:04") {
					tc.until = stamp(tc.until)
				}
				if tc.why == "" {
					tc.why = "incident 42"
				}
				annotations[v1alpha1.BreakGlassUntilAnnotation], annotations[v1alpha1.BreakGlassReasonAnnotation] = tc.until, tc.why
			}
			limits := Limits{Max: 4 * time.Hour}
			if tc.limits != nil {
				tc.limits(&limits)
			}
			got := Decide(annotations, tc.known, limits, at(tc.now))
			if tc.state == "" {
				require.Nil(t, got, tc.reason)
				return
			}
			require.NotNil(t, got, tc.reason)
			require.Equal(t, tc.state, got.State, "%s %s", tc.reason, got.Message)
			require.Contains(t, got.Message, tc.message, tc.reason)
			require.Less(t, len(got.Message), 512)
			if tc.since == "" {
				require.Nil(t, got.Since, tc.reason)
				require.Nil(t, got.Until, tc.reason)
			} else {
				require.Equal(t, []time.Time{at(tc.since), at(tc.end)}, []time.Time{got.Since.UTC(), got.Until.UTC()}, tc.reason)
			}
			again := Decide(annotations, got, limits, at(tc.now))
			require.False(t, Unreported(got, again), "the same annotations have the same answer")
		})
	}
}

// TestBreakGlassOfAnyStatus: another client may have written any answer into the status, and a maximum may be shorter than a second.
func TestBreakGlassOfAnyStatus(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 600_000_000, time.UTC)
	later, past := &metav1.Time{Time: now.Add(time.Hour)}, &metav1.Time{Time: now.Add(-time.Hour)}
	request := map[string]string{
		v1alpha1.BreakGlassUntilAnnotation: later.Format(time.RFC3339), v1alpha1.BreakGlassReasonAnnotation: "incident 42",
	}
	answers := []*v1alpha1.BreakGlassStatus{nil}
	for _, state := range []v1alpha1.BreakGlassState{v1alpha1.BreakGlassAccepted, v1alpha1.BreakGlassIgnored, v1alpha1.BreakGlassEnded, ""} {
		for _, since := range []*metav1.Time{nil, past, later} {
			for _, until := range []*metav1.Time{nil, past, later} {
				answers = append(answers, &v1alpha1.BreakGlassStatus{State: state, Since: since, Until: until})
			}
		}
	}
	for _, known := range answers {
		for _, annotations := range []map[string]string{nil, request, {v1alpha1.BreakGlassUntilAnnotation: "soon"}} {
			for _, most := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond, time.Second, time.Hour} {
				require.NotPanics(t, func() {
					got := Decide(annotations, known, Limits{Max: most}, now)
					require.False(t, most < time.Second && Exempts(got, now), "%v: %v", known, got)
					Exempts(known, now)
				}, "%v with a maximum of %s", known, most)
			}
		}
	}
}

// TestBreakGlassCannotBeRenewedForEver renews break-glass every minute for a week.
func TestBreakGlassCannotBeRenewedForEver(t *testing.T) {
	t.Parallel()
	const maximum, week = 4 * time.Hour, 7 * 24 * time.Hour
	begin := time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)
	var known *v1alpha1.BreakGlassStatus
	var exempt, longest, run time.Duration
	for passed := time.Duration(0); passed < week; passed += time.Minute {
		now := begin.Add(passed)
		known = Decide(map[string]string{
			v1alpha1.BreakGlassUntilAnnotation: now.Add(2 * time.Hour).Format(time.RFC3339), v1alpha1.BreakGlassReasonAnnotation: passed.String(),
		}, known, Limits{Max: maximum}, now)
		if Exempts(known, now) {
			exempt, run = exempt+time.Minute, run+time.Minute
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	require.Equal(t, maximum, longest)
	require.LessOrEqual(t, exempt, week/2+maximum)
	require.Greater(t, exempt, week/3, "a new count does begin")
}
