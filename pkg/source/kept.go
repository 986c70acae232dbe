package source

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// keptLabel is the label of the Secrets with the last manifest of a VidraResource; its value is the UID.
	keptLabel = "vidraresource.infrahub.operators.com/manifest-of"
	// keptDigest, keptPieces and keptSince are annotations: the digest of the manifest, the number of its Secrets, and the time.
	keptDigest = "vidraresource.infrahub.operators.com/manifest-digest"
	keptPieces = "vidraresource.infrahub.operators.com/manifest-pieces"
	keptSince  = "vidraresource.infrahub.operators.com/manifest-since"
	// keptRevision is the annotation with the revision of the manifest: the digest of its texts alone.
	keptRevision = "vidraresource.infrahub.operators.com/manifest-revision"
	// keptKey is the key of the data.
	keptKey = "manifest"
	// cached is the version of a LIST that the API server answers from its cache: a Secret that it lacks there is deleted with the next manifest.
	cached = "0"
	// keptBytes is how many bytes one Secret holds: the API server accepts 1 MiB.
	keptBytes = 1_000_000
	// maxFormer is how many bytes all Secrets with former manifests of a VidraResource hold.
	maxFormer = 8 << 20
	// maxKept is how many bytes a manifest has at most when it is unpacked: all parts, with their names.
	maxKept = 32 << 20
)

// Manifest is a manifest to be kept.
type Manifest struct {
	// Digest identifies the manifest with its sources, and Revision its texts alone.
	Digest, Revision string
	Text             []byte
}

// Kept keeps manifests in Secrets of Vidra's own namespace: the last one of artifacts for the time when an artifact is unreadable, and the
// applied revisions. The garbage collector deletes them with their VidraResource.
type Kept struct {
	Secrets typedcorev1.SecretsGetter
	// Namespace of the Secrets. If it is empty, nothing is kept.
	Namespace string
}

// On reports whether manifests are kept.
func (k *Kept) On() bool { return k != nil && k.Namespace != "" }

// Save keeps the manifest of a VidraResource, and deletes the former ones except the manifests of the revisions in retain, or of all revisions if all
// is true. Of the oldest ones, those above maxFormer bytes are deleted, too. Nothing is written if m is kept already as the last one.
func (k *Kept) Save(ctx context.Context, vr *v1alpha1.VidraResource, m Manifest, retain map[string]bool, all bool) error {
	if !k.On() {
		return nil
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(m.Text) // a Buffer never fails
	_ = w.Close()
	pieces := slices.Collect(slices.Chunk(packed.Bytes(), keptBytes))
	immutable := true
	secrets := k.Secrets.Secrets(k.Namespace)
	name := func(i int) string { return fmt.Sprintf("vidra-manifest-%s-%s-%d", vr.UID, m.Digest[:12], i) }
	listed, err := k.list(ctx, vr, cached)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(listed, func(s corev1.Secret) bool { return s.Name == name(len(pieces)-1) }) // the last piece
	written := at >= 0
	isOther := func(s corev1.Secret) bool { return s.Annotations[keptDigest] != m.Digest }
	if written && slices.ContainsFunc(listed, func(s corev1.Secret) bool {
		return isOther(s) && s.Annotations[keptSince] > listed[at].Annotations[keptSince]
	}) {
		written = false // it is the last one again, and Load goes by the time
		if err := k.drop(ctx, slices.DeleteFunc(slices.Clone(listed), isOther), func(string) bool { return false }); err != nil {
			return err
		}
	}
	since := sinceAfter(listed)
	for i, piece := range pieces {
		if written {
			break
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: name(i), Labels: map[string]string{keptLabel: string(vr.UID)},
				Annotations:     map[string]string{keptDigest: m.Digest, keptRevision: m.Revision, keptPieces: strconv.Itoa(len(pieces)), keptSince: since},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: vr.Name, UID: vr.UID}},
			},
			Immutable: &immutable, Data: map[string][]byte{keptKey: piece},
		}
		if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("keep the manifest in a Secret: %w", err)
		}
	}
	return k.drop(ctx, slices.DeleteFunc(listed, func(s corev1.Secret) bool { return !isOther(s) }), func(revision string) bool {
		return all || retain[revision] && revision != m.Revision
	})
}

