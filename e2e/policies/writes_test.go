package policies

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// manifest has the objects that the writes are about: namespaced and cluster-scoped ones, and a custom kind.
var manifest = suite.Manifests(
	"apiVersion: v1\nkind: Namespace\nmetadata: {name: policies-managed}",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, labels: {app: shop}}\ndata: {color: blue, size: large}",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: exempt}\ndata: {color: blue}",
	"apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: hidden}",
	"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: policies-reader}\nrules: [{apiGroups: [''], resources: [pods], verbs: [get]}]",
	"apiVersion: policies.example.com/v1\nkind: Widget\nmetadata: {name: gear}\nspec: {replicas: 1, teeth: 12}",
	"apiVersion: v1\nkind: Pod\nmetadata: {name: tool}\nspec:\n  automountServiceAccountToken: false\n  containers: [{name: tool, image: tool, resources: {requests: {cpu: 10m}}}]",
	workload("Deployment", "web", "  replicas: 0"), workload("Deployment", "free", ""), workload("StatefulSet", "db", "  replicas: 0"),
)

// shared makes the VidraResource shop, once for all tests.
var shared sync.Once

func makeShop(t *testing.T) {
	t.Helper()
	shared.Do(func() {
		cluster.MakeNamespace(t, space)
		require.NoError(t, admin.Create(t.Context(), &v1alpha1.VidraResource{
			ObjectMeta: metav1.ObjectMeta{Name: owner},
			Spec:       v1alpha1.VidraResourceSpec{Destination: v1alpha1.Destination{Namespace: space}, Manifest: manifest},
		}))
		require.NoError(t, admin.Create(t.Context(), unmanaged()))
	})
	cluster.AwaitReady(t, owner)
}

// unmanaged is a ConfigMap without an owner.
func unmanaged() client.Object {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"color": "blue"}}}
	u.SetName("unmanaged")
	u.SetNamespace(space)
	return u
}

// request is a write by a client, as a dry run.
type request func(d dynamic.Interface) error

// dry are the options of all writes.
var dry = []string{metav1.DryRunAll}

// patch patches an object of the namespace of the tests; cluster-scoped ones, too.
func patch(gvr schema.GroupVersionResource, name string, how types.PatchType, manager, body string, subresources ...string) request {
	return func(d dynamic.Interface) error {
		options := metav1.PatchOptions{FieldManager: manager, DryRun: dry}
		if how == types.ApplyPatchType {
			options.Force = ptr.To(true)
		}
		_, err := in(d, gvr).Patch(context.Background(), name, how, []byte(body), options, subresources...)
		return err
	}
}

// edit is a merge patch of kubectl edit.
func edit(gvr schema.GroupVersionResource, name, body string, subresources ...string) request {
	return patch(gvr, name, types.MergePatchType, "kubectl-edit", body, subresources...)
}

// update replaces an object after a change.
func update(gvr schema.GroupVersionResource, name string, change func(u *unstructured.Unstructured) error, subresources ...string) request {
	return func(d dynamic.Interface) error {
		live, err := in(d, gvr).Get(context.Background(), name, metav1.GetOptions{}, subresources...)
		if err != nil {
			return err
		}
		if err := change(live); err != nil {
			return err
		}
		_, err = in(d, gvr).Update(context.Background(), live, metav1.UpdateOptions{FieldManager: "kubectl-replace", DryRun: dry}, subresources...)
		return err
	}
}

// set changes a field.
func set(value any, path ...string) func(u *unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error { return unstructured.SetNestedField(u.Object, value, path...) }
}

