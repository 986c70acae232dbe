package reconcile

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
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

// manifestState is the manifest in the state, whose objects the plan has. Each manifest that is stored replaces all of it.
type manifestState struct {
	// scope are the rights of Vidra at the destination at the read of the manifest.
	scope cluster.Scope
	// revision identifies the parts; empty if they are unknown. source is their source for users.
	revision, source string
	// recalled reports that the manifest is one that was kept, as its sources are unreadable.
	recalled bool
	// behind reports that the manifest is the applied one, while a newer one waits. unapplied reports that it was read while it had
	// to wait.
	behind, unapplied bool
	// bodies are the bodies of the objects.
	bodies bodies
}

// isLatest reports whether it is the latest manifest. A manifest that was read while it had to wait is read again when it may be
// applied: its content is saved before. A recalled one stands in for the latest.
func (m *manifestState) isLatest(waiting *object.Failure) bool {
	if m.unapplied {
		return waiting != nil
	}
	return !m.behind && !m.recalled
}

// isOf reports whether the manifest is of a revision, and was read when it might be applied.
func (m *manifestState) isOf(revision string) bool {
	return m.revision != "" && !m.unapplied && m.revision == revision
}

// isWhole reports whether the objects have their bodies, and were resolved with the rights of Vidra as they are now.
func (m *manifestState) isWhole(allowed cluster.Scope) bool {
	return !m.bodies.dropped && m.scope.Same(allowed)
}

// sourceReads is the result of the last attempts to read the sources of the manifest.
type sourceReads struct {
	// at is the time of the last attempt.
	at time.Time
	// sources are the versions of the sources at the last read, or at the last failed read of a manifest that waits. missing are the optional parts that
	// the last read found absent.
	sources map[source.Key]string
	missing []desired.MissingPart
	// failure is the obstacle to the last attempt; nil if there was none. failedAt are the known revisions of the sources then.
	failure  *object.Failure
	failedAt map[source.Key]string
	// awaited are the unserved kinds of sources.
	awaited []watchregistry.Kind
	// unreadable holds the right that the last attempt failed for, with the client.
	unreadable map[access.Right]dynamic.Interface
}

// succeeded notes the sources that were read.
func (r *sourceReads) succeeded(got desired.Parts) {
	r.failure, r.sources, r.missing = nil, got.Versions, got.Missing
}

// read reads the manifest into the state, unless the state has it. It returns the obstacle to it, if any, and whether the manifest is unread.
func (p *pass) read(ctx context.Context) (why *object.Failure, unread bool) {
	s := p.state
	switch {
	case p.keepsApplied():
		return nil, false
	case p.isRead():
		return s.plan.Read.Stalled, false
	case p.keepsFailure():
		return s.read.failure, true
	}
	var got desired.Parts
	var refused *object.Failure
	s.lane.apart(func() { got, refused, why = p.gather(ctx) })
	if refused != nil {
		s.revision.refused, s.revision.refusedOf, p.obstacles.Waiting = refused, p.plan.VR.Generation, refused
	}
	s.read.unreadable, s.read.at = got.Unreadable, p.plan.Now
	p.awaitSources(got.NotServed)
	if why != nil && p.hasApplied() && p.isOfAccount() { // what waits is read when it may be applied
		s.plan.Read.Generation, s.manifest.behind = p.plan.VR.Generation, true
		s.read.failure, s.read.sources, s.revision.unread = nil, p.reconciler.revisionsOf(p.plan.VR), why
		return nil, false
	}
	s.revision.unread = nil
	if why != nil {
		why.Awaited = !got.Transient && p.noticesSources(got)
		s.read.failure, s.read.failedAt = why, s.attempt.revisions
		p.recall(ctx)
		return why, true
	}
	revision := got.Revision()
	if p.keepsRevision(ctx, got, revision) {
		return nil, false
	}
	is := manifestState{revision: revision, source: p.sourceOf(got)}
	is.behind, is.unapplied = p.obstacles.Waiting != nil && p.obstacles.Waiting == s.revision.refused, p.obstacles.Waiting != nil && !s.manifest.isOf(revision)
	if why = p.resolve(ctx, got, is); why != nil {
		s.read.failure = why
		p.recall(ctx)
		return why, true
	}
	s.read.succeeded(got)
	if !s.rollsBack(p.plan.VR) { // the manifest of the spec waits
		p.listLeft(nil)
	}
	p.reconciler.related.named.Note(p.plan.VR, got.Versions, s.identities(p.plan.VR))
	s.plan.SetAccount(access.Account(p.plan.VR), p.plan.VR.Generation)
	if why := p.tooLarge(); why != nil {
		p.reconciler.Reports.Inventories.Refuse(p.plan.VR.Name)
		return why, false
	}
	p.reconciler.Reports.Inventories.Accept(p.plan.VR.Name)
	s.plan.Origin.Provenance.Sources = got.Artifacts
	p.saveRevision(ctx, got)
	p.returnHeals(ctx)
	return nil, false
}

