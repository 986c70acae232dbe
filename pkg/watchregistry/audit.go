package watchregistry

import (
	"context"
	"fmt"
	"time"
)

// auditInterval is the time between two audits.
const auditInterval = time.Minute

// audit calls Audit every auditInterval until ctx ends.
func (r *Registry) audit(ctx context.Context) {
	ticker := time.NewTicker(auditInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.Audit()
		}
	}
}

// Audit compares owners, states and running goroutines, and returns the contradictions, which
// are defects. It counts them and logs each as an error. The registry calls it every minute.
func (r *Registry) Audit() []string {
	found := r.inspect()
	r.counts.audits.Add(1)
	r.counts.inconsistencies.Add(uint64(len(found)))
	for _, what := range found {
		r.opts.Log.Error(nil, "The watch registry contradicts itself, which is a defect: please report it", "found", what)
	}
	return found
}

func (r *Registry) inspect() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []string
	check := func(holds bool, format string, args ...any) {
		if !holds {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	for key := range r.needed.All() {
		check(r.watches[key] != nil, "owners %s need %s, which is not watched", r.needed.Owners(key), key)
	}
	for key, w := range r.watches {
		check(r.clusters[key.Cluster] == w.cluster, "%s is watched in a cluster that was removed", key)
		_, runs := r.running[w]
		check(runs || r.ctx.Err() != nil, "the watch of %s has no goroutine", key)
		check(r.needed.Needed(key) == (w.linger == nil), "the watch of %s has owners %s and linger=%t", key, r.needed.Owners(key), w.linger != nil)
		check(w.shown.phase.unowned == (w.linger != nil), "the watch of %s is %s and linger=%t", key, w.shown.phase.displayState(), w.linger != nil)
		check(w.shown.phase.state != Stopped && w.ctx.Err() == nil || r.ctx.Err() != nil, "the watch of %s has stopped and is still stored", key)
		switch w.shown.phase.state {
		case Pending:
			check(w.current == nil, "%s is not served and an informer runs", key)
		case Synced:
			check(w.shown.phase.hasSynced, "the watch of %s is Synced and has not synced", key)
			fallthrough
		case Degraded:
			check(w.current != nil, "the watch of %s is %s without an informer", key, w.shown.phase.state)
		case Starting, Draining, Stopped:
		}
	}
	for w := range r.running {
		check(r.watches[w.key] == w || w.ctx.Err() != nil, "the watch of %s runs and is not stored", w.key)
	}
	return found
}
