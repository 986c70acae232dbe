package sync

import (
	"errors"
	"maps"
	"math/rand/v2"
	gosync "sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/source/infrahub"
)

// session is the memory of the operator about an InfrahubSync between syncs. Nothing of it is needed after a restart.
type session struct {
	// uid is the UID of the InfrahubSync.
	uid  types.UID
	last lastSync
	// next is when the next sync is due.
	next time.Time
	// server is the Infrahub server that was queried last.
	server *server
	// secretsListed means that the last list of the Secrets of the InfrahubSync was empty, or that Vidra may not list them.
	secretsListed bool
	publication   publication
	// confirmed are the VidraResources whose removal was confirmed.
	confirmed map[types.UID]bool
	results   syncResults
}

// syncResults are the results of the syncs of an InfrahubSync until now. It is safe for concurrent use.
type syncResults struct {
	// mu guards the fields below.
	mu gosync.Mutex
	// written are the VidraResources that were written, by name.
	written map[string]*written
	// secrets are the versions of the Secrets that were written, by name.
	secrets map[string]string
	// unfit are the artifacts whose content is no manifest, by id. It is not read again until the server lists another one.
	unfit map[string]unfit
	// dirty means that another client changed or deleted one of the VidraResources or Secrets.
	dirty bool
}

// publication is the last publication of an InfrahubSync; zero before the operator has published.
type publication struct {
	artifact published
	// id identifies its content.
	id string
}

// lastSync is the last sync of an InfrahubSync.
type lastSync struct {
	// generation, request and confirmation are its values at the begin.
	generation            int64
	request, confirmation string
	// started is when it began.
	started time.Time
	// failures counts the failed syncs since the last successful one.
	failures int
}

// written is a VidraResource that was written.
type written struct {
	// generation after the last write.
	generation int64
	// writing means that a write is in progress, and seen is the latest generation that the watch reported meanwhile: of the
	// write, or of a later edit.
	writing bool
	seen    int64
}

// unfit is an artifact as the server listed it, and the obstacle to the apply of its content.
type unfit struct {
	artifact infrahub.Artifact
	problem  *problem
}

func newSession(uid types.UID) *session {
	return &session{results: syncResults{unfit: map[string]unfit{}, secrets: map[string]string{}, written: map[string]*written{}}, uid: uid, confirmed: map[types.UID]bool{}}
}

// session returns the session of an InfrahubSync. One that was deleted and created again has a new session.
func (r *Reconciler) session(is *v1alpha1.InfrahubSync) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions == nil {
		r.sessions = map[string]*session{}
	}
	if s := r.sessions[is.Name]; s == nil || s.uid != is.UID {
		r.sessions[is.Name] = newSession(is.UID)
	}
	return r.sessions[is.Name]
}

// sessionOf returns the session of the controller of a VidraResource; nil if that is anything but an InfrahubSync, or is still to be synced.
func (r *Reconciler) sessionOf(owner *metav1.OwnerReference) *session {
	if owner == nil || owner.Kind != v1alpha1.SyncKind {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sessions[owner.Name]; s != nil && s.uid == owner.UID {
		return s
	}
	return nil
}

// setServer records the server that a session uses, and ends the unused servers.
func (r *Reconciler) setServer(s *session, to *server) {
	r.mu.Lock()
	s.server = to
	r.mu.Unlock()
	r.servers.retain(r.used())
}

// forget ends the session of an InfrahubSync.
func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	delete(r.sessions, name)
	r.mu.Unlock()
	r.Metrics.forget(name)
	r.servers.retain(r.used())
}

// used returns the servers of all sessions.
func (r *Reconciler) used() map[*server]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := map[*server]bool{}
	for _, s := range r.sessions {
		used[s.server] = true
	}
	return used
}

// beginWrite records that a VidraResource is about to be written. endWrite follows.
func (s *syncResults) beginWrite(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written[name] == nil {
		s.written[name] = &written{}
	}
	s.written[name].writing, s.written[name].seen = true, 0
}

// endWrite records the generation of a VidraResource after a write; 0 if it failed.
func (s *syncResults) endWrite(name string, generation int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.written[name]
	if generation > 0 {
		w.generation = generation
	}
	w.writing = false
	s.dirty = s.dirty || w.seen > w.generation
}

