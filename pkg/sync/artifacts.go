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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/source/infrahub"
)

// deleteAttempts is how often a deletion is tried while another client changes the VidraResource.
const deleteAttempts = 3

// as is errors.As.
func as(err error, target **infrahub.Error) bool { return errors.As(err, target) }

// run is one sync.
type run struct {
	*Reconciler
	is      *v1alpha1.InfrahubSync
	session *session
	queried *server
	at      string
	// secretNamespace has the Secrets with parts of manifests, and secrets are their versions and annotations, by name.
	secretNamespace string
	secrets         map[string]*metav1.PartialObjectMetadata

	// mu guards result.
	mu     gosync.Mutex
	result result
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
	one := &run{Reconciler: r, is: is, session: s, queried: server, at: at, secretNamespace: r.secretNamespaceOf(is)}
	one.result.answered, one.result.artifacts = true, len(artifacts)
	if err := one.all(ctx, artifacts); err != nil {
		server.refused(err)
		broken := failed(err)
		one.result.failure, one.result.retryAfter = broken.failure, broken.retryAfter
	}
	slices.Sort(one.result.checksums)
	slices.SortFunc(one.result.problems, func(a, b v1alpha1.ArtifactProblem) int { return strings.Compare(a.ID, b.ID) })
	for _, names := range [][]string{one.result.created, one.result.updated, one.result.deleted} {
		slices.Sort(names)
	}
	return one.result
}

// refused has the credentials and the CA read again if the server refused them, or is not trusted, and no request sent for as
// long as it asks.
func (s *server) refused(err error) {
	var e *infrahub.Error
	if as(err, &e) && slices.Contains([]string{v1alpha1.SyncReasonUnauthorized, v1alpha1.SyncReasonForbidden, v1alpha1.SyncReasonUnreachable}, e.Reason) {
		s.expire()
	}
	s.delay(err)
}

// secretNamespaceOf returns the namespace of Secrets with manifests. It is that of the operator, unless the operator, or the account of
// the VidraResources, may read Secrets in the namespace of the destination alone.
func (r *Reconciler) secretNamespaceOf(is *v1alpha1.InfrahubSync) string {
	if (is.Spec.ServiceAccountName != "" || r.LimitedNamespaces || r.Namespace == "") && is.Spec.Destination.Namespace != "" {
		return is.Spec.Destination.Namespace
	}
	return r.Namespace
}

// all brings all VidraResources to the artifacts of a complete answer. The error is one of the server or of the API server that
// concerns all of them.
func (r *run) all(ctx context.Context, artifacts []infrahub.Artifact) error {
	controlled, err := r.controlled(ctx)
	if err != nil {
		return err
	}
	if err := r.listSecrets(ctx, controlled); err != nil {
		return err
	}
	listed := make(map[string]bool, len(artifacts))
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(downloads)
	for _, a := range artifacts {
		listed[nameOf(r.is, a.ID)] = true
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
	return r.remove(ctx, controlled, listed)
}

// controlled returns the VidraResources that the InfrahubSync controls. Those of other shards are read without their content.
func (r *run) controlled(ctx context.Context) (found []*v1alpha1.VidraResource, err error) {
	if r.Shard == "" {
		list := &v1alpha1.VidraResourceList{}
		if err := r.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list VidraResources: %w", err)
		}
		for i := range list.Items {
			if vr := &list.Items[i]; metav1.IsControlledBy(vr, r.is) {
				found = append(found, vr)
			}
		}
		return found, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind + "List"))
	if err := r.API.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list VidraResources: %w: grant list on vidraresources to the operator", err)
	}
	for i := range list.Items {
		if one := &list.Items[i]; metav1.IsControlledBy(one, r.is) {
			found = append(found, &v1alpha1.VidraResource{ObjectMeta: one.ObjectMeta})
		}
	}
	return found, nil
}

