package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
)

// The tests of this file stop the operator that all tests share, so none of
// them is parallel: see the variable operator.

// TestRestartWhileApplying kills the operator in the middle of a large apply:
// nothing is forgotten, and nothing is left behind.
func TestRestartWhileApplying(t *testing.T) {
	many := 300
	if suite.Deployed() {
		many = 3000 // it takes seconds to kill the process of a Pod
	}
	ns := newNamespace(t)
	var documents []string
	for i := range many {
		documents = append(documents, configMap(fmt.Sprintf("page-%04d", i), "hello"))
	}
	newVidraResource(t, ns, manifests(documents...))
	await(t, func(c *assert.CollectT) { require.Greater(c, countPages(c, ns), 10) })
	killOperator(t)
	applied := countPages(t, ns)
	require.Less(t, applied, many, "it was killed in the middle")
	t.Logf("killed when %d of %d objects were applied", applied, many)
	noted := getVidraResource(t, ns)
	require.Len(t, slices.Concat(noted.Status.ManagedResources, owners.FirstInventory(noted)), many, "what is about to be created is noted before")

	// Meanwhile objects leave the manifest, some of which were created.
	kept := many - 100
	setManifest(t, ns, manifests(documents[100:]...))
	startOperator(t)
	v := awaitReady(t, ns)
	require.Equal(t, kept, countPages(t, ns), "there is no orphan")
	require.Len(t, v.Status.ManagedResources, kept)
	for _, e := range v.Status.ManagedResources {
		require.Equal(t, v1alpha1.ObjectApplied, e.State)
		require.NotEmpty(t, e.UID)
	}

	// And once more, in the middle of the removal.
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	await(t, func(c *assert.CollectT) { require.Less(c, countPages(c, ns), kept-10) })
	killOperator(t)
	t.Logf("killed when %d of %d objects were left", countPages(t, ns), kept)
	startOperator(t)
	awaitGone(t, v)
	require.Zero(t, countPages(t, ns))
}

// countPages counts the managed ConfigMaps in a namespace.
func countPages(t require.TestingT, ns string) int {
	pages := &corev1.ConfigMapList{}
	require.NoError(t, admin.List(context.Background(), pages, client.InNamespace(ns), client.MatchingLabels{"managed-by": "vidra"}))
	return len(pages.Items)
}

// TestRestartWhileEditing kills the operator while many edits arrive.
func TestRestartWhileEditing(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, sets(5))
	awaitReady(t, ns)
	objs := declared(t, ns, sets(5))
	var editing errgroup.Group
	editing.Go(func() error {
		for round := range 3 * rounds {
			for i, obj := range objs {
				change := burstEdit
				if i%rounds == round {
					change = deleteEdit
				}
				if err := change(obj, round); err != nil && !apierrors.IsNotFound(err) {
					return err
				}
			}
		}
		return nil
	})
	killOperator(t)
	startOperator(t)
	killOperator(t)
	require.NoError(t, editing.Wait())
	startOperator(t)
	awaitInOrder(t, ns, objs...)
	awaitReady(t, ns)
}

