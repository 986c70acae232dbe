package trigger

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/healthcheck"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/internal/ending"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// Health is the health of an object as kstatus or a check of its owner computes it.
type Health struct {
	// Status is Current when the object matches its spec, InProgress on the way there,
	// Failed when it does not get there by itself, Terminating while it is being deleted,
	// and Unknown if its status is unreadable.
	Status status.Status
	// Message is the cause, in at most 256 bytes. It is empty for an object that is Current,
	// and for one whose values are withheld (ownership.Sensitive), except while it is Terminating.
	Message string
	// WaitsSince is since when the object is terminating, in seconds since 1970, while it waits for finalizers, which
	// Message names; 0 otherwise.
	WaitsSince int64
	// Sensitive is whether the object has the annotation that withholds its values (ownership.Annotated).
	Sensitive bool
}

// BlockedAt returns when the deletion of the object counts as blocked; zero if it waits for no finalizers.
func (h Health) BlockedAt() time.Time {
	if h.WaitsSince == 0 {
		return time.Time{}
	}
	return time.Unix(h.WaitsSince, 0).Add(ending.Grace)
}

// CheckedHealthOf returns the health of an object in the store of a watch, as of its last event, as a check of an owner computes it; nil for
// kstatus. Where kstatus depends on the clock, as for an unschedulable Pod, time alone changes nothing. ok reports whether the object is a
// Snapshot that the check has evaluated.
func CheckedHealthOf(kept any, check *healthcheck.Check) (health Health, ok bool) {
	s, ok := kept.(*Snapshot)
	switch {
	case !ok || s == nil:
		return Health{}, false
	case check == nil:
		return s.health(), true
	case s.special == nil:
		return Health{}, false
	}
	for c := s.special.checked; c != nil; c = c.next {
		if c.check == check {
			return c.health, true
		}
	}
	return Health{}, false
}

const (
	// maxMessage is the maximum length of a message in bytes.
	maxMessage = 256
	// statusDelay and messageDelay are the delays until an owner is enqueued because of a
	// change of health, so that it reconciles once for a burst of changes: a short one for
	// another status and for the annotation that withholds values, a long one for another message in the same status, such as a count.
	statusDelay  = 200 * time.Millisecond
	messageDelay = 5 * time.Second
)

// special holds the fields that a Snapshot needs only for few objects.
type special struct {
	// text is the message, of messageBytes bytes, followed by the paths that other field
	// managers own, as [ownership.Paths].
	text         string
	messageBytes uint16
	// status is the index of the status in statuses.
	status uint8
	// marks are the marks of the object, in one byte, as there may be many specials.
	marks marks
	// waitsSince is Health.WaitsSince.
	waitsSince uint32
	// checked are the results of the checks of owners, if any.
	checked *checked
}

// checked is the health of an object as a check computes it.
type checked struct {
	check  *healthcheck.Check
	health Health
	next   *checked
}

// maxChecks is how many owners may check an object. They share it with the watch of the kind.
const maxChecks = 4

// checkAll returns the results of checks about an object, if any.
func checkAll(u *unstructured.Unstructured, checks []*healthcheck.Check) *checked {
	var all *checked
	for i, check := range checks {
		health := Health{Status: status.UnknownStatus, Message: fmt.Sprintf("more than %d VidraResources have a check of spec.healthChecks for it", maxChecks)}
		if i < maxChecks {
			health = CheckHealth(u, check)
		}
		all = &checked{check: check, health: health, next: all}
	}
	return all
}

// marks are facts about an object.
type marks uint8

const (
	// markSensitive is Health.Sensitive.
	markSensitive marks = 1 << iota
	// markCoOwned is that another field manager owns fields that Vidra applied to the object.
	markCoOwned
	// markSucceeded is that the object ended successfully, and its controller removes it then.
	markSucceeded
)

// mark returns the mark if the fact holds.
func mark(of marks, holds bool) marks {
	if holds {
		return of
	}
	return 0
}