// remove deletes an object; exactly reports that the deletion names its uid and version, as those of Vidra do.
func remove(gvr schema.GroupVersionResource, name string, exactly bool) request {
	return func(d dynamic.Interface) error {
		options := metav1.DeleteOptions{DryRun: dry}
		if exactly {
			live, err := in(d, gvr).Get(context.Background(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			uid, version := live.GetUID(), live.GetResourceVersion()
			options.Preconditions = &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
		}
		return in(d, gvr).Delete(context.Background(), name, options)
	}
}

// in is where the objects of a resource are.
func in(d dynamic.Interface, gvr schema.GroupVersionResource) dynamic.ResourceInterface {
	if gvr == namespaces || gvr == clusterRoles {
		return d.Resource(gvr)
	}
	return d.Resource(gvr).Namespace(space)
}

// write is a row of the table of writes.
type write struct {
	reason string
	// user who sends it; alice if empty.
	user string
	do   request
	// takes is the object that it changes what is owned of, as kubectl names it; empty if it changes nothing
	// that is owned, or if the user is exempt.
	takes string
	// fields are those that it changes; empty for a deletion.
	fields string
	// scale reports that it goes through the subresource scale, of which deny knows too little.
	scale bool
}

const color = `{"data":{"color":"red"}}`

// writes are all kinds of writes of managed objects, and of others.
var writes = map[string]write{
	"update": {
		reason: "kubectl replace", do: update(configMaps, "settings", set("red", "data", "color")),
		takes: "configmap/settings -n " + space, fields: "data.color",
	},
	"merge patch": {
		reason: "kubectl patch --type=merge", do: edit(configMaps, "settings", color),
		takes: "configmap/settings -n " + space, fields: "data.color",
	},
	"strategic merge patch": {
		reason: "kubectl edit", do: patch(deployments, "web", types.StrategicMergePatchType, "kubectl-edit", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`),
		takes: "deployment/web -n " + space, fields: "spec.template",
	},
	"json patch": {
		reason: "it removes a field", do: patch(configMaps, "settings", types.JSONPatchType, "kubectl-patch", `[{"op":"remove","path":"/data/size"}]`),
		takes: "configmap/settings -n " + space, fields: "data.size",
	},
	"apply": {
		reason: "kubectl apply --server-side --force-conflicts",
		do:     patch(configMaps, "settings", types.ApplyPatchType, "kubectl", `{"apiVersion":"v1","kind":"ConfigMap","data":{"color":"red","size":"small"}}`),
		takes:  "configmap/settings -n " + space, fields: "data.color, data.size",
	},
	"structural": {
		reason: "the container is renamed",
		do:     patch(deployments, "web", types.JSONPatchType, "kubectl-edit", `[{"op":"replace","path":"/spec/template/spec/containers/0/name","value":"other"}]`),
		takes:  "deployment/web -n " + space, fields: "spec.template",
	},
	"label of the manifest": {
		reason: "a label like others", do: edit(configMaps, "settings", `{"metadata":{"labels":{"app":"other"}}}`),
		takes: "configmap/settings -n " + space, fields: "metadata.labels",
	},
	"label of Vidra": {
		reason: "the policies select by it, and the object had it before",
		do:     edit(configMaps, "settings", `{"metadata":{"labels":{"managed-by":null}},"data":{"color":"red"}}`),
		takes:  "configmap/settings -n " + space, fields: "data.color, metadata.labels",
	},
	"annotation of the owner": {
		reason: "the message still names the owner", do: edit(configMaps, "settings", `{"metadata":{"annotations":null}}`),
		takes: "configmap/settings -n " + space, fields: "metadata.annotations",
	},
	"another owner": {
		reason: "an annotation that no VidraResource owns names no owner",
		do:     edit(configMaps, "settings", `{"metadata":{"annotations":{"owner.vidraresource.infrahub.operators.com/forged":"forged"}},"data":{"color":"red"}}`),
		takes:  "configmap/settings -n " + space, fields: "data.color",
	},
	"managed fields": {
		reason: "without them nothing is owned", do: edit(configMaps, "settings", `{"metadata":{"managedFields":[{}]}}`),
		takes: "configmap/settings -n " + space, fields: "data.color, data.size, metadata.annotations, metadata.labels",
	},
	"delete":         {reason: "kubectl delete", do: remove(configMaps, "settings", false), takes: "configmap/settings -n " + space},
	"delete exactly": {reason: "only a ServiceAccount can be Vidra", do: remove(configMaps, "settings", true), takes: "configmap/settings -n " + space},
	"delete collection": {
		reason: "the request has no name",
		do: func(d dynamic.Interface) error {
			return in(d, secrets).DeleteCollection(context.Background(), metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{})
		},
		takes: "secret/login -n " + space,
	},
	"secret": {
		reason: "its values are not shown", do: edit(secrets, "login", `{"stringData":{"password":"other"}}`),
		takes: "secret/login -n " + space, fields: "data.password",
	},
	"cluster-scoped": {
		reason: "it has no namespace", do: edit(clusterRoles, "policies-reader", `{"rules":[]}`),
		takes: "clusterrole/policies-reader", fields: "rules",
	},
	"cluster-scoped, deleted": {reason: "it has no namespace", do: remove(clusterRoles, "policies-reader", false), takes: "clusterrole/policies-reader"},
	"namespace":               {reason: "kubectl delete namespace", do: remove(namespaces, "policies-managed", false), takes: "namespace/policies-managed"},
	"custom kind": {
		reason: "it is named with its group, as kinds of several groups can have one name", do: edit(widgets, "gear", `{"spec":{"teeth":13}}`),
		takes: "widget.policies.example.com/gear -n " + space, fields: "spec.teeth",
	},
	"custom kind, deleted": {reason: "as others", do: remove(widgets, "gear", false), takes: "widget.policies.example.com/gear -n " + space},
	"resize": {
		reason: "a subresource with the object itself", do: edit(pods, "tool", `{"spec":{"containers":[{"name":"tool","resources":{"requests":{"cpu":"20m"}}}]}}`, "resize"),
		takes: "pod/tool -n " + space, fields: "spec.containers",
	},
	"scale": {
		reason: "kubectl scale", do: edit(deployments, "web", `{"spec":{"replicas":1}}`, "scale"),
		takes: "deployment/web -n " + space, scale: true,
	},
	"scale, updated": {
		reason: "as the client of autoscalers does", do: update(deployments, "web", set(int64(1), "spec", "replicas"), "scale"),
		takes: "deployment/web -n " + space, scale: true,
	},
	"scale of a StatefulSet": {
		reason: "the other kind with a cache", do: edit(statefulSets, "db", `{"spec":{"replicas":1}}`, "scale"),
		takes: "statefulset/db -n " + space, scale: true,
	},
	"scale that is not owned": {
		reason: "nothing shows who owns spec.replicas, and the sentence is true", do: edit(deployments, "free", `{"spec":{"replicas":3}}`, "scale"),
		takes: "deployment/free -n " + space, scale: true,
	},
	"scale of a custom kind": {reason: "the policies know Deployments and StatefulSets", do: edit(widgets, "gear", `{"spec":{"replicas":2}}`, "scale")},
	"scale to the same":      {reason: "nothing changes", do: edit(deployments, "web", `{"spec":{"replicas":0}}`, "scale")},
	"replicas, not owned":    {reason: "the manifest does not name them", do: edit(deployments, "free", `{"spec":{"replicas":3}}`)},
	"ephemeral containers": {
		reason: "kubectl debug adds what no manifest owns",
		do: patch(pods, "tool", types.StrategicMergePatchType, "kubectl-debug",
			`{"spec":{"ephemeralContainers":[{"name":"debug","image":"debug","targetContainerName":"tool"}]}}`, "ephemeralcontainers"),
	},
	"status": {
		reason: "controllers write it all the time", do: edit(deployments, "web", `{"status":{"observedGeneration":1}}`, "status"),
	},
	"status of a custom kind": {reason: "as others", do: edit(widgets, "gear", `{"status":{"ready":true}}`, "status")},
	"foreign annotation":      {reason: "kubectl annotate", do: edit(configMaps, "settings", `{"metadata":{"annotations":{"note":"mine"}}}`)},
	"foreign label":           {reason: "kubectl label", do: edit(configMaps, "settings", `{"metadata":{"labels":{"note":"mine"}}}`)},
	"foreign key":             {reason: "an addition stays", do: edit(configMaps, "settings", `{"data":{"other":"mine"}}`)},
	"restart": {
		reason: "kubectl rollout restart",
		do:     edit(deployments, "web", `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-01-31T18:00:00Z"}}}}}`),
	},
	"same value": {reason: "nothing changes", do: edit(configMaps, "settings", `{"data":{"color":"blue"}}`)},
	"break-glass": {
		reason: "the annotations are the user's",
		do: edit(configMaps, "settings", `{"metadata":{"annotations":{"vidraresource.infrahub.operators.com/break-glass-until":"2126-01-31T18:00:00Z",`+
			`"vidraresource.infrahub.operators.com/break-glass-reason":"incident 7"}}}`),
	},
	"create": {
		reason: "a copied label makes no owner",
		do: func(d dynamic.Interface) error {
			copied := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
			copied.SetName("copied")
			copied.SetLabels(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue})
			_, err := in(d, configMaps).Create(context.Background(), copied, metav1.CreateOptions{DryRun: dry})
			return err
		},
	},
	"unmanaged":          {reason: "it is not selected", do: edit(configMaps, "unmanaged", color)},
	"unmanaged, deleted": {reason: "it is not selected", do: remove(configMaps, "unmanaged", false)},
	"adopted label": {
		reason: "who adds the label owns nothing", do: edit(configMaps, "unmanaged", `{"metadata":{"labels":{"managed-by":"vidra"}},"data":{"color":"red"}}`),
	},
	"configured user":            {reason: "it is in the list of the overlay", user: robot, do: edit(configMaps, "settings", color)},
	"configured user, scale":     {reason: "in all policies", user: robot, do: edit(deployments, "web", `{"spec":{"replicas":1}}`, "scale")},
	"configured user, deletion":  {reason: "of all verbs", user: robot, do: remove(configMaps, "settings", false)},
	"garbage collector":          {reason: "it deletes what has lost its owner", user: "system:serviceaccount:kube-system:generic-garbage-collector", do: remove(configMaps, "settings", false)},
	"namespace controller":       {reason: "it empties a namespace", user: "system:serviceaccount:kube-system:namespace-controller", do: remove(configMaps, "settings", false)},
	"autoscaler":                 {reason: "spec.replicas may be its own", user: "system:serviceaccount:kube-system:horizontal-pod-autoscaler", do: edit(deployments, "free", `{"spec":{"replicas":3}}`, "scale")},
	"controller manager":         {reason: "without accounts of its controllers", user: "system:kube-controller-manager", do: edit(configMaps, "settings", color)},
	"kubelet":                    {reason: "it deletes Pods", user: "system:node:worker-1", do: remove(pods, "tool", false)},
	"Vidra":                      {reason: "it applies under its field manager", user: vidra, do: patch(configMaps, "settings", types.ApplyPatchType, "vidra/shop", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"},"data":{"color":"red"}}`)},
	"Vidra, deletion":            {reason: "it deletes what it has read", user: vidra, do: remove(configMaps, "settings", true)},
	"impersonated":               {reason: "Vidra acts as the account of a VidraResource", user: deployer, do: patch(configMaps, "settings", types.MergePatchType, "vidra/shop", color)},
	"impersonated, deletion":     {reason: "likewise", user: deployer, do: remove(configMaps, "settings", true)},
	"ServiceAccount":             {reason: "a program is not Vidra", user: deployer, do: edit(configMaps, "settings", color), takes: "configmap/settings -n " + space, fields: "data.color"},
	"ServiceAccount, deletion":   {reason: "nor does it delete as Vidra does", user: deployer, do: remove(configMaps, "settings", false), takes: "configmap/settings -n " + space},
	"dry run of a VidraResource": {reason: "kubectl vidra diff", do: patch(configMaps, "settings", types.ApplyPatchType, "vidra/shop", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"},"data":{"color":"red"}}`)},
}

const (
	// vidra is the account of the operator, and deployer one that it impersonates.
	vidra    = "system:serviceaccount:vidra-system:vidra-operator"
	deployer = "system:serviceaccount:" + space + ":deployer"
)