// TestRestartFindsWhatHappenedMeanwhile changes everything that can be changed
// while no operator runs.
func TestRestartFindsWhatHappenedMeanwhile(t *testing.T) {
	ns, leaving, changing := newNamespace(t), newNamespace(t), newNamespace(t)
	newVidraResource(t, ns, sets(2))
	gone := newVidraResource(t, leaving, web)
	newVidraResource(t, changing, manifests(configMap("a", "hello"), configMap("b", "hello")))
	for _, name := range []string{ns, leaving, changing} {
		awaitReady(t, name)
	}
	objs := declared(t, ns, sets(2))
	stopOperator(t)

	require.NoError(t, mergePatch(declaredObject(t, ns, sets(2), "ConfigMap", "page-0"), `{"data":{"greeting":"changed"}}`))
	require.NoError(t, admin.Delete(t.Context(), declaredObject(t, ns, sets(2), "ConfigMap", "page-1")))
	require.NoError(t, mergePatch(declaredObject(t, ns, sets(2), "Secret", "login-0"), `{"metadata":{"labels":null}}`))
	require.NoError(t, mergePatch(declaredObject(t, ns, sets(2), "Secret", "login-1"), `{"metadata":{"managedFields":[{}],"annotations":null}}`))
	require.NoError(t, mergePatch(declaredObject(t, ns, sets(2), "Service", "web-0"), `{"spec":{"selector":{"app":"other"}}}`))
	require.NoError(t, mergePatch(declaredObject(t, ns, sets(2), "Deployment", "web-0"), `{"spec":{"replicas":3}}`))
	require.NoError(t, admin.Delete(t.Context(), declaredObject(t, ns, sets(2), "Deployment", "web-1")))
	require.NoError(t, deleteVidraResource(t.Context(), leaving))
	setManifest(t, changing, manifests(configMap("b", "hi"), configMap("c", "hello")))

	mark := auditMark(t)
	startOperator(t)
	awaitInOrder(t, ns, objs...)
	v := awaitReady(t, ns)
	await(t, func(c *assert.CollectT) { // it was ready before, and says so until the pass has ended
		v := getVidraResource(c, ns)
		for _, obj := range objs {
			require.Equal(c, string(get(c, obj).GetUID()), entry(c, v, obj.GetKind(), obj.GetName()).UID)
		}
	})
	requireCount(t, 7, func() requests { return operatorSince(t, mark).ObjectsIn(ns).Writes() }, "one for each change")
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", `reverted data.greeting to "hello"`, person)
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "Deployment", "web-1", "had been deleted")

	awaitGone(t, gone)
	for _, obj := range declared(t, leaving, web) {
		awaitGone(t, obj)
	}
	v = awaitReady(t, changing)
	require.Len(t, v.Status.ManagedResources, 2)
	awaitGone(t, declared(t, changing, configMap("a", "hello"))[0])
	awaitInOrder(t, changing, declared(t, changing, manifests(configMap("b", "hi"), configMap("c", "hello")))...)
}

// TestRestartCostsNothing restarts the operator while everything is in order:
// the digests in the status say so, and nothing is written or read one by one.
func TestRestartCostsNothing(t *testing.T) {
	manifest := manifests(sets(10), configMap("fence", "hello"))
	owners := []string{newNamespace(t), newNamespace(t), newNamespace(t)}
	for _, ns := range owners[:2] {
		newVidraResource(t, ns, manifest)
		awaitReady(t, ns)
	}
	newVidraResource(t, owners[2], configMap("fence", "hello"), waiting)
	awaitReady(t, owners[2])
	awaitRollouts(t, owners[:2]...)
	ends := []struct {
		how string
		end func(t *testing.T)
	}{{"killed", killOperator}, {"stopped", stopOperator}}
	for i, tt := range ends {
		t.Run(tt.how, func(t *testing.T) {
			awaitSilence(t)
			before, mark := time.Now(), auditMark(t)
			tt.end(t)
			took := time.Since(before)
			most := 5 * time.Second
			if suite.Deployed() {
				most = 20 * time.Second // the kubelet takes some of it
			}
			require.Less(t, took, most, "after SIGTERM, it ends with code 0, and before any of its time limits")
			startOperator(t)
			awaitSilence(t)
			sent := operatorSince(t, mark)
			t.Logf("%s within %s; then it sent %d requests:\n%s", tt.how, took.Round(time.Millisecond), len(sent), sent)
			require.Empty(t, sent.Writes(), "%s", sent.Writes())
			require.Empty(t, sent.Only(func(e request) bool {
				return e.Verb == "get" && e.Resource != "" && e.Name != seal.SecretName
			}), "objects are not read one by one")

			// And it does watch.
			for _, ns := range owners {
				fence := declared(t, ns, configMap("fence", "hello"))[0]
				require.NoError(t, mergePatch(fence, `{"data":{"greeting":"changed"}}`))
				awaitInOrder(t, ns, fence)
				requireCount(t, 1, func() requests { return operatorSince(t, mark).ObjectsIn(ns).Writes() })
			}
			for _, ns := range owners {
				await(t, func(c *assert.CollectT) {
					drift := getVidraResource(c, ns).Status.Drift
					require.NotNil(c, drift)
					require.EqualValues(c, i+1, drift.Heals)
				}, "the status counts the heal, so that nothing is left to write")
			}
		})
	}
}

