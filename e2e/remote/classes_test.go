package remote

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// This file has one case at another cluster for each class of faults that e2e has many cases of.

// object names an object there.
func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func namespaceNamed(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + name + "\n"
}

// greetingIn is a ConfigMap in a namespace.
func greetingIn(namespace, name, says string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n  namespace: " + namespace + "\ndata:\n  greeting: " + says + "\n"
}

// patchSpec changes of a VidraResource.
func patchSpec(t *testing.T, name, patch string, args ...any) {
	t.Helper()
	require.NoError(t, here.MergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch, args...))
}

// stateOf waits until an object is in the inventory in a state.
func stateOf(t *testing.T, owner, name string, state v1alpha1.ObjectState) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		for _, e := range getVidraResource(c, owner).Status.ManagedResources {
			if e.Name == name {
				require.Equal(c, state, e.State)
				return
			}
		}
		require.Fail(c, "not in the inventory")
	})
}

// TestContainersElsewhere removes Namespaces and a CustomResourceDefinition of another cluster: what is inside decides there, too.
func TestContainersElsewhere(t *testing.T) {
	t.Parallel()
	d, _ := newDestination(t)
	inner := d.name + "-in"
	fence := greeting("fence", "hello")
	withNamespace := manifests(fence, namespaceNamed(inner))
	t.Cleanup(func() { _ = there.Admin.Delete(context.Background(), object("v1", "Namespace", "", inner)) })

	v := newVidraResource(t, d.url(), d.name, manifests(withNamespace, greetingIn(inner, "data", "hello")))
	awaitReady(t, d.name)
	uid := there.uidOf(t, configMap(inner, "data"))
	setManifest(t, d.name, manifests(fence, greetingIn(inner, "data", "hello")))
	awaitNotReady(t, d.name, v1alpha1.ReasonDeletionBlocked, "Namespace "+inner, "it holds ConfigMap "+inner+"/data, which stays in the manifest")
	setManifest(t, d.name, withNamespace)
	there.AwaitGone(t, configMap(inner, "data"))
	awaitReady(t, d.name)

	other := d.name + "-other"
	newVidraResource(t, d.url(), d.name, greetingIn(inner, "theirs", "hello"), named(other), func(v *v1alpha1.VidraResource) { v.Spec.Suspend = true })
	require.NoError(t, there.Admin.Create(t.Context(), configMap(inner, "theirs")))
	setManifest(t, d.name, fence)
	awaitNotReady(t, d.name, v1alpha1.ReasonDeletionBlocked, "Namespace "+inner, "it holds ConfigMap "+inner+"/theirs in the manifest of VidraResource "+other)
	require.NoError(t, here.DeleteVidraResource(t.Context(), other))
	there.edit(t, configMap(inner, "theirs"), `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.KeepAnnotation)
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Left in place, unmanaged: ", "Namespace "+inner, "ConfigMap "+inner+"/theirs")
	awaitReady(t, d.name)
	require.Nil(t, there.Get(t, object("v1", "Namespace", "", inner)).GetDeletionTimestamp())
	require.NotEqual(t, uid, there.uidOf(t, configMap(inner, "theirs")))

	// The deletion of a VidraResource keeps the definition of a kind of which an object is kept.
	crd := testenv.CRD(d.name)
	t.Cleanup(func() { _ = there.Admin.Delete(context.Background(), crd.DeepCopy()) })
	require.NoError(t, there.Admin.Create(t.Context(), crd.DeepCopy()))
	kinds := d.name + "-kinds"
	definition := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " + crd.Name + "\n  labels: {team: web}\n"
	thing := object(crd.Spec.Group+"/v1", "Thing", d.name, "thing")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.NoError(c, client.IgnoreAlreadyExists(there.Admin.Create(context.Background(), thing.DeepCopy())))
	}, 2*patience, poll)
	two := newVidraResource(t, d.url(), d.name, definition, named(kinds), func(v *v1alpha1.VidraResource) { v.Spec.Adopt = v1alpha1.AdoptAlways })
	awaitReady(t, kinds)
	there.edit(t, thing, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.KeepAnnotation)
	require.NoError(t, here.DeleteVidraResource(t.Context(), kinds))
	here.AwaitGoneFor(t, 2*patience, two)
	require.Nil(t, there.Get(t, thing).GetDeletionTimestamp())
	require.Nil(t, there.Get(t, object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", crd.Name)).GetDeletionTimestamp())
}

// TestPartsOfAnotherCluster empties a part of the manifest, and replaces an optional one, of a VidraResource whose objects are elsewhere.
func TestPartsOfAnotherCluster(t *testing.T) {
	t.Parallel()
	d, _ := newDestination(t)
	here.MakeNamespace(t, d.name)
	held := func(name, object string) *corev1.ConfigMap {
		cm := configMap(d.name, name)
		cm.Data = map[string]string{"m": greeting(object, "hello")}
		return cm
	}
	for name, of := range map[string]string{"required": "page", "optional": "more"} {
		require.NoError(t, here.Admin.Create(t.Context(), held(name, of)))
	}
	newVidraResource(t, d.url(), d.name, greeting("inline", "hello"), func(v *v1alpha1.VidraResource) {
		for _, name := range []string{"required", "optional"} {
			v.Spec.ManifestFrom = append(v.Spec.ManifestFrom, v1alpha1.ManifestSource{Kind: "ConfigMap", Namespace: d.name, Name: name, Key: "m", Optional: name == "optional"})
		}
	})
	awaitReady(t, d.name)
	page, more := there.uidOf(t, configMap(d.name, "page")), there.uidOf(t, configMap(d.name, "more"))
	here.edit(t, held("required", ""), `{"data":{"m":"# nothing\n"}}`)
	awaitNotReady(t, d.name, v1alpha1.ReasonManifestEmpty, "ConfigMap "+d.name+"/required")
	here.edit(t, held("required", ""), `{"data":{"m":%q}}`, greeting("page", "hello"))
	awaitReady(t, d.name)
	require.NoError(t, here.Admin.Delete(t.Context(), held("optional", "")))
	awaitNotReady(t, d.name, v1alpha1.ReasonProgressing, "ConfigMap "+d.name+"/more", "optional part ConfigMap "+d.name+"/optional")
	require.NoError(t, here.Admin.Create(t.Context(), held("optional", "more")))
	awaitReady(t, d.name)
	require.Equal(t, page, there.uidOf(t, configMap(d.name, "page")))
	require.Equal(t, more, there.uidOf(t, configMap(d.name, "more")))
	require.NoError(t, here.Admin.Delete(t.Context(), held("optional", "")))
	there.AwaitGoneFor(t, 2*patience, configMap(d.name, "more"))
}

// TestUnservedKindElsewhere deletes a VidraResource while no version of a kind is served in its destination: the object stays in the inventory,
// and is removed when the kind is served again.
func TestUnservedKindElsewhere(t *testing.T) {
	t.Parallel()
	d, _ := newDestination(t)
	crd := testenv.CRD(d.name)
	t.Cleanup(func() { _ = there.Admin.Delete(context.Background(), crd.DeepCopy()) })
	require.NoError(t, there.Admin.Create(t.Context(), crd.DeepCopy()))
	thing := object(crd.Spec.Group+"/v1", "Thing", d.name, "thing")
	v := newVidraResource(t, d.url(), d.name, "apiVersion: "+crd.Spec.Group+"/v1\nkind: Thing\nmetadata:\n  name: thing\nspec:\n  size: 1\n")
	here.AwaitReadyFor(t, 2*patience, d.name)
	serve := func(served bool) {
		await(t, func(c *assert.CollectT) {
			live := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(c, there.Admin.Get(context.Background(), client.ObjectKeyFromObject(crd), live))
			live.Spec.Versions[0].Served = served
			require.NoError(c, there.Admin.Update(context.Background(), live))
		})
	}
	serve(false)
	await(t, func(c *assert.CollectT) {
		require.Error(c, there.Admin.Get(context.Background(), client.ObjectKeyFromObject(thing), thing.DeepCopy()))
	})
	require.NoError(t, here.DeleteVidraResource(t.Context(), d.name))
	here.AwaitNotReadyFor(t, 2*patience, d.name, v1alpha1.ReasonProgressing, "Thing "+d.name+"/thing", "its kind is not served in any version", crd.Name)
	require.Len(t, getVidraResource(t, d.name).Status.ManagedResources, 1)
	serve(true)
	here.AwaitGoneFor(t, 3*patience, v)
	there.AwaitGone(t, thing)
}

// TestDroppedFieldsElsewhere drops fields from the manifest of an object of another cluster: with the owner that the API server makes up, after kubectl
// and beside a controller, and after the version of the kind has gone.
func TestDroppedFieldsElsewhere(t *testing.T) {
	t.Parallel()
	two := func(name string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  greeting: hello\n  dropped: x\n"
	}
	for name, creator := range map[string]string{"Cleared": "", "Kubectl": "kubectl-client-side-apply", "Controller": "some-controller"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := newDestination(t)
			page := configMap(d.name, "page")
			if creator != "" {
				made := page.DeepCopy()
				made.Data = map[string]string{"greeting": "hello", "dropped": "x"}
				require.NoError(t, there.Admin.Create(t.Context(), made, client.FieldOwner(creator)))
			}
			newVidraResource(t, d.url(), d.name, two("page"))
			awaitReady(t, d.name)
			if creator == "" {
				there.edit(t, page, `{"metadata":{"managedFields":[{}]}}`)
				there.edit(t, page, `{"data":{"greeting":"changed"}}`)
				there.awaitSays(t, d.name, "page", "hello")
			}
			setManifest(t, d.name, greeting("page", "hello"))
			awaitReady(t, d.name)
			data, _, err := unstructured.NestedStringMap(there.Get(t, page).Object, "data")
			require.NoError(t, err)
			if name != "Controller" {
				require.NotContains(t, data, "dropped")
				return
			}
			require.Contains(t, data, "dropped")
			awaitCondition(t, d.name, metav1.Condition{Type: v1alpha1.ConditionWarnings, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWarned}, "data.dropped", creator)
		})
	}
	t.Run("Version", func(t *testing.T) {
		t.Parallel()
		d, _ := newDestination(t)
		crd := testenv.CRD(d.name, "v1", "v1beta1")
		t.Cleanup(func() { _ = there.Admin.Delete(context.Background(), crd.DeepCopy()) })
		require.NoError(t, there.Admin.Create(t.Context(), crd.DeepCopy()))
		thing := func(version, more string) string {
			return "apiVersion: " + crd.Spec.Group + "/" + version + "\nkind: Thing\nmetadata:\n  name: thing\nspec:\n  size: 1\n" + more
		}
		newVidraResource(t, d.url(), d.name, thing("v1beta1", "  color: red\n"))
		here.AwaitReadyFor(t, 2*patience, d.name)
		uid := there.uidOf(t, object(crd.Spec.Group+"/v1", "Thing", d.name, "thing"))
		await(t, func(c *assert.CollectT) {
			live := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(c, there.Admin.Get(context.Background(), client.ObjectKeyFromObject(crd), live))
			live.Spec.Versions = live.Spec.Versions[:1]
			require.NoError(c, there.Admin.Update(context.Background(), live))
		})
		here.AwaitNotReadyFor(t, 3*patience, d.name, v1alpha1.ReasonKindUnavailable, "Thing")
		setManifest(t, d.name, thing("v1", ""))
		here.AwaitReadyFor(t, 3*patience, d.name)
		live := there.Get(t, object(crd.Spec.Group+"/v1", "Thing", d.name, "thing"))
		require.Equal(t, map[string]any{"size": int64(1)}, live.Object["spec"])
		require.Equal(t, uid, live.GetUID())
	})
}

// TestCompletedJobElsewhere has the controller of another cluster remove a Job that succeeded: it does not run again.
func TestCompletedJobElsewhere(t *testing.T) {
	t.Parallel()
	d, proxy := newDestination(t)
	job := func(name string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: " + name + "\nspec:\n  completions: 0\n  ttlSecondsAfterFinished: 0\n  template:\n    spec:\n" +
			"      restartPolicy: Never\n      containers: [{name: migrate, image: registry.invalid/migrate}]\n"
	}
	v := newVidraResource(t, d.url(), d.name, manifests(job("migrate"), greeting("page", "hello")))
	stateOf(t, d.name, "migrate", v1alpha1.ObjectCompleted)
	awaitReady(t, d.name)
	awaitEvent(t, v, corev1.EventTypeNormal, "Completed", "", "Job "+d.name+"/migrate")
	mark := proxy.Mark()
	proxy.Down()
	awaitUnreachable(t, d.name)
	require.NoError(t, proxy.Up())
	awaitReady(t, d.name)
	patchSpec(t, d.name, `{"metadata":{"annotations":{%q:"now"}}}`, v1alpha1.ReconcileRequestedAtAnnotation)
	await(t, func(c *assert.CollectT) {
		require.Equal(c, "now", getVidraResource(c, d.name).Status.LastHandledReconcileAt)
	})
	for _, q := range proxy.Requests(mark, faultproxy.Match{Resource: schemaJobs}) {
		require.NotEqual(t, "patch", q.Verb, "it is not created again")
	}
	stateOf(t, d.name, "migrate", v1alpha1.ObjectCompleted)
}

var schemaJobs = object("batch/v1", "Job", "", "").GroupVersionKind().GroupVersion().WithResource("jobs")

// TestRestElsewhere: in another cluster, a fight with a controller that fills a placeholder, a refused apply and a refused field cost no
// request while nothing changes.
func TestRestElsewhere(t *testing.T) {
	t.Parallel()
	d, proxy := newDestination(t)
	aggregated := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: " + d.name + "\naggregationRule:\n  clusterRoleSelectors:\n  - matchLabels:\n      aggregate: " + d.name +
		"\nrules: []\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: " + d.name + "-part\n  labels:\n    aggregate: " + d.name +
		"\nrules:\n- apiGroups: [\"\"]\n  resources: [pods]\n  verbs: [get]\n"
	one, two := d.name+"-one", d.name+"-two"
	newVidraResource(t, d.url(), d.name, manifests(aggregated, greeting("page", "hello"), idle), named(one))
	awaitReady(t, one)
	require.NoError(t, there.Admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: d.name, Name: "foreign"}, Data: map[string]string{"greeting": "mine"}}))
	newVidraResource(t, d.url(), d.name, manifests(greeting("page", "goodbye"), greeting("foreign", "hello"),
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: refused\n  namespace: "+d.name+"-missing\n"), named(two))
	await(t, func(c *assert.CollectT) {
		reasons := map[string]bool{}
		for _, p := range getVidraResource(c, two).Status.Problems {
			reasons[p.Reason] = true
		}
		for _, reason := range []string{v1alpha1.ReasonOwnershipConflict, v1alpha1.ReasonAdoptionRefused, v1alpha1.ReasonApplyFailed} {
			require.Contains(c, reasons, reason)
		}
	})
	await(t, func(c *assert.CollectT) {
		rules, _, err := unstructured.NestedSlice(there.Get(c, object("rbac.authorization.k8s.io/v1", "ClusterRole", "", d.name)).Object, "rules")
		require.NoError(c, err)
		require.Len(c, rules, 1, "the controller has aggregated them")
	})
	mark, since := proxy.Mark(), time.Now()
	require.Eventually(t, func() bool {
		if all := proxy.Requests(mark, faultproxy.Match{}); len(all) > 0 {
			mark, since = proxy.Mark(), time.Now()
		}
		return time.Since(since) > 20*time.Second
	}, 6*patience, time.Second, "requests are sent without end")
	require.Equal(t, "hello", there.says(t, d.name, "page"))
}

// TestUndoElsewhereAfterAKill edits an object of another cluster while no operator runs, and ends the operator at the apply of an undo: what was
// there before the edits stays, and what they added goes.
//
// It is not parallel, because it ends the operator.
func TestUndoElsewhereAfterAKill(t *testing.T) {
	const labelled = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, labels: {team: web}}\ndata: {greeting: hello}\n"
	rename := func(d destination) {
		t.Helper()
		require.NoError(t, there.Edit(configMap(d.name, "page"), types.JSONPatchType,
			`[{"op":"move","from":"/metadata/labels/team","path":"/metadata/labels/crew"},{"op":"move","from":"/data/greeting","path":"/data/welcome"}]`, client.FieldOwner("kubectl-edit")))
	}
	undone := func(d destination) {
		t.Helper()
		await(t, func(c *assert.CollectT) {
			live := there.Get(c, configMap(d.name, "page"))
			require.Equal(c, map[string]any{"greeting": "hello", "injected": "1"}, live.Object["data"])
			require.Equal(c, "web", live.GetLabels()["team"])
			require.NotContains(c, live.GetLabels(), "crew")
			require.Equal(c, "restricted", live.GetLabels()["pod-security.kubernetes.io/enforce"])
		})
	}
	begin := func() (destination, *faultproxy.Proxy) {
		t.Helper()
		d, proxy := newDestination(t)
		newVidraResource(t, d.url(), d.name, labelled)
		awaitReady(t, d.name)
		others := getVidraResource(t, d.name).Status.ManagedResources[0].Others
		require.NoError(t, there.Edit(configMap(d.name, "page"), types.MergePatchType,
			`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}},"data":{"injected":"1"}}`, client.FieldOwner("kubectl-edit")))
		await(t, func(c *assert.CollectT) {
			require.NotEqual(c, others, getVidraResource(c, d.name).Status.ManagedResources[0].Others)
		})
		return d, proxy
	}
	d, _ := begin()
	killOperator(t)
	rename(d)
	require.NoError(t, launch(t.Context()))
	undone(d)

	d, proxy := begin()
	stall := proxy.Inject(faultproxy.Match{Namespace: d.name, Name: "page", Parameter: "force"}, faultproxy.Stall())
	rename(d)
	await(t, func(c *assert.CollectT) { require.NotZero(c, stall.Hits()) })
	killOperator(t)
	stall.Remove()
	require.NoError(t, launch(t.Context()))
	undone(d)
	awaitReady(t, d.name)
}