// listSecrets reads the versions of the Secrets with parts of manifests, if a VidraResource has one.
func (r *run) listSecrets(ctx context.Context, controlled []*v1alpha1.VidraResource) error {
	r.secrets = map[string]*metav1.PartialObjectMetadata{}
	used := len(r.session.secrets) > 0
	for _, vr := range controlled {
		used = used || len(vr.Spec.ManifestFrom) > 0 || strings.HasPrefix(vr.Annotations[v1alpha1.ArtifactAnnotation], inSecret)
	}
	if !used {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := r.API.List(ctx, list, client.InNamespace(r.secretNamespace), client.MatchingLabels{v1alpha1.SyncLabel: labelValue(r.is.Name)})
	if err != nil {
		return fmt.Errorf("list the Secrets with manifests in namespace %s: %w: grant list on secrets there to the operator", r.secretNamespace, err)
	}
	for i := range list.Items {
		r.secrets[list.Items[i].Name] = &list.Items[i]
	}
	return nil
}

// one brings the VidraResource of one artifact to it. It records the outcome, and returns an error that concerns all artifacts.
func (r *run) one(ctx context.Context, a infrahub.Artifact) error {
	sensitive, err := r.apply(ctx, a)
	var p *problem
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.As(err, &p):
		r.result.problems = append(r.result.problems, p.ArtifactProblem)
		return nil
	case err != nil:
		return err
	}
	r.result.applied++
	if a.Checksum != "" && !sensitive {
		r.result.checksums = append(r.result.checksums, a.Checksum)
	}
	return nil
}

// apply writes the VidraResource of an artifact, unless it is current. Its error is a problem if it concerns this artifact alone. sensitive
// reports that a part of the manifest is in a Secret.
func (r *run) apply(ctx context.Context, a infrahub.Artifact) (sensitive bool, err error) {
	if p := check(r.is, a); p != nil {
		return false, p
	}
	live, err := r.live(ctx, a.ID)
	if err != nil {
		return false, err
	}
	want, err := settings(r.is, a.ID, r.Installation)
	if err != nil {
		return false, newProblem(a.ID, v1alpha1.ArtifactRefused, "%s", err)
	}
	id := contentID(a)
	if sensitive, current := r.current(live, want, id); current {
		return sensitive, nil
	}
	done, err := r.slots.take(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	c, err := r.content(ctx, a)
	if err != nil {
		return false, err
	}
	if live != nil {
		if err := r.dropDanglingController(ctx, live); err != nil {
			return false, refused(a.ID, live.Name, err)
		}
	}
	return c.secret != "", r.write(ctx, a.ID, id, live, want, c)
}

// live returns the VidraResource of an artifact; nil if there is none. It is a problem if another controller has it, or if it
// is being deleted.
func (r *run) live(ctx context.Context, id string) (*v1alpha1.VidraResource, error) {
	vr, key := &v1alpha1.VidraResource{}, types.NamespacedName{Name: nameOf(r.is, id)}
	err := r.Cache.Get(ctx, key, vr)
	if apierrors.IsNotFound(err) && r.Shard != "" {
		err = r.API.Get(ctx, key, vr)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // that it does not exist is no error
	} else if err != nil {
		return nil, fmt.Errorf("read VidraResource %s: %w", key.Name, err)
	}
	if !vr.DeletionTimestamp.IsZero() {
		return nil, newProblem(id, v1alpha1.ArtifactConflict, "VidraResource %s is being deleted: it is created again when it is gone", vr.Name)
	}
	owner := metav1.GetControllerOf(vr)
	if owner == nil || owner.UID == r.is.UID {
		return vr, nil
	}
	dangling, err := r.dangling(ctx, owner)
	if err != nil {
		return nil, err
	}
	if !dangling {
		return nil, newProblem(id, v1alpha1.ArtifactConflict,
			"VidraResource %s belongs to %s %s: give one of the two another spec.template.nameSuffix, or delete the other one with --cascade=orphan", vr.Name, owner.Kind, owner.Name)
	}
	return vr, nil
}

// dangling reports whether a controller is an InfrahubSync that does not exist.
func (r *run) dangling(ctx context.Context, owner *metav1.OwnerReference) (bool, error) {
	if owner.Kind != v1alpha1.SyncKind || !strings.HasPrefix(owner.APIVersion, v1alpha1.GroupVersion.Group+"/") {
		return false, nil
	}
	other := &v1alpha1.InfrahubSync{}
	err := r.API.Get(ctx, types.NamespacedName{Name: owner.Name}, other)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read InfrahubSync %s: %w", owner.Name, err)
	}
	return err != nil || other.UID != owner.UID, nil //nolint:nilerr // it does not exist
}

