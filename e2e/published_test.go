package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// generatedSchema is a schema with properties that have descriptions, and with objects and lists of objects up to a depth. A
// depth of 4 has some 1,900 properties.
func generatedSchema(depth int) apiextensionsv1.JSONSchemaProps {
	properties := map[string]apiextensionsv1.JSONSchemaProps{}
	for i := range 12 {
		leaf := apiextensionsv1.JSONSchemaProps{
			Type:        []string{"string", "integer", "boolean"}[i%3],
			Description: strings.Repeat(fmt.Sprintf("Field %d of this level has a meaning that takes a sentence. ", i), 4),
		}
		if i%3 == 0 {
			leaf.MaxLength = new(int64(253))
		}
		properties[fmt.Sprintf("field%d", i)] = leaf
	}
	properties["port"] = apiextensionsv1.JSONSchemaProps{XIntOrString: true, AnyOf: []apiextensionsv1.JSONSchemaProps{{Type: "integer"}, {Type: "string"}}}
	properties["options"] = apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	if depth > 0 {
		below := generatedSchema(depth - 1)
		item := *below.DeepCopy()
		item.Properties["name"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		item.Required = []string{"name"}
		properties["nested"], properties["template"] = below, below
		properties["items"] = apiextensionsv1.JSONSchemaProps{
			Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}, XListType: new("map"), XListMapKeys: []string{"name"},
		}
	}
	return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
}

// generatedKind is a CustomResourceDefinition as a generator writes it, with the empty status of older ones.
func generatedKind(t *testing.T, group, kind string, depth int, scope apiextensionsv1.ResourceScope) string {
	t.Helper()
	plural := strings.ToLower(kind) + "s"
	spec := generatedSchema(depth)
	definition := apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group, Annotations: map[string]string{"controller-gen.kubebuilder.io/version": "v0.20.0"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: strings.ToLower(kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Required: []string{"spec"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"apiVersion": {Type: "string"}, "kind": {Type: "string"}, "metadata": {Type: "object"}, "spec": spec,
						"status": {Type: "object", XPreserveUnknownFields: new(true)},
					},
				}},
			}},
		},
	}
	text, err := yaml.Marshal(definition)
	require.NoError(t, err)
	return string(text)
}

// workload is a Deployment with its account, in a namespace.
func workload(namespace, name string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: ServiceAccount
metadata: {name: %[2]s, namespace: %[1]s}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[2]s
  namespace: %[1]s
  labels: {app.kubernetes.io/name: %[2]s, app.kubernetes.io/part-of: shape}
spec:
  replicas: 1
  selector: {matchLabels: {app.kubernetes.io/name: %[2]s}}
  template:
    metadata: {labels: {app.kubernetes.io/name: %[2]s}}
    spec:
      serviceAccountName: %[2]s
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: main
        image: registry.example.com/%[2]s:v1
        args: [--leader-elect]
        env:
        - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        - {name: EMPTY, value: ""}
        ports: [{name: http, containerPort: 8080}, {name: metrics, containerPort: 9090}]
        livenessProbe: {httpGet: {path: /healthz, port: http}, initialDelaySeconds: 10}
        resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        volumeMounts: [{name: tmp, mountPath: /tmp}]
      volumes: [{name: tmp, emptyDir: {}}]
`, namespace, name)
}

// serviceOf is a Service of a workload.
func serviceOf(namespace, name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %[2]s, namespace: %[1]s}\nspec:\n  selector: {app.kubernetes.io/name: %[2]s}\n"+
		"  ports: [{name: http, port: 80, targetPort: http}, {name: metrics, port: 9090, targetPort: metrics, protocol: TCP}]\n", namespace, name)
}

// rights are a ClusterRole with a binding to an account of a namespace.
func rights(name, namespace, account, group string) string {
	return fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s, labels: {example.com/aggregate-to-view: "true"}}
rules:
- {apiGroups: [%[4]s], resources: ["*"], verbs: [get, list, watch, create, update, patch, delete]}
- {apiGroups: [""], resources: [events], verbs: [create, update, patch]}
- {nonResourceURLs: [/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects: [{kind: ServiceAccount, name: %[3]s, namespace: %[2]s}]
`, name, namespace, account, group)
}

// hooks are the configurations of the webhooks of an operator whose Service does not answer.
func hooks(name, namespace, rules string) string {
	const form = `apiVersion: admissionregistration.k8s.io/v1
kind: %[1]sWebhookConfiguration
metadata: {name: %[2]s}
webhooks:
- name: %[2]s.example.com
  admissionReviewVersions: [v1]
  failurePolicy: Ignore
  sideEffects: None
  timeoutSeconds: 1
  clientConfig: {service: {name: webhook, namespace: %[3]s, path: /admit}}
  rules: %[4]s
`
	return manifests(fmt.Sprintf(form, "Validating", name, namespace, rules), fmt.Sprintf(form, "Mutating", name, namespace, rules))
}

