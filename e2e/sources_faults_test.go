package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// TestSecretPartIsNotQuoted edits an object that comes from a Secret, and has another
// one refused: no value is shown.
func TestSecretPartIsNotQuoted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	shown := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shown, annotations: {infrahub.operators.com/sensitive: \"false\"}}\ndata: {greeting: hello}\n"
	require.NoError(t, admin.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "hidden"},
		StringData: map[string]string{
			"m":   manifests(configMap("page", "hunter2"), shown),
			"bad": "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {type: ExternalName, externalName: Hunter2!}\n",
		},
	}))
	existing := declared(t, ns, configMap("page", "hunter2"))[0]
	require.NoError(t, admin.Create(t.Context(), existing)) // what withholds values is no difference
	v := newVidraResource(t, ns, "", fromParts(partIn("Secret", "hidden", "m")))
	awaitReady(t, ns)
	page := declared(t, ns, configMap("page", "hunter2"))[0]
	require.Equal(t, "true", get(t, page).GetAnnotations()[ownership.SensitiveAnnotation])
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitInOrder(t, ns, page)
	e := awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "ConfigMap "+ns+"/page", "data.greeting")
	require.NotContains(t, e.Note, "hunter2")
	require.NotContains(t, e.Note, "mine")
	open := declared(t, ns, shown)[0]
	require.NoError(t, mergePatch(open, `{"data":{"greeting":"mine"}}`))
	awaitInOrder(t, ns, open)
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "ConfigMap "+ns+"/shown", `to "hello"; "person" had set it to "mine"`)

	require.NoError(t, mergePatch(getVidraResource(t, ns), `{"spec":{"manifestFrom":[{"kind":"Secret","name":"hidden","key":"m"},{"kind":"Secret","name":"hidden","key":"bad"}]}}`))
	got := awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "spec.externalName", "withheld")
	require.NotContains(t, fmt.Sprint(got.Status), "Hunter2")
}

// TestPartThatNeverWas does not read a missing part again and again: its watch shows when it is created.
func TestPartThatNeverWas(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, "", fromParts(partIn("ConfigMap", "missing", "m")))
	awaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, "ConfigMap "+ns+"/missing", "does not exist")
	mark := auditMark(t)
	reads := func() requests { return operatorSince(t, mark).On("configmaps", ns, "missing").Only(verbIs("get")) }
	// With a backoff that begins at half a second there would be five. Removals of other VidraResources may ask for it, too.
	require.Never(t, func() bool { return len(reads()) > 3 }, 15*time.Second, time.Second, "it is read again and again")
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "missing"}, Data: map[string]string{"m": configMap("page", "hello")},
	}))
	awaitReady(t, ns)
}

// TestHealsWhileAPartIsBroken puts objects back while a part cannot be read, and does not
// read it again for that.
func TestHealsWhileAPartIsBroken(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"m": configMap("other", "hello")}}
	require.NoError(t, admin.Create(t.Context(), held))
	newVidraResource(t, ns, configMap("page", "hello"), fromParts(partIn("ConfigMap", "parts", "m")))
	awaitReady(t, ns)
	require.NoError(t, mergePatch(held, `{"data":{"m":"a: ["}}`))
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid)
	page := declared(t, ns, configMap("page", "hello"))[0]
	const heals = 20
	mark := auditMark(t)
	for i := range heals {
		require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine %d"}}`, i))
		awaitInOrder(t, ns, page)
	}
	reads := operatorSince(t, mark).On("configmaps", ns, "parts").Only(verbIs("get"))
	require.Less(t, len(reads), heals/2, "it is read again when it is time to, and not for each heal: %s", reads)

	require.NoError(t, mergePatch(held, `{"data":{"m":%q}}`, configMap("other", "again")))
	awaitReady(t, ns)
	requireInOrder(t, ns, declared(t, ns, configMap("other", "again"))[0])
}

// TestChangedSourceAfterManyFailures: a changed source is applied with the first delays of a backoff, whose last ones are for the former manifest.
func TestChangedSourceAfterManyFailures(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"m": configMap("page", "hello")}}
	require.NoError(t, admin.Create(t.Context(), held))
	const long = 6 * time.Second
	var broken, again atomic.Bool
	var delay atomic.Int64 // the longest one between two attempts
	broken.Store(true)
	last := time.Now()
	var mu sync.Mutex
	startWebhook(t, ns, false, func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if r.Name != "page" || !broken.Load() {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		delay.Store(max(delay.Load(), int64(time.Since(last))))
		last = time.Now()
		again.Store(bytes.Contains(r.Object.Raw, []byte("again")))
		panic(http.ErrAbortHandler)
	})
	newVidraResource(t, ns, "", fromParts(partIn("ConfigMap", "parts", "m")))
	await(t, func(c *assert.CollectT) { require.Greater(c, time.Duration(delay.Load()), long) })
	former := time.Duration(delay.Load())
	require.NoError(t, mergePatch(held, `{"data":{"m":%q}}`, configMap("page", "again")))
	await(t, func(c *assert.CollectT) { require.True(c, again.Load()) })
	broken.Store(false)
	began := time.Now()
	awaitReady(t, ns)
	require.Less(t, time.Since(began), former, "the next delay of the former manifest is twice as long")
}

