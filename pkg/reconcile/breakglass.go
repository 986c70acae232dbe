package reconcile

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

const (
	// maxBreakGlassAnswers is how many objects of a VidraResource have an answer in its
	// status at a time: a namespace user must not be able to fill the status.
	maxBreakGlassAnswers = 100
	// maxBreakGlassText is how many bytes of a text that a user wrote an answer repeats.
	maxBreakGlassText = 128
)

// breakGlassLimits bound the requests of one object.
type breakGlassLimits struct {
	// max is how long the object is exempt at most; 0 accepts no request.
	max time.Duration
	// inManifest reports that the manifest itself sets the annotations.
	inManifest bool
	// full reports that no more objects of the VidraResource may have an answer.
	full bool
}

// answerBreakGlass decides what becomes of the break-glass annotations of an object.
// known is the answer before, nil if there was none. It returns nil if there is nothing
// to answer or to remember.
func answerBreakGlass(annotations map[string]string, known *v1alpha1.BreakGlassStatus, limits breakGlassLimits, now time.Time) *v1alpha1.BreakGlassStatus {
	text, asked := annotations[v1alpha1.BreakGlassUntilAnnotation]
	reason := strings.TrimSpace(annotations[v1alpha1.BreakGlassReasonAnnotation])
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
	answer.Request = identify([]byte(text), []byte(reason))
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
	if counted {
		start = known.Since.Time
	}
	limit := start.Add(limits.max)
	switch {
	case limits.inManifest:
		return refuse("the manifest sets the annotation %s: remove it there, and annotate the object in the cluster", v1alpha1.BreakGlassUntilAnnotation)
	case limits.max <= 0:
		return refuse("its maximum is 0s, see spec.drift.maxBreakGlass and the operator's flag --max-break-glass")
	case limits.full:
		return refuse("%d objects of the VidraResource have break-glass annotations already", maxBreakGlassAnswers)
	case err != nil:
		return refuse("the annotation %s is not a time in RFC 3339, such as 2026-01-31T18:00:00Z: %q",
			v1alpha1.BreakGlassUntilAnnotation, display.Truncate(text, maxBreakGlassText))
	case reason == "":
		return refuse("the annotation %s is missing: it says why", v1alpha1.BreakGlassReasonAnnotation)
	case !now.Before(until) && exempt && known.Request == answer.Request:
		return end("its time is over")
	case !now.Before(until):
		return refuse("the time %s is in the past", until.UTC().Format(time.RFC3339))
	case !now.Before(limit) && exempt:
		return end(fmt.Sprintf("the maximum of %s since %s is over", limits.max, start.UTC().Format(time.RFC3339)))
	case !now.Before(limit):
		again := known.Until.Add(known.Until.Sub(known.Since.Time))
		return refuse("the maximum of %s since %s is used up: annotate it again after %s",
			limits.max, start.UTC().Format(time.RFC3339), again.UTC().Format(time.RFC3339))
	}
	answer.State, answer.Message = v1alpha1.BreakGlassAccepted, display.Truncate(reason, maxBreakGlassText)
	if until.After(limit) {
		until = limit
		answer.Message += fmt.Sprintf(", cut to the maximum of %s", limits.max)
	}
	answer.Since, answer.Until = wholeSeconds(start), wholeSeconds(until)
	return &answer
}

// wholeSeconds is a time as the status holds it.
func wholeSeconds(t time.Time) *metav1.Time {
	return &metav1.Time{Time: t.Truncate(time.Second)}
}

// exempts reports whether an answer exempts its object now.
func exempts(answer *v1alpha1.BreakGlassStatus, now time.Time) bool {
	return answer != nil && answer.State == v1alpha1.BreakGlassAccepted && now.Before(answer.Until.Time)
}

// exemption is why an object is left as it was found under break-glass.
func exemption(answer *v1alpha1.BreakGlassStatus) skipReason {
	return skipReason{
		why:   fmt.Sprintf("its annotations say until %s: %s", answer.Until.UTC().Format(time.RFC3339), answer.Message),
		until: answer.Until.Time,
	}
}

// breakGlassRoom is how many more objects of a VidraResource may get an answer.
type breakGlassRoom struct{ atomic.Int64 }

// newBreakGlassRoom counts the answers in an inventory.
func newBreakGlassRoom(inventory []*objectState) *breakGlassRoom {
	room := &breakGlassRoom{}
	room.Store(maxBreakGlassAnswers)
	for _, o := range inventory {
		if o.entry.BreakGlass != nil {
			room.Add(-1)
		}
	}
	return room
}

// glassAnswer is the answer to the break-glass annotations that an object was seen with.
type glassAnswer struct {
	// seen reports that the object was read.
	seen   bool
	answer *v1alpha1.BreakGlassStatus
	// full reports that the answer is reported, and not kept.
	full bool
}

// problem is why a request has no effect; empty if there is none that has not.
func (g glassAnswer) problem() string {
	if g.answer == nil || g.answer.State != v1alpha1.BreakGlassIgnored {
		return ""
	}
	return "break-glass is ignored: " + g.answer.Message
}

// answerTo answers the break-glass annotations of an object. entry is what the inventory
// has of it, and d what the manifest has; both may be nil.
func (s *settings) answerTo(entry *v1alpha1.ManagedResourceStatus, d *desired, live *unstructured.Unstructured) glassAnswer {
	annotations := live.GetAnnotations()
	var known *v1alpha1.BreakGlassStatus
	if entry != nil {
		known = entry.BreakGlass
	}
	_, asked := annotations[v1alpha1.BreakGlassUntilAnnotation]
	if !asked && known == nil {
		return glassAnswer{seen: true} // as nearly always
	}
	full := asked && known == nil && s.glassRoom().Add(-1) < 0
	limits := breakGlassLimits{max: s.maxBreakGlass, inManifest: d != nil && d.setsBreakGlass, full: full}
	return glassAnswer{seen: true, full: full, answer: answerBreakGlass(annotations, known, limits, time.Now())}
}

// noteAnswer notes the answer to break-glass annotations, to be reported if it is another one.
// While the object is exempt and as it should be, it is kept among what is left alone, so
// that it is compared when the exemption ends, and left alone if it is deleted meanwhile.
func (p *planner) noteAnswer(o *objectState, g glassAnswer) {
	s, id, entry := p.state, o.id, o.entry
	if !g.seen || entry == nil {
		return
	}
	known := entry.BreakGlass
	if !g.full {
		entry.BreakGlass = g.answer
	}
	if isNews(known, g.answer) {
		s.pendingEvents = append(s.pendingEvents, events.Change{
			Action: events.Answered, Object: referenceTo(id, gvkOf(entry), types.UID(entry.UID)), BreakGlass: g.answer,
		})
	}
	if o.drift == nil && o.desired != nil && exempts(g.answer, p.now) {
		o.drift = &drift{skipReason: exemption(g.answer), unobserved: true}
	}
}

// isNews reports whether an answer is to be reported.
func isNews(known, answer *v1alpha1.BreakGlassStatus) bool {
	switch {
	case answer == nil, equality.Semantic.DeepEqual(known, answer):
		return false
	case answer.State == v1alpha1.BreakGlassEnded:
		return known != nil && known.State == v1alpha1.BreakGlassAccepted
	}
	return true
}
