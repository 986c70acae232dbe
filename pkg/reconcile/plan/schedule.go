package plan

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// Suspects reports whether the backstop has suspects.
func (s *Objects) Suspects() bool {
	for o := range s.All() {
		if o.Seen.BackstopSuspect != nil {
			return true
		}
	}
	return false
}

const (
	// ObserveMin is the delay of the first check whether the watches have shown the objects of an apply.
	ObserveMin = 2 * time.Millisecond
	// ObserveTimeout is how long a reconcile waits for the watches before it writes the status.
	ObserveTimeout = 500 * time.Millisecond
	// observeRetry is the time between two checks after that.
	observeRetry = 200 * time.Millisecond
)

const (
	// HealFlush is how long heals are gathered before the status counts them.
	HealFlush = 5 * time.Second
	// CRDEstablishTimeout is how long the kind of a CustomResourceDefinition in the same
	// manifest may take to be served before that counts as a problem.
	CRDEstablishTimeout = 30 * time.Second
	// KindGoneTimeout is how long a kind must have been unserved before its objects
	// count as gone.
	KindGoneTimeout = 10 * time.Second
	// ResyncJitter spreads resyncs over this part of their interval.
	ResyncJitter = 0.1
	// retryJitter is that part of the time between two attempts after a failure.
	retryJitter = 0.2
	// RemoteRetry is when a reconcile of a VidraResource of another cluster is tried
	// again that found no place. See limits.RemoteLimiter.
	RemoteRetry = 250 * time.Millisecond
	// HeavyRetry is when a reconcile of a large manifest is tried again that found no
	// worker. See limits.HeavyShare.
	HeavyRetry = 250 * time.Millisecond
	// RecomputeQPS is how many objects a second are applied only because their digest
	// is of another version of Vidra.
	RecomputeQPS = 50
	// DefaultParallel is how many objects of a stage are applied at a time.
	DefaultParallel = 16
)

// Schedule is when a VidraResource has something to do without a cause. The times of single
// objects are in their states.
type Schedule struct {
	// Resync is when every object is considered.
	Resync time.Time
	// Retry is the next attempt at the work of the VidraResource as a whole: to read the manifest, or to begin at all.
	Retry Retry
	// Flush is when the status counts the reverts, or zero.
	Flush time.Time
	// Suspects is when the suspects of the backstop are compared with the API server.
	Suspects time.Time
	// health is until when the status leaves out other unhealthy objects. healthDelayed reports that there are such.
	health        time.Time
	healthDelayed bool
	// digests is when digests of another version are replaced, or zero.
	digests time.Time
}

// BeginAll notes that every object is considered: all that reconciles of some objects have left is due.
func (s *Schedule) BeginAll() { s.healthDelayed, s.digests = false, time.Time{} }

// FlushDue reports whether it is time for the status to count the reverts.
func (s *Schedule) FlushDue(now time.Time) bool { return !s.Flush.IsZero() && !now.Before(s.Flush) }

// Retry is the next attempt after failures. The zero value is due.
type Retry struct {
	// At is the time of the next attempt, or zero. Failures counts the failed attempts in a row.
	At       time.Time
	Failures int
}

// due reports whether the next attempt is made. A reconcile of all objects makes it from half of the delay on, so that the attempts at many objects share
// reconciles.
func (r Retry) due(now time.Time, all bool) bool {
	if all {
		now = now.Add(limits.RetryDelay(r.Failures) / 2)
	}
	return !now.Before(r.At)
}

// Failed notes a failed attempt. An attempt that an event makes before it is due leaves the time as it is.
func (r *Retry) Failed(now time.Time, all bool) {
	if r.due(now, all) {
		r.Failures++
		r.At = now.Add(wait.Jitter(limits.RetryDelay(r.Failures), retryJitter))
	}
}

// RetryNow makes all attempts due.
func (s *State) RetryNow() {
	s.Schedule.Retry = Retry{}
	for o := range s.Objects.All() {
		o.Attempts.Retry = Retry{}
	}
}

