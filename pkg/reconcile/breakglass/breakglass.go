package breakglass

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

const (
	// MaxAnswers is how many objects of a VidraResource have an answer in its
	// status at a time, which keeps a namespace user from filling the status.
	MaxAnswers = 100
	// maxText is how many bytes of a text that a user wrote an answer repeats.
	maxText = 128
)

// Limits bound the requests of one object.
type Limits struct {
	// Max is how long the object is exempt at most; less than a second refuses all requests.
	Max time.Duration
	// InManifest reports that the manifest itself sets the annotations.
	InManifest bool
	// Full reports that the answers of the VidraResource have reached their limit.
	Full bool
}

// Decide decides about the break-glass annotations of an object. known is the answer before, or nil. It returns
// nil without a request and without a former answer that counts.
func Decide(annotations map[string]string, known *v1alpha1.BreakGlassStatus, limits Limits, now time.Time) *v1alpha1.BreakGlassStatus {
	text, asked := annotations[v1alpha1.BreakGlassUntilAnnotation]
	reason := strings.TrimSpace(annotations[v1alpha1.BreakGlassReasonAnnotation])
	if known != nil && known.Until == nil { // an ignored one, or another client wrote the status
		known = nil
	}
	exempt := known != nil && known.State == v1alpha1.BreakGlassAccepted
	counted := known != nil && known.Since != nil && now.Before(known.Until.Add(known.Until.Sub(known.Since.Time)))
	answer := v1alpha1.BreakGlassStatus{}
	if counted || exempt {
		answer.Since, answer.Until = known.Since, known.Until
	}
	end := func(why string) *v1alpha1.BreakGlassStatus {
		answer.State, answer.Message = v1alpha1.BreakGlassEnded, why
		if now.Before(answer.Until.Time) {
			answer.Until = wholeSeconds(now)
		}
		return &answer
	}
	switch {
	case !asked && exempt && now.Before(known.Until.Time):
		return end("its annotations are gone")
	case !asked && exempt:
		return end("its time is over")
	case !asked && counted:
		return end(known.Message)
	case !asked:
		return nil
	}
	answer.Request = object.Identify([]byte(text), []byte(reason))
	if known != nil && known.State == v1alpha1.BreakGlassEnded && known.Request == answer.Request {
		return known
	}
	// refuse ends the exemption, if there is one, and ignores the request otherwise.
	refuse := func(why string, args ...any) *v1alpha1.BreakGlassStatus {
		if exempt {
			return end(fmt.Sprintf(why, args...))
		}
		answer.State, answer.Message = v1alpha1.BreakGlassIgnored, fmt.Sprintf(why, args...)
		return &answer
	}
	until, err := time.Parse(time.RFC3339, text)
	start := now.Truncate(time.Second)
	if counted && known.Since.Time.Before(start) { // another client may have written a later one
		start = known.Since.Time
	}
	limit := start.Add(limits.Max)
	switch {
	case limits.InManifest:
		return refuse("the manifest sets the annotation %s: remove it there, and annotate the object in the cluster", v1alpha1.BreakGlassUntilAnnotation)
	case limits.Max < time.Second: // the status has whole seconds
		return refuse("its maximum is %s, see spec.drift.maxBreakGlass and the operator's flag --max-break-glass", limits.Max)
	case limits.Full:
		return refuse("%d objects of the VidraResource have break-glass annotations already", MaxAnswers)
	case err != nil:
		return refuse("the annotation %s is not a time in RFC 3339, such as 2026-01-31T18:00:00Z: %q",
			v1alpha1.BreakGlassUntilAnnotation, display.Truncate(text, maxText))
	case reason == "":
		return refuse("the annotation %s is missing: it must have the reason", v1alpha1.BreakGlassReasonAnnotation)
	case !now.Before(until) && exempt && known.Request == answer.Request:
		return end("its time is over")
	case !now.Before(until):
		return refuse("the time %s is in the past", until.UTC().Format(time.RFC3339))
	case !now.Before(limit) && exempt:
		return end(fmt.Sprintf("the maximum of %s since %s is over", limits.Max, start.UTC().Format(time.RFC3339)))
	case !now.Before(limit):
		again := known.Until.Add(known.Until.Sub(known.Since.Time))
		return refuse("the maximum of %s since %s is used up: annotate it again after %s",
			limits.Max, start.UTC().Format(time.RFC3339), again.UTC().Format(time.RFC3339))
	}
	answer.State, answer.Message = v1alpha1.BreakGlassAccepted, display.Truncate(display.Line(reason), maxText)
	if until.After(limit) {
		until = limit
		answer.Message += fmt.Sprintf(", cut to the maximum of %s", limits.Max)
	}
	answer.Since, answer.Until = wholeSeconds(start), wholeSeconds(until)
	return &answer
}

// wholeSeconds is a time as the status holds it.
func wholeSeconds(t time.Time) *metav1.Time {
	return &metav1.Time{Time: t.Truncate(time.Second)}
}

// Exempts reports whether an answer exempts its object now.
func Exempts(answer *v1alpha1.BreakGlassStatus, now time.Time) bool {
	return answer != nil && answer.State == v1alpha1.BreakGlassAccepted && answer.Until != nil && now.Before(answer.Until.Time)
}

// Answer is the answer to the break-glass annotations that an object was seen with.
type Answer struct {
	// Seen reports that the object was read.
	Seen   bool
	Status *v1alpha1.BreakGlassStatus
	// Full reports that the answer is only reported.
	Full bool
}

// Problem is the fault of an ineffective request; else empty.
func (g Answer) Problem() string {
	if g.Status == nil || g.Status.State != v1alpha1.BreakGlassIgnored {
		return ""
	}
	return "break-glass is ignored: " + g.Status.Message
}

// Unreported reports whether an answer differs from the known one, so that it is to be reported.
func Unreported(known, answer *v1alpha1.BreakGlassStatus) bool {
	switch {
	case answer == nil, equality.Semantic.DeepEqual(known, answer):
		return false
	case answer.State == v1alpha1.BreakGlassEnded:
		return known != nil && known.State == v1alpha1.BreakGlassAccepted
	}
	return true
}
