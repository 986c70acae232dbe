package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// TestPartIsRenamed gives a part another key, object or VidraResource, in both orders of the two writes: its objects stay, also where the part is
// optional and missing in between.
func TestPartIsRenamed(t *testing.T) {
	t.Parallel()
	page := configMap("page", "hello")
	text := func(t *testing.T, held *corev1.ConfigMap) {
		t.Helper()
		require.NoError(t, mergePatch(held, `{"data":{"m":null,"n":%q}}`, page))
	}
	cases := map[string]struct {
		reason string
		as     v1alpha1.ManifestSource
		write  func(t *testing.T, held *corev1.ConfigMap)
	}{
		"Key": {"A key of the ConfigMap is renamed.", partIn("ConfigMap", "parts", "n"), text},
		"Secret": {"The part becomes a Secret.", partIn("Secret", "parts", "m"), func(t *testing.T, held *corev1.ConfigMap) {
			t.Helper()
			require.NoError(t, admin.Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: held.Namespace, Name: "parts"}, StringData: map[string]string{"m": page},
			}))
			require.NoError(t, admin.Delete(t.Context(), held.DeepCopy()))
		}},
	}
	for name, tc := range cases {
		for _, optional := range []bool{false, true} {
			for _, specFirst := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/optional=%t/specFirst=%t", name, optional, specFirst), func(t *testing.T) {
					t.Parallel()
					ns := newNamespace(t)
					was, is := partIn("ConfigMap", "parts", "m"), tc.as
					was.Optional, is.Optional = optional, optional
					held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"m": page}}
					require.NoError(t, admin.Create(t.Context(), held))
					newVidraResource(t, ns, configMap("inline", "hello"), fromParts(was))
					awaitReady(t, ns)
					object := declaredObject(t, ns, page, "ConfigMap", "page")
					uid := get(t, object).GetUID()
					respecify := func() {
						changeSpec(t, ns, func(s *v1alpha1.VidraResourceSpec) { s.ManifestFrom = []v1alpha1.ManifestSource{is} })
					}
					if specFirst {
						respecify()
					} else {
						tc.write(t, held)
					}
					if optional {
						awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "ConfigMap "+ns+"/page", "left the manifest")
					} else {
						awaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, "parts")
					}
					if specFirst {
						tc.write(t, held)
					} else {
						respecify()
					}
					awaitReady(t, ns)
					require.Equal(t, uid, get(t, object).GetUID(), tc.reason)
				})
			}
		}
	}
}

// TestPartsWhileVidraIsDown changes parts while no operator runs: objects that move between parts and VidraResources stay, and those of an optional
// part that is missing at the start stay until it is replaced.
//
// It is not parallel, because it stops the operator.
func TestPartsWhileVidraIsDown(t *testing.T) {
	ns := newNamespace(t)
	moved, replaced, giver, taker := ns+"-moved", ns+"-replaced", ns+"-giver", ns+"-taker"
	page := func(name string) string { return configMap(name+"-page", "hello") }
	part := func(name, text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{"m": text}}
	}
	for name, text := range map[string]string{
		"one": manifests(configMap("stays-one", "hello"), page("moved")), "two": configMap("stays-two", "hello"), "optional": page("replaced"), "given": page("given"),
	} {
		require.NoError(t, admin.Create(t.Context(), part(name, text)))
	}
	optional, given := partIn("ConfigMap", "optional", "m"), partIn("ConfigMap", "given", "m")
	optional.Optional = true
	newVidraResource(t, ns, "", named(moved), fromParts(partIn("ConfigMap", "one", "m"), partIn("ConfigMap", "two", "m")))
	newVidraResource(t, ns, configMap("replaced", "hello"), named(replaced), fromParts(optional))
	newVidraResource(t, ns, configMap("giver", "hello"), named(giver), fromParts(given))
	newVidraResource(t, ns, configMap("taker", "hello"), named(taker))
	all := []string{moved, replaced, giver, taker}
	for _, name := range all {
		awaitReady(t, name)
	}
	uids := map[string]types.UID{}
	for _, name := range []string{"moved", "replaced", "given"} {
		uids[name] = get(t, declaredObject(t, ns, page(name), "ConfigMap", name+"-page")).GetUID()
	}

	stopOperator(t)
	require.NoError(t, mergePatch(part("one", ""), `{"data":{"m":%q}}`, configMap("stays-one", "hello")))
	require.NoError(t, mergePatch(part("two", ""), `{"data":{"m":%q}}`, manifests(configMap("stays-two", "hello"), page("moved"))))
	require.NoError(t, admin.Delete(t.Context(), part("optional", "")))
	changeSpec(t, giver, func(s *v1alpha1.VidraResourceSpec) { s.ManifestFrom = nil })
	changeSpec(t, taker, func(s *v1alpha1.VidraResourceSpec) { s.ManifestFrom = []v1alpha1.ManifestSource{given} })
	startAnother(t)
	awaitNotReady(t, replaced, v1alpha1.ReasonProgressing, "ConfigMap "+ns+"/replaced-page", "optional part ConfigMap "+ns+"/optional")
	require.NoError(t, admin.Create(t.Context(), part("optional", page("replaced"))))
	for _, name := range all {
		awaitReady(t, name)
	}
	for name, uid := range uids {
		require.Equal(t, uid, get(t, declaredObject(t, ns, page(name), "ConfigMap", name+"-page")).GetUID(), name)
	}
	require.Equal(t, []string{"vidra/" + taker}, appliedBy(get(t, declaredObject(t, ns, page("given"), "ConfigMap", "given-page"))))
}
