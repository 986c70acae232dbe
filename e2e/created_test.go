package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// created is a ConfigMap that Vidra creates and never changes.
func created(name, text string, policy v1alpha1.ApplyPolicy) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n  annotations: {" + v1alpha1.ApplyAnnotation + ": " + string(policy) + "}\ndata: {greeting: " + text + "}\n"
}

// deleteNow deletes an object and returns its UID.
func deleteNow(t *testing.T, obj *unstructured.Unstructured) string {
	t.Helper()
	uid := string(get(t, obj).GetUID())
	require.NoError(t, admin.Delete(t.Context(), obj.DeepCopy()))
	return uid
}

// reconcileNow requests a reconcile of all objects, and waits for it.
func reconcileNow(t *testing.T, name string) {
	t.Helper()
	at := time.Now().Format(time.RFC3339Nano)
	require.NoError(t, mergePatch(getVidraResource(t, name), `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ReconcileRequestedAtAnnotation, at))
	await(t, func(c *assert.CollectT) {
		require.Equal(c, at, getVidraResource(c, name).Status.LastHandledReconcileAt)
	})
}

// TestIfNotPresent: the object is created whenever it does not exist, and not changed otherwise, by whatever Vidra does.
func TestIfNotPresent(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(created("page", "hello", v1alpha1.ApplyIfNotPresent), configMap("other", "hello")))
	awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", ""), "ConfigMap", "page")
	other := declaredObject(t, ns, configMap("other", ""), "ConfigMap", "other")
	mark := auditMark(t)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	require.NoError(t, mergePatch(other, `{"data":{"greeting":"mine"}}`))
	await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, other), "others are reverted") })
	setManifest(t, ns, manifests(created("page", "new", v1alpha1.ApplyIfNotPresent), configMap("other", "new")))
	await(t, func(c *assert.CollectT) { require.Equal(c, "new", greeting(c, other)) })
	reconcileNow(t, ns)
	v := awaitReady(t, ns)
	require.Equal(t, "mine", greeting(t, page), "neither the edit nor the new manifest changes it")
	require.Equal(t, metav1.ConditionFalse, condition(t, v, v1alpha1.ConditionDrifted).Status)
	require.Equal(t, v1alpha1.ObjectApplied, entry(t, v, "ConfigMap", "page").State)
	require.Empty(t, operatorSince(t, mark).On("configmaps", ns, "page").Writes())

	vidra := func(command string, args ...string) string {
		said, problem, _ := commandLine{binary: buildVidra(t), kubeconfig: env.KubeconfigPath, name: command}.run(t, args...)
		return said + problem
	}
	said := vidra("diff", ns)
	require.Regexp(t, `= keep ConfigMap \S*page`, said)
	require.Contains(t, said, "is IfNotPresent, so that Vidra creates it and changes nothing of it")
	said = vidra("why", "configmap/page", "-n", ns)
	require.Contains(t, said, "apply IfNotPresent: edits are left")
	require.Contains(t, said, "Edit the object: Vidra changes nothing of it")
	require.NotContains(t, vidra("forecast", ns), ns+"/page")

	uid := deleteNow(t, page)
	await(t, func(c *assert.CollectT) {
		require.Equal(c, "new", greeting(c, page), "it is created as the manifest has it now")
		require.NotEqual(c, uid, string(get(c, page).GetUID()))
	})
	uid = string(get(t, page).GetUID())
	require.NoError(t, mergePatch(page, `{"metadata":{"labels":{%q:null}},"data":{"greeting":"again"}}`, v1alpha1.ManagedByLabel))
	reconcileNow(t, ns)
	require.Equal(t, "again", greeting(t, page), "without its label it looks deleted")
	require.Equal(t, uid, string(get(t, page).GetUID()))
	require.NoError(t, mergePatch(page, `{"metadata":{"labels":{%q:"vidra"}}}`, v1alpha1.ManagedByLabel))

	setManifest(t, ns, manifests(configMap("page", "managed"), configMap("other", "new")))
	await(t, func(c *assert.CollectT) {
		require.Equal(c, "managed", greeting(c, page), "without the annotation it is managed")
	})
	setManifest(t, ns, manifests(created("page", "managed", v1alpha1.ApplyIfNotPresent), configMap("other", "new")))
	awaitReady(t, ns)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	setManifest(t, ns, configMap("other", "last"))
	awaitGone(t, page)
}

// TestIfNotPresentOfOthers: an object that exists belongs to who created it. It is created when it is gone.
func TestIfNotPresentOfOthers(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1alpha1.ApplyPolicy{v1alpha1.ApplyIfNotPresent, v1alpha1.ApplyCreateOnly} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "page", Namespace: ns}, Data: map[string]string{"greeting": "mine"},
			}, client.FieldOwner(person)))
			newVidraResource(t, ns, manifests(created("page", "hello", policy), configMap("other", "hello")), adopting(v1alpha1.AdoptAlways))
			page := declaredObject(t, ns, configMap("page", ""), "ConfigMap", "page")
			v := awaitReady(t, ns)
			before := get(t, page).GetResourceVersion()
			require.Len(t, v.Status.ManagedResources, 1, "it is not in the inventory")
			mark := auditMark(t)
			reconcileNow(t, ns)
			require.Empty(t, operatorSince(t, mark).On("configmaps", ns, "page").Writes())
			require.Equal(t, before, get(t, page).GetResourceVersion())

			deleteNow(t, page)
			reconcileNow(t, ns)
			await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, page)) })
			require.Len(t, awaitReady(t, ns).Status.ManagedResources, 2)
		})
	}
}

// TestIfNotPresentIsNotRemoved deletes VidraResources: objects of others stay, those that Vidra created go.
func TestIfNotPresentIsNotRemoved(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: ns}}))
	owner := ns + "-owner"
	newVidraResource(t, ns, configMap("managed", "hello"), named(owner))
	awaitReady(t, owner)
	newVidraResource(t, ns, manifests(
		created("theirs", "hello", v1alpha1.ApplyIfNotPresent), created("ours", "hello", v1alpha1.ApplyIfNotPresent), created("managed", "hello", v1alpha1.ApplyIfNotPresent)))
	v := awaitReady(t, ns)
	of := func(name string) *unstructured.Unstructured {
		return declaredObject(t, ns, configMap(name, ""), "ConfigMap", name)
	}
	require.NoError(t, mergePatch(of("ours"), `{"data":{"greeting":"mine"}}`))
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	awaitGone(t, of("ours"))
	get(t, of("theirs"))
	require.Equal(t, "hello", greeting(t, of("managed")))
	require.Len(t, awaitReady(t, owner).Status.ManagedResources, 1)
}

// TestCreateOnly: the object is created once, and again after a deletion when its manifest changes.
func TestCreateOnly(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(created("page", "hello", v1alpha1.ApplyCreateOnly), configMap("other", "hello")))
	awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", ""), "ConfigMap", "page")
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	setManifest(t, ns, manifests(created("page", "new", v1alpha1.ApplyCreateOnly), configMap("other", "new")))
	reconcileNow(t, ns)
	require.Equal(t, "mine", greeting(t, page))
	deleteNow(t, page)
	awaitState(t, ns, "page", v1alpha1.ObjectCompleted)
	reconcileNow(t, ns)
	require.True(t, apierrors.IsNotFound(admin.Get(t.Context(), client.ObjectKeyFromObject(page), page.DeepCopy())))
	awaitReady(t, ns)
	setManifest(t, ns, manifests(created("page", "newer", v1alpha1.ApplyCreateOnly), configMap("other", "new")))
	await(t, func(c *assert.CollectT) { require.Equal(c, "newer", greeting(c, page)) })
	awaitState(t, ns, "page", v1alpha1.ObjectApplied)
}

// TestCreateOnlyAfterARefusal: an object that was deleted is created once its manifest changes, also if the API server refuses it at first.
func TestCreateOnlyAfterARefusal(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, created("page", "hello", v1alpha1.ApplyCreateOnly))
	awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", ""), "ConfigMap", "page")
	deleteNow(t, page)
	awaitState(t, ns, "page", v1alpha1.ObjectCompleted)
	end := noMore(t, ns, "count/configmaps")
	setManifest(t, ns, created("page", "new", v1alpha1.ApplyCreateOnly))
	awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "exceeded quota")
	end()
	await(t, func(c *assert.CollectT) { require.Equal(c, "new", greeting(c, page)) })
	awaitState(t, ns, "page", v1alpha1.ObjectApplied)
}

// TestCreatedObjectsAndSwitches: a deletion is an edit like others, for the switches that keep Vidra from reverts.
func TestCreatedObjectsAndSwitches(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1alpha1.VidraResourceSpec){
		"Suspend": func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true },
		"Warn":    func(spec *v1alpha1.VidraResourceSpec) { spec.Drift = &v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, created("page", "hello", v1alpha1.ApplyIfNotPresent))
			awaitReady(t, ns)
			changeSpec(t, ns, change)
			awaitReady(t, ns)
			page := declaredObject(t, ns, configMap("page", ""), "ConfigMap", "page")
			require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
			deleteNow(t, page)
			awaitState(t, ns, "page", v1alpha1.ObjectDrifted)
			changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend, spec.Drift = false, nil })
			await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, page)) })
			awaitReady(t, ns)
		})
	}
	t.Run("wrong value", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		newVidraResource(t, ns, created("page", "hello", "IfNotpresent"))
		awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, v1alpha1.ApplyAnnotation, `is "IfNotpresent"`, "IfNotPresent or CreateOnly")
	})
}

// TestCreatedObjectsAfterARestart: edits, deletions and a lost status while Vidra is down. It is not parallel: it stops the operator.
func TestCreatedObjectsAfterARestart(t *testing.T) {
	ns := newNamespace(t)
	lost := ns + "-lost"
	newVidraResource(t, ns, manifests(created("edited", "hello", v1alpha1.ApplyIfNotPresent), created("gone", "hello", v1alpha1.ApplyIfNotPresent), created("once", "hello", v1alpha1.ApplyCreateOnly)))
	newVidraResource(t, ns, created("kept", "hello", v1alpha1.ApplyIfNotPresent), named(lost))
	awaitReady(t, ns)
	awaitReady(t, lost)
	of := func(name string) *unstructured.Unstructured {
		return declaredObject(t, ns, configMap(name, ""), "ConfigMap", name)
	}
	stopOperator(t)
	require.NoError(t, mergePatch(of("edited"), `{"data":{"greeting":"mine"}}`))
	require.NoError(t, mergePatch(of("kept"), `{"data":{"greeting":"mine"}}`))
	deleteNow(t, of("gone"))
	deleteNow(t, of("once"))
	editStatus(t, lost, `{"status":{"managedResources":[],"objects":0}}`)
	mark := auditMark(t)
	startOperator(t)
	await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, of("gone"))) })
	awaitState(t, ns, "once", v1alpha1.ObjectCompleted)
	reconcileNow(t, ns)
	reconcileNow(t, lost)
	require.Equal(t, "mine", greeting(t, of("edited")))
	require.Equal(t, "mine", greeting(t, of("kept")))
	accepted := func(name string) requests {
		return operatorSince(t, mark).On("configmaps", ns, name).Writes().Only(func(r request) bool { return r.Code < http.StatusBadRequest })
	}
	require.Empty(t, accepted("edited"))
	require.Empty(t, accepted("kept"))
	require.Len(t, awaitReady(t, lost).Status.ManagedResources, 1, "the object that Vidra created is in the inventory again")
}
