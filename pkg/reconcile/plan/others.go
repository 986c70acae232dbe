package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// OthersOf identifies the record of the fields of other managers in an object: the VidraResource and the object. A status that was
// restored for another VidraResource, and the record of a deleted object, show nothing.
func (s *Settings) OthersOf(uid types.UID) string { return string(s.UID) + "/" + string(uid) }

// RecordOthers records the fields of other managers in each object, as its watch has shown it, without the additions of edits
// that stay. It sends no request. Unknown ones stay as the status has them.
func (p *Planner) RecordOthers() {
	if !p.Settings.Watched || !p.Scope.All && !p.Causes.Others && !p.Causes.Health {
		return
	}
	for _, o := range p.State.Objects.Manifest {
		key, entry := o.Desired.Key, o.Entry
		if entry == nil || entry.UID == "" {
			continue
		}
		kept, found, synced := p.stored(key)
		if !found || !synced {
			continue
		}
		if others, known := p.Env.Index.BeforeEdits(p.Settings.Claimant.Owner, key, kept); known {
			entry.Others = others.Record(p.Settings.OthersOf(types.UID(entry.UID)))
			left := slices.DeleteFunc(slices.Clone(o.Remarks.Kept), func(kept KeptFields) bool { return kept.Paths.Minus(others) == kept.Paths })
			if len(left) < len(o.Remarks.Kept) && !p.Scope.All { // a reconcile of all objects reports it
				p.Env.Trigger.EnqueueAll(p.Settings.Claimant.Owner)
			}
			o.Remarks.Kept = left
		}
	}
}
