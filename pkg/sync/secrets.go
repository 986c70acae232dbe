package sync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// reasonOf returns an error of a request about an object with withheld values, without parts that may quote one.
func reasonOf(err error) string {
	switch status := apierrors.APIStatus(nil); {
	case ownership.LacksRight(err):
		return err.Error() + ": grant Vidra the right"
	case ownership.QuotesNothing(err):
		return err.Error()
	case errors.As(err, &status):
		return ownership.WithoutMessage(err, nil)
	}
	return "the API server did not answer"
}

// textOf returns an error of a write of a VidraResource, without its message if that may quote a withheld value. known is the decision about
// its manifest.
func textOf(err error, known ownership.Disclosure) string {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && known.Withholds() {
		return reasonOf(err)
	}
	return strings.Join(strings.Fields(display.ErrorText(err.Error())), " ")
}

// secretNamespaceOf returns the namespace of Secrets with manifests. It is the namespace of the operator, unless the operator,
// or the account of the VidraResources, may read Secrets in the namespace of the destination alone.
func (r *Reconciler) secretNamespaceOf(is *v1alpha1.InfrahubSync) string {
	if (is.Spec.ServiceAccountName != "" || r.Options.LimitedNamespaces || r.Options.Namespace == "") && is.Spec.Destination.Namespace != "" {
		return is.Spec.Destination.Namespace
	}
	return r.Options.Namespace
}

// listSecrets reads the versions of the Secrets with parts of manifests: until that succeeds or is forbidden, and while there is one.
func (r *run) listSecrets(ctx context.Context, controlled []*v1alpha1.VidraResource) error {
	r.secrets = map[string]*metav1.PartialObjectMetadata{}
	used := r.session.results.hasSecrets()
	for _, vr := range controlled {
		used = used || len(vr.Spec.ManifestFrom) > 0 || strings.HasPrefix(vr.Annotations[v1alpha1.ArtifactAnnotation], inSecret)
	}
	if !used && r.session.secretsListed {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := r.reconciler.API.List(ctx, list, client.InNamespace(r.secretNamespace), client.MatchingLabels{v1alpha1.SyncLabel: v1alpha1.LabelValue(r.is.Name)})
	if err != nil && used {
		return fmt.Errorf("list the Secrets with manifests in namespace %s: %w: grant list on secrets there to the operator", r.secretNamespace, err)
	}
	r.session.secretsListed = err == nil && len(list.Items) == 0 || apierrors.IsForbidden(err) // without the right, there are none that Vidra wrote
	for i := range list.Items {
		r.secrets[list.Items[i].Name] = &list.Items[i]
	}
	r.session.results.retainSecrets(r.secrets)
	return nil
}

// ownedBy reports whether an object has an owner.
func ownedBy(obj metav1.Object, uid types.UID) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == uid })
}

// writeSecret writes the Secret with a part of a manifest.
func (r *run) writeSecret(ctx context.Context, id, contentID, name string, owner metav1.OwnerReference, text string) error {
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.reconciler.API.Get(ctx, types.NamespacedName{Namespace: r.secretNamespace, Name: name}, there)
	if err == nil && there.Labels[v1alpha1.SyncLabel] != v1alpha1.LabelValue(r.is.Name) {
		return newProblem(id, v1alpha1.ArtifactConflict, "Secret %s/%s exists, and is not of this InfrahubSync: delete or rename it", r.secretNamespace, name)
	} else if err != nil && !isAbsent(err) {
		return newProblem(id, v1alpha1.ArtifactRefused, "read Secret %s/%s: %s", r.secretNamespace, name, reasonOf(err))
	}
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.secretNamespace, Name: name, Labels: map[string]string{v1alpha1.SyncLabel: v1alpha1.LabelValue(r.is.Name)},
			Annotations: map[string]string{v1alpha1.ArtifactAnnotation: contentID}, OwnerReferences: []metav1.OwnerReference{owner},
		},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{manifestKey: []byte(text)},
	}
	u := &unstructured.Unstructured{}
	if u.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(secret); err != nil {
		return newProblem(id, v1alpha1.ArtifactRefused, "Secret %s/%s cannot be written", r.secretNamespace, name)
	}
	u.SetResourceVersion(cmp.Or(there.ResourceVersion, noVersion))
	if err := r.patch(ctx, u); err != nil {
		return newProblem(id, v1alpha1.ArtifactRefused, "write Secret %s/%s: %s", r.secretNamespace, name, reasonOf(err))
	}
	r.session.results.noteSecret(name, u.GetResourceVersion())
	return nil
}

// dropFormerSecrets deletes the Secrets of an artifact in other namespaces than the present one of its Secret, which is empty
// without one. before is the VidraResource before it was written; nil for a new one.
func (r *run) dropFormerSecrets(ctx context.Context, id string, before *v1alpha1.VidraResource, name, namespace string) error {
	former := map[string]bool{r.secretNamespace: r.secrets[name] != nil}
	if before != nil {
		for _, from := range before.Spec.ManifestFrom {
			former[from.Namespace] = former[from.Namespace] || from.Name == name
		}
	}
	for from, there := range former {
		if !there || from == namespace {
			continue
		}
		if err := r.dropSecret(ctx, types.NamespacedName{Namespace: from, Name: name}); err != nil {
			return newProblem(id, v1alpha1.ArtifactRefused, "%s", err)
		}
	}
	return nil
}

// dropOrphans deletes the Secrets of artifacts that are not listed any more and have no VidraResource: it is gone, or was never created.
func (r *run) dropOrphans(ctx context.Context, controlled []*v1alpha1.VidraResource, listed map[string]bool) error {
	uses := maps.Clone(listed)
	for _, vr := range controlled {
		uses[vr.Name] = true
	}
	var faults []error
	for name, secret := range r.secrets {
		of, is := strings.CutPrefix(name, secretPrefix)
		if !is || uses[of] {
			continue
		}
		vr := &metav1.PartialObjectMetadata{}
		vr.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
		if err := r.reconciler.API.Get(ctx, types.NamespacedName{Name: of}, vr); !isAbsent(err) {
			faults = append(faults, err)
			continue
		}
		faults = append(faults, r.dropSecret(ctx, client.ObjectKeyFromObject(secret)))
	}
	return errors.Join(faults...)
}

// dropSecret deletes a Secret of the InfrahubSync.
func (r *run) dropSecret(ctx context.Context, key types.NamespacedName) error {
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.reconciler.API.Get(ctx, key, there)
	if err == nil && there.Labels[v1alpha1.SyncLabel] == v1alpha1.LabelValue(r.is.Name) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		err = r.reconciler.Client.Delete(ctx, secret, client.Preconditions{UID: &there.UID, ResourceVersion: &there.ResourceVersion})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Secret %s: %s", key, reasonOf(err))
	}
	if key.Namespace == r.secretNamespace {
		r.session.results.noteSecret(key.Name, "")
	}
	return nil
}
