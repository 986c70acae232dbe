package seal

import (
	"encoding/base64"
	"errors"
	"net/http"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestRefusedKey: a policy that refuses the Secret with the keys may quote the key. The reason of the API server stays.
func TestRefusedKey(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reason string
		refuse func(message string) error
		// logged is a part of the log with a key of the process; empty for an error.
		logged string
	}{
		"forbidden": {"as policies answer", func(message string) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, SecretName, errors.New(message))
		}, "withheld"},
		"invalid": {"as policies answer by default", func(message string) error {
			return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: message}}
		}, ""},
		"right": {"the message of the API server itself", func(string) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, SecretName, errors.New(`User "vidra" cannot create resource "secrets"`))
		}, "cannot create resource"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, key, log := fake.NewClientset(), "", ""
			client.PrependReactor("create", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
				secret, is := action.(clienttesting.CreateAction).GetObject().(*corev1.Secret)
				require.True(t, is)
				key = base64.StdEncoding.EncodeToString(secret.Data[currentDigestKey])
				return true, nil, tt.refuse("no key: " + key)
			})
			store := Store{Secrets: client.CoreV1(), Namespace: "vidra-system", Log: funcr.New(func(_, args string) { log += args }, funcr.Options{})}
			_, err := store.Get(t.Context())
			require.NotEmpty(t, key)
			require.NotContains(t, log, key, tt.reason)
			if tt.logged == "" {
				require.ErrorContains(t, err, "withheld", tt.reason)
				require.NotContains(t, err.Error(), key)
				return
			}
			require.NoError(t, err, tt.reason)
			require.Contains(t, log, tt.logged, tt.reason)
		})
	}
}
