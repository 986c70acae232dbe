package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// ofLabel is the label of the Secrets with an archive: its value is the UID of the object that publishes the archive.
	ofLabel = "infrahubsync.infrahub.operators.com/archive-of"
	// digestAnnotation and sizeAnnotation are the digest and the size of the archive.
	digestAnnotation = "infrahubsync.infrahub.operators.com/archive-digest"
	sizeAnnotation   = "infrahubsync.infrahub.operators.com/archive-size"
	// contentKey is the key of the content, and pieceSize the number of bytes in one Secret: the API server accepts 1 MiB.
	contentKey = "archive"
	pieceSize  = 1_000_000
)

// ErrNotKept is the error of an archive that is missing or incomplete.
var ErrNotKept = errors.New("the archive is not kept")

// Store keeps archives. The garbage collector deletes them with the object that publishes them.
type Store struct {
	Secrets typedcorev1.SecretsGetter
	// Namespace of the Secrets.
	Namespace string
}

func nameOf(publisher types.UID, digest string, piece int) string {
	return fmt.Sprintf("vidra-archive-%s-%s-%d", publisher, digest[:min(len(digest), 20)], piece)
}

// Save keeps an archive of an object. It writes nothing if the archive is kept already.
func (s *Store) Save(ctx context.Context, publisher metav1.OwnerReference, a Archive) error {
	if _, err := s.Load(ctx, publisher.UID, a.Digest); !errors.Is(err, ErrNotKept) {
		return err
	}
	pieces := slices.Collect(slices.Chunk(a.Content, pieceSize))
	for i, piece := range slices.Backward(pieces) { // the first one, with which a read begins, is the last to be written
		immutable := true
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: nameOf(publisher.UID, a.Digest, i), Labels: map[string]string{ofLabel: string(publisher.UID)},
				Annotations:     map[string]string{digestAnnotation: a.Digest, sizeAnnotation: strconv.Itoa(len(a.Content))},
				OwnerReferences: []metav1.OwnerReference{publisher},
			},
			Immutable: &immutable, Data: map[string][]byte{contentKey: piece},
		}
		if err := s.write(ctx, secret); err != nil {
			return fmt.Errorf("keep the archive in Secret %s/%s: %w", s.Namespace, secret.Name, err)
		}
	}
	return nil
}

// write creates a Secret. One of the name with another content, which another client wrote, is replaced.
func (s *Store) write(ctx context.Context, secret *corev1.Secret) error {
	secrets := s.Secrets.Secrets(s.Namespace)
	_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there, err := secrets.Get(ctx, secret.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if bytes.Equal(there.Data[contentKey], secret.Data[contentKey]) && there.Labels[ofLabel] == secret.Labels[ofLabel] && maps.Equal(there.Annotations, secret.Annotations) {
		return nil
	}
	if err := secrets.Delete(ctx, there.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &there.UID}}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	return err
}

// Load returns the content of an archive. Its error is ErrNotKept if it is missing, or if its content is another one.
func (s *Store) Load(ctx context.Context, publisher types.UID, digest string) ([]byte, error) {
	var content []byte
	for i := 0; ; i++ {
		secret, err := s.Secrets.Secrets(s.Namespace).Get(ctx, nameOf(publisher, digest, i), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, ErrNotKept
		case err != nil:
			return nil, fmt.Errorf("read the archive: %w", err)
		case secret.Labels[ofLabel] != string(publisher):
			return nil, ErrNotKept
		}
		content = append(content, secret.Data[contentKey]...)
		size, err := strconv.Atoi(secret.Annotations[sizeAnnotation])
		if err != nil || size > maxArchive || len(secret.Data[contentKey]) == 0 {
			return nil, ErrNotKept
		}
		if len(content) < size {
			continue
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != digest {
			return nil, ErrNotKept
		}
		return content, nil
	}
}

// Retain deletes the archives of a publisher but those with the digests.
func (s *Store) Retain(ctx context.Context, publisher types.UID, digests ...string) error {
	secrets := s.Secrets.Secrets(s.Namespace)
	all, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: ofLabel + "=" + string(publisher)})
	if err != nil {
		return fmt.Errorf("list the former archives: %w", err)
	}
	var faults []error
	for i := range all.Items {
		one := &all.Items[i]
		if slices.Contains(digests, one.Annotations[digestAnnotation]) {
			continue
		}
		err := secrets.Delete(ctx, one.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &one.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			faults = append(faults, fmt.Errorf("delete Secret %s/%s with a former archive: %w", s.Namespace, one.Name, err))
		}
	}
	return errors.Join(faults...)
}
