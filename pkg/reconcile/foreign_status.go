package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// restoreInterval is the least time between two restorations of a status that another
// client wrote: two clients that overwrite each other must not do so without end.
const restoreInterval = 5 * time.Second

// maxWrites is how many own writes of a status are remembered whose events have not come.
const maxWrites = 64

// statusWrites distinguishes the writes of a status by this process from those of other clients.
// Reconciler.mu guards it.
type statusWrites struct {
	// own are the resourceVersions that own writes made and no event has shown, in order.
	own []string
	// writing is whether a write is under way; during are the versions that events showed
	// meanwhile.
	writing bool
	during  []string
	// foreign is whether another client wrote the status since restored, which is when it
	// was put right last.
	foreign  bool
	restored time.Time
}

// seen notes an event that shows another status, and reports whether another client wrote
// it.
func (w *statusWrites) seen(version string) bool {
	if i := slices.Index(w.own, version); i >= 0 {
		w.own = w.own[i+1:] // events come in order
		return false
	}
	if w.writing { // it may be the own one
		w.during = append(w.during, version)
		return false
	}
	w.foreign = true
	return true
}

// end notes the end of a write, and the version that it made; none if it failed. It reports
// whether another client wrote meanwhile.
func (w *statusWrites) end(version string) (foreign bool) {
	shown := false
	for _, during := range w.during {
		shown = shown || during == version
		foreign = foreign || during != version
	}
	w.writing, w.during = false, nil
	w.foreign = w.foreign || foreign
	if version != "" && !shown {
		w.own = append(w.own, version)
		w.own = w.own[max(0, len(w.own)-maxWrites):]
	}
	return foreign
}

// foreignStatus reports whether an update of a VidraResource is that of its status by
// another client. It is a predicate of the controller.
func (r *Reconciler) foreignStatus(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.VidraResource)
	after, is := e.ObjectNew.(*v1alpha1.VidraResource)
	if !ok || !is || equality.Semantic.DeepEqual(before.Status, after.Status) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[trigger.Owner{Name: after.Name}]
	return s != nil && s.uid == after.UID && s.writes.seen(after.ResourceVersion)
}

// beginWrite notes that this process is about to write a status.
func (r *Reconciler) beginWrite(s *ownerState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.writes.writing = true
}

// endWrite notes the version that the write of a status has made; none if it failed.
func (r *Reconciler) endWrite(owner trigger.Owner, s *ownerState, version string) {
	r.mu.Lock()
	foreign := s.writes.end(version)
	r.mu.Unlock()
	if foreign {
		r.Trigger.EnqueueAll(owner)
	}
}

// restores reports whether the status is written because another client wrote it, and when
// it is time to if it is not yet.
func (p *pass) restores(ctx context.Context) (now bool, later time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &p.state.writes
	if !w.foreign {
		return false, time.Time{}
	}
	if due := w.restored.Add(restoreInterval); p.now.Before(due) {
		return false, due
	}
	w.foreign = false
	if sameStatus(p.vr.Status, p.state.status) {
		return false, time.Time{} // an event was missed, and the writes are not known
	}
	w.restored = p.now
	ctrllog.FromContext(ctx).Info("Another client wrote the status of the VidraResource. It is put right.")
	return true, time.Time{}
}

// sameStatus reports whether two statuses are the same for the API server, which keeps
// times in seconds.
func sameStatus(a, b v1alpha1.VidraResourceStatus) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && bytes.Equal(left, right)
}