// shapes are manifests of the shapes and sizes of published ones. Each gets a namespace and a name for what has no namespace.
var shapes = map[string]struct {
	reason string
	// objects is how many there are, and bytes how long the text is at least.
	objects, bytes int
	documents      func(t *testing.T, ns string) []string
}{
	"Rollouts": {
		"five large kinds, and no Namespace of its own", 16, 3_000_000,
		func(t *testing.T, ns string) []string {
			t.Helper()
			group := ns + ".example.com"
			var all []string
			for _, kind := range []string{"Trial", "Probe", "ProbeRun", "Release"} {
				all = append(all, generatedKind(t, group, kind, 4, apiextensionsv1.NamespaceScoped))
			}
			return append(all, generatedKind(t, group, "ClusterProbe", 4, apiextensionsv1.ClusterScoped),
				workload(ns, "controller"), serviceOf(ns, "controller"), rights(ns+"-controller", ns, "controller", group), rights(ns+"-view", ns, "controller", group),
				rights(ns+"-edit", ns, "controller", group), configMap("settings", `""`), "apiVersion: v1\nkind: Secret\nmetadata: {name: notifications}\ntype: Opaque\n")
		},
	},
	"Pipelines": {
		"a Namespace, many kinds and settings, and webhooks that a controller fills in", 40, 1_600_000,
		func(t *testing.T, ns string) []string {
			t.Helper()
			group, system := ns+".example.com", ns+"-system"
			all := []string{"apiVersion: v1\nkind: Namespace\nmetadata: {name: " + system + ", labels: {pod-security.kubernetes.io/enforce: restricted}}\n"}
			for i := range 9 {
				all = append(all, generatedKind(t, group, fmt.Sprintf("Step%d", i), 3, apiextensionsv1.NamespaceScoped))
			}
			for i := range 10 {
				all = append(all, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config-%d, namespace: %s, annotations: {knative.dev/example-checksum: \"00f%d\"}}\n"+
					"data:\n  _example: |\n    ################################\n    # %s\n    key: \"value\"\n", i, system, i, strings.Repeat("An example block. ", 200)))
			}
			for _, name := range []string{"controller", "events", "webhook"} {
				all = append(all, workload(system, name), serviceOf(system, name), rights(ns+"-"+name, system, name, group))
			}
			return append(all, hooks(ns, system, "[]"), "apiVersion: v1\nkind: Secret\nmetadata: {name: webhook-certs, namespace: "+system+"}\n",
				"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: webhook, namespace: "+system+"}\nspec:\n  minReplicas: 1\n  maxReplicas: 5\n"+
					"  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: webhook}\n"+
					"  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 100}}}]\n",
				"apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: webhook, namespace: "+system+"}\nspec:\n  minAvailable: 80%\n"+
					"  selector: {matchLabels: {app.kubernetes.io/name: webhook}}\n")
		},
	},
	"Operator": {
		"kinds and objects of them in one manifest, with webhooks that do not answer", 18, 100_000,
		func(t *testing.T, ns string) []string {
			t.Helper()
			group, system := ns+".example.com", ns+"-system"
			custom := func(kind, name, namespace string) string {
				return "apiVersion: " + group + "/v1\nkind: " + kind + "\nmetadata: {name: " + name + namespace + "}\nspec:\n  field0: a\n  field1: 3\n  port: http\n" +
					"  items: [{name: a, field0: b}, {name: c}]\n  options: {anything: [1, two, {three: 3}]}\n"
			}
			in := ", namespace: " + system
			return []string{ // objects before their kinds, as some have it
				custom("Cluster", "main", in), custom("Cluster", "second", in), custom("Pool", "default", ""),
				generatedKind(t, group, "Cluster", 2, apiextensionsv1.NamespaceScoped), generatedKind(t, group, "Pool", 2, apiextensionsv1.ClusterScoped),
				"apiVersion: v1\nkind: Namespace\nmetadata: {name: " + system + "}\n",
				workload(system, "operator"), serviceOf(system, "operator"), rights(ns+"-operator", system, "operator", group),
				hooks(ns, system, "[{apiGroups: ["+group+"], apiVersions: [v1], operations: [CREATE, UPDATE], resources: ['*']}]"),
				"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: " + ns + "}\nvalue: 1000000\ndescription: For the operator.\n",
				"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: operator" + in + "}\nspec:\n  podSelector: {}\n  policyTypes: [Ingress]\n  ingress: [{}]\n",
				"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: " + ns + "}\nprovisioner: " + group + "\nallowVolumeExpansion: true\nparameters: {replicas: \"3\"}\n",
				"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent" + in + "}\nspec:\n  selector: {matchLabels: {app: agent}}\n  updateStrategy: {type: OnDelete}\n" +
					"  template:\n    metadata: {labels: {app: agent}}\n    spec:\n      hostNetwork: true\n      tolerations: [{operator: Exists}]\n" +
					"      containers: [{name: agent, image: registry.example.com/agent, ports: [{containerPort: 9100}]}]\n",
				"apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: operator" + in + "}\nspec: {maxUnavailable: 1, selector: {matchLabels: {app.kubernetes.io/name: operator}}}\n",
			}
		},
	},
	"Shop": {
		"a shop of small services", 35, 0,
		func(t *testing.T, ns string) []string {
			t.Helper()
			var all []string
			for _, name := range []string{"front", "cart", "catalog", "currency", "payment", "shipping", "mail", "checkout", "advice", "adverts", "load"} {
				all = append(all, workload(ns, name), serviceOf(ns, name))
			}
			return append(all,
				"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: store}\nspec:\n  serviceName: cart\n  selector: {matchLabels: {app: store}}\n  template:\n"+
					"    metadata: {labels: {app: store}}\n    spec: {containers: [{name: store, image: registry.example.com/store, volumeMounts: [{name: data, mountPath: /data}]}]}\n"+
					"  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]\n",
				"apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: front}\nspec:\n  rules:\n  - host: shop.example.com\n"+
					"    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: front, port: {number: 80}}}}]}\n")
		},
	},
}

