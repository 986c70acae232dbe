package watchregistry

// AddCluster makes a cluster known under name and begins to watch its
// CustomResourceDefinitions and APIServices. A name that is known already keeps
// its cluster, until RemoveCluster.
func (r *Registry) AddCluster(name string, cluster Cluster) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.clusters[name]; known {
		return
	}
	s := newSite(r, name, cluster)
	r.clusters[name] = s
	r.goLocked(s.run)
}

// RemoveCluster stops and forgets everything that the registry has of the cluster
// name: its watches, whatever their state and whoever needs them, and the kinds that
// are awaited of it. Neither owners nor handlers are told; only a callback that has
// begun may still be under way. Who needs a watch of it afterwards has to ask again,
// once a cluster has been added under that name, which may be at once. A name that is
// not known is ignored. It does not wait for the goroutines to end.
func (r *Registry) RemoveCluster(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.clusters[name]
	if s == nil {
		return
	}
	delete(r.clusters, name)
	s.cancel()
	for key, w := range r.watches {
		if w.site != s {
			continue
		}
		for owner := range w.owners {
			r.disownLocked(owner, key)
		}
		clear(w.owners)
		if w.linger != nil {
			w.linger.Stop()
		}
		r.stopLocked(w)
	}
	for kind := range r.awaited {
		if kind.Cluster == name {
			delete(r.awaited, kind)
		}
	}
}

// Wake has what fails in the cluster name tried again now rather than when its
// backoff is over: the watches that are Degraded or Pending, and those on the kinds.
// It is for who learns that the cluster can be reached again. What was tried a moment
// ago waits for the shortest time of its backoff, and a request under way goes on.
func (r *Registry) Wake(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.clusters[name]
	if s == nil {
		return
	}
	for _, breaker := range s.breakers {
		breaker.wake()
	}
	for _, w := range r.watches {
		if w.site == s {
			w.retryLocked()
		}
	}
}

// WakeWatch is Wake for one watch: for who learns that a right was granted. A watch
// that does not exist is ignored.
func (r *Registry) WakeWatch(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.watches[key]; w != nil {
		w.retryLocked()
	}
}

// retryLocked ends the wait of a watch that is Degraded or Pending.
func (w *watch) retryLocked() {
	switch w.phase.state {
	case Degraded:
		w.life.breaker.wake()
	case Pending:
		w.wakeUp()
	case Starting, Synced, Draining, Stopped: // it waits for nothing
	}
}
