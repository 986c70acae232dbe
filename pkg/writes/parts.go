package writes

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/source"
)

// PartKey is the key of a part of a manifest in its ConfigMap or Secret.
const PartKey = "manifest.yaml"

// partResources are the resources of the kinds that hold parts.
var partResources = map[string]schema.GroupVersionResource{
	source.ConfigMap: corev1.SchemeGroupVersion.WithResource("configmaps"),
	source.Secret:    corev1.SchemeGroupVersion.WithResource("secrets"),
}

// storedPart is a ConfigMap or Secret with a part of a manifest, as the API server has it.
type storedPart struct {
	key source.Key

	uid     types.UID
	version string
	// text is the part; whole reports that the object holds nothing else.
	text  string
	whole bool
	// owners are its ownerReferences.
	owners []metav1.OwnerReference
}

// ofAnother reports whether another VidraResource than the owner with a UID owns the part, such as a former one of the same name.
func (p *storedPart) ofAnother(uid types.UID) bool {
	return slices.ContainsFunc(p.owners, func(o metav1.OwnerReference) bool { return isVidraResource(o) && o.UID != uid })
}

func (p *storedPart) ownedBy(uid types.UID) bool {
	return slices.ContainsFunc(p.owners, func(o metav1.OwnerReference) bool { return isVidraResource(o) && o.UID == uid })
}

func isVidraResource(o metav1.OwnerReference) bool {
	return o.Kind == v1alpha1.Kind && strings.HasPrefix(o.APIVersion, v1alpha1.GroupVersion.Group+"/")
}

// nameOfPart returns a name for a part. A ConfigMap with the same text has the same name. The name of a Secret is random, because a hash
// of its text would help to guess its values.
func nameOfPart(vidraResource, kind, text string) string {
	sum := sha256.Sum256([]byte(text))
	suffix := hex.EncodeToString(sum[:5])
	if kind == source.Secret {
		suffix = strings.ToLower(rand.Text()[:10])
	}
	const longest = 240
	return strings.TrimRight(vidraResource[:min(len(vidraResource), longest)], ".-") + "-" + suffix
}

// partObject returns the ConfigMap or Secret with a part of the manifest of a VidraResource.
func partObject(vidraResource string, key source.Key, text string) (*unstructured.Unstructured, error) {
	meta := metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{v1alpha1.PartOfLabel: v1alpha1.LabelValue(vidraResource)},
		Annotations: map[string]string{v1alpha1.PartAnnotation: v1alpha1.PartIdentity(vidraResource, key.Namespace, key.Name)},
	}
	var typed any = &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{PartKey: text}}
	if key.Kind == source.Secret {
		typed = &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{PartKey: []byte(text)}}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be encoded", key) // the error may quote it
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(key.Kind))
	return u, nil
}

// partsIn lists the ConfigMaps or Secrets of a namespace that `vidra create` wrote for a VidraResource.
func (c *Client) partsIn(ctx context.Context, vidraResource, kind, namespace string) ([]*storedPart, error) {
	list, err := c.dynamic.Resource(partResources[kind]).Namespace(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: v1alpha1.PartOfLabel + "=" + v1alpha1.LabelValue(vidraResource),
	})
	if err != nil {
		return nil, partError("list", source.Key{Kind: kind, Namespace: namespace}, err)
	}
	var found []*storedPart
	for i := range list.Items {
		u := &list.Items[i]
		if u.GetAnnotations()[v1alpha1.PartAnnotation] == v1alpha1.PartIdentity(vidraResource, namespace, u.GetName()) && u.GetDeletionTimestamp() == nil {
			found = append(found, asStored(kind, u))
		}
	}
	return found, nil
}

// asStored converts a ConfigMap or Secret that the API server returned.
func asStored(kind string, u *unstructured.Unstructured) *storedPart {
	p := &storedPart{
		key: source.Key{Kind: kind, Namespace: u.GetNamespace(), Name: u.GetName()},
		uid: u.GetUID(), version: u.GetResourceVersion(), owners: u.GetOwnerReferences(),
	}
	texts, data, err := source.Values(kind, u.Object)
	if p.text = texts[PartKey]; kind == source.Secret {
		p.text = string(data[PartKey])
	}
	p.whole = err == nil && p.text != "" && len(texts)+len(data) == 1
	return p
}