// statuses are the results of status.Compute, and Unknown for its errors. Most objects have the first.
var statuses = [...]status.Status{
	status.CurrentStatus, status.InProgressStatus, status.FailedStatus, status.TerminatingStatus, status.UnknownStatus,
}

// newSpecial returns nil for an object that needs no special.
func newSpecial(health Health, others ownership.Paths, succeeded, coOwned bool, results *checked) *special {
	s := special{
		checked: results,
		text:    health.Message + string(others), marks: mark(markSensitive, health.Sensitive) | mark(markSucceeded, succeeded) | mark(markCoOwned, coOwned),
		waitsSince: uint32(health.WaitsSince), //nolint:gosec // until 2106
	}
	s.messageBytes = uint16(len(health.Message))                       //nolint:gosec // at most maxMessage
	s.status = uint8(max(0, slices.Index(statuses[:], health.Status))) //nolint:gosec // there are five
	if s == (special{}) {
		return nil
	}
	return new(s)
}

// health returns the health of the object when the Snapshot was made.
func (s *Snapshot) health() Health {
	if s.special == nil {
		return Health{Status: status.CurrentStatus}
	}
	return Health{Status: statuses[s.special.status], Message: s.special.text[:s.special.messageBytes], WaitsSince: int64(s.special.waitsSince), Sensitive: s.marked(markSensitive)}
}

// wasSensitive reports whether the object has the annotation that withholds its values, or had it in a state that
// was merged into this one. It is false for a nil Snapshot.
func (s *Snapshot) wasSensitive() bool {
	return s != nil && (s.marked(markSensitive) || s.waiting().wasSensitive)
}

// marked reports whether the object has a mark. It is false for a nil Snapshot.
func (s *Snapshot) marked(of marks) bool {
	return s != nil && s.special != nil && s.special.marks&of != 0
}

// Succeeded reports whether an object in the store of a watch had ended successfully, as of its last event, and its
// controller removes it then.
func Succeeded(kept any) bool {
	s, _ := kept.(*Snapshot)
	return s.marked(markSucceeded)
}

// CoOwned reports whether another field manager owns fields that Vidra applied to an object in the store of a watch; see
// ownership.CoOwned.
func CoOwned(kept any) bool {
	s, _ := kept.(*Snapshot)
	return s.marked(markCoOwned)
}

// terminating reports whether the object is being deleted.
func (s *Snapshot) terminating() bool { return s.health().Status == status.TerminatingStatus }

// CheckHealth returns the health of an object as a check computes it; nil for kstatus. A deletion is as kstatus has it. It leaves the object
// as it is, and the result shares only strings with it.
func CheckHealth(u *unstructured.Unstructured, check *healthcheck.Check) Health {
	health := healthIn(u, check)
	health.Sensitive = ownership.Annotated(u)
	return health
}

// healthIn returns the health of an object without Sensitive.
func healthIn(u *unstructured.Unstructured, check *healthcheck.Check) Health {
	health := Health{Status: status.CurrentStatus}
	switch kept := u.GetDeletionTimestamp() == nil; {
	case kept && check != nil:
		health.Status, health.Message = check.Evaluate(withoutValues(u))
	case kept && alwaysCurrent(u):
	default:
		health.Status, health.Message = compute(healthRelevant(u))
	}
	if health.Status == status.CurrentStatus {
		return Health{Status: status.CurrentStatus}
	}
	// A controller may quote values in its message.
	if known := ownership.Disclose(false, false, false).With(u); known.Withholds() {
		health.Message = ""
	} else {
		health.Message = known.Redact(health.Message)
	}
	if waits := ending.WaitsFor(u); health.Status == status.TerminatingStatus && waits != "" {
		health.Message, health.WaitsSince = "waits for "+waits, u.GetDeletionTimestamp().Unix()
	}
	health.Message = display.Truncate(health.Message, maxMessage)
	return health
}

