package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestOwnDeletionIsNoEdit: an object that Vidra deletes is created again when the manifest has it as before, with each policy about edits and after a kill. Its
// deletion is no edit of a user.
func TestOwnDeletionIsNoEdit(t *testing.T) {
	removed := [2]string{manifests(configMap("stays", "hello"), configMap("page", "one")), configMap("stays", "hello")}
	replaced := [2]string{"immutable: true\n" + configMap("page", "one"), "immutable: true\n" + configMap("page", "two")}
	for name, tc := range map[string]struct {
		manifests [2]string
		mode      v1alpha1.DriftMode
		kill      bool
	}{
		"Removed":           {removed, v1alpha1.DriftWarn, false},
		"RemovedAndKilled":  {removed, v1alpha1.DriftIgnore, true},
		"Replaced":          {replaced, v1alpha1.DriftIgnore, false},
		"ReplacedAndKilled": {replaced, v1alpha1.DriftWarn, true},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := tc.manifests[0], tc.manifests[1]
			ns := newNamespace(t)
			newVidraResource(t, ns, before, forced, withDrift(v1alpha1.DriftPolicy{Mode: tc.mode}))
			awaitReady(t, ns)
			page := declaredObject(t, ns, before, "ConfigMap", "page")
			uid := get(t, page).GetUID()
			freeLater(t, page)
			require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":["example.com/wait"]}}`))
			setManifest(t, ns, after)
			await(t, func(c *assert.CollectT) {
				require.NotNil(c, get(c, page).GetDeletionTimestamp())
				e := entry(c, getVidraResource(c, ns), "ConfigMap", "page")
				require.True(c, e.State == v1alpha1.ObjectDeleting || e.Recreated != nil, "the status has the deletion")
			})
			if tc.kill {
				killOperator(t)
			}
			setManifest(t, ns, before)
			require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":null}}`))
			if tc.kill {
				startOperator(t)
			}
			await(t, func(c *assert.CollectT) {
				require.True(c, cluster.Exists(c, page))
				require.NotEqual(c, uid, get(c, page).GetUID())
			})
			v := awaitReady(t, ns)
			for _, e := range v.Status.History {
				require.NotEqual(t, "DriftCorrected", e.Reason, e.Message)
			}
			require.Nil(t, v.Status.Drift)
		})
	}
}

// TestOwnDeletionOutlivesARefusal: an object that Vidra deleted, and that the manifest has again, is created although its first creation is impossible. Its absence
// stays no edit of a user, and no end of a Job.
func TestOwnDeletionOutlivesARefusal(t *testing.T) {
	t.Parallel()
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: page}\nspec:\n  suspend: true\n  ttlSecondsAfterFinished: 3600\n" +
		"  template: {spec: {restartPolicy: Never, containers: [{name: main, image: example.com/main}]}}\n"
	for name, tc := range map[string]struct {
		kind, object string
		mode         v1alpha1.DriftMode
		quota        corev1.ResourceName // has the creation refused; otherwise the Namespace of the object is deleted, too
	}{
		"Quota":     {"ConfigMap", configMap("page", "one"), v1alpha1.DriftWarn, "count/configmaps"},
		"Job":       {"Job", job, v1alpha1.DriftCorrect, "count/jobs.batch"},
		"Namespace": {"ConfigMap", configMap("page", "one"), v1alpha1.DriftIgnore, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			in, after := ns, configMap("stays", "hello")
			before := manifests(after, tc.object)
			if tc.quota == "" {
				in = ns + "-in"
				before = manifests(after, namespaceOf(in), pageIn(in, "page", "one"))
			}
			newVidraResource(t, ns, before, withDrift(v1alpha1.DriftPolicy{Mode: tc.mode}))
			awaitReady(t, ns)
			page := declaredObject(t, in, tc.object, tc.kind, "page")
			freeLater(t, page)
			require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":["example.com/wait"]}}`))
			setManifest(t, ns, after)
			awaitState(t, ns, "page", v1alpha1.ObjectDeleting)
			end := func() {}
			if tc.quota != "" {
				end = noMore(t, ns, tc.quota)
			}
			setManifest(t, ns, before)
			reconcileNow(t, ns)
			require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":null}}`))
			if tc.quota != "" {
				awaitState(t, ns, "page", v1alpha1.ObjectFailed)
				end()
			}
			await(t, func(c *assert.CollectT) { require.Nil(c, get(c, page).GetDeletionTimestamp()) })
			v := awaitReady(t, ns)
			require.Equal(t, v1alpha1.ObjectApplied, entry(t, v, tc.kind, "page").State)
			require.Nil(t, entry(t, v, tc.kind, "page").Recreated)
			require.Nil(t, v.Status.Drift)
		})
	}
}

