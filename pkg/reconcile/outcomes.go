package reconcile

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
)

const (
	// outcomeBurst is how many lines about one object are logged at once, and outcomeInterval after how long there is another one.
	outcomeBurst, outcomeInterval = 5, 10 * time.Second
	// outcomeForget is after how long without an outcome an object is forgotten.
	outcomeForget = 10 * time.Minute
	// maxOutcomeFields is how many fields a line names.
	maxOutcomeFields = 10
)

// outcomes logs a line for each revert, deletion, adoption, refusal and recovery, without values. Lines about one object are limited;
// the next one counts those that were suppressed. The zero value is ready. It is safe for concurrent use.
type outcomes struct {
	// mu guards objects and cleaned.
	mu      sync.Mutex
	objects map[outcomeKey]*outcomeLimit
	cleaned time.Time
}

type outcomeKey struct{ vidraResource, object string }

type outcomeLimit struct {
	limiter    *rate.Limiter
	suppressed int
	last       time.Time
}

// outcomeMessages are the lines by the writes to an object. Other changes are left out.
var outcomeMessages = map[events.Action]string{
	events.Restored: "Reverted an object", events.Recreated: "Created a deleted object again", events.Relabelled: "Restored the label of an object",
	events.Pruned: "Deleted an object", events.Orphaned: "Released an object", events.Released: "Released an object that other owners keep",
	events.Replaced: "Deleted an object to create it again",
}

// log logs the work of a reconcile, from the statuses before and after it and its changes. suppressed is called for each line
// that is left out; it may be nil.
func (o *outcomes) log(log logr.Logger, suppressed func(), vidraResource string, before, after v1alpha1.VidraResourceStatus, changes []events.Change, now time.Time) {
	line := func(message, object string, values ...any) {
		if !o.line(log, message, vidraResource, object, now, values...) && suppressed != nil {
			suppressed()
		}
	}
	for _, change := range changes {
		message := outcomeMessages[change.Action]
		if change.Adopted {
			message = "Adopted an object"
		}
		if message == "" {
			continue
		}
		values := []any{"outcome", string(change.Action)}
		var managers, fields []string
		for _, field := range change.Fields {
			if field.Manager != "" && !slices.Contains(managers, field.Manager) {
				managers = append(managers, field.Manager)
			}
			if len(fields) < maxOutcomeFields {
				fields = append(fields, field.Path)
			}
		}
		if len(managers) > 0 {
			values = append(values, "managers", managers)
		}
		if len(fields) > 0 {
			values = append(values, "fields", fields)
		}
		if change.Took > 0 {
			values = append(values, "duration", change.Took.Round(time.Millisecond).String())
		}
		line(message, events.Name(change.Object), values...)
	}
	begun, ended := events.Begun(before, after), events.Begun(after, before)
	names := events.ProblemNames(append(slices.Clone(begun), ended...), after.ManagedResources)
	for i, p := range begun {
		line("Refused", names[i], "outcome", p.Reason)
	}
	for i, p := range ended {
		values := []any{"outcome", p.Reason}
		if !p.Since.IsZero() {
			values = append(values, "duration", now.Sub(p.Since.Time).Round(time.Second).String())
		}
		line("Recovered", names[len(begun)+i], values...)
	}
}

// line logs a line about an object, or counts it. It reports whether the line was logged.
func (o *outcomes) line(log logr.Logger, message, vidraResource, object string, now time.Time, values ...any) bool {
	o.mu.Lock()
	if o.objects == nil {
		o.objects = map[outcomeKey]*outcomeLimit{}
	}
	if now.Sub(o.cleaned) > outcomeForget {
		o.cleaned = now
		maps.DeleteFunc(o.objects, func(_ outcomeKey, limit *outcomeLimit) bool { return now.Sub(limit.last) > outcomeForget })
	}
	key := outcomeKey{vidraResource, object}
	limit := o.objects[key]
	if limit == nil {
		limit = &outcomeLimit{limiter: rate.NewLimiter(rate.Every(outcomeInterval), outcomeBurst)}
		o.objects[key] = limit
	}
	limit.last = now
	if !limit.limiter.AllowN(now, 1) {
		limit.suppressed++
		o.mu.Unlock()
		return false
	}
	suppressed := limit.suppressed
	limit.suppressed = 0
	o.mu.Unlock()
	all := []any{"VidraResource", vidraResource}
	if object != "" {
		all = append(all, "object", object)
	}
	if all = append(all, values...); suppressed > 0 {
		all = append(all, "suppressed", suppressed)
	}
	log.Info(message, all...)
	return true
}
