package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/source/infrahub"
)

// apply writes the VidraResource of an artifact, unless it is current. Its error is a problem if it concerns this artifact alone. sensitive
// reports that a part of the manifest is in a Secret.
func (r *run) apply(ctx context.Context, a infrahub.Artifact) (sensitive bool, err error) {
	if p := check(r.is, a); p != nil {
		return false, p
	}
	live, err := r.live(ctx, r.reconciler.Client, a.ID)
	if err != nil {
		return false, err
	}
	want, err := settings(r.is, a.ID, r.reconciler.Options.Installation)
	if err != nil {
		return false, newProblem(a.ID, v1alpha1.ArtifactRefused, "%s", err)
	}
	id := contentID(a)
	if sensitive, current := r.current(live, want, id); current {
		return sensitive, nil
	}
	if p := r.session.results.unfitFor(a); p != nil {
		return false, p
	}
	if err := r.reconciler.bounds.syncs.Acquire(ctx, 1); err != nil {
		return false, err
	}
	defer r.reconciler.bounds.syncs.Release(1)
	c, err := r.content(ctx, a)
	r.session.results.noteUnfit(a, err)
	if err != nil {
		return false, err
	}
	if err := r.unchanged(ctx); err != nil {
		return false, err
	}
	if c.secret != "" { // its Secret is written first, and the server may have taken long to answer
		if live, err = r.live(ctx, r.reconciler.API, a.ID); err != nil {
			return false, err
		}
	}
	if live != nil {
		if err := r.dropDanglingController(ctx, live); err != nil {
			return false, asProblem(a.ID, live.Name, live.Spec.Manifest, err)
		}
	}
	return c.secret != "", r.write(ctx, a.ID, id, live, want, c)
}

// live returns the VidraResource of an artifact as from has it, or nil. It is a problem if another controller has it, if it is to be adopted and has
// another account, or if it is being deleted.
func (r *run) live(ctx context.Context, from client.Reader, id string) (*v1alpha1.VidraResource, error) {
	vr, key := &v1alpha1.VidraResource{}, types.NamespacedName{Name: nameOf(r.is, id)}
	err := from.Get(ctx, key, vr)
	if isAbsent(err) && r.reconciler.Options.Shard != "" && from == r.reconciler.Client {
		err = r.reconciler.API.Get(ctx, key, vr)
	}
	if isAbsent(err) {
		return nil, nil //nolint:nilnil // that it does not exist is no error
	} else if err != nil {
		return nil, fmt.Errorf("read VidraResource %s: %w", key.Name, err)
	}
	if !vr.DeletionTimestamp.IsZero() {
		p := newProblem(id, v1alpha1.ArtifactConflict, "VidraResource %s is being deleted: it is created again when it is gone", vr.Name)
		p.transient = true
		return nil, p
	}
	owner := metav1.GetControllerOf(vr)
	if owner != nil && owner.UID == r.is.UID {
		return vr, nil
	}
	if owner != nil {
		dangling, err := r.dangling(ctx, owner)
		if err != nil {
			return nil, err
		}
		if !dangling {
			return nil, newProblem(id, v1alpha1.ArtifactConflict,
				"VidraResource %s belongs to %s %s: give one of the two another spec.template.nameSuffix, or delete the other one with --cascade=orphan", vr.Name, owner.Kind, owner.Name)
		}
	}
	if other := vr.Labels[v1alpha1.InstallationLabel]; v1alpha1.Installation(other) != r.reconciler.Options.Installation {
		return nil, newProblem(id, v1alpha1.ArtifactConflict,
			"VidraResource %s is of another installation of Vidra (its label %s is %q): set spec.template.nameSuffix, or change the label", vr.Name, v1alpha1.InstallationLabel, other)
	}
	if account, in := vr.Spec.ServiceAccountName, vr.Spec.Destination.Namespace; account != "" && (account != r.is.Spec.ServiceAccountName || in != r.is.Spec.Destination.Namespace) {
		return nil, newProblem(id, v1alpha1.ArtifactConflict, // the author of the InfrahubSync may lack the right to act as that account
			"VidraResource %s exists, and has the ServiceAccount %s/%s, which is not that of this InfrahubSync: set spec.template.nameSuffix, or give both the same account", vr.Name, in, account)
	}
	return vr, nil
}

