package sync

import (
	"context"
	"errors"
	gosync "sync"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/source/infrahub"
)

const (
	// FieldManager is the field manager of the VidraResources and Secrets that are written.
	FieldManager = "vidra-infrahub"
	// minGap is the least time between two syncs of one InfrahubSync.
	minGap = time.Second
	// retryMin and retryMax bound the wait after a failed sync, which is at most the interval.
	retryMin, retryMax = 2 * time.Second, 5 * time.Minute
	// downloads is how many artifacts of one InfrahubSync are read and written at a time, and allDownloads of all.
	downloads, allDownloads = 8, 16
	// maxFaults is for how many artifacts of one InfrahubSync the server may fail to send the content. Beyond, the server fails, and the sync ends.
	maxFaults = downloads
	// statusAge is how old status.lastSyncTime is at most while syncs succeed.
	statusAge = 5 * time.Minute
)

// Recorder records Events. It returns at once.
type Recorder interface{ Record(all []events.Event) }

// Reconciler brings the VidraResources of InfrahubSyncs to the artifacts of their Infrahub servers. Its exported fields must
// stay the same after the first Reconcile.
type Reconciler struct {
	// Syncs has the InfrahubSyncs, and API reads without a cache.
	Syncs, API client.Reader
	// Client writes, and reads the VidraResources that the operator reconciles from a cache.
	Client   client.Client
	Options  Options
	Recorder Recorder
	Metrics  *Metrics
	// Publication is the place of the archives of InfrahubSyncs with spec.publish. Optional: without it, none is published.
	Publication *Publication

	settings cachedSettings
	servers  servers
	bounds   bounds

	// mu guards sessions.
	mu       gosync.Mutex
	sessions map[string]*session
}

// Options are the settings of the operator for all InfrahubSyncs.
type Options struct {
	// Installation is the installation of the operator, and Shard its shard.
	Installation v1alpha1.Installation
	Shard        v1alpha1.Shard
	// Namespace is the namespace of the operator: it has the Secrets with manifests, and its credentials take precedence.
	Namespace string
	// CredentialsNamespace is the namespace of the Secrets with credentials; empty for all.
	CredentialsNamespace string
	// LimitedNamespaces means that the operator reads manifests in some namespaces alone.
	LimitedNamespaces bool
	// InScope refuses a namespace that the operator is not for. Optional: without it, it is for all.
	InScope func(namespace string) error
	// FirstConfig is another ConfigMap with settings than those in Namespace; optional.
	FirstConfig types.NamespacedName
	// UserAgent is the header User-Agent of requests to Infrahub servers.
	UserAgent string
}

// bounds bound the syncs at a time, and the manifests that are parsed at a time.
type bounds struct{ syncs, parsing *semaphore.Weighted }

// Reconcile syncs an InfrahubSync if that is due.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	is := &v1alpha1.InfrahubSync{}
	err := r.Syncs.Get(ctx, request.NamespacedName, is)
	if apierrors.IsNotFound(err) || err == nil && (!is.DeletionTimestamp.IsZero() || v1alpha1.Installation(is.Labels[v1alpha1.InstallationLabel]) != r.Options.Installation) {
		r.forget(request.Name) // the garbage collector deletes the VidraResources of one that is being deleted
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	s := r.session(is)
	now := time.Now()
	if !s.due(is, now) {
		return ctrl.Result{RequeueAfter: s.next.Sub(now)}, nil
	}
	if wait := s.waits(is, now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	s.results.takeDirty()
	s.last.generation, s.last.request, s.last.confirmation, s.last.started = is.Generation, is.SyncRequest(), is.Annotations[v1alpha1.ConfirmRemovalAnnotation], now
	if len(is.Status.Conditions) == 0 && !is.Spec.Suspend {
		if err := r.writeStatus(ctx, is, starting(is)); err != nil {
			return ctrl.Result{}, r.unlessEnded(ctx, s, err)
		}
	}
	result := r.sync(ctx, is, s)
	if ctx.Err() != nil { // the next leader syncs
		return ctrl.Result{}, nil //nolint:nilerr // the end of the context is no failure
	}
	if result.changed {
		r.record(is, &is.Status, result)
		r.Metrics.wrote(result)
		wait := s.wait(is.QueryInterval(r.settings.interval()), result)
		s.next = time.Now().Add(wait) // the event of the change ends it
		return ctrl.Result{RequeueAfter: wait}, nil
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

// unlessEnded returns the error of an unwritten status, so that the sync is repeated; nil if the operator ends.
func (r *Reconciler) unlessEnded(ctx context.Context, s *session, err error) error {
	s.next = time.Time{}
	if ctx.Err() != nil || apierrors.IsNotFound(err) {
		return nil //nolint:nilerr // the end of the context is no failure
	}
	return err
}

// result are the findings and writes of a sync.
type result struct {
	// failure is the obstacle to the query or the failure of the query or of the writes, or nil.
	failure *infrahub.Error
	// retryAfter is how long the server asks to wait.
	retryAfter time.Duration
	artifacts  artifactResults
	removals   removalResults
	written    writtenNames
	// revision is the published revision, and published the revision of this sync; empty without one.
	revision, published string
	// answered means that the answer was complete.
	answered bool
	// changed means that the InfrahubSync has changed since the sync began, which ended it.
	changed bool
	// incomplete means that an artifact is tried again before the next interval: its problem may end without a change in Infrahub.
	incomplete bool
}

// artifactResults are the results of the artifacts of an answer: their number, the number of those that are applied, and the checksums of these.
type artifactResults struct {
	listed, applied int
	checksums       []string
	problems        []v1alpha1.ArtifactProblem
}

// removalResults are the removals that wait, with the reason. before are those of published files that wait since an earlier sync: nothing is published while
// an artifact has a problem.
type removalResults struct {
	pending, before *v1alpha1.PendingRemovals
	why             string
}

// writtenNames are the names of VidraResources that were written.
type writtenNames struct{ created, updated, deleted []string }

// noteProblem records an artifact that is not applied.
func (r *result) noteProblem(p *problem) {
	r.artifacts.problems = append(r.artifacts.problems, p.ArtifactProblem)
	r.incomplete = r.incomplete || p.transient
}

// failed returns the result of a sync that failed with an error.
func failed(err error) result {
	e, is := errors.AsType[*infrahub.Error](err)
	if !is {
		e = &infrahub.Error{Reason: v1alpha1.SyncReasonWriteFailed, Message: display.ErrorText(err.Error())}
	}
	return result{failure: e, retryAfter: e.RetryAfter}
}