// awaitRollouts waits until the controllers of Kubernetes have written the Deployments in namespaces, which may take longer than a silence of the operator, and
// the statuses of the VidraResources there have that: a second change of the fields of other managers within 30 seconds is recorded after that time, or with a
// reconcile of all objects. The Pods of the Deployments never run.
func awaitRollouts(t *testing.T, namespaces ...string) {
	t.Helper()
	for _, ns := range namespaces {
		await(t, func(c *assert.CollectT) {
			all := &appsv1.DeploymentList{}
			require.NoError(c, admin.List(t.Context(), all, client.InNamespace(ns)))
			require.NotEmpty(c, all.Items)
			for i := range all.Items {
				d := &all.Items[i]
				require.Equal(c, d.Generation, d.Status.ObservedGeneration, d.Name)
				require.Equal(c, *d.Spec.Replicas, d.Status.UpdatedReplicas, d.Name)
				require.Equal(c, *d.Spec.Replicas, d.Status.UnavailableReplicas, d.Name)
			}
		})
		reconcileNow(t, ns)
	}
}

// TestRestartWritesNoStatus restarts the operator while VidraResources are not Ready, or have something to report, of which nothing changes: their statuses are
// as they should be, and none is written. It is not parallel: it restarts the operator.
func TestRestartWritesNoStatus(t *testing.T) {
	ns := newNamespace(t)
	edited := func(t *testing.T, name string) {
		t.Helper()
		require.NoError(t, mergePatch(pageOf(t, ns, name), `{"data":{"greeting":"mine"}}`))
		awaitNotReady(t, ns+"-"+name, v1alpha1.ReasonDriftDetected, "data.greeting")
	}
	service := "apiVersion: v1\nkind: Service\nmetadata:\n  name: refused\nspec:\n  ports:\n  - port: 99999999\n"
	cases := []struct {
		name, manifest string
		options        []func(*v1alpha1.VidraResource)
		// then leads to the state, of a VidraResource that is Ready; without it, the VidraResource is never Ready.
		then func(t *testing.T, name string)
	}{
		{name: "warned", options: []func(*v1alpha1.VidraResource){withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn})}, then: edited},
		{name: "glass", then: func(t *testing.T, name string) {
			t.Helper()
			annotate(t, pageOf(t, ns, name), in(time.Hour), "incident 42")
			awaitAnswer(t, ns+"-"+name, pageOf(t, ns, name), v1alpha1.BreakGlassAccepted, "incident 42")
			edited(t, name)
		}},
		{name: "added", options: []func(*v1alpha1.VidraResource){withAdditions(v1alpha1.AdditionsWarn)}, then: func(t *testing.T, name string) {
			t.Helper()
			require.NoError(t, patchedBy("kubectl-edit", types.MergePatchType)(ns, pageOf(t, ns, name), `{"data":{"more":"mine"}}`))
			awaitCondition(t, ns+"-"+name, drifts(metav1.ConditionTrue, v1alpha1.ReasonDriftDetected))
		}},
		{name: "held", then: func(t *testing.T, name string) {
			t.Helper()
			hold(t, ns+"-"+name, true)
			awaitReady(t, ns+"-"+name)
			reconcileNow(t, ns+"-"+name)
			setManifest(t, ns+"-"+name, configMap(name, "two"))
			awaitNotReadyAnyGeneration(t, ns+"-"+name, v1alpha1.ReasonRevisionHeld)
		}},
		{name: "suspended", then: func(t *testing.T, name string) {
			t.Helper()
			changeSpec(t, ns+"-"+name, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
			awaitReady(t, ns+"-"+name)
			setManifest(t, ns+"-"+name, manifests(configMap(name, "two"), service))
			awaitNotReadyAnyGeneration(t, ns+"-"+name, v1alpha1.ReasonSuspended)
		}},
		{name: "waits", then: func(t *testing.T, name string) {
			t.Helper()
			changeSpec(t, ns+"-"+name, func(spec *v1alpha1.VidraResourceSpec) { spec.DependsOn = dependencies(ns + "-absent") })
			setManifest(t, ns+"-"+name, manifests(configMap(name, "two"), "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: waits\n"))
			awaitNotReadyAnyGeneration(t, ns+"-"+name, v1alpha1.ReasonDependencyNotReady)
		}},
		{name: "dependent", options: []func(*v1alpha1.VidraResource){dependingOn(ns + "-absent")}},
		{name: "unserved", manifest: "apiVersion: absent.example.com/v1\nkind: Absent\nmetadata:\n  name: unserved\n"},
		{name: "invalid", manifest: "kind: {"},
		{name: "refused", manifest: service},
		{name: "sourceless", options: []func(*v1alpha1.VidraResource){func(v *v1alpha1.VidraResource) {
			v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ConfigMap", Name: "absent", Namespace: ns, Key: "all"}}
		}}},
		{name: "unhealthy", options: []func(*v1alpha1.VidraResource){waiting}, manifest: workload(ns, "unhealthy")},
		{name: "deleting", then: func(t *testing.T, name string) {
			t.Helper()
			held := pageOf(t, ns, name)
			require.NoError(t, mergePatch(held, `{"metadata":{"finalizers":["example.com/held"]}}`))
			t.Cleanup(func() { require.NoError(t, mergePatch(held, `{"metadata":{"finalizers":null}}`)) })
			awaitReady(t, ns+"-"+name)
			require.NoError(t, admin.Delete(t.Context(), getVidraResource(t, ns+"-"+name)))
			awaitNotReadyAnyGeneration(t, ns+"-"+name, v1alpha1.ReasonDeletionBlocked)
		}},
	}
	for _, tt := range cases {
		manifest := cmp.Or(tt.manifest, configMap(tt.name, "hello"))
		newVidraResource(t, ns, manifest, append(tt.options, named(ns+"-"+tt.name))...)
		if tt.then != nil {
			awaitReady(t, ns+"-"+tt.name)
			tt.then(t, tt.name)
			continue
		}
		await(t, func(c *assert.CollectT) {
			require.Equal(c, metav1.ConditionFalse, condition(c, getVidraResource(c, ns+"-"+tt.name), v1alpha1.ConditionReady).Status)
		})
	}
	for range 2 {
		awaitSilence(t)
		before := map[string]v1alpha1.VidraResourceStatus{}
		for _, tt := range cases {
			before[tt.name] = getVidraResource(t, ns+"-"+tt.name).Status
		}
		stopOperator(t)
		mark := auditMark(t)
		startOperator(t)
		awaitSilence(t)
		for _, tt := range cases {
			assert.Equal(t, before[tt.name], getVidraResource(t, ns+"-"+tt.name).Status, tt.name)
		}
		sent := operatorSince(t, mark).Writes().Only(func(e request) bool { return e.Subresource == "status" })
		require.Empty(t, sent, "%s", sent)
	}
}

