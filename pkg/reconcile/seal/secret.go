package seal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

const (
	// SecretName is the name of the Secret that holds the keys of digests.
	SecretName = "vidra-digest-key"
	// currentDigestKey is the key of its data that seals digests. All other ones only open texts that they sealed.
	currentDigestKey = "current"
)

// Store holds the keys that seal digests of sensitive objects. They are in a Secret of the operator's namespace, which is made
// if it is absent and read once. It is safe for concurrent use.
type Store struct {
	// Secrets reads and makes the Secret.
	Secrets typedcorev1.SecretsGetter
	// Namespace is the namespace of the operator. If it is empty, a key of the process is used.
	Namespace string
	// Log has the reason to use a key of the process.
	Log logr.Logger

	// mu guards the fields below.
	mu   sync.Mutex
	keys Keys
	// lasting reports that keys are in the Secret.
	lasting bool
}

// Lasting reports whether the keys of the last Get outlive the process. Texts that a key of the process fails to open may be opened by the next process.
func (k *Store) Lasting() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lasting
}

// Get returns the keys. With a key of the process, which fails to open earlier
// texts, each sensitive object is applied once after a restart.
func (k *Store) Get(ctx context.Context) (Keys, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys != nil {
		return k.keys, nil
	}
	secret, why := (*corev1.Secret)(nil), "the namespace of the operator is not known: set POD_NAMESPACE or --leader-election-namespace"
	if k.Namespace != "" {
		var err error
		switch secret, err = k.readOrCreate(ctx); {
		case err == nil:
			why = ""
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			why = fmt.Sprintf("%v: grant the Role of config/rbac/role.yaml, and restart the operator", err)
		default:
			return nil, fmt.Errorf("read the keys of digests, Secret %s/%s: %w", k.Namespace, SecretName, err)
		}
	}
	var keys Keys
	if why == "" {
		keys, why = keysIn(secret)
	}
	if why != "" {
		keys = Keys{NewKey()}
		k.Log.Info("digests of sensitive objects are sealed with a key that is lost when the operator ends, "+
			"so each of these objects is applied once after a restart, and no revision is recorded", "reason", why)
	}
	k.keys, k.lasting = keys, why == ""
	return keys, nil
}

// readOrCreate reads the Secret, or makes one with a new key.
func (k *Store) readOrCreate(ctx context.Context) (*corev1.Secret, error) {
	secrets := k.Secrets.Secrets(k.Namespace)
	secret, err := secrets.Get(ctx, SecretName, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return secret, err
	}
	secret, err = secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: k.Namespace, Name: SecretName, Labels: map[string]string{"app.kubernetes.io/name": "vidra-operator"},
		},
		Data: map[string][]byte{currentDigestKey: NewKey()},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // another replica was faster
		return secrets.Get(ctx, SecretName, metav1.GetOptions{})
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && !ownership.QuotesNothing(err) { // a policy may quote the key
		refused := status.Status()
		refused.Message = ownership.WithoutMessage(err, nil)
		err = &apierrors.StatusError{ErrStatus: refused}
	}
	return secret, err
}

// keysIn returns the keys that a Secret holds, the current one first, or the fault of a Secret without keys.
func keysIn(secret *corev1.Secret) (keys Keys, why string) {
	all := [][]byte{secret.Data[currentDigestKey]}
	for _, name := range slices.Sorted(maps.Keys(secret.Data)) {
		if name != currentDigestKey {
			all = append(all, secret.Data[name])
		}
	}
	for _, key := range all {
		if len(key) < digestKeyBytes {
			return nil, fmt.Sprintf("Secret %s/%s holds no key %q, or one of less than %d bytes: correct it, and restart the operator",
				secret.Namespace, SecretName, currentDigestKey, digestKeyBytes)
		}
	}
	return Keys(all), ""
}