// dropDanglingController removes a controller that does not exist from a VidraResource, as there can be one only.
func (r *run) dropDanglingController(ctx context.Context, live *v1alpha1.VidraResource) error {
	owner := metav1.GetControllerOf(live)
	if owner == nil || owner.UID == r.is.UID {
		return nil
	}
	changed := live.DeepCopy()
	changed.OwnerReferences = slices.DeleteFunc(changed.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	return r.Client.Patch(ctx, changed, patch, client.FieldOwner(FieldManager))
}

// current reports whether a VidraResource has the content of an artifact and all settings.
func (r *run) current(live *v1alpha1.VidraResource, want *unstructured.Unstructured, id string) (sensitive, current bool) {
	if live == nil || id == "" {
		return false, false
	}
	if !strings.HasPrefix(live.Annotations[v1alpha1.ArtifactAnnotation], inSecret+".") {
		return false, len(live.Spec.ManifestFrom) == 0 && isCurrent(live, want, id, "")
	}
	secret := r.secrets[secretPrefix+live.Name]
	return true, secret != nil && secret.Annotations[v1alpha1.ArtifactAnnotation] == id && r.session.secretVersion(secret.Name) == secret.ResourceVersion &&
		ownedBy(secret, live.UID) && isCurrent(live, want, inSecret, r.secretNamespace)
}

func (s *session) secretVersion(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secrets[name]
}

func (s *session) noteSecret(name, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version == "" {
		delete(s.secrets, name)
		return
	}
	s.secrets[name] = version
}

// ownedBy reports whether an object has an owner.
func ownedBy(obj metav1.Object, uid types.UID) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == uid })
}

// content reads and parses the content of an artifact.
func (r *run) content(ctx context.Context, a infrahub.Artifact) (content, error) {
	text, contentType, err := r.queried.client.Content(ctx, a, r.is.Spec.Source.TargetBranch, r.at)
	var e *infrahub.Error
	switch {
	case as(err, &e) && e.Status == 404: // it is gone meanwhile
		return content{}, newProblem(a.ID, v1alpha1.ArtifactUnavailable, "%s", e.Message)
	case as(err, &e) && e.Reason == v1alpha1.SyncReasonInvalidAnswer:
		return content{}, newProblem(a.ID, v1alpha1.ArtifactUnavailable, "%s", e.Message)
	case err != nil:
		return content{}, err
	}
	if a.ContentType = contentType; !readable(contentType) && !strings.HasPrefix(contentType, "text/plain") { // which servers send for any text
		return content{}, check(r.is, a)
	}
	done, err := r.parsing.take(ctx) // it may take much memory
	if err != nil {
		return content{}, err
	}
	defer done()
	c, p := classify(a.ID, text)
	if p != nil {
		return content{}, p
	}
	if c.secret != "" && r.secretNamespace == "" {
		return content{}, newProblem(a.ID, v1alpha1.ArtifactRefused, "artifact %s holds Secrets, and there is no namespace for them: set spec.destination.namespace", a.ID)
	}
	return c, nil
}

// write writes the VidraResource of an artifact, and the Secret with a part of its manifest.
func (r *run) write(ctx context.Context, id, contentID string, live *v1alpha1.VidraResource, want *unstructured.Unstructured, c content) error {
	secretName, namespace, visible := secretPrefix+want.GetName(), "", contentID
	if c.secret != "" {
		namespace, visible = r.secretNamespace, inSecret
		if err := r.writeSecret(ctx, id, contentID, secretName, live, c.secret); err != nil {
			return err
		}
	}
	u, err := complete(want, visible, c.spec, namespace)
	if err != nil {
		return newProblem(id, v1alpha1.ArtifactRefused, "%s", err)
	}
	if err := r.patch(ctx, u); err != nil {
		return refused(id, u.GetName(), err)
	}
	r.session.noteWritten(u.GetName(), u.GetGeneration())
	r.noteWrite(live, u)
	switch {
	case c.secret == "":
		return r.dropSecret(ctx, id, secretName)
	case live == nil || !ownedBy(r.secretOr(secretName), u.GetUID()): // its UID was not known before
		return r.writeSecret(ctx, id, contentID, secretName, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), UID: u.GetUID()}}, c.secret)
	}
	return nil
}

// secretOr returns the Secret that was listed with a name; an empty one if there was none.
func (r *run) secretOr(name string) *metav1.PartialObjectMetadata {
	if one := r.secrets[name]; one != nil {
		return one
	}
	return &metav1.PartialObjectMetadata{}
}

// noteWrite records a write in the result, if it changed the VidraResource.
func (r *run) noteWrite(live *v1alpha1.VidraResource, u *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case live == nil:
		r.result.created = append(r.result.created, u.GetName())
	case live.ResourceVersion != u.GetResourceVersion():
		r.result.updated = append(r.result.updated, u.GetName())
	}
}