// TestOwnDeletionBeforeItsStatus: the status announces the removal of an object. An operator that is killed between the deletion and the status that has it finds no edit.
func TestOwnDeletionBeforeItsStatus(t *testing.T) {
	ns := newNamespace(t)
	part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"m": configMap("page", "one")}}
	require.NoError(t, admin.Create(t.Context(), part.DeepCopy()))
	optional := partIn("ConfigMap", "parts", "m")
	optional.Optional = true // its objects are removed 15 seconds after it
	newVidraResource(t, ns, configMap("stays", "hello"), fromParts(optional), withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}))
	awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "one"), "ConfigMap", "page")
	require.NoError(t, admin.Delete(t.Context(), part.DeepCopy()))
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "ConfigMap "+ns+"/page", "optional part ConfigMap "+ns+"/parts")
	killOperator(t)
	require.NoError(t, client.IgnoreNotFound(admin.Delete(t.Context(), page.DeepCopy()))) // as the operator does before the next status
	require.NoError(t, admin.Create(t.Context(), part.DeepCopy()))
	startOperator(t)
	await(t, func(c *assert.CollectT) { require.True(c, cluster.Exists(c, page)) })
	v := awaitReady(t, ns)
	require.Nil(t, entry(t, v, "ConfigMap", "page").Recreated)
	require.Nil(t, v.Status.Drift)
}

// TestAbsentObjectsOfAReplacedPart: an object that is absent, as a user deleted it or as it has ended, is none that Vidra deletes. It stays absent when its optional
// part is replaced.
func TestAbsentObjectsOfAReplacedPart(t *testing.T) {
	t.Parallel()
	for _, mode := range []v1alpha1.DriftMode{v1alpha1.DriftWarn, v1alpha1.DriftIgnore} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			text := manifests(configMap("deleted", "one"), created("once", "one", v1alpha1.ApplyCreateOnly), created("running", "one", v1alpha1.ApplyCreateOnly))
			part := func(text string) *corev1.ConfigMap {
				return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"m": text}}
			}
			require.NoError(t, admin.Create(t.Context(), part(text)))
			optional := partIn("ConfigMap", "parts", "m")
			optional.Optional = true
			newVidraResource(t, ns, configMap("stays", "hello"), fromParts(optional), withDrift(v1alpha1.DriftPolicy{Mode: mode}))
			awaitReady(t, ns)
			absent := []*unstructured.Unstructured{}
			for _, name := range []string{"deleted", "once", "running"} {
				absent = append(absent, declaredObject(t, ns, configMap(name, ""), "ConfigMap", name))
			}
			deleteNow(t, absent[0])
			deleteNow(t, absent[1])
			awaitState(t, ns, "once", v1alpha1.ObjectCompleted)
			reconcileNow(t, ns)
			require.NoError(t, admin.Delete(t.Context(), part("")))
			awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "optional part ConfigMap "+ns+"/parts")
			deleteNow(t, absent[2]) // it ends meanwhile
			require.NoError(t, admin.Create(t.Context(), part(manifests(text, configMap("new", "one")))))
			awaitState(t, ns, "new", v1alpha1.ObjectApplied)
			reconcileNow(t, ns)
			for _, object := range absent {
				require.False(t, cluster.Exists(t, object), object.GetName())
			}
		})
	}
}

// noMore has a quota refuse new objects of a resource in a namespace, until end.
func noMore(t *testing.T, ns string, of corev1.ResourceName) (end func()) {
	t.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{of: resource.MustParse("0")}},
	}
	require.NoError(t, admin.Create(t.Context(), quota))
	await(t, func(c *assert.CollectT) { // the API server takes a moment
		require.NoError(c, admin.Get(t.Context(), client.ObjectKeyFromObject(quota), quota))
		require.Contains(c, quota.Status.Used, of)
	})
	return func() { require.NoError(t, admin.Delete(t.Context(), quota)) }
}
