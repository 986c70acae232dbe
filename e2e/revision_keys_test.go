package e2e

import (
	"context"
	"crypto/rand"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
)

// The tests of this file are not parallel: they stop the operator, and change the key of digests.

// changeKeys changes the Secret with the keys of digests while the operator is stopped.
func changeKeys(t *testing.T, change func(keys map[string][]byte)) {
	t.Helper()
	secret := &corev1.Secret{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: testenv.OperatorNamespace, Name: seal.SecretName}, secret))
	stopOperator(t)
	change(secret.Data)
	require.NoError(t, admin.Update(t.Context(), secret))
	startOperator(t)
}

// numbersOf returns the numbers of the revisions in the status.
func numbersOf(t require.TestingT, name string) (numbers []int64) {
	for _, k := range revisionOf(t, name).Kept {
		numbers = append(numbers, k.Number)
	}
	return numbers
}

// TestRevisionsOutliveARotation rotates the key of digests while a revision waits, and removes the former key after the next status.
func TestRevisionsOutliveARotation(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "one"))
	applyRevisions(t, ns, configMap("page", "one"), configMap("page", "two"))
	hold(t, ns, true)
	setManifest(t, ns, configMap("page", "three"))
	awaitNotReadyAnyGeneration(t, ns, v1alpha1.ReasonRevisionHeld)
	before := revisionOf(t, ns).Kept
	changeKeys(t, func(keys map[string][]byte) {
		keys["previous"], keys["current"] = keys["current"], []byte(rand.Text()+rand.Text())
	})
	await(t, func(c *assert.CollectT) {
		for i, k := range revisionOf(c, ns).Kept {
			require.NotEqual(c, before[i].Digest, k.Digest, "the new key seals revision %d", k.Number)
		}
	})
	changeKeys(t, func(keys map[string][]byte) { delete(keys, "previous") })
	awaitNotReadyAnyGeneration(t, ns, v1alpha1.ReasonRevisionHeld)
	hold(t, ns, false)
	awaitAppliedRevision(t, ns, 3)
	require.Equal(t, []int64{3, 2, 1}, numbersOf(t, ns))
	rollback(t, ns, 1)
	awaitAppliedRevision(t, ns, 1)
	require.Equal(t, "one", greeting(t, pageOf(t, ns, "page")))
}

// TestRevisionsOutliveAKeyOfTheProcess has an operator run without the key of digests, which is unusable meanwhile. The revisions stay, with their
// contents.
func TestRevisionsOutliveAKeyOfTheProcess(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "one"))
	applyRevisions(t, ns, configMap("page", "one"), configMap("page", "two"))
	var current []byte
	restore := func(keys map[string][]byte) { keys["current"] = current }
	changeKeys(t, func(keys map[string][]byte) { current, keys["current"] = keys["current"], []byte("short") })
	defer func() { // a cleanup has no context any more
		if current != nil {
			changeKeys(t, restore)
		}
	}()
	setManifest(t, ns, configMap("page", "three"))
	awaitReady(t, ns)
	awaitAppliedRevision(t, ns, 0)
	require.Equal(t, []int64{2, 1}, numbersOf(t, ns))
	require.GreaterOrEqual(t, len(contentsOf(t, ns)), 2)
	changeKeys(t, restore)
	current = nil
	awaitAppliedRevision(t, ns, 3)
	require.Equal(t, []int64{3, 2, 1}, numbersOf(t, ns))
	rollback(t, ns, 1)
	awaitAppliedRevision(t, ns, 1)
	require.Equal(t, "one", greeting(t, pageOf(t, ns, "page")))
}

// loseKey replaces the key of digests while the operator is stopped: the digests and configurations of sensitive objects are unknown then.
func loseKey(t *testing.T) {
	t.Helper()
	changeKeys(t, func(keys map[string][]byte) {
		clear(keys)
		keys["current"] = []byte(rand.Text() + rand.Text())
	})
}

// credentials is a manifest with a Secret.
func credentials(name, password string) string {
	return "apiVersion: v1\nkind: Secret\nmetadata:\n  name: " + name + "\nstringData:\n  password: " + password + "\n"
}

// passwordOf returns the password in a Secret of credentials.
func passwordOf(t require.TestingT, ns, name string) string {
	secret := &corev1.Secret{}
	require.NoError(t, admin.Get(context.Background(), client.ObjectKey{Namespace: ns, Name: name}, secret))
	return string(secret.Data["password"])
}

