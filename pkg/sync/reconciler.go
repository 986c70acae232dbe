package sync

import (
	"context"
	"errors"
	"math/rand/v2"
	gosync "sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/source/infrahub"
)

const (
	// FieldManager is the field manager of the VidraResources and Secrets that are written.
	FieldManager = "vidra-infrahub"
	// minGap is the least time between two syncs of one InfrahubSync.
	minGap = time.Second
	// retryMin and retryMax bound the wait after a failed sync, which is never longer than the interval.
	retryMin, retryMax = 2 * time.Second, 5 * time.Minute
	// downloads is how many artifacts of one InfrahubSync are read and written at a time, and allDownloads of all.
	downloads, allDownloads = 8, 16
	// statusAge is how old status.lastSyncTime is at most while syncs succeed.
	statusAge = 5 * time.Minute
)

// Recorder records Events. It does not block.
type Recorder interface{ Record(all []events.Event) }

// Reconciler brings the VidraResources of InfrahubSyncs to the artifacts of their Infrahub servers. Its exported fields must
// not be changed after the first Reconcile.
type Reconciler struct {
	// Cache has the VidraResources that the operator reconciles, and Syncs the InfrahubSyncs.
	Cache, Syncs client.Reader
	// API reads without a cache, and Client writes.
	API    client.Reader
	Client client.Client
	// Installation is the installation of the operator, and Shard its shard.
	Installation v1alpha1.Installation
	Shard        v1alpha1.Shard
	// Namespace is the namespace of the operator: it has the Secrets with manifests, and its credentials take precedence.
	Namespace string
	// CredentialsNamespace is the namespace of the Secrets with credentials; empty for all.
	CredentialsNamespace string
	// LimitedNamespaces means that the operator reads manifests in some namespaces alone.
	LimitedNamespaces bool
	// FirstConfig is another ConfigMap with settings than those in Namespace; empty for none.
	FirstConfig types.NamespacedName
	// UserAgent is the header User-Agent of requests to Infrahub servers.
	UserAgent string
	Recorder  Recorder
	Metrics   *Metrics

	settings cachedSettings
	servers  servers
	slots    slots
	parsing  slots

	// mu guards sessions.
	mu       gosync.Mutex
	sessions map[string]*session
}

// session is what the operator remembers of an InfrahubSync between syncs. Nothing of it is needed after a restart.
type session struct {
	// generation, request and confirmation are those of the last sync.
	generation            int64
	request, confirmation string
	// started is when the last sync began, and next when the next one is due.
	started, next time.Time
	// failures counts the failed syncs since the last successful one.
	failures int
	// server is the Infrahub server that was queried last.
	server *server
	// secrets are the versions of the Secrets that were written or found unchanged, by name.
	secrets map[string]string
	// confirmed are the VidraResources whose removal was confirmed.
	confirmed map[types.UID]bool

	// mu guards the fields below.
	mu gosync.Mutex
	// written are the generations of the VidraResources after the last writes, by name.
	written map[string]int64
	// dirty means that another client changed or deleted one of them.
	dirty bool
}

func newSession() *session {
	return &session{secrets: map[string]string{}, confirmed: map[types.UID]bool{}, written: map[string]int64{}}
}

// session returns the session of an InfrahubSync.
func (r *Reconciler) session(name string) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions == nil {
		r.sessions = map[string]*session{}
	}
	if r.sessions[name] == nil {
		r.sessions[name] = newSession()
	}
	return r.sessions[name]
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

// noteWritten records the generation of a VidraResource after a write.
func (s *session) noteWritten(name string, generation int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[name] = generation
}

// changed records that a VidraResource has a generation. It reports whether another client made it.
func (s *session) changed(name string, generation int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, known := s.written[name]; known && was == generation {
		return false
	}
	s.dirty = true
	return true
}

// takeDirty reports whether another client changed a VidraResource since the last call.
func (s *session) takeDirty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.dirty
	s.dirty = false
	return was
}

