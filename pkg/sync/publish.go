package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	gosync "sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/source/archive"
	"github.com/vidra-operator/vidra/pkg/source/infrahub"
)

// externalArtifact is the kind of published artifacts (Flux RFC-0012).
var externalArtifact = schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "ExternalArtifact"}

// digestPrefix begins the digests in the status of an ExternalArtifact.
const digestPrefix = "sha256:"

// fileSuffix ends the names of the files in a published archive; each begins with the id of an artifact.
const fileSuffix = ".yaml"

// Publication is the place of published archives.
type Publication struct {
	Store *archive.Store
	// URL is the URL of the server of the archives.
	URL string
}

// published is an ExternalArtifact as it was published.
type published struct {
	URL, Digest, Revision string
}

// sum is the digest without its algorithm, as the store has it.
func (p published) sum() string { return strings.TrimPrefix(p.Digest, digestPrefix) }

// digestIn returns the digest in a revision, which follows a branch with any characters; empty without one.
func digestIn(revision string) string { return revision[strings.LastIndex(revision, "@")+1:] }

// refusedPublication returns the error of artifacts that cannot be published.
func refusedPublication(reason, format string, args ...any) error {
	return &infrahub.Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// publish publishes the artifacts of a complete answer as the files of one ExternalArtifact: all of them or, while one has a problem, none. The former publication
// stays then. The error concerns all artifacts.
func (r *run) publish(ctx context.Context, artifacts []infrahub.Artifact) error {
	if inScope := r.reconciler.Options.InScope; inScope != nil {
		if err := inScope(r.is.Spec.Publish.Namespace); err != nil {
			return refusedPublication(v1alpha1.SyncReasonSpecInvalid, "spec.publish.namespace: %s", err)
		}
	}
	if r.reconciler.Publication == nil {
		return refusedPublication(v1alpha1.SyncReasonSpecInvalid,
			"spec.publish needs an operator that serves artifacts: give it the flags --infrahub-publish-bind-address and --infrahub-publish-url")
	}
	live, err := r.externalArtifact(ctx)
	if err != nil {
		return err
	}
	before := publishedIn(live)
	if before.Digest == "" { // the ExternalArtifact was deleted, or lost its status: the consumers have the objects all the same
		before.Digest = digestIn(r.is.Status.PublishedRevision)
	}
	id := r.publicationID(artifacts)
	if id != "" && id == r.session.publication.id && before != (published{}) && before == r.session.publication.artifact {
		_, err := r.reconciler.Publication.Store.Load(ctx, r.is.UID, before.sum())
		if !errors.Is(err, archive.ErrNotKept) {
			r.notePublished(artifacts, before)
			return err
		}
	}
	files, err := r.files(ctx, artifacts)
	if len(r.result.artifacts.problems) > 0 {
		r.result.removals.before = stillUnlisted(r.is.Status.PendingRemovals, artifacts)
	}
	if err != nil || len(r.result.artifacts.problems) > 0 || len(files) == 0 && before == (published{}) {
		return err
	}
	packed, err := archive.Pack(files)
	if err != nil {
		return refusedPublication(v1alpha1.SyncReasonInvalidAnswer, "the artifacts cannot be published: %s: split them into several InfrahubSyncs", err)
	}
	digest := digestPrefix + packed.Digest
	if waits, err := r.awaitsConfirmation(ctx, before, digest, files); err != nil || waits {
		return err
	}
	if err := r.unchanged(ctx); err != nil {
		return err
	}
	owner := *metav1.NewControllerRef(r.is, v1alpha1.GroupVersion.WithKind(v1alpha1.SyncKind))
	if err := r.reconciler.Publication.Store.Save(ctx, owner, packed); err != nil {
		return r.archiveError(err)
	}
	path := archive.PathOf(r.is.UID, packed.Digest)
	after := published{
		URL: strings.TrimSuffix(r.reconciler.Publication.URL, "/") + "/" + path, Digest: digest, Revision: r.is.Spec.Source.TargetBranch + "@" + digest,
	}
	r.notePublished(artifacts, after)
	if after != before {
		if err := r.writeExternalArtifact(ctx, owner, after, path, len(packed.Content)); err != nil {
			return err
		}
		r.result.published = after.Revision
		if err := r.reconciler.Publication.Store.Retain(ctx, r.is.UID, packed.Digest, before.sum()); err != nil {
			return r.archiveError(err)
		}
	}
	r.session.publication.id, r.session.publication.artifact = id, after
	return nil
}

// stillUnlisted returns the published files whose removal waits since an earlier sync; nil if the server lists the artifact of one again.
func stillUnlisted(waits *v1alpha1.PendingRemovals, artifacts []infrahub.Artifact) *v1alpha1.PendingRemovals {
	if waits != nil && slices.ContainsFunc(artifacts, func(a infrahub.Artifact) bool { return slices.Contains(waits.Names, a.ID+fileSuffix) }) {
		return nil
	}
	return waits
}

// archiveError is an error of the Secrets with the archives, without parts that may quote them.
func (r *run) archiveError(err error) error {
	return fmt.Errorf("write the Secrets with the published archive in namespace %s: %s", r.reconciler.Publication.Store.Namespace, reasonOf(err))
}

// notePublished records the artifacts in the result.
func (r *run) notePublished(artifacts []infrahub.Artifact, is published) {
	r.result.artifacts.applied, r.result.revision = len(artifacts), is.Revision
	for _, a := range artifacts {
		if a.Checksum != "" {
			r.result.artifacts.checksums = append(r.result.artifacts.checksums, a.Checksum)
		}
	}
}

// publicationID identifies the contents of all artifacts; empty if the server leaves one of them unidentified.
func (r *run) publicationID(artifacts []infrahub.Artifact) string {
	var ids []string
	for _, a := range artifacts {
		id := contentID(a)
		if id == "" || check(r.is, a) != nil {
			return ""
		}
		ids = append(ids, a.ID+" "+id)
	}
	slices.Sort(ids)
	return digest(ids...)
}

// files reads the contents of the artifacts, by the names of their files.
func (r *run) files(ctx context.Context, artifacts []infrahub.Artifact) (map[string]string, error) {
	r.session.results.retainUnfit(artifacts)
	files, mu := map[string]string{}, gosync.Mutex{}
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(downloads)
	for _, a := range artifacts {
		group.Go(func() error {
			text, err := r.file(working, a)
			mu.Lock()
			defer mu.Unlock()
			if p, is := errors.AsType[*problem](err); is {
				r.result.noteProblem(p)
				return nil
			}
			files[a.ID+fileSuffix] = text
			return err
		})
	}
	return files, group.Wait()
}

// file reads the content of an artifact. It is a problem if the content has Secrets: every client that reaches the server may read it.
func (r *run) file(ctx context.Context, a infrahub.Artifact) (string, error) {
	if p := check(r.is, a); p != nil {
		return "", p
	}
	if p := r.session.results.unfitFor(a); p != nil {
		return "", p
	}
	if err := r.reconciler.bounds.syncs.Acquire(ctx, 1); err != nil {
		return "", err
	}
	defer r.reconciler.bounds.syncs.Release(1)
	c, err := r.content(ctx, a)
	if err == nil && c.secret != "" {
		err = newProblem(a.ID, v1alpha1.ArtifactRefused, "artifact %s holds Secrets, which are not published: encrypt them, or use an InfrahubSync without spec.publish", a.ID)
	}
	r.session.results.noteUnfit(a, err)
	return c.spec, err
}

// externalArtifact reads the ExternalArtifact; nil if it is absent. One of another owner is an error.
func (r *run) externalArtifact(ctx context.Context) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(externalArtifact)
	key := types.NamespacedName{Namespace: r.is.Spec.Publish.Namespace, Name: r.is.ArtifactName()}
	err := r.reconciler.API.Get(ctx, key, u)
	switch {
	case meta.IsNoMatchError(err):
		return nil, errors.New("the API server does not serve ExternalArtifacts: install the CustomResourceDefinitions of Flux 2.7 or later")
	case isAbsent(err):
		return nil, nil //nolint:nilnil // that it does not exist is no error
	case err != nil:
		return nil, fmt.Errorf("read ExternalArtifact %s: %w", key, err)
	case !metav1.IsControlledBy(u, r.is):
		return nil, fmt.Errorf("ExternalArtifact %s exists, and is not of this InfrahubSync: delete it, or choose another spec.publish.name", key)
	}
	return u, nil
}