// sinceAfter returns the time of a manifest that is kept now, which is after the times of the listed ones: the clock of a former leader may have been ahead.
func sinceAfter(listed []corev1.Secret) string {
	since := time.Now().UTC()
	for _, s := range listed {
		if other, err := time.Parse(time.RFC3339Nano, s.Annotations[keptSince]); err == nil && !since.After(other) {
			since = other.Add(time.Second) // the texts are compared: another fraction may be longer
		}
	}
	return since.Format(time.RFC3339Nano)
}

// Retain deletes the manifests of a VidraResource, except the manifests of some revisions.
func (k *Kept) Retain(ctx context.Context, vr *v1alpha1.VidraResource, revisions map[string]bool) error {
	if !k.On() {
		return nil
	}
	listed, err := k.list(ctx, vr, cached)
	if err != nil {
		return err
	}
	return k.drop(ctx, listed, func(revision string) bool { return revisions[revision] })
}

// drop deletes former manifests that are not retained, and the oldest ones above maxFormer bytes.
func (k *Kept) drop(ctx context.Context, former []corev1.Secret, retained func(revision string) bool) error {
	slices.SortStableFunc(former, func(a, b corev1.Secret) int { return cmp.Compare(b.Annotations[keptSince], a.Annotations[keptSince]) })
	size, above := 0, map[string]bool{}
	for _, s := range former {
		if retained(s.Annotations[keptRevision]) {
			size += len(s.Data[keptKey])
			above[s.Annotations[keptDigest]] = above[s.Annotations[keptDigest]] || size > maxFormer
		}
	}
	for _, s := range former {
		if retained(s.Annotations[keptRevision]) && !above[s.Annotations[keptDigest]] {
			continue
		}
		err := k.Secrets.Secrets(k.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete a Secret with the former manifest: %w", err)
		}
	}
	return nil
}

// list returns the Secrets with manifests of a VidraResource, at least as new as version; empty for the latest ones.
func (k *Kept) list(ctx context.Context, vr *v1alpha1.VidraResource, version string) ([]corev1.Secret, error) {
	all, err := k.Secrets.Secrets(k.Namespace).List(ctx, metav1.ListOptions{LabelSelector: keptLabel + "=" + string(vr.UID), ResourceVersion: version})
	if err != nil {
		return nil, fmt.Errorf("list the Secrets with the manifest: %w", err)
	}
	return all.Items, nil
}

// Load returns the kept manifests of a VidraResource, the last one first: the manifests of a revision, or all if it is empty. One at a time is in
// memory.
func (k *Kept) Load(ctx context.Context, vr *v1alpha1.VidraResource, revision string) (iter.Seq[[]byte], error) {
	return k.load(ctx, vr, revision, "")
}

// Cached is Load of all revisions from the cache of the API server, which may lack the last ones.
func (k *Kept) Cached(ctx context.Context, vr *v1alpha1.VidraResource) (iter.Seq[[]byte], error) {
	return k.load(ctx, vr, "", cached)
}

func (k *Kept) load(ctx context.Context, vr *v1alpha1.VidraResource, revision, version string) (iter.Seq[[]byte], error) {
	if !k.On() {
		return func(func([]byte) bool) {}, nil
	}
	all, err := k.list(ctx, vr, version)
	if err != nil {
		return nil, err
	}
	sets := map[string][]corev1.Secret{}
	for _, secret := range all {
		if revision != "" && secret.Annotations[keptRevision] != revision {
			continue
		}
		sets[secret.Annotations[keptDigest]] = append(sets[secret.Annotations[keptDigest]], secret)
	}
	since := func(pieces []corev1.Secret) string { return pieces[0].Annotations[keptSince] }
	sorted := slices.SortedFunc(maps.Values(sets), func(a, b []corev1.Secret) int { return cmp.Compare(since(b), since(a)) })
	return func(yield func([]byte) bool) {
		for _, pieces := range sorted {
			slices.SortFunc(pieces, func(a, b corev1.Secret) int {
				return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
			})
			if strconv.Itoa(len(pieces)) != pieces[0].Annotations[keptPieces] {
				continue
			}
			if manifest, err := joined(pieces); err == nil && !yield(manifest) {
				return
			}
		}
	}, nil
}

// joined unpacks a manifest from its pieces.
func joined(pieces []corev1.Secret) ([]byte, error) {
	var packed []byte
	for _, piece := range pieces {
		packed = append(packed, piece.Data[keptKey]...)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, maxKept))
}
