package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/source"
)

// revisionRetry is the delay of the next read of an earlier revision after an error of the API server.
const revisionRetry = 30 * time.Second

// heldAdvice ends the message about a revision that waits.
const heldAdvice = ", because spec.revision.hold is true: `vidra diff` shows its changes. Set spec.revision.hold to false to apply it"

// maxRevisionSource is how many bytes the source of a revision has in the status.
const maxRevisionSource = 256

// revisionState has the revisions of the manifest of one VidraResource.
type revisionState struct {
	// status has the applied revisions for status.revision, if any.
	status *v1alpha1.RevisionStatus
	// saved is the revision whose content this process has saved, and savedDigest is the digest of the content.
	saved, savedDigest string
	// waits reports that something of the manifest waits. waiting is the revision that was read while it had to wait.
	waits   bool
	waiting v1alpha1.WaitingRevision
	// objects are the objects of the manifest that waits, without their bodies: other VidraResources leave their objects to it.
	objects []*desired.Object
	// unread is the obstacle to the read of the manifest that waits; nil if it was read.
	unread *object.Failure
	// refused is the obstacle to spec.revision.to of a generation, if any.
	refused   *object.Failure
	refusedOf int64
}

// awaits returns why a newer manifest has to wait; else nil.
func (p *pass) awaits(ctx context.Context) *object.Failure {
	r := &p.state.revision
	again := p.plan.Scope.All && p.plan.Scope.Retry || r.refused != nil && !r.refused.Until.IsZero() && !p.plan.Now.Before(r.refused.Until)
	if r.refused != nil && (r.refusedOf != p.plan.VR.Generation || again) {
		r.refused, p.state.read.failure = nil, nil // it was the obstacle to the sources, which are read again or replaced
	}
	switch {
	case r.refused != nil:
		return r.refused
	case p.plan.VR.Holds() && p.plan.VR.RevisionTo() == 0:
		return &object.Failure{Reason: v1alpha1.ReasonRevisionHeld, Awaited: true, Message: "a new revision of the manifest waits" + heldAdvice}
	}
	var why *object.Failure
	p.state.lane.apart(func() { why = p.awaitedDependency(ctx) })
	return why
}

// gather reads the parts of the manifest: of an earlier revision if spec.revision.to names a kept one, else of the spec.
// An unreadable revision is refused: everything waits but reverts.
func (p *pass) gather(ctx context.Context) (got desired.Parts, refused, why *object.Failure) {
	if p.state.rollsBack(p.plan.VR) {
		if got, refused = p.revisionParts(ctx, p.plan.VR.RevisionTo()); refused == nil {
			return got, nil, nil
		}
	}
	from := desired.Reader{Sources: &p.reconciler.Watching.sources, Local: p.reconciler.Clusters.Local, Scope: p.reconciler.Clusters.LocalScope, Accounts: p.reconciler.Accounts}
	got, why = from.Gather(ctx, p.plan.Settings.Claimant.Owner, p.plan.VR)
	return got, refused, why
}

// revisionParts reads the content of an earlier revision. The status has its digest, which only an operator with the key can make.
func (p *pass) revisionParts(ctx context.Context, number int64) (desired.Parts, *object.Failure) {
	refused := func(until time.Time, format string, args ...any) *object.Failure {
		why := fmt.Sprintf("spec.revision.to: revision %d cannot be applied, and nothing changes: ", number) + fmt.Sprintf(format, args...)
		return &object.Failure{Reason: v1alpha1.ReasonRevisionHeld, Awaited: true, Until: until, Message: display.Truncate(why, v1alpha1.MaxProblemMessage)}
	}
	const choose = "`vidra revisions` lists those that are kept: choose one of them, or remove spec.revision.to"
	is := slices.IndexFunc(p.state.revision.kept(), func(k v1alpha1.AppliedRevision) bool { return k.Number == number })
	if is < 0 {
		return desired.Parts{}, refused(time.Time{}, "it is not kept. %s", choose)
	}
	sum, ok := p.state.plan.Keys.Open(revisionPlace(p.plan.VR), p.state.revision.kept()[is].Digest)
	if !ok {
		return desired.Parts{}, refused(time.Time{}, "its digest was sealed with a key that Vidra lacks now. %s", choose)
	}
	texts, err := p.reconciler.Secrets.Kept.Load(ctx, p.plan.VR, sum)
	if err != nil {
		return desired.Parts{}, refused(p.plan.Now.Add(revisionRetry), "%s. Vidra retries", object.WithoutValues(err, ownership.Disclosure{}))
	}
	for text := range texts {
		got, err := desired.UnpackRevision(p.plan.VR, text)
		switch {
		case errors.Is(err, desired.ErrOtherReader):
			return desired.Parts{}, refused(time.Time{}, "%v. %s", err, choose)
		case err == nil && got.Revision() == sum:
			got.Versions = p.reconciler.revisionsOf(p.plan.VR)
			return got, nil
		}
	}
	return desired.Parts{}, refused(time.Time{}, "its content is gone, or differs from its digest. %s", choose)
}