// tooLarge returns the reason that the VidraResource would be too large with the status of its objects, or nil.
func (p *pass) tooLarge() *object.Failure {
	return status.TooLarge(p.plan.VR, &p.state.plan, p.reconciler.Reports.Inventories.Dropped(p.plan.VR.Name))
}

// isOfSpec reports whether the last read was of the present spec.
func (p *pass) isOfSpec() bool { return p.state.plan.Read.Generation == p.plan.VR.Generation }

// isOfAccount reports whether the last manifest was read as the present account: another one may lack the right to read it.
func (p *pass) isOfAccount() bool {
	return cmp.Or(p.state.plan.Origin.Provenance.AppliedAs, &v1alpha1.AppliedAsStatus{}).ServiceAccount == access.Account(p.plan.VR)
}

// isRead reports whether the state has the manifest, or the obstacle to it that only the author can end, for the spec, the sources, the kinds and
// the rights as they are now.
func (p *pass) isRead() bool {
	s := p.state
	if !s.manifest.isLatest(p.obstacles.Waiting) || !s.manifest.isWhole(p.applier.Settings.Allowed) || !p.isOfSpec() || p.plan.Scope.Sources {
		return false
	}
	unresolved := s.plan.Read.Stalled == nil && p.plan.Scope.All && (s.plan.Objects.AwaitsKinds() || s.plan.Read.Again)
	return !unresolved && !p.reconciler.Reports.Inventories.Lightened(p.plan.VR.Name)
}

// keepsFailure reports whether the last failed attempt to read the manifest stands: another one would fail, too, or is due later.
func (p *pass) keepsFailure() bool {
	r := &p.state.read
	return r.failure != nil && p.isOfSpec() && (!p.plan.Scope.Retry || !p.plan.Scope.All && r.failure.Awaited && !p.revisedSince(r.failedAt))
}

// canApply reports whether the state has a manifest that may be applied with the rights of Vidra as they are now.
func (s *ownerState) canApply(allowed cluster.Scope) bool {
	return s.plan.Read.Stalled == nil && len(s.plan.Objects.Manifest) > 0 && s.manifest.isWhole(allowed)
}

// isUsable reports whether the last read may be used while the manifest is unreadable. A recalled manifest stands in for no earlier revision: it may be
// the one that this revision replaces.
func (p *pass) isUsable() bool {
	s := p.state
	return p.isOfSpec() && s.canApply(p.applier.Settings.Allowed) && (!s.manifest.recalled || !s.rollsBack(p.plan.VR))
}

// rollsBack reports whether an earlier revision is applied in place of the sources.
func (s *ownerState) rollsBack(vr *v1alpha1.VidraResource) bool {
	return vr.RevisionTo() != 0 && s.revision.refused == nil
}

// resolve resolves the parts of the manifest into the state, as the manifest that it becomes there.
func (p *pass) resolve(ctx context.Context, got desired.Parts, is manifestState) *object.Failure {
	resolved, err := p.resolveParts(ctx, got.Parts)
	if err != nil {
		reason := v1alpha1.ReasonManifestInvalid
		if errors.Is(err, desired.ErrEmpty) {
			reason = v1alpha1.ReasonManifestEmpty
		}
		return &object.Failure{Reason: reason, Message: display.Truncate(err.Error(), v1alpha1.MaxProblemMessage)}
	}
	p.store(resolved, is)
	return nil
}

