package plan

import (
	"errors"

	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Refused is a refusal of an apply that lasts while the object, the manifest and the spec are the same.
type Refused struct {
	// manager is the field manager that owns the field in conflict; empty if the whole object was the reason.
	manager string
	// Other is the VidraResource of that manager; empty if it is not known.
	Other    string
	evidence trigger.Evidence
	// configuration is the one that was refused.
	configuration string
	// confirmed reports that the evidence was the same before the last attempt. A first attempt may have been refused
	// for fields that the other manager had released when the watch was asked.
	confirmed bool
}

// NoteRefusal records whether the apply of an object failed because other owners own it or its fields. It must be
// called for every failure. An object that no watch shows, for example because it is unmanaged, is retried with backoff.
func (p *Planner) NoteRefusal(o *Object, err error) {
	before := o.Refused
	o.Refused = nil
	var refused Refused
	switch conflict, refusal := new(owners.Conflict), new(owners.Refusal); {
	case errors.As(err, &conflict):
		refused.manager, refused.Other = conflict.Manager, conflict.Other()
	case errors.As(err, &refusal):
	default:
		return
	}
	if evidence, shown := p.evidence(o, refused.manager); shown {
		refused.evidence, refused.configuration = evidence, o.Desired.Configuration
		refused.confirmed = before != nil && before.manager == refused.manager && before.evidence == evidence && before.configuration == refused.configuration
		o.Refused = &refused
	}
}

// evidence returns the evidence in the object as its watch shows it; shown is false if no watch does.
func (p *Planner) evidence(o *Object, manager string) (_ trigger.Evidence, shown bool) {
	kept, found, synced := p.Watches.Get(p.WatchKey(o.Desired.Key), o.Desired.Key.Namespace, o.Desired.Key.Name)
	if !p.Watched || !found || !synced {
		return trigger.Evidence{}, false
	}
	return trigger.EvidenceIn(kept, manager)
}

// refusalStands reports whether an apply would be refused again, so that a retry is no use. A resync, a changed
// spec or source, and what the last attempt lacked, such as a right, have it retried in any case.
func (p *Planner) refusalStands(o *Object) bool {
	if o.Refused == nil || !o.Refused.confirmed || p.Scope.Resync || p.Scope.Changed || p.Causes.Retry || o.Refused.configuration != o.Desired.Configuration {
		return false
	}
	evidence, shown := p.evidence(o, o.Refused.manager)
	return shown && evidence == o.Refused.evidence
}

// AwaitRefused has the VidraResource enqueued when a field manager changes an object for whose fields an apply
// was refused.
func (p *Planner) AwaitRefused() {
	refused := map[trigger.ObjectKey]trigger.Evidence{}
	for _, o := range p.State.Manifest {
		if o.Problem != nil && o.Refused != nil && o.Refused.manager != "" {
			refused[o.Desired.Key] = o.Refused.evidence
		}
	}
	p.Trigger.AwaitRefused(p.Owner, refused)
	if len(refused) == 0 { // as after nearly every reconcile
		return
	}
	for _, o := range p.State.Manifest { // an event may have arrived before
		if before, waits := refused[o.Desired.Key]; waits {
			if now, shown := p.evidence(o, o.Refused.manager); !shown || now != before {
				p.Trigger.EnqueueAll(p.Owner)
				return
			}
		}
	}
}