// TestRestartBeforeTheFirstStatus kills the operator in the first apply of a VidraResource with few objects, of which it has
// written only the finalizer with the first inventory. What was created and left the manifest meanwhile is pruned, also
// where no object of its kind is left; what was created of a VidraResource that is deleted meanwhile is removed. Of one that
// another installation has released, the status has the inventory: it is not the first one. Nor does it get lost where the next
// reconcile applies nothing, as the manifest cannot be read, or the deletion is suspended.
func TestRestartBeforeTheFirstStatus(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, ns string){
		"Changed":  func(t *testing.T, ns string) { t.Helper(); setManifest(t, ns, configMap("new", "hello")) },
		"Released": func(t *testing.T, ns string) { t.Helper(); setManifest(t, ns, configMap("new", "hello")) },
		"Deleted":  func(t *testing.T, ns string) { t.Helper(); require.NoError(t, deleteVidraResource(t.Context(), ns)) },
		"Unreadable": func(t *testing.T, ns string) {
			t.Helper()
			setManifest(t, ns, "kind: {")
			startOperator(t)
			awaitReason(t, ns, v1alpha1.ReasonManifestInvalid)
			killOperator(t)
			require.NoError(t, deleteVidraResource(t.Context(), ns))
		},
		"Suspended": func(t *testing.T, ns string) {
			t.Helper()
			changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
			require.NoError(t, deleteVidraResource(t.Context(), ns))
			for range 2 {
				startOperator(t)
				require.Len(t, awaitReason(t, ns, v1alpha1.ReasonDeletionSuspended).Status.ManagedResources, 3)
				awaitSilence(t)
				killOperator(t)
			}
			require.Nil(t, get(t, declared(t, ns, configMap("page", "hello"))[0]).GetDeletionTimestamp())
			changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = false })
		},
	} {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			// What the webhook keeps waiting has the apply continue until the operator is killed.
			hanging := make(chan struct{})
			startWebhook(t, ns, false, func(ctx context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
				if r.Name == "hanging" {
					select {
					case <-hanging:
					case <-ctx.Done():
					}
				}
				return nil
			})
			if name == "Released" {
				stopOperator(t)
			}
			login := "apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\n"
			newVidraResource(t, ns, manifests(login, configMap("page", "hello"), configMap("hanging", "hello")))
			if name == "Released" {
				v := getVidraResource(t, ns)
				v.Status.ObservedGeneration = v.Generation
				require.NoError(t, admin.Status().Update(t.Context(), v))
				startOperator(t)
			}
			secret, page := declared(t, ns, login)[0], declared(t, ns, configMap("page", "hello"))[0]
			await(t, func(c *assert.CollectT) {
				require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(secret), secret.DeepCopy()))
				require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(page), page.DeepCopy()))
			})
			killOperator(t)
			v := getVidraResource(t, ns)
			if name == "Released" {
				require.Len(t, v.Status.ManagedResources, 3)
			} else {
				require.Contains(t, v.Annotations[v1alpha1.FirstInventoryAnnotation], `["v1","Secret","`+ns+`","login"]`)
				require.Empty(t, v.Status.ManagedResources)
			}
			require.Contains(t, v.Finalizers, v1alpha1.Finalizer)
			close(hanging)
			meanwhile(t, ns)
			startOperator(t)
			awaitGone(t, secret)
			awaitGone(t, page)
			if slices.Contains([]string{"Changed", "Released"}, name) {
				require.Len(t, awaitReady(t, ns).Status.ManagedResources, 1)
			} else {
				awaitGone(t, v)
			}
		})
	}
}

