package sources

import (
	"strings"
	"testing"

	"github.com/fluxcd/pkg/ssa"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
)

// kustomizations is the CustomResourceDefinition of the Kustomizations of Flux, which may hold anything.
func kustomizations() *apiextensionsv1.CustomResourceDefinition {
	return testenv.AnyCRD(schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"}, "kustomizations")
}

// migrated are the files of an artifact.
var migrated = map[string]string{
	"deploy/kustomization.yaml": "resources: [all.yaml]\n",
	"deploy/all.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {stage: "${stage}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, annotations: {kustomize.toolkit.fluxcd.io/prune: disabled}}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {password: hunter2}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
`,
}

// built is what Flux builds of migrated for the Kustomization of the test.
func built(t *testing.T, ns string) []*unstructured.Unstructured {
	t.Helper()
	text := strings.ReplaceAll(migrated["deploy/all.yaml"], "${stage}", "prod")
	objects, err := manifest.Parse(text, manifest.Options{})
	require.NoError(t, err)
	var all []*unstructured.Unstructured
	for _, o := range objects {
		u := o.Unstructured
		u.SetName("prod-" + u.GetName())
		u.SetNamespace(ns)
		labels := u.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["team"] = "shop"
		u.SetLabels(labels)
		all = append(all, u)
	}
	return all
}

// applyAsFlux applies the objects with the code of the kustomize-controller.
func applyAsFlux(t *testing.T, ns string) (inventory []any) {
	t.Helper()
	manager := ssa.NewResourceManager(admin, nil, ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})
	objects := built(t, ns)
	manager.SetOwnerLabels(objects, "web", ns)
	_, err := manager.ApplyAllStaged(t.Context(), objects, ssa.DefaultApplyOptions())
	require.NoError(t, err)
	for _, u := range objects {
		gvk := u.GroupVersionKind()
		inventory = append(inventory, map[string]any{"id": ns + "_" + u.GetName() + "_" + gvk.Group + "_" + gvk.Kind, "v": gvk.Version})
	}
	return inventory
}

// applied returns the objects that Flux applied, as they are.
func applied(t *testing.T, ns string) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for _, u := range built(t, ns) {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(u.GroupVersionKind())
		require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(u), live))
		all[u.GetKind()+" "+u.GetName()] = live
	}
	return all
}

// requireSame requires that the objects are the same ones, of which only metadata and the status have changed.
func requireSame(t *testing.T, before, after map[string]*unstructured.Unstructured) {
	t.Helper()
	for name, was := range before {
		is := after[name].DeepCopy()
		require.Equal(t, was.GetUID(), is.GetUID(), name)
		if was.GetKind() != "Deployment" { // whose generation counts its annotations, too
			require.Equal(t, was.GetGeneration(), is.GetGeneration(), name)
		}
		was := was.DeepCopy()
		for _, u := range []*unstructured.Unstructured{was, is} {
			delete(u.Object, "metadata")
			delete(u.Object, "status")
		}
		require.Equal(t, was.Object, is.Object, name)
	}
}

// migrateFlux returns `vidra migrate flux` of the Kustomization web of a namespace, which requires an exit code and returns what it prints.
func migrateFlux(t *testing.T, ns string) func(code int, args ...string) string {
	t.Helper()
	vidra, config := command(t), operatorConfig(t)
	return func(code int, args ...string) string {
		t.Helper()
		return vidra(code, append([]string{"migrate", "flux", "web", "-n", ns, "--name", ns, "--operator-config", config}, args...)...)
	}
}

// TestMigrateFlux moves the objects of a Kustomization, which the code of Flux has applied, to a VidraResource and back.
func TestMigrateFlux(t *testing.T) {
	ns := cluster.NewNamespace(t)
	vidra := migrateFlux(t, ns)
	define(t, "GitRepository")
	require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), kustomizations())))
	suite.Await(t, func(c *assertT) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "KustomizationList"})
		require.NoError(c, admin.List(t.Context(), list))
	})
	p := newProducer(t)
	p.publish(t, newSource(t, "GitRepository", ns, "app"), "main@sha1:1", migrated)
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "variables"}, Data: map[string]string{"stage": "prod"}}))
	inventory := applyAsFlux(t, ns)
	k := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"sourceRef": map[string]any{"kind": "GitRepository", "name": "app"}, "path": "./deploy", "prune": true, "interval": "5m", "timeout": "1m", "namePrefix": "prod-",
		"commonMetadata": map[string]any{"labels": map[string]any{"team": "shop"}}, "targetNamespace": ns,
		"postBuild":    map[string]any{"substituteFrom": []any{map[string]any{"kind": "ConfigMap", "name": "variables"}}},
		"healthChecks": []any{map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "prod-web", "namespace": ns}},
		"novelty":      true,
	}}}
	k.SetGroupVersionKind(schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"})
	k.SetNamespace(ns)
	k.SetName("web")
	require.NoError(t, admin.Create(t.Context(), k))
	k.Object["status"] = map[string]any{
		"observedGeneration": k.GetGeneration(), "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		"inventory": map[string]any{"entries": append(inventory, map[string]any{"id": ns + "_gone_" + "_ConfigMap", "v": "v1"})},
	}
	require.NoError(t, admin.Status().Update(t.Context(), k))
	spec := func() map[string]any {
		u := cluster.Get(t, k)
		found, _, _ := unstructured.NestedMap(u.Object, "spec")
		return found
	}
	was, before := spec(), applied(t, ns)
	cluster.RemoveAtEnd(t, ns)

	plan := vidra(1)
	for _, text := range []string{
		"note: timeout: ", "accept: healthChecks: ", "accept: novelty: ", "accept: inventory: ConfigMap " + ns + "/gone is not in the manifest", "--accept healthChecks,novelty,inventory",
		"step 1 (to do): suspend Kustomization", "which adopts 5 objects unchanged", "path: deploy\n", "namePrefix: prod-\n", "interval: 5m\n", "prune: true\n", "wait: true\n",
	} {
		require.Contains(t, plan, text)
	}
	require.Contains(t, vidra(2, "--accept", "nothing"), "has no such finding")
	vidra(1, "--apply", "--accept", "healthChecks")
	require.Equal(t, was, spec(), "nothing is written while a finding is in the way")

	accept := []string{"--accept", "healthChecks,novelty,inventory"}
	require.Contains(t, vidra(0, append(accept, "--apply")...), "manages 5 objects, of which 5 are unchanged; released 5 objects")
	after := applied(t, ns)
	requireSame(t, before, after)
	for name, u := range after {
		require.NotContains(t, u.GetLabels(), "kustomize.toolkit.fluxcd.io/name", name)
		require.NotContains(t, u.GetLabels(), "kustomize.toolkit.fluxcd.io/namespace", name)
		require.Equal(t, "shop", u.GetLabels()["team"], name)
		for _, e := range u.GetManagedFields() {
			require.NotEqual(t, "kustomize-controller", e.Manager, name)
		}
	}
	require.Equal(t, "true", after["ConfigMap prod-kept"].GetAnnotations()[v1alpha1.KeepAnnotation], "Flux does not prune it, so Vidra keeps it")
	stopped := spec()
	require.Equal(t, []any{true, false, "Orphan"}, []any{stopped["suspend"], stopped["prune"], stopped["deletionPolicy"]})
	require.Contains(t, vidra(0, append(accept, "--apply")...), "released 0 objects", "it can be repeated")
	require.Contains(t, vidra(0), "step 3 (done)")
	vr := cluster.GetVidraResource(t, ns)
	require.Equal(t, "main@sha1:1", vr.Status.Source[0].Revision)
	require.NoError(t, cluster.MergePatch(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "prod-settings"}}, `{"data":{"stage":"edited"}}`))
	suite.AwaitFor(t, patience, func(c *assertT) {
		cm := &corev1.ConfigMap{}
		require.NoError(c, admin.Get(bg, client.ObjectKey{Namespace: ns, Name: "prod-settings"}, cm))
		require.Equal(c, "prod", cm.Data["stage"])
	})

	// Neither another name nor a Kustomization that is gone starts Flux beside Vidra.
	require.Contains(t, vidra(2, "--undo", "--name", "web"), "moved to VidraResource "+ns+" already: use --name "+ns)
	require.Contains(t, vidra(2, append(accept, "--apply", "--name", "web")...), "moved to VidraResource "+ns+" already: use --name "+ns)
	require.Equal(t, stopped, spec())
	suspended := cluster.Get(t, k).DeepCopy()
	require.NoError(t, admin.Delete(t.Context(), k.DeepCopy()))
	require.Contains(t, vidra(2, "--undo"), "they stay with VidraResource "+ns)
	require.Equal(t, vr.UID, cluster.GetVidraResource(t, ns).UID)
	suspended.SetResourceVersion("")
	suspended.SetUID("")
	require.NoError(t, admin.Create(t.Context(), suspended))

	require.Equal(t, "went back: 5 objects stay, without VidraResource\n", vidra(0, "--undo"))
	back := applied(t, ns)
	requireSame(t, before, back)
	require.True(t, apierrors.IsNotFound(admin.Get(t.Context(), client.ObjectKey{Name: ns}, &v1alpha1.VidraResource{})))
	require.Equal(t, was, spec(), "the Kustomization is as it was")
	require.NotContains(t, cluster.Get(t, k).GetAnnotations(), "kustomize.toolkit.fluxcd.io/reconcile")
	applyAsFlux(t, ns) // its next reconcile
	again := applied(t, ns)
	requireSame(t, before, again)
	for name, u := range again {
		require.Equal(t, "web", u.GetLabels()["kustomize.toolkit.fluxcd.io/name"], name)
		require.NotContains(t, u.GetLabels(), v1alpha1.ManagedByLabel, name)
		require.NotContains(t, u.GetAnnotations(), v1alpha1.KeepAnnotation, name)
	}
	require.Contains(t, vidra(2, "--undo"), "nothing to undo")

	// A user has resumed it after a migration that ended early.
	require.NoError(t, cluster.MergePatch(k, `{"metadata":{"annotations":{"`+v1alpha1.BeforeMigrationAnnotation+`":"{\"spec\":{\"prune\":true}}"}},"spec":{"prune":false}}`))
	require.Equal(t, "went back: 0 objects stay, without VidraResource\n", vidra(0, "--undo"))
	require.Equal(t, was, spec())
}

// TestMigrateKustomizeController moves the objects of a Kustomization to a VidraResource and back, while the kustomize-controller of Flux runs. It
// applies before and after, and neither applies nor prunes in between, also after a restart.
func TestMigrateKustomizeController(t *testing.T) {
	binary := fluxBinary(t, testenv.KustomizeController)
	removeStandIns(t, kustomizations())
	for kind := range testenv.FluxPlurals { // it watches all of them
		define(t, kind)
	}
	installCRDs(t, testenv.KustomizeController)
	process, err := cluster.StartFlux(bg, testenv.KustomizeController, binary)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, process.Kill()) })
	ns := cluster.NewNamespace(t)
	vidra := migrateFlux(t, ns)
	p, source := newProducer(t), newSource(t, "GitRepository", ns, "app")
	publish := func(number string, change ...string) {
		t.Helper()
		p.publish(t, source, "main@sha1:"+number, map[string]string{
			"deploy/kustomization.yaml": migrated["deploy/kustomization.yaml"],
			"deploy/all.yaml":           strings.NewReplacer(append(change, `data: {stage: "${stage}"}`, `data: {stage: "${stage}", number: "`+number+`"}`)...).Replace(migrated["deploy/all.yaml"]),
		})
	}
	publish("1")
	k := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"sourceRef": map[string]any{"kind": "GitRepository", "name": "app"}, "path": "./deploy", "prune": true, "interval": "1h", "retryInterval": "1s", "namePrefix": "prod-",
		"commonMetadata": map[string]any{"labels": map[string]any{"team": "shop"}}, "targetNamespace": ns,
		"postBuild": map[string]any{"substitute": map[string]any{"stage": "prod"}},
	}}}
	k.SetGroupVersionKind(schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"})
	k.SetNamespace(ns)
	k.SetName("web")
	require.NoError(t, admin.Create(t.Context(), k, client.FieldValidation("Strict")))
	t.Cleanup(func() { // while the controller runs, which has a finalizer on it
		require.NoError(t, client.IgnoreNotFound(admin.Delete(bg, k.DeepCopy())))
		cluster.AwaitGoneFor(t, patience, k.DeepCopy())
	})
	settings := func(c *assertT) *corev1.ConfigMap {
		cm := &corev1.ConfigMap{}
		require.NoError(c, admin.Get(bg, client.ObjectKey{Namespace: ns, Name: "prod-settings"}, cm), process.Tail())
		return cm
	}
	awaitNumber := func(number string) {
		t.Helper()
		suite.AwaitFor(t, 2*patience, func(c *assertT) { require.Equal(c, number, settings(c).Data["number"]) })
	}
	// fluxHas waits until Flux has applied a revision.
	fluxHas := func(number string) {
		t.Helper()
		suite.AwaitFor(t, 2*patience, func(c *assertT) {
			u := k.DeepCopy()
			require.NoError(c, admin.Get(bg, client.ObjectKeyFromObject(k), u))
			revision, _, _ := unstructured.NestedString(u.Object, "status", "lastAppliedRevision")
			require.Equal(c, "main@sha1:"+number, revision, "%v", u.Object["status"])
		})
	}
	fluxHas("1")
	before := applied(t, ns)
	specOf := func() any {
		u := k.DeepCopy()
		require.NoError(t, admin.Get(bg, client.ObjectKeyFromObject(k), u))
		return u.Object["spec"]
	}
	was := specOf()
	cluster.RemoveAtEnd(t, ns)

	require.Contains(t, vidra(0, "--apply"), "manages 5 objects, of which 5 are unchanged; released 5 objects")
	requireSame(t, before, applied(t, ns))
	for _, number := range []string{"2", "3"} {
		publish(number)
		awaitNumber(number)
		require.NoError(t, cluster.MergePatch(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "prod-settings"}}, `{"data":{"stage":"edited"}}`))
		suite.AwaitFor(t, patience, func(c *assertT) { require.Equal(c, "prod", settings(c).Data["stage"]) })
		for name, u := range applied(t, ns) {
			require.Equal(t, before[name].GetUID(), u.GetUID(), name)
			require.NotContains(t, u.GetLabels(), "kustomize.toolkit.fluxcd.io/name", name)
			for _, e := range u.GetManagedFields() {
				require.NotEqual(t, "kustomize-controller", e.Manager, name)
			}
		}
		fluxHas("1")
		require.NoError(t, process.Kill()) // it reads all of them when it starts
		process, err = cluster.StartFlux(bg, testenv.KustomizeController, binary)
		require.NoError(t, err)
	}

	require.Equal(t, "went back: 5 objects stay, without VidraResource\n", vidra(0, "--undo"))
	require.Equal(t, was, specOf())
	fluxHas("3")
	for name, u := range applied(t, ns) {
		require.Equal(t, before[name].GetUID(), u.GetUID(), name)
		require.Equal(t, "web", u.GetLabels()["kustomize.toolkit.fluxcd.io/name"], name)
		require.NotContains(t, u.GetLabels(), v1alpha1.ManagedByLabel, name)
	}
	publish("4", "kind: Secret\nmetadata: {name: login}\nstringData: {password: hunter2}\n---\napiVersion: v1\n", "")
	fluxHas("4")
	awaitNumber("4")
	cluster.AwaitGoneFor(t, patience, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "prod-login"}})
}