// store makes a manifest that was resolved the manifest of the state.
func (p *pass) store(resolved *desired.Resolved, is manifestState) {
	s := p.state
	s.manifest = is
	s.manifest.scope = p.applier.Settings.Allowed
	for _, d := range resolved.Objects {
		if o := s.plan.Objects.ByID[d.ID]; o != nil && o.Desired != nil && o.Desired.Key != d.Key { // another watch shows its other version
			p.reconciler.Watching.Index.Forget(p.plan.Settings.Claimant.Owner, o.Desired.Key)
		}
	}
	s.adopt(p.plan.VR.Generation, resolved.Objects, resolved.Unresolved)
	s.plan.Remarks.Unmatched = resolved.Unmatched
	if access.IsLocal(p.plan.VR.Spec.Destination.Server) {
		p.reconciler.related.namespaces.Set(p.plan.Settings.Claimant.Owner, maps.Keys(s.plan.Objects.Namespaces()))
	}
}

// save keeps the parts of the current revision for a restart, and as a revision. It reports whether they are kept.
func (p *pass) save(ctx context.Context, got desired.Parts) bool {
	revision := p.state.manifest.revision
	text, digest, err := got.Pack(p.plan.VR, p.before.Source)
	if err == nil && digest != p.state.revision.savedDigest {
		p.state.revision.savedDigest = "" // a Save that fails may have written some of it
		retain, all := p.retained()
		p.state.lane.apart(func() {
			err = p.reconciler.Secrets.Kept.Save(ctx, p.plan.VR, source.Manifest{Digest: digest, Revision: revision, Text: text}, retain, all)
		})
	}
	if err != nil {
		err = object.WithoutValues(err, ownership.Disclosure{}) // a policy may quote the Secret
		logf.FromContext(ctx).Error(err, "Cannot keep the manifest: after a restart, edits are not reverted while a source cannot be read or a revision waits, and it cannot be applied as an earlier revision. Grant Vidra get, list, create and delete on Secrets in its namespace")
		return false
	}
	p.state.revision.saved, p.state.revision.savedDigest = revision, digest
	return true
}

// recall reads the manifest that was kept into the state, if the last read one is unusable: after a restart, edits are reverted to it while a
// source is unreadable.
func (p *pass) recall(ctx context.Context) {
	s := p.state
	switch {
	case p.isUsable() || s.rollsBack(p.plan.VR):
		return
	case !source.HasArtifacts(p.plan.VR):
		p.recallApplied(ctx)
		return
	}
	var texts iter.Seq[[]byte]
	var err error
	s.lane.apart(func() { texts, err = p.reconciler.Secrets.Kept.Load(ctx, p.plan.VR, "") })
	if err == nil {
		var got desired.Parts
		if got, err = desired.Unpack(p.plan.VR, texts); err == nil && len(got.Parts) > 0 {
			if why := p.resolve(ctx, got, manifestState{recalled: true}); why != nil {
				err = errors.New(why.Message)
			} else {
				s.plan.Origin.Provenance.Sources = got.Artifacts
				p.reconciler.related.named.Note(p.plan.VR, nil, s.identities(p.plan.VR))
				s.plan.SetAccount(access.Account(p.plan.VR), p.plan.VR.Generation)
			}
		}
	}
	if err != nil {
		logf.FromContext(ctx).Error(err, "Cannot read the manifest that was kept: edits are not reverted while a source cannot be read")
	}
}

// recallApplied is recall for sources without artifacts, with the kept manifest of the same spec that has the configurations of the inventory.
func (p *pass) recallApplied(ctx context.Context) {
	s := p.state
	if len(p.plan.VR.Spec.ManifestFrom) == 0 || s.plan.Status.ObservedGeneration != p.plan.VR.Generation || len(s.plan.Objects.Inventory()) == 0 || !p.loadKept(ctx, "") {
		return
	}
	s.manifest.recalled = true
	p.reconciler.related.named.Note(p.plan.VR, nil, s.identities(p.plan.VR))
	s.plan.SetAccount(access.Account(p.plan.VR), p.plan.VR.Generation)
}

// awaitSources has the owner wait for unserved kinds of sources.
func (p *pass) awaitSources(kinds []schema.GroupKind) {
	p.state.read.awaited = nil
	for _, kind := range kinds {
		p.state.read.awaited = append(p.state.read.awaited, watchregistry.Kind{Cluster: p.reconciler.Clusters.Local.Name(), GVK: kind.WithVersion("v1")})
	}
	if len(kinds) > 0 {
		p.reconciler.Watching.Watches.Await(p.plan.Settings.Claimant.Owner, p.state.read.awaited)
	}
}

