package watchregistry

// AddCluster adds a cluster under name and begins to watch its CustomResourceDefinitions and
// APIServices. If the name is in use, AddCluster does nothing.
func (r *Registry) AddCluster(name string, cluster Cluster) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.clusters[name]; known {
		return
	}
	c := newClusterWatches(r, name, cluster)
	r.clusters[name] = c
	r.goLocked(c.run)
}

// RemoveCluster stops and removes the watches of the cluster name, whatever their state and
// owners, and the awaited kinds of it. It calls neither owners nor handlers; only a callback
// that has begun may still run. Owners have to ask for new watches after a cluster was added
// under that name, which may be at once. A name that is unknown is ignored. RemoveCluster
// returns at once; the goroutines may end later.
func (r *Registry) RemoveCluster(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.clusters[name]
	if c == nil {
		return
	}
	delete(r.clusters, name)
	c.cancel()
	for key, w := range r.watches {
		if w.cluster != c {
			continue
		}
		r.needed.Drop(key)
		r.stopLocked(w)
	}
	for kind := range r.awaited.All() {
		if kind.Cluster == name {
			r.awaited.Drop(kind)
		}
	}
}

// Wake ends the backoffs of the cluster name: of the watches that are Degraded or Pending,
// and of those on CustomResourceDefinitions and APIServices. Call it when the cluster can be
// reached again. A request that failed a moment ago waits for the shortest time of its
// backoff, and a running request continues.
func (r *Registry) Wake(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.clusters[name]
	if c == nil {
		return
	}
	for _, backoff := range c.backoffs {
		backoff.retryNow()
	}
	for _, w := range r.watches {
		if w.cluster == c {
			w.retryLocked()
		}
	}
}

// WakeWatch is like Wake for one watch. Call it when a permission was granted. A watch that
// is absent is ignored.
func (r *Registry) WakeWatch(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.watches[key]; w != nil {
		w.retryLocked()
	}
}

// ListAgain has a watch list all objects again. Call it when the API server turns out to have other objects than its
// events said. A watch that is absent is ignored.
func (r *Registry) ListAgain(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.watches[key]; w != nil && w.current != nil {
		w.current.listAgain.Send()
	}
}

// retryLocked ends the wait of a watch that is Degraded or Pending. The registry's mutex must
// be held.
func (w *watch) retryLocked() {
	switch w.shown.phase.state {
	case Degraded:
		w.current.backoff.retryNow()
	case Pending:
		w.probeNow()
	case Starting, Synced, Draining, Stopped: // it waits for nothing
	}
}