// withoutValues returns an object as expressions of an author see it: of one whose values are withheld, the identity, the labels and the
// status. Otherwise an author whose account lost its rights could find out values, as watches have the rights of Vidra.
func withoutValues(u *unstructured.Unstructured) *unstructured.Unstructured {
	if !ownership.Disclose(false, false, false).With(u).Withholds() {
		return u
	}
	content := map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind()}
	if reported, is := u.Object["status"]; is {
		content["status"] = reported
	}
	if metadata, is := u.Object["metadata"].(map[string]any); is {
		metadata = maps.Clone(metadata)
		delete(metadata, "annotations")
		delete(metadata, "managedFields") // paths have items of sets, and keys of list items
		content["metadata"] = metadata
	}
	return &unstructured.Unstructured{Object: content}
}

// alwaysCurrent reports whether kstatus finds an object that is not being deleted Current in any
// case: it has no status, and its kind makes a status optional.
func alwaysCurrent(u *unstructured.Unstructured) bool {
	if u.GetAPIVersion() == "v1" && (u.GetKind() == "ConfigMap" || u.GetKind() == "Secret") {
		return true
	}
	_, reports := u.Object["status"]
	return !reports && status.GetLegacyConditionsFn(u) == nil
}

// healthRelevant returns an object with only the conditions that kstatus reads for a kind that
// is unknown to it, because kstatus converts the whole object by reflection, twice.
func healthRelevant(u *unstructured.Unstructured) *unstructured.Unstructured {
	reported, _ := u.Object["status"].(map[string]any)
	conditions, _ := reported["conditions"].([]any)
	if len(conditions) == 0 || status.GetLegacyConditionsFn(u) != nil {
		return u
	}
	reported = maps.Clone(reported)
	reported["conditions"] = slices.DeleteFunc(slices.Clone(conditions), func(c any) bool {
		condition, _ := c.(map[string]any)
		name, ok := condition["type"].(string)
		return ok && name != "Ready" && name != string(status.ConditionReconciling) && name != string(status.ConditionStalled)
	})
	content := maps.Clone(u.Object)
	content["status"] = reported
	return &unstructured.Unstructured{Object: content}
}

// compute is status.Compute for an object that any cluster may have sent: an error is the status Unknown. status.Compute panics
// on a malformed status of a Pod, which would end the process, because it runs on a goroutine
// of an informer.
func compute(u *unstructured.Unstructured) (is status.Status, message string) {
	defer func() {
		if p := recover(); p != nil {
			is, message = status.UnknownStatus, fmt.Sprintf("its status is malformed: %v", p)
		}
	}()
	result, err := status.Compute(u)
	if err != nil {
		return status.UnknownStatus, err.Error()
	}
	return result.Status, result.Message
}

// healthDelay returns the delay until the owners of an object are enqueued because of its
// health, from the previous and the new object in the store; 0 if the health is the same. A new
// object is compared with one that is Current, and so is one that is gone: it may be created again.
func healthDelay(before, after any) time.Duration {
	was, ok := CheckedHealthOf(before, nil)
	if !ok {
		was.Status = status.CurrentStatus
	}
	is, found := CheckedHealthOf(after, nil)
	if !found {
		is.Status = status.CurrentStatus
	}
	if !ok || !found { // it is recorded when the object is applied
		was.Sensitive, is.Sensitive = false, false
	}
	checks := checkDelay(before, after)
	switch {
	case is == was && Succeeded(after) && !Succeeded(before):
		return statusDelay
	case checks > 0 && (checks == statusDelay || is == was):
		return checks
	case is == was:
		return 0
	case is.Status == was.Status && is.Sensitive == was.Sensitive:
		return messageDelay
	default:
		return statusDelay
	}
}

// sooner returns the shorter one of two delays; 0 is no delay.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// checkDelay is healthDelay of the results of checks. A result of a new check is known by the owner that has it.
func checkDelay(before, after any) (delay time.Duration) {
	s, ok := after.(*Snapshot)
	if !ok || s == nil || s.special == nil {
		return 0
	}
	for c := s.special.checked; c != nil; c = c.next {
		switch was, known := CheckedHealthOf(before, c.check); {
		case known && was == c.health:
		case known && was.Status == c.health.Status:
			delay = max(delay, messageDelay)
		default:
			return statusDelay
		}
	}
	return delay
}