// NoteFailures notes the failures at the end of a reconcile, and the ends of failures.
func (p *Planner) NoteFailures(e Ending) {
	s, kept := p.State, false
	for o := range s.Objects.All() {
		kept = kept || o.Problem != nil && strings.HasPrefix(o.Problem.Message, removedWhenApplied)
		switch retry := &o.Attempts.Retry; {
		case o.Problem == nil && !o.retriesHealth():
			*retry = Retry{}
		case e.Stalled, e.Blocked: // there was no attempt
		case p.fails(o):
			retry.Failed(p.Now, p.Scope.All)
		case retry.due(p.Now, p.Scope.All): // an event causes the next attempt, perhaps before a later time
			retry.At = time.Time{}
		}
	}
	if e.Unended || kept && !e.Stalled && !s.Objects.hasUnapplied() { // a reconcile of some objects has applied the last one
		s.Schedule.Retry.Failed(p.Now, false)
	} else {
		s.Schedule.Retry = Retry{}
	}
}

// fails reports whether time alone causes the next attempt at an object. A lasting refusal is retried only after a change.
func (p *Planner) fails(o *Object) bool {
	return o.Problem != nil && !o.Problem.Awaited && !p.rests(o) || o.retriesHealth()
}

// Wake is the time of an uncaused reconcile of a VidraResource, and its reason.
type Wake struct {
	At  time.Time
	Why string
}

// Reasons of an uncaused reconcile.
const (
	wakeResync     = "every object is considered"
	wakeRetry      = "what failed is tried again"
	wakeFlush      = "the status counts reverts"
	wakeUnobserved = "a watch has not shown an applied object"
	wakeHealth     = "the status names other objects that are not healthy"
	wakeBlocked    = "a deletion that waits for finalizers counts as blocked"
	wakeProblem    = "an object that waits for a time is considered"
	wakeDigest     = "digests of another version are replaced"
	wakeSuspects   = "suspects of the backstop are compared with the API server"
	wakeExemption  = "an exemption ends"
	wakeContention = "a contended object is reverted, or its contention ends"
	wakeWatch      = "a watch that fails is reported"
	WakeDependency = "a dependency of another shard is read"
	WakeStatus     = "the status that another client wrote is corrected"
)

// Earliest returns the first of several wakes. Unset times are ignored.
func Earliest(wakes []Wake) Wake {
	var first Wake
	for _, w := range wakes {
		if !w.At.IsZero() && (first.At.IsZero() || w.At.Before(first.At)) {
			first = w
		}
	}
	return first
}

// Ending is the result of a reconcile, as far as the next one depends on it.
type Ending struct {
	// Stalled reports that all work waits until a user changes the VidraResource;
	// Blocked, that all work waits at present.
	Stalled, Blocked bool
	// Unended reports an obstacle to all or some work that no event ends.
	Unended bool
	// Unobserved reports that a watch is still to show an applied object.
	Unobserved bool
}

// Wakes returns when the VidraResource is reconciled again without a cause.
func (p *Planner) Wakes(e Ending) []Wake {
	s, all := p.State, p.Scope.All || e.Stalled || e.Blocked
	wakes := []Wake{{s.Schedule.Resync, wakeResync}, {s.Schedule.Flush, wakeFlush}, {s.Schedule.digests, wakeDigest}}
	if e.Unobserved {
		wakes = append(wakes, Wake{p.Now.Add(observeRetry), wakeUnobserved})
	}
	if s.Schedule.healthDelayed {
		wakes = append(wakes, Wake{s.Schedule.health, wakeHealth})
	}
	if s.Health != nil {
		for _, w := range s.Health.wakes(s.Schedule.health) {
			if w.At.After(p.Now) || !all { // otherwise this reconcile has kept it, or cannot
				wakes = append(wakes, w)
			}
		}
	}
	if !e.Stalled {
		retries := s.Retries()
		if e.Blocked { // nothing is attempted until the obstacle ends, and its end has all objects considered
			retries = retries[:1]
		}
		for _, w := range append(retries, p.objectWakes()...) {
			if w.At.After(p.Now) { // otherwise this reconcile has kept it
				wakes = append(wakes, w)
			}
		}
		if !all && s.Objects.Suspects() && !p.Now.Before(s.Schedule.Suspects) { // a revert does not compare
			wakes = append(wakes, Wake{p.Now, wakeSuspects})
		}
	}
	before := Watched(s.Status, p.VR.Generation)
	for _, status := range slices.Concat(slices.Collect(maps.Values(s.Watching.Watches)), slices.Collect(maps.Values(s.Watching.FailingSources))) {
		if Tolerable(status, before, p.Now) {
			wakes = append(wakes, Wake{status.Since.Add(WatchGrace), wakeWatch})
		}
	}
	return wakes
}

