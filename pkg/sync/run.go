package sync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	gosync "sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/source/infrahub"
)

// run is one sync.
type run struct {
	reconciler *Reconciler
	is         *v1alpha1.InfrahubSync
	session    *session
	queried    *server
	at         string
	// secretNamespace has the Secrets with parts of manifests, and secrets are their versions and annotations, by name.
	secretNamespace string
	secrets         map[string]*metav1.PartialObjectMetadata

	// mu guards result and faults, the number of artifacts whose content the server failed to send.
	mu     gosync.Mutex
	result result
	faults int

	// asked is the last question whether the InfrahubSync is as the sync began with it.
	asked question
}

// question is a question to the API server, and its answer.
type question struct {
	mu     gosync.Mutex
	at     time.Time
	answer error
}

// unchangedFor is how long an answer of unchanged counts.
const unchangedFor = time.Second

// errChanged is the error of a sync whose InfrahubSync has changed since.
var errChanged = errors.New("the InfrahubSync was changed or deleted since the sync began")

// unchanged fails unless the API server has the InfrahubSync as the sync began with it. It precedes each write: a deletion may follow from a spec that a
// user has taken back, and the garbage collector deletes a VidraResource that refers to an InfrahubSync that is gone.
func (r *run) unchanged(ctx context.Context) error {
	r.asked.mu.Lock()
	defer r.asked.mu.Unlock()
	if now := time.Now(); r.asked.at.IsZero() || now.Sub(r.asked.at) > unchangedFor {
		r.asked.answer, r.asked.at = r.compare(ctx), now
	}
	return r.asked.answer
}

// compare compares the InfrahubSync with its state at the API server.
func (r *run) compare(ctx context.Context) error {
	now := &v1alpha1.InfrahubSync{}
	switch err := r.reconciler.API.Get(ctx, client.ObjectKeyFromObject(r.is), now); {
	case apierrors.IsNotFound(err):
		return errChanged
	case err != nil:
		return fmt.Errorf("read InfrahubSync %s: %w", r.is.Name, err)
	case now.UID != r.is.UID, now.Generation != r.is.Generation, older(now, r.is), !now.DeletionTimestamp.IsZero(), !maps.Equal(now.Labels, r.is.Labels),
		confirmationOf(now) != confirmationOf(r.is):
		return errChanged
	}
	return nil
}

// older reports whether an InfrahubSync has a lower version than before: etcd was restored from a backup, and its generation may have another spec.
func older(now, before *v1alpha1.InfrahubSync) bool {
	order, err := resourceversion.CompareResourceVersion(now.ResourceVersion, before.ResourceVersion)
	return err == nil && order < 0
}

// sync queries the server, writes the VidraResources and deletes those whose artifacts are gone.
func (r *Reconciler) sync(ctx context.Context, is *v1alpha1.InfrahubSync, s *session) result {
	if is.Spec.Suspend {
		return result{}
	}
	at, err := infrahub.At(is.Spec.Source.TargetDate, time.Now())
	if err != nil {
		return failed(&infrahub.Error{Reason: v1alpha1.SyncReasonSpecInvalid, Message: err.Error()})
	}
	query, err := r.query(ctx)
	if err != nil {
		return failed(err)
	}
	server, err := r.server(ctx, is, s)
	if err != nil {
		return failed(err)
	}
	branch := is.Spec.Source.TargetBranch
	artifacts, err := server.client.Artifacts(ctx, infrahub.Query{Name: query, ArtifactName: is.Spec.Source.ArtifactName, Branch: branch, At: at})
	if err != nil {
		server.refused(err)
		return failed(err)
	}
	one := &run{reconciler: r, is: is, session: s, queried: server, at: at, secretNamespace: r.secretNamespaceOf(is)}
	one.result.answered, one.result.artifacts.listed = true, len(artifacts)
	do := one.all
	if is.Spec.Publish != nil {
		do = one.publish
	}
	switch err := do(ctx, artifacts); {
	case errors.Is(err, errChanged):
		one.result.changed = true
	case err != nil:
		server.refused(err)
		broken := failed(err)
		one.result.failure, one.result.retryAfter = broken.failure, broken.retryAfter
	}
	slices.Sort(one.result.artifacts.checksums)
	slices.SortFunc(one.result.artifacts.problems, func(a, b v1alpha1.ArtifactProblem) int { return strings.Compare(a.ID, b.ID) })
	for _, names := range [][]string{one.result.written.created, one.result.written.updated, one.result.written.deleted} {
		slices.Sort(names)
	}
	return one.result
}

// refused has the credentials and the CA read again if the server refused them, or is untrusted, and no request sent for as
// long as it asks.
func (s *server) refused(err error) {
	if e, is := errors.AsType[*infrahub.Error](err); is && slices.Contains([]string{v1alpha1.SyncReasonUnauthorized, v1alpha1.SyncReasonForbidden, v1alpha1.SyncReasonUnreachable}, e.Reason) {
		s.expire()
	}
	s.delay(err)
}

// all brings all VidraResources to the artifacts of a complete answer. The error is one of the server or of the API server that
// concerns all of them.
func (r *run) all(ctx context.Context, artifacts []infrahub.Artifact) error {
	listed := make(map[string]bool, len(artifacts))
	for _, a := range artifacts {
		listed[nameOf(r.is, a.ID)] = true
	}
	r.session.results.retainUnfit(artifacts)
	controlled, err := r.controlled(ctx, listed)
	if err != nil {
		return err
	}
	if err := r.listSecrets(ctx, controlled); err != nil {
		return err
	}
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(downloads)
	for _, a := range artifacts {
		group.Go(func() error {
			if working.Err() != nil {
				return working.Err()
			}
			return r.one(working, a)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return errors.Join(r.remove(ctx, controlled, listed), r.dropOrphans(ctx, controlled, listed))
}

// one brings the VidraResource of one artifact to it. It records the outcome, and returns an error that concerns all artifacts.
func (r *run) one(ctx context.Context, a infrahub.Artifact) error {
	sensitive, err := r.apply(ctx, a)
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, is := errors.AsType[*problem](err); is {
		r.result.noteProblem(p)
		return nil
	} else if err != nil {
		return err
	}
	r.result.artifacts.applied++
	if a.Checksum != "" && !sensitive {
		r.result.artifacts.checksums = append(r.result.artifacts.checksums, a.Checksum)
	}
	return nil
}