// createPart creates the ConfigMap or Secret of a part. owner is the VidraResource; nil while it is absent. An object of the name with
// other content is an error.
func (c *Client) createPart(ctx context.Context, vidraResource string, key source.Key, text string, owner *v1alpha1.VidraResource) (*storedPart, error) {
	u, err := partObject(vidraResource, key, text)
	if err != nil {
		return nil, err
	}
	if owner != nil {
		u.SetOwnerReferences([]metav1.OwnerReference{partOwner(owner)})
	}
	made, err := c.part(key).Create(ctx, u, metav1.CreateOptions{FieldManager: FieldManager})
	switch {
	case err == nil:
		return asStored(key.Kind, made), nil
	case apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("%s exists, and is no part of the manifest of VidraResource %s, or another command writes it now: delete or rename it, or try again", key, vidraResource)
	case object.IsAbsent(err, key.Namespace):
		return nil, fmt.Errorf("%s cannot be created, because namespace %s does not exist: create the namespace, or name another one for the parts with --parts-namespace", key, key.Namespace)
	}
	err = partError("create", key, err)
	if object.Unanswered(err) {
		err = fmt.Errorf("%w: %s may be written: %w", err, key, ErrUnfinished)
	}
	return nil, err
}

func (c *Client) part(key source.Key) dynamic.ResourceInterface {
	return c.dynamic.Resource(partResources[key.Kind]).Namespace(key.Namespace)
}

// partOwner is the reference of a part to its VidraResource, with which it is deleted.
func partOwner(vr *v1alpha1.VidraResource) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: vr.Name, UID: vr.UID, BlockOwnerDeletion: ptr.To(false)}
}

// secure has a part exist, with its VidraResource as the owner.
func (c *Client) secure(ctx context.Context, p *storedPart, vr *v1alpha1.VidraResource) error {
	u, err := c.part(p.key).Get(ctx, p.key.Name, metav1.GetOptions{})
	if object.IsAbsent(err, p.key.Name) { // another command has removed it, before the VidraResource named it
		_, err := c.createPart(ctx, vr.Name, p.key, p.text, vr)
		return err
	} else if err != nil {
		return partError("get", p.key, err)
	}
	now := asStored(p.key.Kind, u)
	if now.text != p.text {
		return fmt.Errorf("%s was changed meanwhile: run the command again", p.key)
	}
	if now.ownedBy(vr.UID) {
		return nil
	}
	owners := slices.DeleteFunc(now.owners, isVidraResource)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": now.uid, "resourceVersion": now.version, "ownerReferences": append(owners, partOwner(vr)),
	}})
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	_, err = c.part(p.key).Patch(ctx, p.key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return partError("patch", p.key, err)
}

// deletePart deletes a part as it was read. It reports whether it is gone: a part that was changed since stays.
func (c *Client) deletePart(ctx context.Context, p *storedPart) (gone bool, err error) {
	err = c.part(p.key).Delete(ctx, p.key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.uid, ResourceVersion: &p.version}})
	switch {
	case err == nil, object.IsAbsent(err, p.key.Name):
		return true, nil
	case apierrors.IsConflict(err):
		return false, nil
	}
	return false, partError("delete", p.key, err)
}

// partError adds the next step of the user to an error about a part. It quotes no value.
func partError(verb string, key source.Key, err error) error {
	if err == nil {
		return nil
	}
	if ownership.LacksRight(err) {
		return fmt.Errorf("you may not %s %ss in namespace %s, which hold parts of the manifest: ask for the right, or name another namespace with --parts-namespace: %w",
			verb, key.Kind, key.Namespace, err)
	}
	of := key.String()
	if key.Name == "" {
		of = fmt.Sprintf("%ss in namespace %s", key.Kind, key.Namespace)
	}
	return fmt.Errorf("%s %s: %w", verb, of, object.WithoutValues(err, ownership.Disclosure{}))
}