// publishedIn returns the publication in an ExternalArtifact, if any.
func publishedIn(u *unstructured.Unstructured) (is published) {
	if u == nil {
		return is
	}
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(u.Object, "status", "artifact", field)
		return value
	}
	return published{URL: text("url"), Digest: text("digest"), Revision: text("revision")}
}

// awaitsConfirmation reports whether a publication waits for a confirmation, because it lacks files of the former publication: its consumers would delete the objects in them.
func (r *run) awaitsConfirmation(ctx context.Context, before published, digestNow string, files map[string]string) (bool, error) {
	if before.Digest == "" || before.Digest == digestNow {
		return false, nil
	}
	var former []string
	content, err := r.reconciler.Publication.Store.Load(ctx, r.is.UID, before.sum())
	if err == nil {
		former, err = archive.Names(content)
	}
	unknown := err != nil
	if unknown && !errors.Is(err, archive.ErrNotKept) {
		return true, err
	}
	gone := slices.DeleteFunc(former, func(name string) bool { _, has := files[name]; return has })
	var why string
	switch total := len(former); {
	case unknown:
		why = "the artifact that was published before is not kept, so that it is not known which files would be gone"
	case len(gone) == 0:
		return false, nil
	case r.is.Spec.Prune.Waits():
		why = "spec.prune is " + string(r.is.Spec.Prune)
	case len(files) == 0:
		why = "the server lists no artifact any more"
	case 2*len(gone) > total:
		why = fmt.Sprintf("these are more than half of the %d files", total)
	default:
		return false, nil
	}
	slices.Sort(gone)
	pending, confirmed := pendingRemovals(r.is, gone, append(slices.Clone(gone), before.Digest, map[bool]string{true: digestNow}[unknown])...)
	if confirmed {
		return false, nil
	}
	r.result.removals.why, r.result.removals.pending = why, pending
	r.result.artifacts.applied, r.result.revision = 0, before.Revision
	return true, nil
}