// patch applies an object as FieldManager.
func (r *run) patch(ctx context.Context, u *unstructured.Unstructured) error {
	return r.Client.Patch(ctx, u, client.Apply, client.FieldOwner(FieldManager), client.ForceOwnership) //nolint:staticcheck // Client.Apply takes no unstructured object with its answer
}

// refused is the problem of an artifact that the API server refused. It has no value of the manifest.
func refused(id, name string, err error) *problem {
	return newProblem(id, v1alpha1.ArtifactRefused, "write VidraResource %s: %s", name, strings.Join(strings.Fields(err.Error()), " "))
}

// writeSecret writes the Secret with a part of a manifest. owner is the VidraResource that has it; nil if it does not exist yet.
func (r *run) writeSecret(ctx context.Context, id, contentID, name string, owner *v1alpha1.VidraResource, text string) error {
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.API.Get(ctx, types.NamespacedName{Namespace: r.secretNamespace, Name: name}, there)
	if err == nil && there.Labels[v1alpha1.SyncLabel] != labelValue(r.is.Name) {
		return newProblem(id, v1alpha1.ArtifactConflict, "Secret %s/%s exists, and is not of this InfrahubSync: delete or rename it", r.secretNamespace, name)
	} else if err != nil && !apierrors.IsNotFound(err) {
		return newProblem(id, v1alpha1.ArtifactRefused, "read Secret %s/%s: %s", r.secretNamespace, name, err)
	}
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.secretNamespace, Name: name, Labels: map[string]string{v1alpha1.SyncLabel: labelValue(r.is.Name)},
			Annotations: map[string]string{v1alpha1.ArtifactAnnotation: contentID},
		},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{manifestKey: []byte(text)},
	}
	if owner != nil {
		secret.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: ptr.To(false),
		}}
	}
	u := &unstructured.Unstructured{}
	if u.Object, err = toApply(secret); err != nil {
		return newProblem(id, v1alpha1.ArtifactRefused, "Secret %s/%s cannot be written", r.secretNamespace, name)
	}
	if err := r.patch(ctx, u); err != nil {
		return newProblem(id, v1alpha1.ArtifactRefused, "write Secret %s/%s: %s", r.secretNamespace, name, reasonOf(err))
	}
	r.session.noteSecret(name, u.GetResourceVersion())
	return nil
}

// dropSecret deletes the Secret of an artifact that holds no Secrets any more.
func (r *run) dropSecret(ctx context.Context, id, name string) error {
	there := r.secrets[name]
	if there == nil {
		return nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: there.Namespace, Name: name}}
	err := r.Client.Delete(ctx, secret, client.Preconditions{UID: &there.UID, ResourceVersion: &there.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) {
		return newProblem(id, v1alpha1.ArtifactRefused, "delete Secret %s/%s: %s", there.Namespace, name, err)
	}
	r.session.noteSecret(name, "")
	return nil
}

// remove deletes the VidraResources whose artifacts are gone, as far as that is permitted.
func (r *run) remove(ctx context.Context, controlled []*v1alpha1.VidraResource, listed map[string]bool) error {
	plan := planRemovals(r.is, controlled, listed, len(r.result.problems), r.session.confirmed)
	r.result.pending, r.result.pendingWhy = plan.pending, plan.why
	r.session.confirmed = plan.confirmed
	var faults []error
	for _, vr := range plan.now {
		deleted, err := r.delete(ctx, vr)
		if err != nil {
			faults = append(faults, fmt.Errorf("delete VidraResource %s: %w", vr.Name, err))
		} else if deleted {
			r.result.deleted = append(r.result.deleted, vr.Name)
			r.session.noteSecret(secretPrefix+vr.Name, "")
		}
	}
	return errors.Join(faults...)
}

// delete deletes a VidraResource that this InfrahubSync controls.
func (r *run) delete(ctx context.Context, vr *v1alpha1.VidraResource) (bool, error) {
	key := client.ObjectKeyFromObject(vr)
	for attempt := 1; ; attempt++ {
		err := r.Client.Delete(ctx, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: vr.Name}}, client.Preconditions{UID: &vr.UID, ResourceVersion: &vr.ResourceVersion})
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case !apierrors.IsConflict(err) || attempt == deleteAttempts:
			return err == nil, err
		}
		now := &v1alpha1.VidraResource{}
		if err := r.API.Get(ctx, key, now); apierrors.IsNotFound(err) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		if now.UID != vr.UID || !metav1.IsControlledBy(now, r.is) {
			return false, nil // it is not ours any more
		}
		vr = now
	}
}
