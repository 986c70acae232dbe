package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The tests of this file are about what goes with what when objects are removed.

// everyStage is a manifest with an object of each stage: a Namespace, a kind, what is in
// no namespace, what is in the Namespace, an object of the kind among it, and a webhook.
func everyStage(ns string) string {
	return manifests(
		fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", ns),
		editedObject("CustomResourceDefinition", ns, ""),
		fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: %s\nrules: []\n", ns),
		fmt.Sprintf("apiVersion: %s.example.com/v1\nkind: Thing\nmetadata:\n  name: thing\n", ns),
		configMap("data", "hello"), configMap("more", "hello"),
		fmt.Sprintf("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata:\n  name: %s\nwebhooks: []\n", ns),
	)
}

// stagesOfDeletes are the resources that are removed, those of a stage together.
var stagesOfDeletes = [][]string{
	{"validatingwebhookconfigurations"}, {"configmaps", "things"}, {"clusterroles"}, {"customresourcedefinitions"}, {"namespaces"},
}

// TestDeletionOrder deletes a VidraResource with objects of each stage: those are removed
// first that were applied last.
func TestDeletionOrder(t *testing.T) {
	t.Parallel()
	ns := unique(t) // the manifest makes it
	v := newVidraResource(t, ns, everyStage(ns))
	awaitReady(t, ns)
	mark := auditMark(t)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGoneFor(t, 2*patience, v)
	deletes := operatorSince(t, mark).Only(verbIs("delete")).Only(func(r request) bool { return strings.Contains(r.RequestURI, ns) })
	var before time.Time
	for _, resources := range stagesOfDeletes {
		var last time.Time
		for _, resource := range resources {
			of := deletes.Only(func(r request) bool { return r.Resource == resource })
			require.NotEmpty(t, of, "%s in %s", resource, deletes)
			for _, r := range of {
				require.True(t, r.Time.After(before), "%s in %s", resource, deletes)
				if r.Time.After(last) {
					last = r.Time
				}
			}
		}
		before = last
	}
}

// TestDeletionInTheBackground deletes a Job, whose Pods the API server leaves behind
// unless it is told otherwise, and a Deployment. Neither waits for what it has made, and
// what they have made goes.
func TestDeletionInTheBackground(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	job := "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: once\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n" +
		"      containers:\n      - {name: once, image: registry.invalid/web:1}\n"
	manifest := manifests(web, job)
	v := newVidraResource(t, ns, manifest)
	awaitReady(t, ns)
	lists := map[string]*unstructured.UnstructuredList{}
	for kind, apiVersion := range map[string]string{"PodList": "v1", "ReplicaSetList": "apps/v1"} {
		lists[kind] = &unstructured.UnstructuredList{}
		lists[kind].SetAPIVersion(apiVersion)
		lists[kind].SetKind(kind)
	}
	await(t, func(c *assert.CollectT) {
		pods := &corev1.PodList{}
		require.NoError(c, admin.List(context.Background(), pods, client.InNamespace(ns), client.MatchingLabels{batchv1.JobNameLabel: "once"}))
		require.NotEmpty(c, pods.Items)
		require.NoError(c, admin.List(context.Background(), lists["ReplicaSetList"], client.InNamespace(ns)))
		require.NotEmpty(c, lists["ReplicaSetList"].Items)
	})
	const held = "example.com/wait"
	makers := []*unstructured.Unstructured{
		declaredObject(t, ns, manifest, "Job", "once"), declaredObject(t, ns, manifest, "Deployment", "web"),
	}
	for _, maker := range makers {
		require.NoError(t, mergePatch(maker, `{"metadata":{"finalizers":[%q]}}`, held))
		t.Cleanup(func() { _ = mergePatch(maker, `{"metadata":{"finalizers":null}}`) }) // it is gone if all went well
	}
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	for _, maker := range makers {
		awaitTerminating(t, maker)
		require.Equal(t, []string{held}, get(t, maker).GetFinalizers(), "it waits for nothing else")
		require.NoError(t, mergePatch(maker, `{"metadata":{"finalizers":null}}`))
	}
	awaitGone(t, v)
	await(t, func(c *assert.CollectT) {
		for kind, list := range lists {
			require.NoError(c, admin.List(context.Background(), list, client.InNamespace(ns)))
			require.Empty(c, list.Items, kind)
		}
	})
}

