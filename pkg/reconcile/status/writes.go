package status

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// handoverTime is how long this process takes a status that it has not written for one of the process before: the watch
// of the VidraResource may be late. Afterwards, another client has written it.
const handoverTime = time.Minute

// restoreInterval is the least time between two restorations of a status that another
// client wrote: two clients that overwrite each other must not do so without end.
const restoreInterval = 5 * time.Second

// maxWrites is how many own writes of a status are remembered whose events are still to come.
const maxWrites = 64

// Writes distinguishes the writes of a status by this process from the writes of other clients. Its methods are safe for concurrent use with Seen.
type Writes struct {
	// Begun is when this process read the status, in the version Read. Written reports that it has
	// written it since, and attempted that it may have.
	Begun              time.Time
	Read               string
	Written, attempted bool

	// mu guards the fields below.
	mu sync.Mutex
	// Own are the resourceVersions that own writes made and events are still to show, oldest first.
	Own []string
	// Writing is whether a write is under way; during are the versions that events showed
	// meanwhile.
	Writing bool
	during  []string
	// foreign is the number of the last known write of another client, restoredTo the number of the one that was restored last, at restored.
	foreign, restoredTo int
	restored            time.Time
}

// Begin notes that a write begins.
func (w *Writes) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Writing, w.attempted = true, true
}

// Outdated reports whether vr has a status that the process before this one wrote, and that this one is still to read.
func (w *Writes) Outdated(read v1alpha1.VidraResourceStatus, vr *v1alpha1.VidraResource) bool {
	if w.attempted || vr.ResourceVersion == w.Read || time.Since(w.Begun) > handoverTime {
		return false
	}
	w.Read = vr.ResourceVersion
	return !Same(read, vr.Status)
}

// Seen notes an event that shows another status, and reports whether another client wrote
// it.
func (w *Writes) Seen(version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.Own, version); i >= 0 {
		w.Own = w.Own[i+1:] // events arrive in the order of the writes
		return false
	}
	if w.Writing { // it may be the own one
		w.during = append(w.during, version)
		return false
	}
	w.foreign++
	return true
}

// End notes the end of a write, and the version that it made; empty if it failed. It reports
// whether another client wrote meanwhile.
func (w *Writes) End(version string) (foreign bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	shown := false
	for _, during := range w.during {
		shown = shown || during == version
		foreign = foreign || during != version
	}
	w.Writing, w.during, w.Written = false, nil, w.Written || version != ""
	if foreign {
		w.foreign++
	}
	if version != "" && !shown {
		w.Own = append(w.Own, version)
		w.Own = w.Own[max(0, len(w.Own)-maxWrites):]
	}
	return foreign
}

// Foreign returns the number of the last write of another client, or 0 if that was restored.
func (w *Writes) Foreign() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.foreign == w.restoredTo {
		return 0
	}
	return w.foreign
}

// ToRestore reports whether a status is to be written again now, which was read with a write of another client; if only at a later time, it
// returns that. foreign is the answer of Foreign before the read.
func (w *Writes) ToRestore(foreign int, now time.Time) (due bool, later time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if foreign <= w.restoredTo {
		return false, time.Time{}
	}
	if at := w.restored.Add(restoreInterval); now.Before(at) {
		return false, at
	}
	w.restoredTo = foreign
	return true, time.Time{}
}

// EndRestore notes the end of the write of a status that another client had written.
func (w *Writes) EndRestore(foreign int, now time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.restoredTo = foreign - 1
		return
	}
	w.restored = now
}

// Same reports whether two statuses are the same for the API server, which keeps
// times in seconds.
func Same(a, b v1alpha1.VidraResourceStatus) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && bytes.Equal(left, right)
}