// revisionPlace is the place of the sealed digests of revisions: the digests of other VidraResources fail to open.
func revisionPlace(vr *v1alpha1.VidraResource) string { return "revision of " + string(vr.UID) }

// revisionsIn returns the applied revisions that a status has, with digests that the present key seals: the key before may be removed after the
// next status, also while a revision waits.
func revisionsIn(vr *v1alpha1.VidraResource, keys seal.Keys) *v1alpha1.RevisionStatus {
	status := vr.Status.Revision.DeepCopy()
	if status == nil {
		return nil
	}
	for i, k := range status.Kept {
		if sum, ok := keys.Open(revisionPlace(vr), k.Digest); ok {
			status.Kept[i].Digest = keys.Seal(revisionPlace(vr), sum)
		}
	}
	return status
}

// kept returns the applied revisions, the newest first.
func (r *revisionState) kept() []v1alpha1.AppliedRevision {
	return ptr.Deref(r.status, v1alpha1.RevisionStatus{}).Kept
}

// recorded returns the number of a revision in the status; 0 if it is absent.
func (p *pass) recorded(revision string) int64 {
	for _, k := range p.state.revision.kept() {
		if sum, ok := p.state.plan.Keys.Open(revisionPlace(p.plan.VR), k.Digest); ok && sum == revision {
			return k.Number
		}
	}
	return 0
}

// sourceOf returns the source of parts for users.
func (p *pass) sourceOf(got desired.Parts) string {
	if len(got.Artifacts) == 0 {
		return fmt.Sprintf("generation %d", p.plan.VR.Generation)
	}
	return display.Truncate(display.First([]string{got.Artifacts[0].String()}, 1, len(got.Artifacts)), maxRevisionSource)
}

// keepsApplied reports whether the manifest that was applied is used without a read of the newer one, which has to wait.
func (p *pass) keepsApplied() bool {
	s := p.state
	return p.hasApplied() && s.manifest.behind && p.isOfSpec() && !p.plan.Scope.Sources && (s.revision.unread == nil || !p.plan.Scope.Retry)
}

// hasApplied reports whether the state has the manifest that was applied, while a newer one has to wait.
func (p *pass) hasApplied() bool {
	return p.obstacles.Waiting != nil && !p.state.manifest.unapplied && p.state.canApply(p.applier.Settings.Allowed)
}

// noteWaiting notes the revision that was read while it has to wait.
func (p *pass) noteWaiting(got desired.Parts, revision string) {
	digest := p.state.plan.Keys.Seal(revisionPlace(p.plan.VR), revision)
	if is := &p.state.revision.waiting; is.Digest != digest || len(got.Artifacts) > 0 { // another generation may have the same manifest
		*is = v1alpha1.WaitingRevision{Digest: digest, Source: p.sourceOf(got)}
	}
}

// keepsRevision reports whether the manifest that was applied is used instead of the parts of a revision that were read, because those have to
// wait: the manifest in the state, or after a start the kept one.
func (p *pass) keepsRevision(ctx context.Context, got desired.Parts, revision string) bool {
	s := p.state
	if p.obstacles.Waiting == nil || s.manifest.isOf(revision) {
		return false
	}
	if applied := p.recorded(revision); !p.hasApplied() && applied != 0 && applied == s.revision.status.Applied {
		return false // it is the applied one
	}
	p.noteWaiting(got, revision)
	if !p.hasApplied() && (len(s.plan.Objects.Inventory()) == 0 || !p.loadKept(ctx, revision)) {
		return false
	}
	s.plan.Read.Generation, s.manifest.behind = p.plan.VR.Generation, true
	s.read.succeeded(got)
	ids := s.identities(p.plan.VR)
	if waiting, err := desired.Parse(p.plan.VR, got.Parts); err == nil {
		ids = slices.AppendSeq(ids, waiting.Identities()) // both want their objects to stay
	}
	p.reconciler.related.named.Note(p.plan.VR, got.Versions, ids)
	if resolved, err := p.resolveParts(ctx, got.Parts); err == nil {
		p.listLeft(resolved.Objects)
	}
	return true
}

