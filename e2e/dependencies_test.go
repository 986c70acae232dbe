package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// dependingOn sets spec.dependsOn.
func dependingOn(names ...string) func(*v1alpha1.VidraResource) {
	return func(v *v1alpha1.VidraResource) { v.Spec.DependsOn = dependencies(names...) }
}

func dependencies(names ...string) (all []v1alpha1.Dependency) {
	for _, name := range names {
		all = append(all, v1alpha1.Dependency{Name: name})
	}
	return all
}

// suspendedFrom suspends a VidraResource from its creation, so that it is not Ready.
func suspendedFrom(v *v1alpha1.VidraResource) { v.Spec.Suspend = true }

func setDependencies(t *testing.T, name string, on ...string) {
	t.Helper()
	changeSpec(t, name, func(spec *v1alpha1.VidraResourceSpec) { spec.DependsOn = dependencies(on...) })
}

func resume(t *testing.T, name string) {
	t.Helper()
	changeSpec(t, name, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = false })
}

// pageOf returns the ConfigMap of that name in the namespace.
func pageOf(t *testing.T, ns, name string) *unstructured.Unstructured {
	t.Helper()
	return declaredObject(t, ns, configMap(name, ""), "ConfigMap", name)
}

func requireAbsent(t require.TestingT, obj client.Object) {
	copied, _ := obj.DeepCopyObject().(client.Object)
	err := admin.Get(context.Background(), client.ObjectKeyFromObject(obj), copied)
	require.True(t, apierrors.IsNotFound(err), "it exists: %v", err)
}