// Reconcile syncs an InfrahubSync if that is due.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	is := &v1alpha1.InfrahubSync{}
	err := r.Syncs.Get(ctx, request.NamespacedName, is)
	if apierrors.IsNotFound(err) || err == nil && (!is.DeletionTimestamp.IsZero() || v1alpha1.Installation(is.Labels[v1alpha1.InstallationLabel]) != r.Installation) {
		r.forget(request.Name) // the garbage collector deletes the VidraResources of one that is being deleted
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	s := r.session(is.Name)
	now := time.Now()
	if !s.due(is, now) {
		return ctrl.Result{RequeueAfter: s.next.Sub(now)}, nil
	}
	if wait := s.waits(now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	s.takeDirty()
	s.generation, s.request, s.confirmation, s.started = is.Generation, is.SyncRequest(), is.Annotations[v1alpha1.ConfirmRemovalAnnotation], now
	if len(is.Status.Conditions) == 0 && !is.Spec.Suspend {
		if err := r.writeStatus(ctx, is, starting(is)); err != nil {
			return ctrl.Result{}, r.unlessEnded(ctx, s, err)
		}
	}
	result := r.sync(ctx, is, s)
	if ctx.Err() != nil { // the next leader syncs
		return ctrl.Result{}, nil //nolint:nilerr // the end of the context is no failure
	}
	status := conclude(is, result, time.Now())
	r.record(is, &status, result)
	r.Metrics.wrote(result)
	if err := r.writeStatus(ctx, is, status); err != nil {
		return ctrl.Result{}, r.unlessEnded(ctx, s, err)
	}
	r.Metrics.synced(is.Name, &status, result.failure == nil && !is.Spec.Suspend, time.Since(now))
	if is.Spec.Suspend {
		s.next = now.Add(24 * time.Hour) // a change of the spec ends it
		return ctrl.Result{}, nil
	}
	wait := s.wait(is.QueryInterval(r.settings.interval()), result)
	s.next = time.Now().Add(wait)
	return ctrl.Result{RequeueAfter: wait}, nil
}

// unlessEnded returns the error of a status that was not written, so that the sync is repeated; nil if the operator ends.
func (r *Reconciler) unlessEnded(ctx context.Context, s *session, err error) error {
	s.next = time.Time{}
	if ctx.Err() != nil || apierrors.IsNotFound(err) {
		return nil //nolint:nilerr // the end of the context is no failure
	}
	return err
}

// due reports whether a sync is due: by the time, by a change of the InfrahubSync, or by another client that changed
// a VidraResource.
func (s *session) due(is *v1alpha1.InfrahubSync, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dirty || !now.Before(s.next) || s.generation != is.Generation || s.request != is.SyncRequest() ||
		s.confirmation != is.Annotations[v1alpha1.ConfirmRemovalAnnotation]
}

// waits returns how long a sync that is due has to wait: until minGap after the last one, and as the server asked.
func (s *session) waits(now time.Time) time.Duration {
	wait := minGap - now.Sub(s.started)
	if s.server != nil {
		wait = max(wait, s.server.waits(now))
	}
	return wait
}

// wait returns the time until the next sync: the interval with a random part, or that of a retry.
func (s *session) wait(interval time.Duration, result result) time.Duration {
	if result.failure == nil && result.complete() {
		s.failures = 0
		return interval + time.Duration(rand.Int64N(int64(interval/10)+1)) //nolint:gosec // no secret
	}
	s.failures++
	wait := min(retryMin<<min(s.failures-1, 16), retryMax, interval)
	return max(wait, result.retryAfter)
}

// result is what a sync found and did.
type result struct {
	// failure is why the server was not queried, or the query or the writes failed; nil if they did not.
	failure *infrahub.Error
	// retryAfter is how long the server asks to wait.
	retryAfter time.Duration
	// artifacts is how many artifacts the answer has, and applied are the checksums of those that are applied.
	artifacts, applied int
	checksums          []string
	problems           []v1alpha1.ArtifactProblem
	pending            *v1alpha1.PendingRemovals
	pendingWhy         string
	// created, updated and deleted are the names of VidraResources that were written.
	created, updated, deleted []string
	// answered means that the answer was complete.
	answered bool
}

// complete reports whether nothing has to be tried again before the next interval: what only a user or the server can change
// is.
func (r *result) complete() bool {
	for _, p := range r.problems {
		if p.Reason == v1alpha1.ArtifactUnavailable || p.Reason == v1alpha1.ArtifactRefused {
			return false
		}
	}
	return true
}

// failed returns the result of a sync that failed with an error.
func failed(err error) result {
	e := (*infrahub.Error)(nil)
	if !errors.As(err, &e) {
		e = &infrahub.Error{Reason: v1alpha1.SyncReasonWriteFailed, Message: err.Error()}
	}
	return result{failure: e, retryAfter: e.RetryAfter}
}

// regarding is the reference of an Event to an InfrahubSync.
func regarding(is *v1alpha1.InfrahubSync) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.SyncKind, Name: is.Name, UID: is.UID}
}

// slots bound how much is done at a time.
type slots chan struct{}

// take waits for a slot. done returns it.
func (s slots) take(ctx context.Context) (done func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