// loadKept stores the kept manifest in the state if it is the applied one, and another one than that of the revision waiting, which is empty while a
// source is unreadable. It is resolved and compared with the inventory before: another manifest leaves the state as it is. If that is unknown, the new
// manifest is read, and all of it waits.
func (p *pass) loadKept(ctx context.Context, waiting string) bool {
	var texts iter.Seq[[]byte]
	var err error
	p.state.lane.apart(func() { texts, err = p.reconciler.Secrets.Kept.Cached(ctx, p.plan.VR) })
	if err != nil {
		logf.FromContext(ctx).Error(object.WithoutValues(err, ownership.Disclosure{}), "Cannot read the manifest that was kept: edits are not reverted while a source cannot be read, and those of objects that a waiting manifest changes are not")
		return false
	}
	for text := range texts {
		kept, err := desired.UnpackRevision(p.plan.VR, text)
		if err != nil {
			continue
		}
		revision := kept.Revision()
		if revision == waiting {
			continue
		}
		resolved, err := p.resolveParts(ctx, kept.Parts)
		if err != nil || !isApplied(resolved, p.state.plan.Objects.Inventory()) {
			continue
		}
		p.store(resolved, manifestState{revision: revision, source: p.sourceOf(kept)})
		p.state.plan.Origin.Provenance.Sources = kept.Artifacts
		return true
	}
	return false
}

// isApplied reports whether a manifest is the manifest of the inventory: each of its objects has the same configuration there,
// and the inventory has these alone. An object whose kind is unserved, or that is still to be applied or removed, leaves that open. An object that
// is never changed may be absent from the inventory, as one of another client, or have its first configuration there. An object that has no UID there was
// never applied: another VidraResource left it to this one.
func isApplied(resolved *desired.Resolved, inventory []*plan.Object) bool {
	if len(resolved.Unresolved) > 0 {
		return false
	}
	configurations := make(map[object.Identity]string, len(inventory))
	for _, o := range inventory {
		if o.In(v1alpha1.ObjectDeleting) {
			return false
		}
		if o.Entry.UID != "" {
			configurations[o.ID] = o.Entry.Configuration
		}
	}
	for _, d := range resolved.Objects {
		if applied := configurations[d.ID]; !d.Lifetime.Apply.Leaves() && (applied == "" || applied != d.Configuration) {
			return false
		}
		delete(configurations, d.ID)
	}
	return len(configurations) == 0
}

// saveRevision saves the content of a manifest that is about to be applied, unless it is saved.
func (p *pass) saveRevision(ctx context.Context, got desired.Parts) {
	s := p.state
	switch known := s.revision.saved == s.manifest.revision || p.recorded(s.manifest.revision) != 0; {
	case s.manifest.unapplied, p.plan.VR.RevisionTo() != 0: // the applied one stays kept
	case len(got.Artifacts) > 0, p.plan.VR.KeepsRevisions() && !known:
		p.save(ctx, got)
	}
}

// recordRevision notes the manifest in the status as a revision, once all of it is applied. The content was saved before.
func (p *pass) recordRevision(ctx context.Context) {
	s, r := p.state, &p.state.revision
	if p.obstacles.Waiting != nil || p.obstacles.Source != nil || !p.plan.Scope.All || s.manifest.behind || s.manifest.unapplied || s.manifest.revision == "" ||
		s.plan.Objects.Problems() > 0 || !p.reconciler.Secrets.Kept.On() {
		return
	}
	if !p.plan.VR.KeepsRevisions() {
		if r.status == nil {
			return
		}
		before := r.status
		if r.status = nil; !p.dropRevisions(ctx) {
			r.status = before // until its contents are deleted
		}
		return
	}
	if !p.reconciler.Secrets.DigestKeys.Lasting() { // the next process may have the key of the recorded ones
		if r.status != nil {
			r.status.Applied = p.recorded(s.manifest.revision)
		}
		return
	}
	next := cmp.Or(r.status.DeepCopy(), &v1alpha1.RevisionStatus{})
	if number := p.recorded(s.manifest.revision); number != 0 {
		next.Applied = number
	} else if p.savedLate(ctx) {
		next.Applied = 1
		if len(next.Kept) > 0 {
			next.Applied = next.Kept[0].Number + 1
		}
		next.Kept = append([]v1alpha1.AppliedRevision{{
			Number: next.Applied, Digest: s.plan.Keys.Seal(revisionPlace(p.plan.VR), s.manifest.revision), Source: s.manifest.source, Time: metav1.NewTime(p.plan.Now.Truncate(time.Second)),
		}}, next.Kept...)
	} else {
		next.Applied = 0
	}
	all, former := len(next.Kept), 0
	next.Kept = slices.DeleteFunc(next.Kept, func(k v1alpha1.AppliedRevision) bool {
		if _, ok := s.plan.Keys.Open(revisionPlace(p.plan.VR), k.Digest); !ok && next.Applied != 0 { // sealed with a key that is gone, or forged
			return true
		}
		if k.Number == next.Applied {
			return false
		}
		former++
		return former > p.plan.VR.RevisionLimit()
	})
	if all == 0 {
		return // the content could not be saved
	}
	if r.status = next; len(next.Kept) < all {
		p.dropRevisions(ctx)
	}
}

