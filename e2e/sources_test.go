package e2e

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// fromParts has the manifest come from ConfigMaps and Secrets.
func fromParts(parts ...v1alpha1.ManifestSource) func(*v1alpha1.VidraResource) {
	return func(v *v1alpha1.VidraResource) { v.Spec.ManifestFrom = parts }
}

// partIn is one key of a ConfigMap or Secret.
func partIn(kind, name, key string) v1alpha1.ManifestSource {
	return v1alpha1.ManifestSource{Kind: kind, Name: name, Key: key}
}

// TestManifestInParts reads a manifest from a ConfigMap and a Secret, follows their
// changes, and does nothing while one of them is missing.
func TestManifestInParts(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	held := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"},
		Data:       map[string]string{"a.yaml": configMap("from-config", "one")},
		BinaryData: map[string][]byte{"b.yaml": []byte(configMap("second", "one"))},
	}
	require.NoError(t, admin.Create(t.Context(), held))
	newVidraResource(t, ns, configMap("inline", "one"), fromParts(
		partIn("ConfigMap", "parts", "a.yaml"), partIn("ConfigMap", "parts", "b.yaml"), partIn("Secret", "hidden", "m")))
	v := awaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, "Secret "+ns+"/hidden", "does not exist", "spec.manifestFrom[2]")
	require.Equal(t, v1alpha1.DeployPending, v.Status.DeployState)
	require.Empty(t, v.Status.ManagedResources, "nothing is applied before all parts are there")
	awaitEvent(t, v, corev1.EventTypeWarning, v1alpha1.ReasonSourceUnavailable, "Apply", "hidden")

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "hidden"}, StringData: map[string]string{"m": configMap("from-secret", "one")}}
	require.NoError(t, admin.Create(t.Context(), secret))
	v = awaitReady(t, ns)
	require.Len(t, v.Status.ManagedResources, 4)

	all := func(greeting string) string {
		return manifests(configMap("inline", "one"), configMap("from-config", greeting), configMap("from-secret", "one"))
	}
	mark := auditMark(t)
	require.NoError(t, mergePatch(held, `{"data":{"a.yaml":%q},"binaryData":{"b.yaml":%q}}`,
		configMap("from-config", "two"), base64.StdEncoding.EncodeToString([]byte("# nothing"))))
	v = awaitNotReady(t, ns, v1alpha1.ReasonManifestEmpty, "ConfigMap "+ns+"/parts, key b.yaml")
	require.Len(t, v.Status.ManagedResources, 4, "a part that holds nothing removes nothing")
	base := getVidraResource(t, ns)
	require.NoError(t, mergePatch(base, `{"spec":{"manifestFrom":[{"kind":"ConfigMap","name":"parts","key":"a.yaml"},{"kind":"Secret","name":"hidden","key":"m"}]}}`))
	await(t, func(c *assert.CollectT) {
		v := getVidraResource(c, ns)
		require.Len(c, v.Status.ManagedResources, 3, "what left the manifest is pruned")
		live := get(c, declaredObject(t, ns, all("two"), "ConfigMap", "from-config"))
		require.Contains(c, fmt.Sprint(live.Object["data"]), "two")
	})
	awaitReady(t, ns)
	for _, d := range declared(t, ns, all("two")) {
		requireInOrder(t, ns, d)
	}
	patches := operatorSince(t, mark).Only(verbIs("patch")).ObjectsIn(ns)
	require.Len(t, patches, 1, "what did not change is not applied: %s", patches)

	// A part that cannot be read changes nothing, and quotes nothing of a Secret.
	require.NoError(t, mergePatch(secret, `{"stringData":{"m":"password: hunter2: ["}}`))
	v = awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "Secret "+ns+"/hidden", "document 1", "withheld")
	require.NotContains(t, fmt.Sprint(v.Status), "hunter2")
	require.Len(t, v.Status.ManagedResources, 3)
	require.NoError(t, mergePatch(secret, `{"stringData":{"m":%q}}`, configMap("from-secret", "one")))
	awaitReady(t, ns)

	// Without a part, or its key, everything stays as it is.
	require.NoError(t, mergePatch(secret, `{"data":{"m":null}}`))
	awaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, "hidden", "does not have this key")
	require.NoError(t, admin.Delete(t.Context(), secret))
	awaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, "hidden")
	for _, d := range declared(t, ns, all("two")) {
		requireInOrder(t, ns, d)
	}
	elsewhere := newNamespace(t)
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: "parts"}, Data: map[string]string{"c.yaml": configMap("from-elsewhere", "one")},
	}))
	base = getVidraResource(t, ns)
	require.NoError(t, mergePatch(base, `{"spec":{"manifestFrom":[{"kind":"ConfigMap","name":"parts","key":"a.yaml"},
		{"kind":"Secret","name":"hidden","key":"m","optional":true},{"kind":"ConfigMap","name":"parts","key":"none","optional":true},
		{"kind":"ConfigMap","name":"parts","namespace":%q,"key":"c.yaml"}]}}`, elsewhere))
	v = awaitReady(t, ns)
	require.Len(t, v.Status.ManagedResources, 3, "an optional part, or its key, may be missing")
	requireInOrder(t, ns, declaredObject(t, ns, configMap("from-elsewhere", "one"), "ConfigMap", "from-elsewhere"))
}