// changed records that the watch reported a generation of a VidraResource; -1 for its deletion, or the loss of its
// controller. It reports whether the InfrahubSync has to be enqueued, because another client made the change or may have.
func (s *syncResults) changed(name string, generation int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.written[name]
	switch {
	case w != nil && w.writing && generation > 0: // the answer of the write decides
		w.seen = max(w.seen, generation)
		return true
	case w != nil && generation > 0 && generation <= w.generation:
		return false
	}
	s.dirty = true
	return true
}

// retain forgets the written VidraResources that are absent.
func (s *syncResults) retain(exists map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.written, func(name string, _ *written) bool { return !exists[name] })
}

// wroteOthers reports whether an unlisted VidraResource was written.
func (s *syncResults) wroteOthers(listed map[string]bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.written {
		if !listed[name] {
			return true
		}
	}
	return false
}

// takeDirty reports whether another client changed a VidraResource since the last call.
func (s *syncResults) takeDirty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.dirty
	s.dirty = false
	return was
}

// isDirty reports whether another client has changed a VidraResource since the last takeDirty.
func (s *syncResults) isDirty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dirty
}

// due reports whether a sync is due: by the time, by a change of the InfrahubSync, or by another client that changed
// a VidraResource.
func (s *session) due(is *v1alpha1.InfrahubSync, now time.Time) bool {
	return s.results.isDirty() || !now.Before(s.next) || s.last.generation != is.Generation || s.last.request != is.SyncRequest() ||
		s.last.confirmation != is.Annotations[v1alpha1.ConfirmRemovalAnnotation]
}

// waits returns how long a sync that is due has to wait: until minGap after the last one, and as the server in the spec asked.
func (s *session) waits(is *v1alpha1.InfrahubSync, now time.Time) time.Duration {
	wait := minGap - now.Sub(s.last.started)
	if s.server != nil && s.server.key.url == serverOf(is) && !is.Spec.Suspend {
		wait = max(wait, s.server.waits(now))
	}
	return wait
}

// wait returns the time until the next sync: the interval with a random part, or the delay of a retry.
func (s *session) wait(interval time.Duration, result result) time.Duration {
	if result.failure == nil && !result.incomplete && !result.changed {
		s.last.failures = 0
		return interval + time.Duration(rand.Int64N(int64(interval/10)+1)) //nolint:gosec // no secret
	}
	s.last.failures++
	wait := min(retryMin<<min(s.last.failures-1, 16), retryMax, interval)
	return max(wait, result.retryAfter)
}

// unfitFor returns the known obstacle to the apply of the content of an artifact, or nil.
func (s *syncResults) unfitFor(a infrahub.Artifact) *problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.unfit[a.ID]; known.artifact == a {
		return known.problem
	}
	return nil
}

// noteUnfit records the problem of the content of an artifact, if it lasts as long as the content.
func (s *syncResults) noteUnfit(a infrahub.Artifact, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, is := errors.AsType[*problem](err); is && p.Reason == v1alpha1.ArtifactInvalid && contentID(a) != "" {
		s.unfit[a.ID] = unfit{artifact: a, problem: p}
		return
	}
	delete(s.unfit, a.ID)
}

// retainUnfit forgets the unlisted artifacts.
func (s *syncResults) retainUnfit(artifacts []infrahub.Artifact) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unfit) == 0 {
		return
	}
	listed := make(map[string]bool, len(artifacts))
	for _, a := range artifacts {
		listed[a.ID] = true
	}
	maps.DeleteFunc(s.unfit, func(id string, _ unfit) bool { return !listed[id] })
}

// secretVersion returns the version of a Secret after the last write, or empty.
func (s *syncResults) secretVersion(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secrets[name]
}

// retainSecrets forgets the written Secrets that are absent.
func (s *syncResults) retainSecrets(exist map[string]*metav1.PartialObjectMetadata) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.secrets, func(name, _ string) bool { return exist[name] == nil })
}

// hasSecrets reports whether a Secret was written.
func (s *syncResults) hasSecrets() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.secrets) > 0
}

// noteSecret records the version of a Secret; empty if it is deleted.
func (s *syncResults) noteSecret(name, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version == "" {
		delete(s.secrets, name)
		return
	}
	s.secrets[name] = version
}