// savedLate reports whether the content of the manifest is saved. It saves the content that was first read under a hold, and found to be applied, or
// with a resync, whose save failed: each attempt reads the sources.
func (p *pass) savedLate(ctx context.Context) bool {
	s := p.state
	if s.revision.saved == s.manifest.revision {
		return true
	}
	if p.plan.VR.RevisionTo() != 0 || !p.plan.VR.Holds() && !p.plan.Scope.Resync {
		return false
	}
	var got desired.Parts
	var why *object.Failure
	p.state.lane.apart(func() { got, _, why = p.gather(ctx) })
	return why == nil && got.Revision() == s.manifest.revision && p.save(ctx, got)
}

// retained returns the revisions whose contents stay saved. all reports that it is unknown of some, so that none is deleted.
func (p *pass) retained() (revisions map[string]bool, all bool) {
	revisions = map[string]bool{}
	for _, k := range p.state.revision.kept() {
		sum, ok := p.state.plan.Keys.Open(revisionPlace(p.plan.VR), k.Digest)
		revisions[sum], all = true, all || !ok
	}
	return revisions, all
}

// dropRevisions deletes the contents of revisions that left the status, but for the last good manifest of artifacts, and reports whether they
// are deleted.
func (p *pass) dropRevisions(ctx context.Context) bool {
	retain, all := p.retained()
	if all {
		return false
	}
	current := p.state.manifest.revision
	if retain[current] = retain[current] || source.HasArtifacts(p.plan.VR); !retain[current] {
		p.state.revision.saved, p.state.revision.savedDigest = "", ""
	}
	var err error
	p.state.lane.apart(func() { err = p.reconciler.Secrets.Kept.Retain(ctx, p.plan.VR, retain) })
	if err != nil {
		logf.FromContext(ctx).Error(object.WithoutValues(err, ownership.Disclosure{}), "Cannot delete former revisions: they are deleted with the next one")
	}
	return err == nil
}

// revisionStatus returns status.revision.
func (p *pass) revisionStatus() *v1alpha1.RevisionStatus {
	r := &p.state.revision
	is := r.status.DeepCopy()
	if p.plan.VR.RevisionTo() == 0 && p.obstacles.Waiting != nil && p.obstacles.Waiting.Reason == v1alpha1.ReasonRevisionHeld && r.waiting.Digest != "" {
		is = cmp.Or(is, &v1alpha1.RevisionStatus{})
		is.Waiting = r.waiting.DeepCopy()
	} else if is != nil {
		is.Waiting = nil
	}
	return is
}

// holdBack takes from a plan the tasks that have to wait, and reports those that wait for something.
func (p *pass) holdBack(todo plan.Plan) plan.Plan {
	s := p.state
	if p.obstacles.Waiting == nil {
		if s.revision.waits && !p.plan.Scope.All { // the objects that waited are considered next
			p.reconciler.Watching.Trigger.EnqueueAll(p.plan.Settings.Claimant.Owner)
		}
		s.manifest.unapplied, s.revision.waits = false, false
		if p.plan.Scope.All && p.obstacles.Source == nil && !p.plan.VR.Spec.Suspend {
			p.plan.NoteUnchanged()
		}
		return todo
	}
	todo, waits := p.plan.HoldBack(todo, *p.obstacles.Waiting)
	waits = waits || s.manifest.behind
	p.plan.Findings.Waits = p.plan.Findings.Waits || waits
	if p.plan.Scope.All || waits {
		s.revision.waits = waits
	}
	switch held := p.obstacles.Waiting.Reason == v1alpha1.ReasonRevisionHeld && p.obstacles.Waiting != s.revision.refused; {
	case !s.revision.waits:
		p.obstacles.Waiting, s.manifest.unapplied = nil, false
	case held && s.revision.unread != nil:
		p.obstacles.Waiting.Message = display.Truncate("the new revision of the manifest cannot be read: "+s.revision.unread.Message, v1alpha1.MaxProblemMessage)
	case held && s.revision.waiting.Source != "":
		p.obstacles.Waiting.Message = "a new revision of the manifest (" + s.revision.waiting.Source + ") waits" + heldAdvice
	}
	return todo
}