// objectWakes returns when objects are considered again that differ from the manifest, or
// may not be.
func (p *Planner) objectWakes() []Wake {
	s := p.State
	var wakes []Wake
	if s.Objects.Suspects() {
		wakes = append(wakes, Wake{s.Schedule.Suspects, wakeSuspects})
	}
	for o := range s.Objects.All() {
		if o.Edits.Drift != nil {
			wakes = append(wakes, Wake{o.Edits.Drift.Decision.Until, wakeExemption})
		}
		switch {
		case o.Desired == nil || !o.Edits.Contention.Contended():
		case p.held(o):
			wakes = append(wakes, Wake{o.Edits.Contention.NotBefore, wakeContention})
		default:
			wakes = append(wakes, Wake{o.Edits.Contention.LastHeal.Add(contention.Window + time.Second), wakeContention})
		}
	}
	return wakes
}

// Retries returns the times of the retries, first the time of the VidraResource as a whole, and the times of objects that wait for one.
func (s *State) Retries() []Wake {
	wakes := []Wake{{s.Schedule.Retry.At, wakeRetry}}
	for o := range s.Objects.All() {
		if o.Problem != nil {
			wakes = append(wakes, Wake{o.Problem.Until, wakeProblem})
		}
		if !o.Attempts.Retry.At.IsZero() { // of few objects
			wakes = append(wakes, Wake{o.Attempts.Retry.At, wakeRetry})
		}
	}
	return wakes
}

// Requeue returns the result of a reconcile after which the VidraResource is reconciled again
// at next. That is routine, even if this reconcile was not, unless a revert is delayed until then.
func (p *Planner) Requeue(next Wake) reconcile.Result {
	result := reconcile.Result{RequeueAfter: max(next.At.Sub(p.Now), time.Millisecond), Priority: ptr.To(0)}
	if held := p.nextHeld(); !held.IsZero() && !held.After(p.Now.Add(result.RequeueAfter)) {
		// It is due at a time, however long this reconcile took.
		result = reconcile.Result{RequeueAfter: max(time.Until(held), time.Millisecond), Priority: ptr.To(trigger.ContendedPriority)}
	}
	return result
}

// WatchGrace is how long a watch that was healthy may fail before it
// counts as failed: a restart of Vidra or of the API server is no reason to write
// every status twice.
const WatchGrace = 30 * time.Second

// Watched reports whether everything that a generation needs is watched according to a
// status.
func Watched(status v1alpha1.VidraResourceStatus, generation int64) bool {
	watching := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionWatching)
	return watching != nil && watching.Status == metav1.ConditionTrue && watching.ObservedGeneration == generation
}

// Tolerable reports whether a watch that fails is expected to recover
// before it has to be reported. before is whether the status reported that all was watched. A
// watch starts then because Vidra does, and an API server that starts
// refuses connections first, and then requests until it has read its roles.
func Tolerable(status watchregistry.Status, before bool, now time.Time) bool {
	return before && (status.State == watchregistry.Starting || status.State == watchregistry.Degraded) &&
		now.Sub(status.Since) < WatchGrace
}