// TestPublishedManifests creates VidraResources of manifests of the shapes and sizes of published ones with one command, and again with the
// same command, which changes nothing: they become Ready, each deletion of an object
// is reverted, that of its Namespace or its kind included, and nothing is left of them.
func TestPublishedManifests(t *testing.T) {
	t.Parallel()
	vidra := commandLine{binary: buildVidra(t), kubeconfig: env.KubeconfigPath, name: "create"}
	for name, tt := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			documents := tt.documents(t, ns)
			require.GreaterOrEqual(t, len(strings.Join(documents, "")), tt.bytes, tt.reason)
			began := time.Now()
			asClusterAdmin(t, ns)
			file := filepath.Join(t.TempDir(), "install.yaml")
			require.NoError(t, os.WriteFile(file, []byte(manifests(documents...)), 0o600))
			cluster.RemoveAtEnd(t, ns)
			create := func(want string) {
				t.Helper()
				out, said, code := vidra.run(t, ns, "-n", ns, "--service-account", "admin", "-f", file)
				require.Equal(t, 0, code, said)
				require.Contains(t, out, want)
			}
			create("created VidraResource " + ns)
			v := cluster.AwaitReadyFor(t, 3*patience, ns)
			create("VidraResource " + ns + " is unchanged")
			t.Logf("%d objects Ready after %s", len(v.Status.ManagedResources), time.Since(began).Round(time.Millisecond))
			require.Len(t, v.Status.ManagedResources, tt.objects)

			var members, containers []*unstructured.Unstructured
			for _, e := range v.Status.ManagedResources {
				obj := objectOf(e)
				if e.Kind == "Namespace" || e.Kind == "CustomResourceDefinition" {
					containers = append(containers, obj)
				} else {
					members = append(members, obj)
				}
			}
			for _, deleted := range [][]*unstructured.Unstructured{members, containers} {
				for _, obj := range deleted {
					require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
					require.NoError(t, admin.Delete(t.Context(), obj.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)))
				}
				suite.AwaitFor(t, 3*patience, func(c *assert.CollectT) {
					for _, obj := range deleted {
						live := obj.DeepCopy()
						require.NoError(c, admin.Get(t.Context(), client.ObjectKeyFromObject(obj), live), "%s %s", obj.GetKind(), obj.GetName())
						require.NotEqual(c, obj.GetUID(), live.GetUID(), "%s %s is a new object", obj.GetKind(), obj.GetName())
						require.Equal(c, v1alpha1.ManagedByValue, live.GetLabels()[v1alpha1.ManagedByLabel])
					}
				})
			}
			suite.AwaitFor(t, 3*patience, func(c *assert.CollectT) {
				for _, obj := range members { // those of the Namespaces and kinds, too
					live := obj.DeepCopy()
					require.NoError(c, admin.Get(t.Context(), client.ObjectKeyFromObject(obj), live), "%s %s", obj.GetKind(), obj.GetName())
					require.Nil(c, live.GetDeletionTimestamp(), "%s %s", obj.GetKind(), obj.GetName())
				}
			})
			v = cluster.AwaitReadyFor(t, 3*patience, v.Name)

			require.NoError(t, deleteVidraResource(t.Context(), ns))
			awaitGoneFor(t, 3*patience, v)
			for _, obj := range append(members, containers...) {
				err := admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopy())
				require.True(t, apierrors.IsNotFound(err) || meta.IsNoMatchError(err), "%s %s is left: %v", obj.GetKind(), obj.GetName(), err)
			}
			t.Logf("done after %s", time.Since(began).Round(time.Millisecond))
		})
	}
}