// TestHoldOutlivesTheKey: a revision that waits is not applied because the key is lost, wherever it comes from.
func TestHoldOutlivesTheKey(t *testing.T) {
	ns := newNamespace(t)
	inline, part := ns+"-inline", ns+"-part"
	parts := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "parts", Namespace: ns}, StringData: map[string]string{"all": credentials("part", "one")}}
	require.NoError(t, admin.Create(t.Context(), parts))
	newVidraResource(t, ns, credentials("inline", "one"), named(inline))
	newVidraResource(t, ns, "", named(part), func(v *v1alpha1.VidraResource) {
		v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "Secret", Name: "parts", Namespace: ns, Key: "all"}}
	})
	for _, name := range []string{inline, part} {
		awaitReady(t, name)
		hold(t, name, true)
		awaitReady(t, name)
	}
	setManifest(t, inline, manifests(credentials("inline", "two"), configMap("page", "two")))
	require.NoError(t, mergePatch(parts, `{"stringData":{"all":%q}}`, manifests(credentials("part", "two"), configMap("side", "two"))))
	for _, name := range []string{inline, part} {
		awaitNotReadyAnyGeneration(t, name, v1alpha1.ReasonRevisionHeld)
	}
	loseKey(t)
	for _, name := range []string{inline, part} {
		reconcileNow(t, name)
		awaitNotReadyAnyGeneration(t, name, v1alpha1.ReasonRevisionHeld)
	}
	require.Equal(t, "one one", passwordOf(t, ns, "inline")+" "+passwordOf(t, ns, "part"))
	requireAbsent(t, pageOf(t, ns, "page"))
	requireAbsent(t, pageOf(t, ns, "side"))
	for _, name := range []string{inline, part} {
		hold(t, name, false)
		awaitReady(t, name)
	}
	require.Equal(t, "two two", passwordOf(t, ns, "inline")+" "+passwordOf(t, ns, "part"))
}

// TestRollbackOutlivesTheKey: an earlier revision cannot be read without the key. What was applied of it stays.
func TestRollbackOutlivesTheKey(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, credentials("credentials", "one"))
	applyRevisions(t, ns, credentials("credentials", "one"), credentials("credentials", "two"))
	rollback(t, ns, 1)
	awaitReady(t, ns)
	require.Equal(t, "one", passwordOf(t, ns, "credentials"))
	loseKey(t)
	reconcileNow(t, ns)
	awaitNotReadyAnyGeneration(t, ns, v1alpha1.ReasonRevisionHeld, "sealed with a key that Vidra lacks now")
	require.Equal(t, "one", passwordOf(t, ns, "credentials"))
	hold(t, ns, false)
	awaitReady(t, ns)
	require.Equal(t, "two", passwordOf(t, ns, "credentials"))
}

// TestUnchangedObjectsOutliveTheKey: a changed manifest does not apply the objects in it that are unchanged because the key was lost before. A
// completed Job would run again, and edits that are not reverted would be overwritten.
func TestUnchangedObjectsOutliveTheKey(t *testing.T) {
	ns := newNamespace(t)
	run := "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: migrate\n  annotations:\n    infrahub.operators.com/sensitive: 'true'\nspec:\n  completions: 0\n  ttlSecondsAfterFinished: 0\n" +
		"  template:\n    spec:\n      restartPolicy: Never\n      containers: [{name: migrate, image: example.com/migrate}]\n"
	mark := auditMark(t)
	newVidraResource(t, ns, manifests(run, configMap("page", "one")))
	awaitState(t, ns, "migrate", v1alpha1.ObjectCompleted)
	warned := ns + "-warned"
	newVidraResource(t, ns, manifests(credentials("credentials", "one"), configMap("side", "one")), named(warned), func(v *v1alpha1.VidraResource) {
		v.Spec.Drift = &v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}
	})
	awaitReady(t, warned)
	require.NoError(t, mergePatch(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "credentials"}}, `{"stringData":{"password":"mine"}}`))
	awaitState(t, warned, "credentials", v1alpha1.ObjectDrifted)
	loseKey(t)
	for _, name := range []string{ns, warned} {
		reconcileNow(t, name)
	}
	require.Equal(t, "mine", passwordOf(t, ns, "credentials"))
	setManifest(t, ns, manifests(run, configMap("page", "two")))
	setManifest(t, warned, manifests(credentials("credentials", "one"), configMap("side", "two")))
	for _, name := range []string{"page", "side"} {
		await(t, func(c *assert.CollectT) { require.Equal(c, "two", greeting(c, pageOf(t, ns, name))) })
	}
	awaitState(t, ns, "migrate", v1alpha1.ObjectCompleted)
	awaitState(t, warned, "credentials", v1alpha1.ObjectDrifted)
	require.Equal(t, "mine", passwordOf(t, ns, "credentials"))
	require.Len(t, operatorSince(t, mark).On("jobs", ns, "migrate").Only(func(r request) bool { return r.Code == http.StatusCreated }), 1)
}
