package reconcile

import (
	"context"
	"errors"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// read makes the state hold what the manifest wants, if it does not. It
// returns why only the author can help.
func (p *pass) read(ctx context.Context) *failure {
	s := p.state
	if s.generation == p.vr.Generation && !p.scope.sources && !s.dropped && (s.stalled != nil || !p.scope.all || len(s.unresolved) == 0 && !s.reread) {
		return s.stalled
	}
	p.unread = true
	if s.unread != nil && s.generation == p.vr.Generation && !p.scope.retry {
		return s.unread
	}
	from := reader{sources: &p.sources, metadata: p.Metadata, local: p.Local, accounts: p.accounts()}
	got, why := from.gather(ctx, p.owner, p.vr)
	s.unreadable = got.unreadable
	if why != nil {
		s.unread = why
		return why
	}
	old := make([]*desired, 0, len(s.manifest))
	for _, o := range s.manifest {
		old = append(old, o.desired)
	}
	defer func() {
		if isLocal(p.vr.Spec.Destination.Server) {
			p.namespaces.set(p.owner, s.manifest)
		}
	}()
	held, err := p.holders(ctx)
	if err == nil {
		err = p.readParts(ctx, held, got.parts)
	}
	if err != nil {
		reason := v1alpha1.ReasonManifestInvalid
		if errors.Is(err, errEmpty) {
			reason = v1alpha1.ReasonManifestEmpty
		}
		s.unread = &failure{reason, display.Truncate(err.Error(), maxMessage)}
		return s.unread
	}
	p.unread, s.unread, s.sources = false, nil, got.versions
	for _, o := range s.manifest {
		if d, policy := o.desired, p.applier.additions.configuration(); policy != "" {
			d.configuration = identify([]byte(d.configuration), []byte(policy))
		}
	}
	if why := tooLarge(p.vr, &s.vrState); why != nil {
		return why
	}
	for _, was := range old {
		// The same object in another version is another watch's.
		if is := s.objects[was.id]; is != nil && is.desired != nil && is.desired.key != was.key {
			p.Index.Forget(p.owner, was.key)
		}
	}
	return nil
}