// TestForgedFirstInventory has a user list objects of others as the first inventory of a VidraResource that no operator has
// reconciled yet. None of them is removed.
func TestForgedFirstInventory(t *testing.T) {
	ns := newNamespace(t)
	other := ns + "-other"
	newVidraResource(t, ns, configMap("of-another", "hello"), named(other))
	awaitReady(t, other)
	stopOperator(t)
	foreign := declared(t, ns, configMap("foreign", "hello"))[0]
	require.NoError(t, admin.Create(t.Context(), foreign))
	newVidraResource(t, ns, configMap("page", "hello"))
	v := getVidraResource(t, ns)
	var forged []v1alpha1.ManagedResourceStatus
	for _, name := range []string{"of-another", "foreign", "absent"} {
		forged = append(forged, v1alpha1.ManagedResourceStatus{APIVersion: "v1", Kind: "ConfigMap", Namespace: ns, Name: name})
	}
	forged = append(forged, v1alpha1.ManagedResourceStatus{APIVersion: "none.example.com/v1", Kind: "None", Namespace: ns, Name: "none"})
	require.True(t, owners.SetFirstInventory(v, forged))
	v.Finalizers = append(v.Finalizers, v1alpha1.Finalizer)
	require.NoError(t, admin.Update(t.Context(), v))
	startOperator(t)
	require.Len(t, awaitReady(t, ns).Status.ManagedResources, 1, "what is not its own leaves the inventory")
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	for _, obj := range []*unstructured.Unstructured{foreign, declared(t, ns, configMap("of-another", "hello"))[0]} {
		require.Nil(t, get(t, obj).GetDeletionTimestamp(), obj.GetName())
	}
}