// TestDependsOn: a VidraResource is applied when those that it depends on are Ready: the missing, suspended and deleted ones, and those
// with a new generation.
func TestDependsOn(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	base, app := ns+"-base", ns+"-app"
	newVidraResource(t, ns, configMap("app", "one"), named(app), dependingOn(base))
	awaitNotReadyAnyGeneration(t, app, v1alpha1.ReasonDependencyNotReady, "VidraResource "+base+" does not exist")
	requireAbsent(t, pageOf(t, ns, "app"))

	newVidraResource(t, ns, configMap("base", "one"), named(base), suspendedFrom)
	awaitNotReadyAnyGeneration(t, app, v1alpha1.ReasonDependencyNotReady, "VidraResource "+base+" is not Ready (Suspended)")
	mark := auditMark(t)
	resume(t, base)
	awaitReady(t, app)
	require.Equal(t, "one", greeting(t, pageOf(t, ns, "app")))
	first, second := get(t, pageOf(t, ns, "base")).GetCreationTimestamp(), get(t, pageOf(t, ns, "app")).GetCreationTimestamp()
	require.False(t, second.Before(&first), "the base is created first")
	require.NotEmpty(t, operatorSince(t, mark).On("configmaps", ns, "app").Writes())

	t.Log("An applied VidraResource stays Ready when its dependency is not.")
	changeSpec(t, base, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend, spec.Manifest = true, configMap("base", "two") })
	awaitNotReadyAnyGeneration(t, base, v1alpha1.ReasonSuspended)
	reconcileNow(t, app)
	awaitReady(t, app)
	require.NoError(t, mergePatch(pageOf(t, ns, "app"), `{"data":{"greeting":"mine"}}`))
	await(t, func(c *assert.CollectT) { require.Equal(c, "one", greeting(c, pageOf(t, ns, "app"))) })

	t.Log("A new manifest waits, and edits are reverted to the applied one, also of objects that it changes.")
	setManifest(t, app, manifests(configMap("app", "two"), configMap("more", "two")))
	awaitNotReadyAnyGeneration(t, app, v1alpha1.ReasonDependencyNotReady)
	require.NoError(t, mergePatch(pageOf(t, ns, "app"), `{"data":{"greeting":"mine"}}`))
	await(t, func(c *assert.CollectT) { require.Equal(c, "one", greeting(c, pageOf(t, ns, "app"))) })
	requireAbsent(t, pageOf(t, ns, "more"))
	v := getVidraResource(t, app)
	require.NotEqual(t, v.Generation, v.Status.ObservedGeneration)
	resume(t, base)
	awaitReady(t, app)
	require.Equal(t, "two", greeting(t, pageOf(t, ns, "app")))
	require.Equal(t, "two", greeting(t, pageOf(t, ns, "more")))

	t.Log("It goes, and comes back.")
	require.NoError(t, admin.Patch(t.Context(), getVidraResource(t, base), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`))))
	require.NoError(t, deleteVidraResource(t.Context(), base))
	setManifest(t, app, configMap("app", "three"))
	awaitNotReadyAnyGeneration(t, app, v1alpha1.ReasonDependencyNotReady, "is being deleted")
	setDependencies(t, app)
	await(t, func(c *assert.CollectT) {
		require.Equal(c, "three", greeting(c, pageOf(t, ns, "app")), "it depends on nothing any more")
	})
	requireGoneSoon := func() { awaitGone(t, pageOf(t, ns, "more")) }
	requireGoneSoon()
	require.NoError(t, admin.Patch(t.Context(), getVidraResource(t, base), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
}

// awaitNotReadyAnyGeneration waits for a reason of Ready and parts of its message, whatever generation the status is of.
func awaitNotReadyAnyGeneration(t *testing.T, name, reason string, parts ...string) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		ready := condition(c, getVidraResource(c, name), v1alpha1.ConditionReady)
		require.Equal(c, reason, ready.Reason)
		for _, part := range parts {
			require.Contains(c, ready.Message, part)
		}
	})
}

// TestWaitingCostsNoRequest has a VidraResource wait, and looks for requests about it.
func TestWaitingCostsNoRequest(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	app := ns + "-app"
	newVidraResource(t, ns, configMap("app", "one"), named(app), dependingOn(ns+"-base"))
	awaitNotReadyAnyGeneration(t, app, v1alpha1.ReasonDependencyNotReady)
	mark := auditMark(t)
	other := ns + "-other"
	newVidraResource(t, ns, configMap("other", "one"), named(other))
	awaitReady(t, other)
	for range 5 { // time passes: edits of another VidraResource are reverted
		require.NoError(t, mergePatch(pageOf(t, ns, "other"), `{"data":{"greeting":"mine"}}`))
		await(t, func(c *assert.CollectT) { require.Equal(c, "one", greeting(c, pageOf(t, ns, "other"))) })
	}
	require.Empty(t, operatorSince(t, mark).Only(nameIs(app)))
	require.Empty(t, operatorSince(t, mark).On("configmaps", ns, "app"))
}

// TestDependencyCycles: a cycle is reported with its path, and ends when one of its dependencies is removed.
func TestDependencyCycles(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	a, b, c := ns+"-a", ns+"-b", ns+"-c"
	for name, on := range map[string]string{a: b, b: c, c: a} {
		newVidraResource(t, ns, configMap(name, "hello"), named(name), dependingOn(on))
	}
	for name, path := range map[string]string{a: a + " -> " + b + " -> " + c + " -> " + a, c: c + " -> " + a + " -> " + b + " -> " + c} {
		awaitNotReadyAnyGeneration(t, name, v1alpha1.ReasonDependencyNotReady, "depend on each other, so that none is applied: "+path)
	}
	beside := ns + "-d"
	newVidraResource(t, ns, configMap(beside, "hello"), named(beside), dependingOn(a))
	awaitNotReadyAnyGeneration(t, beside, v1alpha1.ReasonDependencyNotReady, a+" -> "+b+" -> "+c+" -> "+a)
	err := admin.Create(t.Context(), &v1alpha1.VidraResource{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-self"}, Spec: v1alpha1.VidraResourceSpec{DependsOn: dependencies(ns + "-self")},
	})
	require.ErrorContains(t, err, "spec.dependsOn names the VidraResource itself")

	setDependencies(t, b)
	for _, name := range []string{b, a, c, beside} {
		awaitReady(t, name)
	}
	setDependencies(t, b, c)
	for _, name := range []string{a, b, c, beside} {
		awaitReady(t, name) // nothing waits
	}
	all := []*v1alpha1.VidraResource{getVidraResource(t, a), getVidraResource(t, b), getVidraResource(t, c)}
	for _, v := range append(all, getVidraResource(t, beside)) {
		require.NoError(t, deleteVidraResource(t.Context(), v.Name))
	}
	for _, v := range all {
		awaitGone(t, v) // a deadlock otherwise
	}
}

// TestDependentsAreRemovedFirst deletes a VidraResource with one that depends on it, in the wrong order.
func TestDependentsAreRemovedFirst(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	base, app := ns+"-base", ns+"-app"
	newVidraResource(t, ns, configMap("base", "hello"), named(base))
	held := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app, finalizers: [example.com/hold]}\n"
	newVidraResource(t, ns, held, named(app), dependingOn(base))
	awaitReady(t, app)
	v := getVidraResource(t, base)
	require.NoError(t, deleteVidraResource(t.Context(), base))
	awaitNotReadyAnyGeneration(t, base, v1alpha1.ReasonDeleting, "when VidraResource "+app+" is gone", "delete it, too")
	require.NoError(t, deleteVidraResource(t.Context(), app))
	awaitNotReadyAnyGeneration(t, base, v1alpha1.ReasonDeleting, "when VidraResource "+app+" is gone", "it is being deleted")
	await(t, func(c *assert.CollectT) { require.NotNil(c, get(c, pageOf(t, ns, "app")).GetDeletionTimestamp()) })
	require.Nil(t, get(t, pageOf(t, ns, "base")).GetDeletionTimestamp())
	require.NoError(t, mergePatch(pageOf(t, ns, "app"), `{"metadata":{"finalizers":null}}`))
	awaitGone(t, v)
	awaitGone(t, pageOf(t, ns, "base"))
}

// TestDeletionWithoutItsDependents: the deletion waits for a dependent that stays for a minute, and not for one that drops the dependency.
func TestDeletionWithoutItsDependents(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(t *testing.T, app string){
		"dropped": func(t *testing.T, app string) { t.Helper(); setDependencies(t, app) },
		"stays":   func(t *testing.T, _ string) { t.Helper() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			base, app := ns+"-base", ns+"-app"
			newVidraResource(t, ns, configMap("base", "hello"), named(base))
			newVidraResource(t, ns, configMap("app", "hello"), named(app), dependingOn(base))
			awaitReady(t, app)
			v := getVidraResource(t, base)
			require.NoError(t, deleteVidraResource(t.Context(), base))
			awaitNotReadyAnyGeneration(t, base, v1alpha1.ReasonDeleting, app)
			get(t, pageOf(t, ns, "base"))
			free(t, app)
			awaitGoneFor(t, 2*time.Minute+patience, v)
			requireAbsent(t, pageOf(t, ns, "base"))
			awaitReady(t, app)
		})
	}
}

// TestDependenciesAfterARestart kills Vidra while a VidraResource waits, with and without applied objects. It is not parallel: it stops the
// operator.
func TestDependenciesAfterARestart(t *testing.T) {
	ns := newNamespace(t)
	base, app, fresh := ns+"-base", ns+"-app", ns+"-fresh"
	newVidraResource(t, ns, configMap("base", "one"), named(base))
	newVidraResource(t, ns, manifests(configMap("app", "one"), configMap("same", "one")), named(app), dependingOn(base))
	awaitReady(t, app)
	changeSpec(t, base, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend, spec.Manifest = true, configMap("base", "two") })
	awaitNotReadyAnyGeneration(t, base, v1alpha1.ReasonSuspended)
	setManifest(t, app, manifests(configMap("app", "two"), configMap("same", "one")))
	newVidraResource(t, ns, configMap("fresh", "one"), named(fresh), dependingOn(base))
	awaitNotReadyAnyGeneration(t, app, v1alpha1.ReasonDependencyNotReady)
	awaitNotReadyAnyGeneration(t, fresh, v1alpha1.ReasonDependencyNotReady)
	killOperator(t)
	require.NoError(t, mergePatch(pageOf(t, ns, "same"), `{"data":{"greeting":"mine"}}`))
	startOperator(t)
	await(t, func(c *assert.CollectT) { require.Equal(c, "one", greeting(c, pageOf(t, ns, "same"))) })
	reconcileLater := func() {
		awaitNotReadyAnyGeneration(t, app, v1alpha1.ReasonDependencyNotReady)
		awaitNotReadyAnyGeneration(t, fresh, v1alpha1.ReasonDependencyNotReady)
	}
	reconcileLater()
	require.Equal(t, "one", greeting(t, pageOf(t, ns, "app")))
	requireAbsent(t, pageOf(t, ns, "fresh"))
	v := getVidraResource(t, fresh)
	require.NoError(t, deleteVidraResource(t.Context(), fresh))
	awaitGone(t, v)
	resume(t, base)
	awaitReady(t, app)
	require.Equal(t, "two", greeting(t, pageOf(t, ns, "app")))
}
