package trigger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// Health is how an object is doing, as kstatus sees it.
type Health struct {
	// Status is Current once the object is as its spec wants it, InProgress on
	// the way there, Failed where it does not get there by itself, Terminating
	// while it is being deleted, and Unknown if its status cannot be read.
	Status status.Status
	// Message says why, in at most 256 bytes. It is empty for an object that is
	// Current, and for one whose values must not be shown (ownership.Sensitive).
	Message string
}

// HealthOf tells the health of an object from what a watch keeps of it. It is that
// of the last event: where kstatus looks at the clock, as for a Pod that cannot be
// scheduled, time alone changes nothing. It reports ok false for what is no Snapshot.
func HealthOf(kept any) (health Health, ok bool) {
	s, ok := kept.(*Snapshot)
	if !ok || s == nil {
		return Health{}, false
	}
	return s.health(), true
}

const (
	// maxMessage is how many bytes of a message are kept.
	maxMessage = 256
	// statusDelay and messageDelay are how long an owner is not told of a change of
	// health, so that it looks once at what changes in bursts: another status soon,
	// another message in the same status, such as a count, when there is time.
	statusDelay  = 200 * time.Millisecond
	messageDelay = 5 * time.Second
)

// special is what is kept of an object that most objects do not have.
type special struct {
	// text is the message, of messageBytes bytes, and then the paths that other field
	// managers own, as [ownership.Paths].
	text         string
	messageBytes uint16
	// status is the place of the status in statuses.
	status uint8
}

// statuses are all that status.Compute can return, and Unknown for what it fails
// at. The first is what most objects are.
var statuses = [...]status.Status{
	status.CurrentStatus, status.InProgressStatus, status.FailedStatus, status.TerminatingStatus, status.UnknownStatus,
}

// newSpecial returns nil for an object that has nothing special.
func newSpecial(health Health, others ownership.Paths) *special {
	s := special{text: health.Message + string(others)}
	s.messageBytes = uint16(len(health.Message))                       //nolint:gosec // at most maxMessage
	s.status = uint8(max(0, slices.Index(statuses[:], health.Status))) //nolint:gosec // there are five
	if s == (special{}) {
		return nil
	}
	return new(s)
}

// health is that of the object when the Snapshot was made.
func (s *Snapshot) health() Health {
	if s.special == nil {
		return Health{Status: status.CurrentStatus}
	}
	return Health{Status: statuses[s.special.status], Message: s.special.text[:s.special.messageBytes]}
}

// terminating says that the object is being deleted.
func (s *Snapshot) terminating() bool { return s.health().Status == status.TerminatingStatus }

// ComputeHealth computes the health of an object. It keeps nothing of the object but
// text, and does not change it.
func ComputeHealth(u *unstructured.Unstructured) Health {
	if u.GetDeletionTimestamp() == nil && alwaysCurrent(u) {
		return Health{Status: status.CurrentStatus}
	}
	result, err := compute(healthRelevant(u))
	var health Health
	switch {
	case err != nil:
		health = Health{Status: status.UnknownStatus, Message: err.Error()}
	case result.Status == status.CurrentStatus:
		return Health{Status: status.CurrentStatus}
	default:
		health = Health{Status: result.Status, Message: result.Message}
	}
	// A controller may quote what it does not like.
	if ownership.Sensitive(u) {
		health.Message = ""
	}
	health.Message = truncate(health.Message)
	return health
}

// alwaysCurrent says of an object that is not being deleted whether kstatus finds it
// Current without looking: it has no status, and is of no kind that must have one.
func alwaysCurrent(u *unstructured.Unstructured) bool {
	if u.GetAPIVersion() == "v1" && (u.GetKind() == "ConfigMap" || u.GetKind() == "Secret") {
		return true
	}
	_, reports := u.Object["status"]
	return !reports && status.GetLegacyConditionsFn(u) == nil
}

// healthRelevant is an object with the conditions that kstatus looks at where it does not
// know the kind. It takes apart, by reflection and twice, all that it is given.
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

// compute is status.Compute for an object that any cluster may have sent. That
// takes the status of a Pod for well-formed and panics otherwise, which would end
// the process: it runs on a goroutine of an informer.
func compute(u *unstructured.Unstructured) (_ *status.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its status is malformed: %v", p)
		}
	}()
	return status.Compute(u)
}

// truncate cuts a message that is too long, between two runes.
func truncate(message string) string {
	const more = "..."
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-len(more)], "") + more
}

// statusDelay is how long the owners of an object may wait until they are told of
// its health, from what a watch kept of it and keeps now; 0 if there is nothing to
// tell. An object that was not there before was as good as Current.
func healthDelay(before, after any) time.Duration {
	was, ok := HealthOf(before)
	if !ok {
		was.Status = status.CurrentStatus
	}
	switch is, ok := HealthOf(after); {
	case !ok || is == was:
		return 0
	case is.Status == was.Status:
		return messageDelay
	default:
		return statusDelay
	}
}
