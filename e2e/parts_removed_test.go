package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestEmptyPart empties a part of a manifest in several ways: nothing is removed, an edit is reverted, and the message names
// the part. Without the part in the spec, its objects are removed.
func TestEmptyPart(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, text string
		optional     bool
	}{
		"Nothing":   {"The text is empty.", "", false},
		"Comment":   {"A template has rendered its comment.", "# nothing is enabled\n", false},
		"Documents": {"A template has rendered document markers.", "---\n---\n", false},
		"List":      {"A list without items has no object.", "apiVersion: v1\nkind: List\nitems: []\n", false},
		"Null":      {"A value is null.", "null\n", false},
		"Optional":  {"An optional part may be missing, and this one is there.", "", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			part := partIn("ConfigMap", "parts", "m")
			part.Optional = tc.optional
			held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"m": configMap("page", "hello")}}
			require.NoError(t, admin.Create(t.Context(), held))
			newVidraResource(t, ns, configMap("inline", "hello"), fromParts(part))
			awaitReady(t, ns)
			page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
			uid := get(t, page).GetUID()
			require.NoError(t, mergePatch(held, `{"data":{"m":%q}}`, tc.text))
			awaitNotReady(t, ns, v1alpha1.ReasonManifestEmpty, "ConfigMap "+ns+"/parts, key m", "spec.manifestFrom[0]")
			require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
			awaitInOrder(t, ns, page)
			require.Equal(t, uid, get(t, page).GetUID(), tc.reason)
			require.NoError(t, mergePatch(getVidraResource(t, ns), `{"spec":{"manifestFrom":null}}`))
			awaitGone(t, page)
			awaitReady(t, ns)
		})
	}
}

// TestOptionalPartIsReplaced deletes an optional part and creates it again: its objects stay. When it does not come back, they
// are removed, but for one whose Namespace is gone with it.
func TestOptionalPartIsReplaced(t *testing.T) {
	t.Parallel()
	ns, elsewhere := newNamespace(t), newNamespace(t)
	holder := func(namespace, name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "parts"}, Data: map[string]string{"m": configMap(name, "hello")}}
	}
	held, away := holder(ns, "page"), holder(elsewhere, "away")
	require.NoError(t, admin.Create(t.Context(), held))
	require.NoError(t, admin.Create(t.Context(), away))
	near, far := partIn("ConfigMap", "parts", "m"), partIn("ConfigMap", "parts", "m")
	far.Namespace = elsewhere
	near.Optional, far.Optional = true, true
	newVidraResource(t, ns, configMap("inline", "hello"), fromParts(near, far))
	awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	uid := get(t, page).GetUID()

	require.NoError(t, admin.Delete(t.Context(), held))
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "ConfigMap "+ns+"/page", "optional part ConfigMap "+ns+"/parts")
	require.NoError(t, admin.Create(t.Context(), holder(ns, "page")))
	awaitReady(t, ns)
	require.Equal(t, uid, get(t, page).GetUID())

	began := time.Now()
	require.NoError(t, admin.Delete(t.Context(), holder(ns, "")))
	awaitGone(t, page)
	require.Greater(t, time.Since(began), 10*time.Second)
	awaitReady(t, ns)

	gone := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: elsewhere}}
	require.NoError(t, admin.Delete(t.Context(), gone))
	await(t, func(c *assert.CollectT) {
		require.True(c, apierrors.IsNotFound(admin.Get(t.Context(), client.ObjectKeyFromObject(gone), gone)))
	})
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "ConfigMap "+ns+"/away", "missing with its Namespace", "spec.manifestFrom")
	require.NoError(t, mergePatch(getVidraResource(t, ns), `{"spec":{"manifestFrom":null}}`))
	awaitGone(t, declaredObject(t, ns, configMap("away", "hello"), "ConfigMap", "away"))
	awaitReady(t, ns)
}