// objectOf names the object of an entry of the inventory.
func objectOf(e v1alpha1.ManagedResourceStatus) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(e.APIVersion)
	obj.SetKind(e.Kind)
	obj.SetNamespace(e.Namespace)
	obj.SetName(e.Name)
	return obj
}

// TestExportedObjects has a manifest that is the output of kubectl get -o yaml, with statuses, managedFields, UIDs, versions and
// annotations that controllers write. It is applied where the objects exist and where they were deleted.
func TestExportedObjects(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		deleted bool
		address string // of the Service. Those that the API server chooses for others are higher.
	}{
		"Adopted": {"the objects are those that were exported", false, ""},
		"Created": {"the objects were deleted since, and have other UIDs", true, "10.0.0.12"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			documents := []string{
				workload(ns, "front"), serviceOf(ns, "front") + fmt.Sprintf("  clusterIP: %q\n", tt.address),
				"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n",
				"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec:\n  schedule: 0 3 * * *\n  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}\n",
				"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: store}\nspec:\n  replicas: 0\n  serviceName: front\n  selector: {matchLabels: {app: store}}\n  template:\n" +
					"    metadata: {labels: {app: store}}\n    spec: {containers: [{name: store, image: a}]}\n",
				"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\nspec:\n  selector: {matchLabels: {app: agent}}\n  template:\n" +
					"    metadata: {labels: {app: agent}}\n    spec: {containers: [{name: agent, image: a}]}\n",
				configMap("page", "hello"), "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: hunter2}\n",
				"apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: front}\nspec: {defaultBackend: {service: {name: front, port: {number: 80}}}}\n",
				"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: store}\nspec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: store}}\n",
				"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: reader}\nrules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]\n",
			}
			objects := declared(t, ns, manifests(documents...))
			exported := map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}}
			var items []any
			var deployment *unstructured.Unstructured
			for _, obj := range objects {
				require.NoError(t, admin.Create(t.Context(), obj.DeepCopy(), client.FieldOwner("kubectl-create")))
			}
			for _, obj := range objects {
				if obj.GetKind() == "Deployment" {
					deployment = obj
					await(t, func(c *assert.CollectT) {
						live := get(c, obj)
						require.Equal(c, "1", live.GetAnnotations()[revisionAnnotation])
						require.NotEmpty(c, live.Object["status"].(map[string]any)["conditions"])
					})
				}
			}
			for _, obj := range objects {
				items = append(items, get(t, obj).Object)
				if tt.deleted {
					require.NoError(t, admin.Delete(t.Context(), obj.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)))
					awaitGone(t, obj)
				}
			}
			exported["items"] = items
			text, err := yaml.Marshal(exported)
			require.NoError(t, err)
			newVidraResource(t, ns, string(text), asClusterAdmin(t, ns))
			v := awaitReady(t, ns)
			require.Len(t, v.Status.ManagedResources, len(objects), tt.reason)

			next := strings.ReplaceAll(string(text), "image: registry.example.com/front:v1", "image: registry.example.com/front:v2")
			require.NotEqual(t, string(text), next)
			setManifest(t, ns, next)
			awaitReady(t, ns)
			await(t, func(c *assert.CollectT) {
				require.Equal(c, "2", get(c, deployment).GetAnnotations()[revisionAnnotation], "the annotation is left to its controller")
			})
			require.NoError(t, edit(deployment, types.MergePatchType, `{"spec":{"replicas":0}}`, client.FieldOwner("kubectl-scale")))
			await(t, func(c *assert.CollectT) {
				replicas, _, _ := unstructured.NestedInt64(get(c, deployment).Object, "spec", "replicas")
				require.Equal(c, int64(1), replicas)
			})
			for _, obj := range objects {
				live := get(t, obj)
				require.NoError(t, admin.Delete(t.Context(), live.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)))
				await(t, func(c *assert.CollectT) {
					again := obj.DeepCopy()
					require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(obj), again))
					require.NotEqual(c, live.GetUID(), again.GetUID())
				}, "%s %s", obj.GetKind(), obj.GetName())
			}
			v = awaitReady(t, ns)
			require.Empty(t, eventsAbout(t, v, v1alpha1.ReasonDriftContended))
			for _, e := range eventsAbout(t, v, v1alpha1.ReasonApplyFailed) { // the API server frees the address of a Service some time after it
				require.Contains(t, e.Note, "provided IP is already allocated")
				require.NotContains(t, e.Note, "another field manager")
			}
		})
	}
}
