package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestNamespaceWithAKindThatCannotBeListed removes a Namespace with an object that is to be kept, whose kind is served and cannot be listed.
// The Namespace stays until it can be listed, and after that because of the object.
//
// It is not parallel, because it stops the operator.
func TestNamespaceWithAKindThatCannotBeListed(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	stopOperator(t)
	proxy, through := proxied(t)
	startAnother(t, through)
	crd, _ := newKind(t)
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	things := schema.GroupVersionResource{Group: crd.Spec.Group, Version: "v1", Resource: "things"}
	lists := map[string]faultproxy.Fault{}
	for name, refusal := range map[string]apierrors.APIStatus{
		"forbidden":   apierrors.NewForbidden(things.GroupResource(), "", errors.New("injected")),
		"unsupported": apierrors.NewMethodNotSupported(things.GroupResource(), "list"),
		"unaccepted":  apierrors.NewGenericServerResponse(406, "list", things.GroupResource(), "", "not acceptable", 0, true),
		"error":       apierrors.NewInternalError(errors.New("injected")),
		"unavailable": apierrors.NewServiceUnavailable("injected"),
		"notfound":    apierrors.NewGenericServerResponse(404, "list", things.GroupResource(), "", "404 page not found", 0, true),
	} {
		lists[name] = faultproxy.Status(refusal)
	}
	lists["cut"] = faultproxy.CutAfter(10)
	for name, fault := range lists {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			inner := ns + "-inner"
			t.Cleanup(func() {
				_ = admin.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inner}})
			})
			newVidraResource(t, ns, manifests(configMap("fence", "hello"), namespaceOf(inner)))
			awaitReady(t, ns)
			kept := thingIn(crd, inner)
			kept.SetAnnotations(map[string]string{v1alpha1.KeepAnnotation: "true"})
			await(t, func(c *assert.CollectT) { require.NoError(c, admin.Create(context.Background(), kept.DeepCopy())) })
			rule := proxy.Inject(faultproxy.Match{Verb: "list", Resource: things}, fault)
			setManifest(t, ns, configMap("fence", "hello"))
			awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "Namespace "+inner, "is not removed before all is known that it holds", things.GroupResource().String())
			require.NotZero(t, rule.Hits())
			rule.Remove()
			v := awaitReady(t, ns)
			awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Left in place", inner)
			require.Nil(t, get(t, kept).GetDeletionTimestamp())
			require.Nil(t, get(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inner}}).GetDeletionTimestamp())
		})
	}
}

// TestDefinitionOfAManagedKindIsTerminating deletes the CustomResourceDefinition of a managed object that waits for a finalizer. The object
// stays in the inventories: while its VidraResource is deleted, and when it left the manifest, until it is gone with its kind.
func TestDefinitionOfAManagedKindIsTerminating(t *testing.T) {
	t.Parallel()
	skipWhereKindsStay(t)
	ns := newNamespace(t)
	crd, manifest := newKind(t)
	deleted, pruned, stays := ns+"-deleted", ns+"-pruned", ns+"-stays"
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	for _, name := range []string{deleted, pruned, stays} {
		newVidraResource(t, ns, manifests(configMap(name, "hello"), strings.ReplaceAll(manifest, "name: thing\n", "name: "+name+"\n")), named(name))
		awaitReady(t, name)
		thing := thingIn(crd, ns)
		thing.SetName(name)
		require.NoError(t, mergePatch(thing, `{"metadata":{"finalizers":["example.com/wait"]}}`))
		t.Cleanup(func() { _ = mergePatch(thing, `{"metadata":{"finalizers":null}}`) })
	}
	require.NoError(t, admin.Delete(t.Context(), crd.DeepCopy()))
	for _, name := range []string{deleted, pruned, stays} {
		thing := thingIn(crd, ns)
		thing.SetName(name)
		await(t, func(c *assert.CollectT) { require.NotNil(c, get(c, thing).GetDeletionTimestamp()) })
	}
	require.NoError(t, deleteVidraResource(t.Context(), deleted))
	setManifest(t, pruned, configMap(pruned, "hello"))
	awaitNotReady(t, pruned, v1alpha1.ReasonProgressing, "Thing", ns+"/"+pruned, "is being deleted, and waits for its finalizers (example.com/wait)")
	awaitNotReady(t, deleted, v1alpha1.ReasonProgressing, "Thing", ns+"/"+deleted, "is being deleted, and waits for its finalizers (example.com/wait)")
	await(t, func(c *assert.CollectT) { require.Len(c, getVidraResource(c, deleted).Status.ManagedResources, 1) }) // the ConfigMap is gone
	for _, name := range []string{pruned, stays} {
		require.Len(t, getVidraResource(t, name).Status.ManagedResources, 2)
		requireInOrder(t, name, declaredObject(t, ns, configMap(name, "hello"), "ConfigMap", name))
	}
	for _, name := range []string{deleted, pruned, stays} {
		thing := thingIn(crd, ns)
		thing.SetName(name)
		require.NoError(t, mergePatch(thing, `{"metadata":{"finalizers":null}}`))
	}
	awaitGone(t, crd)
	v := awaitNotReady(t, stays, v1alpha1.ReasonKindUnavailable, "Thing")
	awaitEvent(t, v, corev1.EventTypeWarning, "KindUnavailable", "Apply", "Thing")
	awaitGoneFor(t, 2*patience, vidraResourceOf(deleted, ns, ""))
	v = awaitReady(t, pruned)
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Thing", ns+"/"+pruned)
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	awaitReady(t, stays)
	thing := thingIn(crd, ns)
	thing.SetName(stays)
	require.Nil(t, get(t, thing).GetDeletionTimestamp(), "it was created again")
}