// dangling reports whether a controller is an InfrahubSync that is absent.
func (r *run) dangling(ctx context.Context, owner *metav1.OwnerReference) (bool, error) {
	if owner.Kind != v1alpha1.SyncKind || !strings.HasPrefix(owner.APIVersion, v1alpha1.GroupVersion.Group+"/") {
		return false, nil
	}
	other := &v1alpha1.InfrahubSync{}
	err := r.reconciler.API.Get(ctx, types.NamespacedName{Name: owner.Name}, other)
	if err != nil && !isAbsent(err) {
		return false, fmt.Errorf("read InfrahubSync %s: %w", owner.Name, err)
	}
	return err != nil || other.UID != owner.UID, nil //nolint:nilerr // it does not exist
}

// isAbsent reports whether an error says that an object is absent. A text, for example of a proxy, is no answer of the API server.
func isAbsent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

// dropDanglingController removes a controller that is absent from a VidraResource, as there can be one only.
func (r *run) dropDanglingController(ctx context.Context, live *v1alpha1.VidraResource) error {
	owner := metav1.GetControllerOf(live)
	if owner == nil || owner.UID == r.is.UID {
		return nil
	}
	changed := live.DeepCopy()
	changed.OwnerReferences = slices.DeleteFunc(changed.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	return r.reconciler.Client.Patch(ctx, changed, patch, client.FieldOwner(FieldManager))
}

// current reports whether a VidraResource has the content of an artifact and all settings, and no Secret that it needs no more: the deletion of one may have
// failed.
func (r *run) current(live *v1alpha1.VidraResource, want *unstructured.Unstructured, id string) (sensitive, current bool) {
	if live == nil || id == "" {
		return false, false
	}
	secret := r.secrets[secretPrefix+live.Name]
	if !strings.HasPrefix(live.Annotations[v1alpha1.ArtifactAnnotation], inSecret+".") {
		return false, secret == nil && len(live.Spec.ManifestFrom) == 0 && isCurrent(live, want, id, "")
	}
	return true, secret != nil && secret.Annotations[v1alpha1.ArtifactAnnotation] == id && r.session.results.secretVersion(secret.Name) == secret.ResourceVersion &&
		ownedBy(secret, live.UID) && isCurrent(live, want, inSecret, r.secretNamespace)
}

// content reads and parses the content of an artifact.
func (r *run) content(ctx context.Context, a infrahub.Artifact) (content, error) {
	text, contentType, err := r.queried.client.Content(ctx, a, r.is.Spec.Source.TargetBranch, r.at)
	e, is := errors.AsType[*infrahub.Error](err)
	switch {
	case is && e.TooLarge:
		return content{}, newProblem(a.ID, v1alpha1.ArtifactInvalid, "%s: split it into several artifacts", e.Message)
	case is && (e.Status == 404 || e.Reason == v1alpha1.SyncReasonInvalidAnswer): // with 404, it is gone meanwhile
		return content{}, newProblem(a.ID, v1alpha1.ArtifactUnavailable, "%s", e.Message)
	case is && r.isOfArtifact(ctx, e):
		return content{}, newProblem(a.ID, v1alpha1.ArtifactUnavailable, "%s", e.Message)
	case err != nil:
		return content{}, err
	}
	if a.ContentType = contentType; !readable(contentType) && !strings.HasPrefix(contentType, "text/plain") { // which servers send for any text
		return content{}, check(r.is, a)
	}
	if err := r.reconciler.bounds.parsing.Acquire(ctx, 1); err != nil { // it may take much memory
		return content{}, err
	}
	defer r.reconciler.bounds.parsing.Release(1)
	c, p := classify(a.ID, text)
	if p != nil {
		return content{}, p
	}
	if c.secret != "" && r.secretNamespace == "" {
		return content{}, newProblem(a.ID, v1alpha1.ArtifactRefused, "artifact %s holds Secrets, and there is no namespace for them: set spec.destination.namespace", a.ID)
	}
	return c, nil
}

// isOfArtifact reports whether a fault of the server is one of the artifact whose content is read: the server answers 5xx, or not, for a few artifacts, and
// has answered the query. Others are applied then.
func (r *run) isOfArtifact(ctx context.Context, fault *infrahub.Error) bool {
	if ctx.Err() != nil || fault.RetryAfter > 0 || fault.Reason != v1alpha1.SyncReasonServerError && fault.Reason != v1alpha1.SyncReasonUnreachable {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults++
	return r.faults <= maxFaults
}

// write writes the VidraResource of an artifact, and the Secret with a part of its manifest.
func (r *run) write(ctx context.Context, id, contentID string, live *v1alpha1.VidraResource, want *unstructured.Unstructured, c content) error {
	secretName, namespace, visible := secretPrefix+want.GetName(), "", contentID
	if c.secret != "" {
		namespace, visible = r.secretNamespace, inSecret
		owner := ownerOf(r.is, v1alpha1.SyncKind) // until the VidraResource exists
		if live != nil {
			owner = ownerOf(live, v1alpha1.Kind)
		}
		if err := r.writeSecret(ctx, id, contentID, secretName, owner, c.secret); err != nil {
			return err
		}
	}
	u, err := complete(want, visible, c.spec, namespace)
	if err != nil {
		return newProblem(id, v1alpha1.ArtifactRefused, "%s", err)
	}
	if err := r.writeResource(ctx, id, live, u); err != nil {
		return err
	}
	r.noteWrite(live, u)
	if err := r.dropFormerSecrets(ctx, id, live, secretName, namespace); err != nil {
		return err
	}
	if c.secret != "" && live == nil { // its UID was not known before
		return r.writeSecret(ctx, id, contentID, secretName, ownerOf(u, v1alpha1.Kind), c.secret)
	}
	return nil
}

// writeAttempts is how often the write of a VidraResource is tried while another client changes it.
const writeAttempts = 3

// writeResource applies a VidraResource in the state that was read. It is a problem if another controller has it meanwhile, or if it has another account:
// the API server accepts one controller, and each InfrahubSync is a field manager of its own, so that none removes the reference to another one.
func (r *run) writeResource(ctx context.Context, id string, live *v1alpha1.VidraResource, u *unstructured.Unstructured) error {
	name := u.GetName()
	text, _, _ := unstructured.NestedString(u.Object, "spec", "manifest")
	if live != nil { // a policy may quote the former manifest, too
		text += "\n" + live.Spec.Manifest
	}
	r.session.results.beginWrite(name)
	u.SetResourceVersion(versionOf(live))
	err := r.patch(ctx, u)
	for attempt := 1; apierrors.IsConflict(err) && attempt < writeAttempts; attempt++ {
		now, other := r.live(ctx, r.reconciler.API, id)
		if other != nil {
			err = other
			break
		}
		u.SetResourceVersion(versionOf(now))
		err = r.patch(ctx, u)
	}
	if err != nil {
		r.session.results.endWrite(name, 0)
	} else {
		r.session.results.endWrite(name, u.GetGeneration())
	}
	if errors.As(err, new(*problem)) {
		return err
	}
	if !apierrors.IsInvalid(err) {
		return asProblem(id, name, text, err)
	}
	if _, other := r.live(ctx, r.reconciler.API, id); other != nil {
		return other
	}
	return asProblem(id, name, text, err)
}

// noVersion is a resourceVersion that is unused: an apply with it creates an object, and is refused with a conflict if there is one.
const noVersion = "1"

// versionOf returns the resourceVersion for the write of a VidraResource in the state that was read; nil was absent.
func versionOf(live *v1alpha1.VidraResource) string {
	if live == nil {
		return noVersion
	}
	return live.ResourceVersion
}

// ownerOf is the reference to an owner. It does not block the deletion of the owner.
func ownerOf(owner metav1.Object, kind string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: ptr.To(false)}
}

// noteWrite records a write in the result, if it changed the VidraResource.
func (r *run) noteWrite(live *v1alpha1.VidraResource, u *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case live == nil:
		r.result.written.created = append(r.result.written.created, u.GetName())
	case live.ResourceVersion != u.GetResourceVersion():
		r.result.written.updated = append(r.result.written.updated, u.GetName())
	}
}

// patch applies an object as the field manager of the InfrahubSync.
func (r *run) patch(ctx context.Context, u *unstructured.Unstructured) error {
	manager := client.FieldOwner(FieldManager + "-" + v1alpha1.LabelValue(r.is.Name))
	return r.reconciler.Client.Patch(ctx, u, client.Apply, manager, client.ForceOwnership) //nolint:staticcheck // Client.Apply takes no unstructured object with its answer
}

// asProblem returns the problem of an artifact that the API server refused, without a value of the manifest that is withheld; nil
// without an error.
func asProblem(id, name, manifest string, err error) error {
	if err == nil {
		return nil
	}
	return newProblem(id, v1alpha1.ArtifactRefused, "write VidraResource %s: %s", name, textOf(err, ownership.Disclose(false, false, ownership.SensitivityOfManifest(manifest))))
}
