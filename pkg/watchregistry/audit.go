package watchregistry

import (
	"context"
	"fmt"
	"time"
)

// auditInterval is how often the registry looks itself over.
const auditInterval = time.Minute

// audit looks the registry over until ctx ends.
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

// Audit compares owners, states and running goroutines, which the registry does
// by itself every minute, and returns what disagrees: nothing, unless there is a
// defect. What it finds is counted, and logged as an error.
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
	claim := func(holds bool, format string, args ...any) {
		if !holds {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	for owner, keys := range r.owners {
		claim(len(keys) > 0, "owner %s is kept and needs nothing", owner)
		for key := range keys {
			w := r.watches[key]
			claim(w != nil, "owner %s needs %s, which is not watched", owner, key)
			if w != nil {
				_, known := w.owners[owner]
				claim(known, "owner %s needs %s, whose watch does not know it", owner, key)
			}
		}
	}
	for key, w := range r.watches {
		for owner := range w.owners {
			_, needs := r.owners[owner][key]
			claim(needs, "the watch of %s knows owner %s, which does not need it", key, owner)
		}
		claim(r.clusters[key.Cluster] == w.site, "%s is watched in a cluster that was removed", key)
		_, runs := r.running[w]
		claim(runs || r.ctx.Err() != nil, "the watch of %s has no goroutine", key)
		claim((len(w.owners) == 0) == (w.linger != nil), "the watch of %s has %d owners and linger=%t", key, len(w.owners), w.linger != nil)
		claim(w.phase.abandoned == (w.linger != nil), "the watch of %s is %s and linger=%t", key, w.phase.shown(), w.linger != nil)
		claim(w.phase.state != Stopped && w.ctx.Err() == nil || r.ctx.Err() != nil, "the watch of %s has stopped and is kept", key)
		switch w.phase.state {
		case Pending:
			claim(w.life == nil, "%s is not served and an informer runs", key)
		case Synced:
			claim(w.phase.hasSynced, "the watch of %s is Synced and has not synced", key)
			fallthrough
		case Degraded:
			claim(w.life != nil, "the watch of %s is %s without an informer", key, w.phase.state)
		case Starting, Draining, Stopped:
		}
	}
	for w := range r.running {
		claim(r.watches[w.key] == w || w.ctx.Err() != nil, "the watch of %s runs and is not kept", w.key)
	}
	for kind, owners := range r.awaited {
		claim(len(owners) > 0, "%s is awaited by nobody", kind.GVK)
	}
	return found
}
