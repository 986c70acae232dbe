package reconcile

import (
	"context"
	"errors"
	"iter"
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// read reads the manifest into the state, unless the state has it. It returns why
// only the author can fix the manifest.
func (p *pass) read(ctx context.Context) *object.Failure {
	s := p.state
	if p.keepsApplied() {
		return nil
	}
	if s.hasLatest(p.waiting) && s.plan.Generation == p.plan.VR.Generation && !p.plan.Scope.Sources && !s.dropped && s.scope.Same(p.applier.Settings.Allowed) && (s.plan.Stalled != nil || !p.plan.Scope.All || !s.plan.AwaitsKinds() && !s.plan.Reread) && !p.reconciler.Inventories.Lightened(p.plan.VR.Name) {
		return s.plan.Stalled
	}
	p.unread = true
	if s.unread != nil && s.plan.Generation == p.plan.VR.Generation && (!p.plan.Scope.Retry || !p.plan.Scope.All && s.unread.Awaited && !p.revisedSince(s.unreadRevisions)) {
		return s.unread
	}
	var got desired.Parts
	var why *object.Failure
	var refused *object.Failure
	s.lane.apart(func() { got, refused, why = p.gather(ctx) })
	if refused != nil {
		s.revision.refused, s.revision.refusedOf, p.waiting = refused, p.plan.VR.Generation, refused
	}
	s.unreadable, s.sourcesRead = got.Unreadable, p.plan.Now
	p.awaitSources(got.NotServed)
	if why != nil && p.hasApplied() { // what waits is read when it may be applied
		s.plan.Generation, s.behind, p.unread = p.plan.VR.Generation, true, false
		s.sources, s.revision.unread = p.reconciler.revisionsOf(p.plan.VR), why
		return nil
	}
	s.revision.unread = nil
	if why != nil {
		why.Awaited = !got.Transient && p.noticesSources(got)
		s.unread, s.unreadRevisions = why, s.revisions
		p.recall(ctx)
		return why
	}
	revision := got.Revision()
	if p.keepsRevision(ctx, got, revision) {
		return nil
	}
	old := p.objectsOfManifest()
	if s.unread = p.resolve(ctx, got); s.unread != nil {
		p.recall(ctx)
		return s.unread
	}
	s.behind, s.unapplied = p.waiting != nil && p.waiting == s.revision.refused, p.waiting != nil && !s.sameRevision(revision)
	s.revision.current, s.revision.source = revision, p.sourceOf(got)
	p.unread, s.sources, s.missingParts = false, got.Versions, got.Missing
	p.reconciler.named.Note(p.plan.VR, got.Versions, s.identities(p.plan.VR))
	s.plan.SetAccount(access.Account(p.plan.VR), p.plan.VR.Generation)
	if why := status.TooLarge(p.plan.VR, &s.plan, p.reconciler.Inventories.Dropped(p.plan.VR.Name)); why != nil {
		p.reconciler.Inventories.Refuse(p.plan.VR.Name)
		return why
	}
	p.reconciler.Inventories.Accept(p.plan.VR.Name)
	s.plan.Sources = got.Artifacts
	p.forgetVersions(old)
	p.saveRevision(ctx, got)
	p.returnHeals(ctx)
	return nil
}

// hasLatest reports whether the state has the latest manifest. A manifest that was read while it had to wait is read again when it may be
// applied: its content is saved before.
func (s *ownerState) hasLatest(waiting *object.Failure) bool {
	if s.unapplied {
		return waiting != nil
	}
	return !s.behind
}

// objectsOfManifest returns the objects of the manifest as it was read last.
func (p *pass) objectsOfManifest() []*desired.Object {
	all := make([]*desired.Object, 0, len(p.state.plan.Manifest))
	for _, o := range p.state.plan.Manifest {
		all = append(all, o.Desired)
	}
	return all
}

// forgetVersions forgets objects that the manifest has in another version: another watch shows them.
func (p *pass) forgetVersions(old []*desired.Object) {
	for _, was := range old {
		if is := p.state.plan.Objects[was.ID]; is != nil && is.Desired != nil && is.Desired.Key != was.Key {
			p.reconciler.Index.Forget(p.plan.Settings.Claimant.Owner, was.Key)
		}
	}
}

// resolve resolves the parts of the manifest into the state.
func (p *pass) resolve(ctx context.Context, got desired.Parts) *object.Failure {
	resolved, err := p.resolveParts(ctx, got.Parts)
	if err != nil {
		reason := v1alpha1.ReasonManifestInvalid
		if errors.Is(err, desired.ErrEmpty) {
			reason = v1alpha1.ReasonManifestEmpty
		}
		return &object.Failure{Reason: reason, Message: display.Truncate(err.Error(), object.MaxMessage)}
	}
	p.store(resolved)
	return nil
}

// store makes a manifest that was resolved the manifest of the state.
func (p *pass) store(resolved *desired.Resolved) {
	s := p.state
	s.adopt(p.plan.VR.Generation, resolved.Objects, resolved.Unresolved)
	s.plan.Unmatched, s.scope, s.recalled = resolved.Unmatched, p.applier.Settings.Allowed, false
	if access.IsLocal(p.plan.VR.Spec.Destination.Server) {
		p.reconciler.namespaces.Set(p.plan.Settings.Claimant.Owner, maps.Keys(s.plan.Namespaces()))
	}
}

// save keeps the parts of the current revision for a restart, and as a revision. It reports whether they are kept.
func (p *pass) save(ctx context.Context, got desired.Parts) bool {
	revision := p.state.revision.current
	text, digest, err := got.Pack(p.plan.VR, p.before.Source)
	if err == nil && digest != p.state.kept {
		p.state.kept = "" // a Save that fails may have written some of it
		retain, all := p.retained()
		p.state.lane.apart(func() {
			err = p.reconciler.Kept.Save(ctx, p.plan.VR, source.Manifest{Digest: digest, Revision: revision, Text: text}, retain, all)
		})
	}
	if err != nil {
		err = object.WithoutValues(err, ownership.Disclosure{}) // a policy may quote the Secret
		logf.FromContext(ctx).Error(err, "Cannot keep the manifest: after a restart, edits are not reverted while a source cannot be read or a revision waits, and it cannot be applied as an earlier revision. Grant Vidra get, list, create and delete on Secrets in its namespace")
		return false
	}
	p.state.kept, p.state.revision.saved = digest, revision
	return true
}

// recall reads the manifest that was kept into the state, if the last read one is unusable: after a restart, edits are reverted to it while a
// source is unreadable.
func (p *pass) recall(ctx context.Context) {
	if !source.HasArtifacts(p.plan.VR) || p.state.usable(p) {
		return
	}
	unread := p.state.unread
	var texts iter.Seq[[]byte]
	var err error
	p.state.lane.apart(func() { texts, err = p.reconciler.Kept.Load(ctx, p.plan.VR, "") })
	if err == nil {
		var got desired.Parts
		if got, err = desired.Unpack(p.plan.VR, texts); err == nil && len(got.Parts) > 0 {
			if why := p.resolve(ctx, got); why != nil {
				err = errors.New(why.Message)
			} else {
				p.state.recalled, p.state.plan.Sources, p.state.revision.current = true, got.Artifacts, ""
				p.reconciler.named.Note(p.plan.VR, nil, p.state.identities(p.plan.VR))
				p.state.plan.SetAccount(access.Account(p.plan.VR), p.plan.VR.Generation)
			}
		}
	}
	if err != nil {
		logf.FromContext(ctx).Error(err, "Cannot read the manifest that was kept: edits are not reverted while a source cannot be read")
	}
	p.state.unread = unread
}

// awaitSources has the owner wait for unserved kinds of sources.
func (p *pass) awaitSources(kinds []schema.GroupKind) {
	p.state.awaitedSources = nil
	for _, kind := range kinds {
		p.state.awaitedSources = append(p.state.awaitedSources, watchregistry.Kind{Cluster: p.reconciler.Local.Name(), GVK: kind.WithVersion("v1")})
	}
	if len(kinds) > 0 {
		p.reconciler.Watches.Await(p.plan.Settings.Claimant.Owner, p.state.awaitedSources)
	}
}

// noticesSources reports whether a change of the sources is noticed.
func (p *pass) noticesSources(got desired.Parts) bool {
	if len(got.NotServed) > 0 {
		return p.reconciler.Watches.NoticesKinds(p.reconciler.Local.Name())
	}
	return p.watchesSources(got.Versions)
}

// returnHeals gives the loop of objects the causes that it handed over while the manifest was still to be read: of the objects that
// the manifest leaves as they are. They wait for no other object then.
func (p *pass) returnHeals(ctx context.Context) {
	p.reconciler.Trigger.RequeueCauses(p.plan.Settings.Claimant.Owner, trigger.Causes{Objects: p.plan.Causes.Objects})
	p.plan.Causes.Objects = p.reconciler.Trigger.ReturnHeals(p.plan.Settings.Claimant.Owner, func(key trigger.ObjectKey) bool {
		o := p.state.plan.At(key)
		return p.plan.Settings.Watched && p.plan.Heals(ctx, o)
	})
}

// identities returns the objects of the manifest.
func (s *ownerState) identities(vr *v1alpha1.VidraResource) []object.Identity {
	ids := make([]object.Identity, 0, len(s.plan.Manifest)+len(s.plan.Unresolved))
	for _, o := range s.plan.Manifest {
		ids = append(ids, o.ID)
	}
	for _, u := range s.plan.Unresolved {
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
	lookup := owners.Lookup{Cache: p.reconciler.Client, Elsewhere: p.reconciler.Assignment.Elsewhere}
	holds := func(holder string, held *v1alpha1.VidraResource) (*v1alpha1.VidraResource, bool) {
		vr, _, err := lookup.Get(ctx, holder)
		return vr, err == nil && vr != nil && owners.HoldsObject(vr, "", object.Identity{GroupKind: desired.VidraResourceKind, Name: held.Name}, held.UID)
	}
	return desired.HoldersOf(p.plan.VR, holds)
}

// resolveParts resolves the parts of the manifest, once there is memory to parse them. The state stays as it is.
func (p *pass) resolveParts(ctx context.Context, parts []desired.Part) (resolved *desired.Resolved, err error) {
	p.state.lane.apart(func() {
		var held []string
		if held, err = p.holders(ctx); err != nil {
			return
		}
		var free func()
		if free, err = p.reconciler.heavy.Take(ctx, desired.WeightOfParts(parts)); err != nil {
			return
		}
		defer free()
		resolved, err = desired.Resolve(ctx, p.plan.VR, p.applier.Settings.Claimant.Signature(), held, parts, desired.ScopedDestination{Destination: p.applier.Destination, Scope: p.applier.Settings.Allowed})
	})
	if err != nil {
		return nil, err
	}
	for _, d := range resolved.Objects {
		d.Configuration = p.applier.Settings.Additions.ConfigurationOf(d.Configuration)
	}
	return resolved, nil
}

// watchesSources reports whether all sources of the manifest are watched, and have the versions that were read, so that a change of
// them is noticed. Rights that are missing are noticed elsewhere.
func (p *pass) watchesSources(read map[source.Key]string) bool {
	for _, key := range source.KeysOf(p.plan.VR) {
		version, known := p.reconciler.sources.Revision(key)
		if was, is := read[key]; !known || is && was != version {
			return false
		}
	}
	return true
}

// revisionsOf returns the revisions of the sources of a manifest, as far as they are known.
func (r *Reconciler) revisionsOf(vr *v1alpha1.VidraResource) map[source.Key]string {
	known := map[source.Key]string{}
	for _, key := range source.KeysOf(vr) {
		if revision, is := r.sources.Revision(key); is {
			known[key] = revision
		}
	}
	return known
}

// revisedSince reports whether a source of the manifest has another revision than before, or may have.
func (p *pass) revisedSince(before map[source.Key]string) bool {
	return len(before) < len(source.KeysOf(p.plan.VR)) || !maps.Equal(before, p.reconciler.revisionsOf(p.plan.VR))
}

// sourcesChanged reports whether the sources in spec.manifestFrom differ from the sources that were read
// last, and whether that is unknown for some of them.
func (r *Reconciler) sourcesChanged(vr *v1alpha1.VidraResource, s *ownerState) (changed, unknown bool) {
	if vr.RevisionTo() != 0 && s.revision.refused == nil { // an earlier revision is applied instead
		return false, false
	}
	changed = s.unread != nil && len(vr.Spec.ManifestFrom) > 0
	for _, key := range source.KeysOf(vr) {
		version, known := r.sources.Revision(key)
		changed = changed || known && version != s.sources[key]
		unknown = unknown || !known
	}
	return changed, unknown
}