// TestKeepHoldsWhatItGoesWith keeps objects whose Namespace, or the definition of whose
// kind, is removed with them: that stays, too, and is told.
func TestKeepHoldsWhatItGoesWith(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		// keep is the kind that is to be kept, and held are those that stay for it.
		keep string
		held []string
		// after is what the manifest is cut to; the VidraResource is deleted if it is none.
		after func(ns string) string
	}{
		"deletion, object": {reason: "its Namespace stays", keep: "ConfigMap", held: []string{"Namespace"}},
		"prune, object":    {reason: "its Namespace stays", keep: "ConfigMap", held: []string{"Namespace"}, after: fence},
		"prune, object that is still wanted": {
			reason: "its Namespace stays although it left the manifest", keep: "ConfigMap", held: []string{"Namespace"},
			after: func(string) string { return configMap("data", "hello") },
		},
		"deletion, custom object":   {reason: "so does its kind", keep: "Thing", held: []string{"Namespace", "CustomResourceDefinition"}},
		"deletion, Namespace alone": {reason: "what is in it goes", keep: "Namespace"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := unique(t) // the manifest makes it
			v := newVidraResource(t, ns, everyStage(ns))
			awaitReady(t, ns)
			objs := map[string]*unstructured.Unstructured{}
			for _, obj := range declared(t, ns, everyStage(ns)) {
				if obj.GetName() != "more" {
					objs[obj.GetKind()] = get(t, obj)
				}
			}
			t.Cleanup(func() {
				for _, kind := range append(tt.held, tt.keep) {
					require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), objs[kind])))
				}
			})
			require.NoError(t, mergePatch(objs[tt.keep], `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.KeepAnnotation))
			if tt.after != nil {
				setManifest(t, ns, tt.after(ns))
				cluster.AwaitReadyFor(t, 2*patience, ns) // a kind counts as gone only after a while
			} else {
				require.NoError(t, deleteVidraResource(t.Context(), ns))
				awaitGoneFor(t, 2*patience, v)
			}
			told := []string{"Left in place, unmanaged: "}
			for _, kind := range tt.held {
				told = append(told, kind+" "+objs[kind].GetName())
			}
			awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", told...)
			for kind, obj := range objs {
				if kind == tt.keep || slices.Contains(tt.held, kind) {
					live := get(t, obj)
					require.Equal(t, obj.GetUID(), live.GetUID(), tt.reason)
					require.Nil(t, live.GetDeletionTimestamp(), "%s: %s", kind, tt.reason)
				} else {
					awaitGone(t, obj)
				}
			}
		})
	}
}

// fence is a manifest with one object that is nowhere near the others.
func fence(ns string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: %s\n", ns, metav1.NamespaceDefault)
}

// TestKeepSurvivesAKill starts an operator on an inventory in which an object is left in
// place already, and its Namespace is still to be removed.
func TestKeepSurvivesAKill(t *testing.T) {
	ns := unique(t) // the manifest makes it
	v := newVidraResource(t, ns, sharing(ns, "", "data"))
	awaitReady(t, ns)
	stopOperator(t)
	page, namespace := declaredObject(t, ns, sharing(ns, "", "data"), "ConfigMap", "data"), declaredObject(t, ns, sharing(ns, "", "data"), "Namespace", ns)
	require.NoError(t, mergePatch(page, `{"metadata":{"labels":null,"annotations":{%q:"true",%q:null},"managedFields":[{}]}}`,
		v1alpha1.KeepAnnotation, v1alpha1.OwnerAnnotationKey(ns)))
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	startOperator(t)
	awaitGoneFor(t, 2*patience, v)
	t.Cleanup(func() { _ = admin.Delete(context.Background(), namespace) })
	require.Nil(t, get(t, namespace).GetDeletionTimestamp())
	require.Nil(t, get(t, page).GetDeletionTimestamp())
}

// TestKeepIsWaitedFor has the API server not say, as Vidra asks, what becomes of an object
// that is to be kept: its Namespace is not removed before that is known.
func TestKeepIsWaitedFor(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	ns := unique(t) // the manifest makes it
	v := newVidraResource(t, ns, sharing(ns, "", "data"))
	awaitReady(t, ns)
	page, namespace := declaredObject(t, ns, sharing(ns, "", "data"), "ConfigMap", "data"), declaredObject(t, ns, sharing(ns, "", "data"), "Namespace", ns)
	t.Cleanup(func() { _ = admin.Delete(context.Background(), namespace.DeepCopy()) })
	require.NoError(t, mergePatch(page, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.KeepAnnotation))
	stopOperator(t)
	proxy, through := proxied(t)
	startAnother(t, through)
	failing := proxy.Inject(faultproxy.Match{Verb: "get", Namespace: ns, Name: "data"}, faultproxy.Status(apierrors.NewInternalError(errors.New("not now"))))
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitNotReady(t, ns, v1alpha1.ReasonPruneFailed, "ConfigMap "+ns+"/data: cannot be removed",
		"Namespace "+ns+": Progressing: is not removed before it is known whether ConfigMap "+ns+"/data, which would be deleted with it, is to be kept")
	failing.Remove()
	awaitGoneFor(t, 2*patience, v)
	require.Nil(t, get(t, namespace).GetDeletionTimestamp())
	require.Nil(t, get(t, page).GetDeletionTimestamp())
}

// TestKeepOfWhatTheAccountMayNotRead takes from the account that a VidraResource names the
// right to read an object that is to be kept: its Namespace stays all the same.
func TestKeepOfWhatTheAccountMayNotRead(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	inner := ns + "-inner"
	newAccount(t, ns, "deployer", "configmaps")
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "deployer"}
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "create", "patch", "delete"}}
	named := metav1.ObjectMeta{Name: ns}
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: named, Rules: []rbacv1.PolicyRule{rule}}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ns}, Subjects: []rbacv1.Subject{subject},
	}))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inner}}
	page := strings.Replace(configMap("data", "hello"), "name: data", "name: data\n  namespace: "+inner+"\n  annotations: {"+v1alpha1.KeepAnnotation+": \"true\"}", 1)
	v := newVidraResource(t, ns, manifests(fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", inner), page), as("deployer"))
	awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "ConfigMap "+inner+"/data", "forbidden")
	t.Cleanup(func() { _ = admin.Delete(context.Background(), namespace.DeepCopy()) })
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: inner, Name: "edits"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"}, Subjects: []rbacv1.Subject{subject},
	}
	require.NoError(t, admin.Create(t.Context(), binding.DeepCopy()))
	awaitReady(t, ns)

	require.NoError(t, admin.Delete(t.Context(), binding.DeepCopy()))
	awaitAllowed(t, false, "system:serviceaccount:"+ns+":deployer", "get", inner)
	mark := auditMark(t)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitNotReady(t, ns, v1alpha1.ReasonPruneFailed, "ConfigMap "+inner+"/data", "forbidden")
	require.Empty(t, operatorSince(t, mark).On("namespaces", inner, inner).Only(verbIs("delete")))
	require.NoError(t, admin.Create(t.Context(), binding.DeepCopy()))
	awaitGone(t, v)
	require.Nil(t, get(t, namespace).GetDeletionTimestamp())
	require.Nil(t, get(t, declared(t, inner, page)[0]).GetDeletionTimestamp())
}
