package plan

import (
	"time"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Scope is the work of one reconcile. It is decided once, by DecideScope, and stays as it is.
type Scope struct {
	// All reports that every object is considered, and not only those that the causes name.
	All bool
	// Changed reports that the spec or a source of the manifest differs from its state at the last
	// read; Sources, that a source does, or may.
	Changed, Sources bool
	// Resync reports that the consideration of every object is due.
	Resync bool
	// Retry reports that the manifest is read again after a failure.
	Retry bool
	// Suspects reports that it is time to compare the suspects of the backstop with the API server.
	Suspects bool
}

// ScopeInput are the facts that a scope is decided from.
type ScopeInput struct {
	Now         time.Time
	Generations Generations
	// Finalizing reports that all objects are removed or released.
	Finalizing bool
	// SourcesChanged reports that a source of the manifest has changed; SourcesUnknown, that
	// the version of one is unknown.
	SourcesChanged, SourcesUnknown bool
	// Reread reports that the manifest has to be read again; AccountMissing, that it was not
	// read for want of an account.
	Reread, AccountMissing bool
	Causes                 trigger.Causes
	Schedule               Schedule
	// RetryAt is the time of the first retry, or zero.
	RetryAt time.Time
	// ComparesObjects reports that the backstop is on; HasSuspects, that it found suspects.
	ComparesObjects, HasSuspects bool
}

// Generations are the present generation of a VidraResource, the last one that was read, and the one in its status.
type Generations struct{ Spec, Read, Observed int64 }

// DecideScope returns the work of a reconcile.
func DecideScope(in ScopeInput) Scope {
	var s Scope
	due := func(at time.Time) bool { return !in.Now.Before(at) }
	respecified := in.Generations.Read != in.Generations.Spec
	s.Resync = respecified || due(in.Schedule.Resync)
	s.Sources = in.SourcesChanged || in.SourcesUnknown && s.Resync
	s.Changed = respecified || s.Sources
	s.Retry = s.Resync || in.Causes.All || in.Reread || due(in.Schedule.Retry.At)

	heldBack := in.Generations.Observed != in.Generations.Spec
	retries := !in.RetryAt.IsZero() && due(in.RetryAt)
	// An uncaused reconcile considers all, except one that only reports reverts.
	uncaused := len(in.Causes.Objects) == 0 && !in.Causes.Health && !in.Causes.Others && !in.Causes.Report && !in.Schedule.FlushDue(in.Now)
	s.All = in.Finalizing || in.AccountMissing || heldBack || retries || s.Resync || in.Causes.All || in.Reread || uncaused

	// A revert does not wait for comparisons.
	s.Suspects = s.All && in.ComparesObjects && in.HasSuspects && due(in.Schedule.Suspects)
	return s
}
