package e2e

import (
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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
