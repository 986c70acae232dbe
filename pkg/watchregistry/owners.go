package watchregistry

import (
	"fmt"
	"slices"
	"time"
)

// Ensure adds the watches want to those that owner needs, starts the missing ones, and returns
// the status of each. Use it where the caller may fail before the new set is complete, and Sync
// after that. A key whose cluster is unknown is Degraded and left out.
func (r *Registry) Ensure(owner Owner, want []Key) map[Key]Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ensureLocked(owner, want)
}

// Sync makes the set of watches that owner needs exactly want. It calls Ensure for these and releases the others, which stop
// after the linger time unless another owner needs them.
func (r *Registry) Sync(owner Owner, want []Key) map[Key]Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	statuses := r.ensureLocked(owner, want)
	watched := slices.DeleteFunc(slices.Clone(want), func(key Key) bool { return r.watches[key] == nil })
	_, removed := r.needed.Set(owner, slices.Values(watched))
	for _, key := range removed {
		r.lingerLocked(key)
	}
	return statuses
}

func (r *Registry) ensureLocked(owner Owner, want []Key) map[Key]Status {
	statuses := map[Key]Status{} // of few watches: want may have one key for each object
	for _, key := range want {
		if _, has := statuses[key]; !has {
			statuses[key] = r.acquireLocked(owner, key)
		}
	}
	return statuses
}

// Release empties the sets of watches and of awaited kinds of owner.
func (r *Registry) Release(owner Owner) {
	r.Sync(owner, nil)
	r.Await(owner, nil)
}

// Await makes the set of kinds that owner awaits exactly kinds. When the API server begins
// to serve one of them, OnKind is called once and the kind is removed from the set.
func (r *Registry) Await(owner Owner, kinds []Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	added, _ := r.awaited.Set(owner, slices.Values(kinds))
	for _, kind := range added {
		if s := r.clusters[kind.Cluster]; s != nil {
			// The API server may have begun to serve it after the caller had checked.
			s.enqueueGroup(kind.GVK.Group)
		}
	}
}

// acquireLocked adds owner to the watch key, and starts the watch if it is missing. r.mu must
// be held.
func (r *Registry) acquireLocked(owner Owner, key Key) Status {
	w := r.watches[key]
	if w == nil {
		s := r.clusters[key.Cluster]
		if s == nil {
			return Status{
				State: Degraded, Reason: ReasonUnavailable,
				Message: fmt.Sprintf("cluster %q is not known", key.Cluster),
			}
		}
		w = r.startLocked(key, s)
	}
	if r.needed.Add(owner, key) && w.shown.phase.state == Degraded {
		w.current.backoff.retryNow() // a new owner may have changed the cause
	}
	if w.linger != nil {
		w.linger.Stop()
		w.linger = nil
		w.transitionLocked(needed, "", nil)
	}
	return w.statusLocked()
}

// startLocked adds a watch and starts its goroutine. r.mu must be held.
func (r *Registry) startLocked(key Key, s *clusterWatches) *watch {
	w := newWatch(r, key, s)
	w.stats.ofKind = s.storedLocked(key.GVR)
	r.watches[key] = w
	r.running[w] = struct{}{}
	r.goLocked(func() {
		w.run()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.running, w)
	})
	return w
}

// lingerLocked stops a watch after the linger time if it is unowned, and at once if it is Pending. r.mu must be held.
func (r *Registry) lingerLocked(key Key) {
	w := r.watches[key]
	if r.needed.Needed(key) || w.linger != nil {
		return
	}
	if r.opts.Linger < 0 || w.shown.phase.state == Pending {
		r.stopLocked(w)
		return
	}
	w.transitionLocked(unowned, "", nil)
	var timer *time.Timer
	timer = time.AfterFunc(r.opts.Linger, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if w.linger == timer { // no owner came back
			r.stopLocked(w)
		}
	})
	w.linger = timer
}

// stopLocked stops and removes an unowned watch. r.mu must be held.
func (r *Registry) stopLocked(w *watch) {
	if w.linger != nil {
		w.linger.Stop()
		w.linger = nil
	}
	w.transitionLocked(released, "", nil)
	w.cancel()
	delete(r.watches, w.key)
}