// noticesSources reports whether a change of the sources is noticed.
func (p *pass) noticesSources(got desired.Parts) bool {
	if len(got.NotServed) > 0 {
		return p.reconciler.Watching.Watches.NoticesKinds(p.reconciler.Clusters.Local.Name())
	}
	return p.watchesSources(got.Versions)
}

// returnHeals gives the loop of objects the causes that it handed over while the manifest was still to be read: of the objects that
// the manifest leaves as they are. They wait for no other object then.
func (p *pass) returnHeals(ctx context.Context) {
	p.reconciler.Watching.Trigger.RequeueCauses(p.plan.Settings.Claimant.Owner, trigger.Causes{Objects: p.plan.Causes.Objects})
	p.plan.Causes.Objects = p.reconciler.Watching.Trigger.ReturnHeals(p.plan.Settings.Claimant.Owner, func(key trigger.ObjectKey) bool {
		o := p.state.plan.Objects.At(key)
		return p.plan.Settings.Watched && p.plan.Heals(ctx, o)
	})
}

// identities returns the objects of the manifest.
func (s *ownerState) identities(vr *v1alpha1.VidraResource) []object.Identity {
	ids := make([]object.Identity, 0, len(s.plan.Objects.Manifest)+len(s.plan.Objects.Unresolved))
	for _, o := range s.plan.Objects.Manifest {
		ids = append(ids, o.ID)
	}
	for _, u := range s.plan.Objects.Unresolved {
		ids = append(ids, u.Identities(vr)...)
	}
	return ids
}

// partsOf reads the parts of the manifest of a VidraResource that exist, as its account. It needs no part of one
// for which no request is sent.
func (r *Reconciler) partsOf(ctx context.Context, vr *v1alpha1.VidraResource, absent func(source.Key) bool) ([]desired.Part, error) {
	client, _, why := r.Accounts.ClientOf(ctx, vr, r.Clusters.Local)
	if why != nil {
		return []desired.Part{desired.InlinePart(vr)}, nil
	}
	parts, _, err := desired.AvailableParts(ctx, r.Watching.sources.Kinds, client, r.Clusters.LocalScope, vr, absent) // the parts that it may not read name no object that is applied
	return parts, err
}

// holders returns the VidraResources whose manifests hold this one, and those that hold
// them. It fails for more than desired.HoldersOf allows.
func (p *pass) holders(ctx context.Context) ([]string, error) {
	lookup := owners.Lookup{Cache: p.reconciler.Clients.Client, Elsewhere: p.reconciler.Assignment.Elsewhere}
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
		if free, err = p.reconciler.bounds.heavy.Take(ctx, desired.WeightOfParts(parts)); err != nil {
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
	known := p.reconciler.revisionsOf(p.plan.VR)
	for key, version := range known {
		if was, is := read[key]; is && was != version {
			return false
		}
	}
	return len(known) == len(source.KeysOf(p.plan.VR))
}

// revisionsOf returns the revisions of the sources of a manifest, as far as they are known.
func (r *Reconciler) revisionsOf(vr *v1alpha1.VidraResource) map[source.Key]string {
	known := map[source.Key]string{}
	for _, key := range source.KeysOf(vr) {
		if revision, is := r.Watching.sources.Revision(key); is {
			known[key] = revision
		}
	}
	return known
}

// revisedSince reports whether a source of the manifest has another revision than before, or may have.
func (p *pass) revisedSince(before map[source.Key]string) bool {
	return len(before) < len(source.KeysOf(p.plan.VR)) || !maps.Equal(before, p.reconciler.revisionsOf(p.plan.VR))
}

// sourcesChanged reports whether the sources in spec.manifestFrom, with their known revisions, differ from the sources that were read
// last, and whether that is unknown for some of them.
func (s *ownerState) sourcesChanged(vr *v1alpha1.VidraResource, known map[source.Key]string) (changed, unknown bool) {
	if s.rollsBack(vr) {
		return false, false
	}
	changed = s.read.failure != nil && len(vr.Spec.ManifestFrom) > 0
	for key, version := range known {
		changed = changed || version != s.read.sources[key]
	}
	return changed, len(known) < len(source.KeysOf(vr))
}
