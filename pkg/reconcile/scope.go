package reconcile

import (
	"time"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

// scope is what one reconcile does. It is decided once, by decideScope, and not changed.
type scope struct {
	// all reports that every object is considered, and not only those that the causes name.
	all bool
	// changed reports that the spec or a source of the manifest differs from what was read
	// last; sources, that a source does, or may.
	changed, sources bool
	// resync reports that it is time to consider every object without a cause.
	resync bool
	// retry reports that what failed is tried again.
	retry bool
	// flush reports that it is time for the status to count reverts.
	flush bool
	// backstop reports that it is time to compare the objects with the API server; suspects,
	// to compare those again that differed.
	backstop, suspects bool
}

// scopeInput is what a scope is decided from.
type scopeInput struct {
	now time.Time
	// generation is that of the spec, read the one that was read last, and observed the one
	// of the status.
	generation, read, observed int64
	// finalizing reports that all objects are removed or released.
	finalizing bool
	// sourcesChanged reports that a source of the manifest has changed; sourcesUnknown, that
	// the version of one is not known.
	sourcesChanged, sourcesUnknown bool
	// reread reports that the manifest has to be read again; accountMissing, that it was not
	// read for want of an account.
	reread, accountMissing bool
	causes                 trigger.Causes
	schedule               schedule
	// comparesObjects reports that the backstop is on; hasSuspects, that it found objects
	// that differ.
	comparesObjects, hasSuspects bool
}

// decideScope returns what a reconcile does.
func decideScope(in scopeInput) scope {
	var s scope
	due := func(at time.Time) bool { return !in.now.Before(at) }
	respecified := in.read != in.generation
	s.resync = respecified || due(in.schedule.resync)
	s.sources = in.sourcesChanged || in.sourcesUnknown && s.resync
	s.changed = respecified || s.sources
	s.retry = s.resync || in.causes.All || in.reread || in.schedule.retryDue(in.now)
	s.flush = in.schedule.flushDue(in.now)

	heldBack := in.observed != in.generation
	retries := s.retry && !in.schedule.retry.IsZero()
	// A reconcile without a cause considers all, but not one that only counts reverts.
	uncaused := len(in.causes.Objects) == 0 && !in.causes.Health && !s.flush
	s.all = in.finalizing || in.accountMissing || heldBack || retries || s.resync || in.causes.All || in.causes.Gone || in.reread || uncaused

	// A revert does not wait for comparisons.
	compares := s.all && in.comparesObjects
	s.backstop = compares && !in.schedule.backstop.IsZero() && due(in.schedule.backstop)
	s.suspects = compares && in.hasSuspects && due(in.schedule.suspects)
	return s
}
