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

// Audit compares owners, states and running goroutines, and returns the contradictions: none,
// unless there is a defect. It counts them and logs each as an error. The registry calls it
// every minute.
func (r *Registry) Audit() []string {
	found := r.inspect()
	r.audits.Add(1)
	r.inconsistencies.Add(uint64(len(found)))
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
	for owner, keys := range r.owners {
		check(len(keys) > 0, "owner %s is stored without a watch", owner)
		for key := range keys {
			w := r.watches[key]
			check(w != nil, "owner %s needs %s, which is not watched", owner, key)
			if w != nil {
				_, known := w.owners[owner]
				check(known, "owner %s needs %s, whose watch does not list it as an owner", owner, key)
			}
		}
	}
	for key, w := range r.watches {
		for owner := range w.owners {
			_, needs := r.owners[owner][key]
			check(needs, "the watch of %s lists owner %s, which does not need it", key, owner)
		}
		check(r.clusters[key.Cluster] == w.cluster, "%s is watched in a cluster that was removed", key)
		_, runs := r.running[w]
		check(runs || r.ctx.Err() != nil, "the watch of %s has no goroutine", key)
		check((len(w.owners) == 0) == (w.linger != nil), "the watch of %s has %d owners and linger=%t", key, len(w.owners), w.linger != nil)
		check(w.phase.unowned == (w.linger != nil), "the watch of %s is %s and linger=%t", key, w.phase.displayState(), w.linger != nil)
		check(w.phase.state != Stopped && w.ctx.Err() == nil || r.ctx.Err() != nil, "the watch of %s has stopped and is still stored", key)
		switch w.phase.state {
		case Pending:
			check(w.current == nil, "%s is not served and an informer runs", key)
		case Synced:
			check(w.phase.hasSynced, "the watch of %s is Synced and has not synced", key)
			fallthrough
		case Degraded:
			check(w.current != nil, "the watch of %s is %s without an informer", key, w.phase.state)
		case Starting, Draining, Stopped:
		}
	}
	for w := range r.running {
		check(r.watches[w.key] == w || w.ctx.Err() != nil, "the watch of %s runs and is not stored", w.key)
	}
	for kind, owners := range r.awaited {
		check(len(owners) > 0, "%s is stored as awaited without an owner", kind.GVK)
	}
	return found
}
