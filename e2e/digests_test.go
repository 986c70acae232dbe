package e2e

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
)

// guessable is a manifest with values that are easy to guess: a Secret, an object that is
// marked as sensitive, one with an environment variable, and one that everybody may know.
const guessable = `
apiVersion: v1
kind: Secret
metadata:
  name: pin
stringData:
  pin: "1234"
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: marked
  annotations:
    infrahub.operators.com/sensitive: "true"
data:
  pin: "1234"
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 0
  selector:
    matchLabels: {app: pin}
  template:
    metadata:
      labels: {app: pin}
    spec:
      containers:
      - name: web
        image: nginx
        env:
        - name: PIN
          value: "1234"
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: open
data:
  greeting: hello
`

// guess is the digest that a reader who guesses an object's values can compute.
func guess(t require.TestingT, v *v1alpha1.VidraResource, obj *unstructured.Unstructured) string {
	digest, recorded := ownership.Of(get(t, obj), v1alpha1.FieldManager(v.Name))
	require.True(t, recorded)
	return digest.String()
}

// TestDigestsOfSecretsCannotBeGuessed reads the digests in a status as a viewer does. They
// survive a restart, an upgrade and a rotation of the key without a write to an object.
func TestDigestsOfSecretsCannotBeGuessed(t *testing.T) {
	ns := newNamespace(t)
	v := newVidraResource(t, ns, guessable)
	awaitReady(t, ns)
	objs := declared(t, ns, guessable)
	keySecret := func(t require.TestingT) *corev1.Secret {
		secret := &corev1.Secret{}
		require.NoError(t, admin.Get(t.(*testing.T).Context(), client.ObjectKey{Namespace: testenv.OperatorNamespace, Name: seal.SecretName}, secret))
		return secret
	}
	// sealed has the texts of the sensitive objects, none of which can be guessed.
	sealed := func(c require.TestingT) []string {
		var all []string
		now := getVidraResource(c, ns)
		for _, obj := range objs {
			e := entry(c, now, obj.GetKind(), obj.GetName())
			if obj.GetName() == "open" {
				require.Equal(c, guess(c, v, obj), e.Digest, "what is not sensitive can be guessed, as this test does")
				continue
			}
			for _, text := range []string{e.Digest, e.Configuration} {
				require.True(c, strings.HasPrefix(text, "h1:"), text)
				all = append(all, text)
			}
			require.NotContains(c, e.Digest, guess(c, v, obj)[2:])
		}
		return all
	}
	first := sealed(t)
	require.Len(t, keySecret(t).Data["current"], 32)

	// again restarts the operator after a change. Then the digests are sealed, and all
	// is in order without a write to an object.
	again := func(change func(), sealedAnew bool) []string {
		stopOperator(t)
		change()
		mark := auditMark(t)
		startOperator(t)
		var texts []string
		await(t, func(c *assert.CollectT) {
			texts = sealed(c)
			if sealedAnew {
				require.NotEqual(c, first, texts)
			}
		})
		awaitSilence(t)
		require.Empty(t, operatorSince(t, mark).ObjectsIn(ns).Writes())
		return texts
	}
	require.Equal(t, first, again(func() {}, false), "a restart")

	rotated := again(func() {
		secret := keySecret(t)
		secret.Data["previous"], secret.Data["current"] = secret.Data["current"], []byte(rand.Text()+rand.Text())
		require.NoError(t, admin.Update(t.Context(), secret))
	}, true)
	for _, text := range rotated {
		require.NotContains(t, first, text)
	}
	require.Equal(t, rotated, again(func() {
		secret := keySecret(t)
		delete(secret.Data, "previous")
		require.NoError(t, admin.Update(t.Context(), secret))
	}, true), "the previous key is not needed any more")

	require.Equal(t, rotated[0], again(func() { // as an older Vidra left it
		old := getVidraResource(t, ns)
		for i := range old.Status.ManagedResources {
			e := &old.Status.ManagedResources[i]
			e.Digest = guess(t, v, declaredObject(t, ns, guessable, e.Kind, e.Name))
		}
		require.NoError(t, admin.Status().Update(t.Context(), old))
	}, false)[0], "an upgrade")

	// Without any key the objects are applied once, which changes nothing.
	before := get(t, objs[0]).GetResourceVersion()
	stopOperator(t)
	require.NoError(t, admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: seal.SecretName}}))
	startOperator(t)
	await(t, func(c *assert.CollectT) { require.NotContains(c, rotated, sealed(c)[0]) })
	awaitReady(t, ns)
	require.Equal(t, before, get(t, objs[0]).GetResourceVersion())
}