// writeExternalArtifact writes the ExternalArtifact, and then its status. It fails for one that another client has created since the first read: the server may
// have taken long to answer.
func (r *run) writeExternalArtifact(ctx context.Context, owner metav1.OwnerReference, is published, path string, size int) error {
	live, err := r.externalArtifact(ctx)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"sourceRef": map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.SyncKind, "name": r.is.Name,
	}}}}
	u.SetGroupVersionKind(externalArtifact)
	u.SetNamespace(r.is.Spec.Publish.Namespace)
	u.SetName(r.is.ArtifactName())
	status := u.DeepCopy()
	unstructured.RemoveNestedField(status.Object, "spec")
	u.SetOwnerReferences([]metav1.OwnerReference{owner})
	if u.SetResourceVersion(noVersion); live != nil {
		u.SetResourceVersion(live.GetResourceVersion())
	}
	if err := r.patch(ctx, u); err != nil {
		return fmt.Errorf("write ExternalArtifact %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	now := time.Now().UTC().Format(time.RFC3339)
	status.Object["status"] = map[string]any{
		"artifact": map[string]any{
			"path": path, "url": is.URL, "digest": is.Digest, "revision": is.Revision, "size": int64(size), "lastUpdateTime": now,
		},
		"conditions": []any{map[string]any{
			"type": v1alpha1.ConditionReady, "status": string(metav1.ConditionTrue), "reason": "Succeeded", "lastTransitionTime": now,
			"observedGeneration": u.GetGeneration(), "message": "published by InfrahubSync " + r.is.Name + ": " + is.Revision,
		}},
	}
	err = r.reconciler.Client.Status().Patch(ctx, status, client.Apply, client.FieldOwner(FieldManager+"-"+v1alpha1.LabelValue(r.is.Name)), client.ForceOwnership) //nolint:staticcheck // as in patch
	if err != nil {
		return fmt.Errorf("write the status of ExternalArtifact %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return nil
}