// TestManifestTwiceInParts finds an object that two parts hold.
func TestManifestTwiceInParts(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"a": configMap("same", "one")}}
	require.NoError(t, admin.Create(t.Context(), held))
	newVidraResource(t, ns, configMap("same", "two"), fromParts(partIn("ConfigMap", "parts", "a")))
	v := awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "ConfigMap "+ns+"/parts, key a", "twice", "spec.manifest, document 1")
	require.Empty(t, v.Status.ManagedResources)
}

// TestLargeManifest keeps 400 objects, and 1,000 in long tests, of a manifest that no object
// could hold.
func TestLargeManifest(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	const parts, size = 4, 500_000
	each := suite.Size(100, 250)
	padding := strings.Repeat("x", size/each)
	var from []v1alpha1.ManifestSource
	for p := range parts {
		var documents []string
		for i := range each {
			documents = append(documents, fmt.Sprintf("%s  padding: %s\n", configMap(fmt.Sprintf("large-%d-%d", p, i), "hello"), padding))
		}
		held := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("part-%d", p)},
			Data:       map[string]string{"m": manifests(documents...)},
		}
		require.NoError(t, admin.Create(t.Context(), held))
		from = append(from, partIn("ConfigMap", held.Name, "m"))
	}
	newVidraResource(t, ns, "", fromParts(from...))
	const long = 3 * time.Minute
	awaitLong := func(reason string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			require.Equal(c, reason, condition(c, getVidraResource(c, ns), v1alpha1.ConditionReady).Reason)
		}, long, time.Second)
	}
	awaitLong(v1alpha1.ReasonApplied)
	v := awaitReady(t, ns)
	require.Len(t, v.Status.ManagedResources, parts*each)
	name := fmt.Sprintf("large-%d-%d", parts-1, each-1)
	last := declaredObject(t, ns, configMap(name, "hello"), "ConfigMap", name)
	mark := auditMark(t)
	require.NoError(t, mergePatch(last, `{"data":{"greeting":"changed"}}`))
	awaitInOrder(t, ns, last)
	requireCount(t, 1, func() requests { return operatorSince(t, mark).Only(verbIs("patch")).ObjectsIn(ns) })

	// One that would not fit into the API server with its status is refused before
	// anything is changed.
	var many []string
	for i := range 4000 {
		many = append(many, configMap(fmt.Sprintf("%s-%d", strings.Repeat("long", 40), i), "hello"))
	}
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "many"}, Data: map[string]string{"m": manifests(many...)}}
	require.NoError(t, admin.Create(t.Context(), held))
	mark = auditMark(t)
	require.NoError(t, mergePatch(getVidraResource(t, ns), `{"spec":{"manifestFrom":[{"kind":"ConfigMap","name":"many","key":"m"}]}}`))
	awaitLong(v1alpha1.ReasonManifestInvalid)
	v = awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "4000 objects", "several VidraResources")
	require.Len(t, v.Status.ManagedResources, parts*each)
	require.Empty(t, operatorSince(t, mark).Only(verbIs("patch")).ObjectsIn(ns))
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGoneFor(t, long, v)
}