// TestHealsAfterARestartWhileAPartIsBroken: the applied manifest was kept. It is not parallel: it kills the operator.
func TestHealsAfterARestartWhileAPartIsBroken(t *testing.T) {
	ns := newNamespace(t)
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"m": configMap("other", "hello")}}
	require.NoError(t, admin.Create(t.Context(), held))
	manifest := configMap("page", "hello")
	newVidraResource(t, ns, manifest, fromParts(partIn("ConfigMap", "parts", "m")))
	awaitReady(t, ns)
	page, other := declared(t, ns, manifest)[0], declared(t, ns, configMap("other", "hello"))[0]
	require.NoError(t, mergePatch(held, `{"data":{"m":"a: ["}}`))
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid)
	killOperator(t)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	startOperator(t)
	awaitInOrder(t, ns, page)
	require.NoError(t, admin.Delete(t.Context(), held))
	awaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable)
	require.NoError(t, mergePatch(other, `{"data":{"greeting":"mine"}}`))
	awaitInOrder(t, ns, page, other)

	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Manifest = configMap("page", "bye") })
	awaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable)
	held.ResourceVersion, held.Data = "", map[string]string{"m": configMap("other", "again")}
	require.NoError(t, admin.Create(t.Context(), held))
	awaitReady(t, ns)
	for _, obj := range declared(t, ns, manifests(configMap("page", "bye"), configMap("other", "again"))) {
		requireInOrder(t, ns, obj)
	}
}

// TestManifestsThatHoldEachOther refuses the second of two VidraResources that hold each
// other, so that both can be deleted.
func TestManifestsThatHoldEachOther(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	one, two := ns+"-one", ns+"-two"
	holding := func(name, key string) string {
		return fmt.Sprintf(`{"apiVersion":"infrahub.operators.com/v1alpha1","kind":"VidraResource","metadata":{"name":%q},`+
			`"spec":{"destination":{"namespace":%q},"manifestFrom":[{"kind":"ConfigMap","name":"parts","key":%q}]}}`, name, ns, key)
	}
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"one": holding(two, "two"), "two": holding(one, "one")},
	}))
	v := newVidraResource(t, ns, "", named(one), fromParts(partIn("ConfigMap", "parts", "one")))
	await(t, func(c *assert.CollectT) {
		ready := condition(c, getVidraResource(c, two), v1alpha1.ConditionReady)
		require.Equal(c, v1alpha1.ReasonManifestInvalid, ready.Reason)
		require.Contains(c, ready.Message, "holds the VidraResource "+one+", whose manifest holds the VidraResource "+two)
	})
	require.NoError(t, deleteVidraResource(t.Context(), one))
	awaitGone(t, v)
	awaitGone(t, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: two}})
}

// TestTouchedSourceRetriesNothing: changes of the metadata alone of a source cause no attempts at an object whose apply fails.
func TestTouchedSourceRetriesNothing(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"m": configMap("page", "hello")}}
	require.NoError(t, admin.Create(t.Context(), held))
	var rare atomic.Bool
	var attempts atomic.Int32
	var last atomic.Int64
	startWebhook(t, ns, false, func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if r.Name != "page" {
			return nil
		}
		attempts.Add(1)
		before := last.Swap(time.Now().UnixNano())
		rare.Store(rare.Load() || before > 0 && time.Since(time.Unix(0, before)) > 6*time.Second)
		panic(http.ErrAbortHandler)
	})
	newVidraResource(t, ns, "", fromParts(partIn("ConfigMap", "parts", "m")))
	await(t, func(c *assert.CollectT) { require.True(c, rare.Load(), "the next attempt is far away") })
	attempts.Store(0)
	mark := auditMark(t)
	for i := range 30 {
		require.NoError(t, mergePatch(held, `{"metadata":{"annotations":{"touched":"%d"}}}`, i))
		time.Sleep(300 * time.Millisecond)
	}
	reads := operatorSince(t, mark).On("configmaps", ns, "parts").Only(verbIs("get"))
	require.LessOrEqual(t, len(reads), 60, "it is read once or twice for each change")
	require.LessOrEqual(t, attempts.Load(), int32(4))
	require.NoError(t, mergePatch(held, `{"data":{"m":%q}}`, configMap("page", "again")))
	attempts.Store(0)
	await(t, func(c *assert.CollectT) { require.Positive(c, attempts.Load()) })
}

// TestFailingObjectOfASourceThatReturns: an object whose apply fails is tried again as soon as a source with the same content can be read again.
func TestFailingObjectOfASourceThatReturns(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	const long = 12 * time.Second
	source := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"m": configMap("page", "hello")}}
	}
	require.NoError(t, admin.Create(t.Context(), source()))
	var last, gap atomic.Int64
	startWebhook(t, ns, false, func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if r.Name != "page" {
			return nil
		}
		now := time.Now().UnixNano()
		if before := last.Swap(now); before > 0 {
			gap.Store(now - before)
		}
		panic(http.ErrAbortHandler)
	})
	newVidraResource(t, ns, "", fromParts(partIn("ConfigMap", "parts", "m")))
	await(t, func(c *assert.CollectT) {
		require.Greater(c, time.Duration(gap.Load()), long, "the next attempt is far away")
	})
	before, former := last.Load(), time.Duration(gap.Load())
	require.NoError(t, admin.Delete(t.Context(), source()))
	awaitNotReadyAnyGeneration(t, ns, v1alpha1.ReasonSourceUnavailable)
	require.NoError(t, admin.Create(t.Context(), source()))
	await(t, func(c *assert.CollectT) { require.NotEqual(c, before, last.Load()) })
	require.Less(t, time.Duration(gap.Load()), former*3/2, "the next delay is twice as long")
}
