package reconcile

import (
	"context"
	"errors"
	"maps"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// read reads the manifest into the state, unless the state has it. It returns why
// only the author can fix the manifest.
func (p *pass) read(ctx context.Context) *object.Failure {
	s := p.state
	if s.Generation == p.VR.Generation && !p.Scope.Sources && !s.dropped && s.scope.Same(p.applier.Allowed) && (s.Stalled != nil || !p.Scope.All || !s.AwaitsKinds() && !s.Reread) && !p.Inventories.Lightened(p.VR.Name) {
		return s.Stalled
	}
	p.unread = true
	if s.unread != nil && s.Generation == p.VR.Generation && !p.Scope.Retry {
		return s.unread
	}
	from := desired.Reader{Sources: &p.sources, Local: p.Local, Scope: p.LocalScope, Accounts: p.accounts()}
	var got desired.Parts
	var why *object.Failure
	s.lane.apart(func() { got, why = from.Gather(ctx, p.Owner, p.VR) })
	s.unreadable, s.sourcesRead = got.Unreadable, p.Now
	if why != nil {
		why.Awaited = why.Reason == v1alpha1.ReasonSourceUnavailable && p.watchesSources(got.Versions)
		s.unread = why
		return why
	}
	old := make([]*desired.Object, 0, len(s.Manifest))
	for _, o := range s.Manifest {
		old = append(old, o.Desired)
	}
	defer func() {
		if access.IsLocal(p.VR.Spec.Destination.Server) {
			p.namespaces.Set(p.Owner, maps.Keys(s.Namespaces()))
		}
	}()
	var held []string
	var err error
	s.lane.apart(func() { held, err = p.holders(ctx) })
	if err == nil {
		err = p.readParts(ctx, held, got.Parts)
	}
	if err != nil {
		reason := v1alpha1.ReasonManifestInvalid
		if errors.Is(err, desired.ErrEmpty) {
			reason = v1alpha1.ReasonManifestEmpty
		}
		s.unread = &object.Failure{Reason: reason, Message: display.Truncate(err.Error(), object.MaxMessage)}
		return s.unread
	}
	p.unread, s.unread, s.sources, s.missingParts = false, nil, got.Versions, got.Missing
	p.named.Note(p.VR, got.Versions, s.identities(p.VR))
	s.SetAccount(access.Account(p.VR), p.VR.Generation)
	for _, o := range s.Manifest {
		o.Desired.Configuration = p.applier.Additions.ConfigurationOf(o.Desired.Configuration)
	}
	if why := status.TooLarge(p.VR, &s.State, p.Inventories.Dropped(p.VR.Name)); why != nil {
		p.Inventories.Refuse(p.VR.Name)
		return why
	}
	p.Inventories.Accept(p.VR.Name)
	for _, was := range old {
		// The same object in another version is another watch's.
		if is := s.Objects[was.ID]; is != nil && is.Desired != nil && is.Desired.Key != was.Key {
			p.Index.Forget(p.Owner, was.Key)
		}
	}
	p.returnHeals(ctx)
	return nil
}

// returnHeals gives the loop of objects the causes that it handed over while the manifest was still to be read: of the objects that
// the manifest does not change. They wait for no other object then.
func (p *pass) returnHeals(ctx context.Context) {
	p.Trigger.RequeueCauses(p.Owner, trigger.Causes{Objects: p.Causes.Objects})
	p.Causes.Objects = p.Trigger.ReturnHeals(p.Owner, func(key trigger.ObjectKey) bool {
		o := p.state.At(key)
		return p.Watched && p.Heals(ctx, o) && !o.Contention.Contended()
	})
}

// identities returns the objects of the manifest.
func (s *ownerState) identities(vr *v1alpha1.VidraResource) []object.Identity {
	ids := make([]object.Identity, 0, len(s.Manifest)+len(s.Unresolved))
	for _, o := range s.Manifest {
		ids = append(ids, o.ID)
	}
	for _, u := range s.Unresolved {
		ids = append(ids, u.Identities(vr)...)
	}
	return ids
}

// partsOf reads the parts of the manifest of a VidraResource that exist, as its account. It needs no part of one
// for which no request is sent.
func (r *Reconciler) partsOf(ctx context.Context, vr *v1alpha1.VidraResource) ([]desired.Part, error) {
	client, _, why := r.accounts().ClientOf(ctx, vr, r.Local)
	if why != nil {
		return []desired.Part{desired.InlinePart(vr)}, nil
	}
	parts, _, err := desired.AvailableParts(ctx, r.sources.Kinds, client, r.LocalScope, vr, r.sources.Absent) // the parts that it may not read name no object that is applied
	return parts, err
}

// holders returns the VidraResources whose manifests hold this one, and those that hold
// them. It fails for more than desired.HoldersOf allows.
func (p *pass) holders(ctx context.Context) ([]string, error) {
	lookup := owners.Lookup{Cache: p.Client, Elsewhere: p.Elsewhere}
	holds := func(holder string, held *v1alpha1.VidraResource) (*v1alpha1.VidraResource, bool) {
		vr, _, err := lookup.Get(ctx, holder)
		return vr, err == nil && vr != nil && owners.HoldsObject(vr, "", object.Identity{GroupKind: desired.VidraResourceKind, Name: held.Name}, held.UID)
	}
	return desired.HoldersOf(p.VR, holds)
}

// readParts reads the parts of the manifest into the state, once there is memory to
// parse them.
func (p *pass) readParts(ctx context.Context, holders []string, parts []desired.Part) error {
	free := func() {}
	defer func() { free() }()
	var w *desired.Resolved
	var err error
	p.state.lane.apart(func() {
		var taken func()
		if taken, err = p.heavy.Take(ctx, desired.WeightOfParts(parts)); err != nil {
			return
		}
		free = taken
		w, err = desired.Resolve(ctx, p.VR, p.applier.Signature(), holders, parts, desired.ScopedDestination{Destination: p.applier.Destination, Scope: p.applier.Allowed})
	})
	if err != nil {
		return err
	}
	p.state.adopt(p.VR.Generation, w.Objects, w.Unresolved)
	p.state.Unmatched, p.state.scope = w.Unmatched, p.applier.Allowed
	return nil
}

// watchesSources reports whether all sources of the manifest are watched, and have the versions that were read, so that a change of
// them is noticed. Rights that are missing are noticed elsewhere.
func (p *pass) watchesSources(read map[source.Key]string) bool {
	for _, key := range source.KeysOf(p.VR) {
		version, known := p.sources.Revision(key)
		if was, is := read[key]; !known || is && was != version {
			return false
		}
	}
	return true
}

// sourcesChanged reports whether what spec.manifestFrom names differs from what was read
// last, and whether that is not known of some of it.
func (r *Reconciler) sourcesChanged(vr *v1alpha1.VidraResource, s *ownerState) (changed, unknown bool) {
	for _, key := range source.KeysOf(vr) {
		version, known := r.sources.Revision(key)
		changed = changed || known && version != s.sources[key]
		unknown = unknown || !known
	}
	return changed, unknown
}
