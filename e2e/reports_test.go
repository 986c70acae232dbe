package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
)

// The tests of this file try what users of other engines have reported.

// TestUndeletableNamespaces has a manifest with a Namespace that the API server never deletes: it is released, which an Event says,
// and the deletion of the VidraResource ends.
func TestUndeletableNamespaces(t *testing.T) {
	t.Parallel()
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			namespace := "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + ", labels: {" + ns + ": here}}\n"
			live := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			for how, remove := range map[string]func(){
				"pruned":  func() { setManifest(t, ns, configMap("page", "hello")) },
				"deleted": func() { require.NoError(t, deleteVidraResource(t.Context(), ns)) },
			} {
				v := newVidraResource(t, ns, manifests(namespace, configMap("page", "hello")), func(v *v1alpha1.VidraResource) { v.Spec.Adopt = v1alpha1.AdoptAlways })
				v = awaitReady(t, v.Name)
				remove()
				awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Left in place, unmanaged: ", "Namespace "+name, "the API server never deletes it")
				if how == "pruned" {
					awaitReady(t, ns)
					require.NoError(t, deleteVidraResource(t.Context(), ns))
				}
				awaitGone(t, v)
				require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(live), live))
				require.Nil(t, live.DeletionTimestamp)
				require.NotContains(t, live.Labels, v1alpha1.ManagedByLabel, "it is unmanaged")
				require.NotContains(t, live.Annotations, v1alpha1.OwnerAnnotationKey(ns))
			}
		})
	}
}

// TestNormalizedValues applies values for which the API server stores another form. They are the same values: no webhook is accused,
// nothing is applied again, and an edit is still reverted.
func TestNormalizedValues(t *testing.T) {
	t.Parallel()
	pod := func(fields string) string { return podOf(fields, "") }
	tests := map[string]struct {
		reason, manifest, kind string
		// edit is a merge patch that is reverted.
		edit string
	}{
		"base64 with line ends": {
			"base64 prints lines of 76 characters", "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\ndata:\n  key: |\n    aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMmh1bnRlcjJodW50\n    ZXIy\n",
			"Secret", `{"data":{"key":"eA=="}}`,
		},
		"quantities": {
			"1000m is 1", pod("resources: {requests: {cpu: 1000m, memory: 1024Mi}, limits: {cpu: \"2.0\", memory: 1.5Gi}}\n"),
			"Deployment", `{"spec":{"replicas":3}}`,
		},
		"numbers": {
			"YAML reads 1e3 as a number", pod("resources: {requests: {cpu: 0.50, ephemeral-storage: 1e3}}\n"), "Deployment", `{"spec":{"replicas":3}}`,
		},
		"empty fields": {
			"the API server omits what is empty", pod("command: []\nenv: []\nresources: {}\nlivenessProbe: null\nstdin: false\n"), "Deployment", `{"spec":{"replicas":3}}`,
		},
		"more empty fields": {
			"maps, lists and text", pod("env: [{name: A, value: \"\"}, {name: B}]\nvolumeMounts: []\nsecurityContext: {}\n") + "      nodeSelector: {}\n      tolerations: []\n      affinity: {}\n      securityContext: {}\n      imagePullSecrets: null\n",
			"Deployment", `{"spec":{"replicas":3}}`,
		},
		"text of bytes": {
			"a Secret takes text as well", "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {key: hunter2}\n", "Secret", `{"data":{"key":"eA=="}}`,
		},
		"bytes of a ConfigMap": {
			"so do its bytes", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\nbinaryData:\n  key: |\n    aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMmh1bnRlcjJodW50\n    ZXIy\ndata: {}\n",
			"ConfigMap", `{"binaryData":{"key":"eA=="}}`,
		},
		"claim": {
			"a quantity in the spec of a claim", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: web}\nspec: {accessModes: [ReadWriteOnce, ReadOnlyMany], resources: {requests: {storage: 1024Mi}}}\n",
			"PersistentVolumeClaim", `{"metadata":{"labels":{"managed-by":"other"}}}`,
		},
		"quota": {
			"quantities as numbers", "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: web}\nspec: {hard: {cpu: 1000m, pods: 10, memory: 0.5Gi, \"count/secrets\": \"1e1\"}}\n",
			"ResourceQuota", `{"spec":{"hard":{"cpu":"2"}}}`,
		},
		"limits": {
			"quantities and defaults in an atomic list", "apiVersion: v1\nkind: LimitRange\nmetadata: {name: web}\nspec: {limits: [{type: Container, max: {cpu: 2000m}}, {type: PersistentVolumeClaim, max: {storage: 1024Gi}}]}\n",
			"LimitRange", `{"spec":{"limits":[{"type":"Container","max":{"cpu":"3"}}]}}`,
		},
		"autoscaler": {
			"quantities in an atomic list", "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, metrics: [{type: Pods, pods: {metric: {name: a}, target: {type: AverageValue, averageValue: 1000m}}}, {type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 0.5Gi}}}]}\n",
			"HorizontalPodAutoscaler", `{"spec":{"maxReplicas":9}}`,
		},
		"times": {
			"times of the API have a zone and a precision", "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: web}\nspec: {holderIdentity: a, renewTime: \"2030-01-01T02:00:00.000000+02:00\", acquireTime: \"2030-01-01T00:00:00.000000Z\"}\n",
			"Lease", `{"metadata":{"labels":{"managed-by":"other"}}}`,
		},
		"numbers or text": {
			"a port is a number or a name", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{name: c, port: 80, targetPort: 8080}, {name: b, port: 81, targetPort: web, protocol: TCP}, {name: a, port: 82, targetPort: 82}], loadBalancerSourceRanges: null}\n",
			"Service", `{"spec":{"selector":{"app":"other"}}}`,
		},
		"budget": {
			"a percentage is text, a number may be text", "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec: {minAvailable: 50%, selector: {matchLabels: {app: web}}, unhealthyPodEvictionPolicy: AlwaysAllow}\n",
			"PodDisruptionBudget", `{"spec":{"minAvailable":1}}`,
		},
		"rules": {
			"lists without an order", "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: web, finalizers: []}\nrules: [{apiGroups: [\"\", apps], resources: [pods, configmaps], verbs: [watch, get, list, get]}]\n",
			"Role", `{"rules":[]}`,
		},
		"policy": {
			"directions in any order", "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web}\nspec: {podSelector: {}, policyTypes: [Egress, Ingress], egress: [{to: [{ipBlock: {cidr: \"2001:db8::/32\"}}], ports: [{port: 53, protocol: UDP}, {port: 53}]}]}\n",
			"NetworkPolicy", `{"spec":{"egress":[]}}`,
		},
		"tolerations": {
			"the API server adds tolerations to a Pod", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {nodeSelector: {a: b}, tolerations: [{key: a, operator: Exists}], containers: [{name: web, image: registry.example/web, resources: {limits: {cpu: 1000m}}}]}\n",
			"Pod", `{"metadata":{"labels":{"managed-by":"other"}}}`,
		},
		"claims of a set": {
			"templates in an atomic list have defaults", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web}\nspec: {replicas: 0, serviceName: web, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: registry.example/web}]}}, volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}}]}\n",
			"StatefulSet", `{"spec":{"replicas":3}}`,
		},
		"protocols": {
			"one port of two protocols", pod("ports: [{name: a, containerPort: 53, protocol: UDP}, {name: b, containerPort: 53}]\n"), "Deployment", `{"spec":{"replicas":3}}`,
		},
		"former name": {
			"the API server has two names of the field", podOf("", "serviceAccount: robot\n"), "Deployment", `{"spec":{"replicas":3}}`,
		},
		"two names": {
			"and keeps both", podOf("", "serviceAccountName: robot\n"), "Deployment", `{"spec":{"replicas":3}}`,
		},
		"resources": {
			"quantities with a sign and a fraction", pod("resources: {limits: {cpu: \"+1\", memory: 1e9, ephemeral-storage: 0.5Gi}, requests: {cpu: 1e-1, memory: 1e8}}\n"), "Deployment", `{"spec":{"replicas":3}}`,
		},
		"annotations": {
			"metadata that are empty", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, annotations: {}, labels: {a: \"\"}, creationTimestamp: null, generation: 0}\ndata: {a: \"\", b: null, c: x}\nimmutable: null\n", "ConfigMap", `{"data":{"c":"y"}}`,
		},
		"definition": {
			"names and columns have defaults", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: parts.NAMESPACE.example.com}\nspec:\n  group: NAMESPACE.example.com\n  scope: Namespaced\n  names: {kind: Part, plural: parts, shortNames: [], categories: []}\n  preserveUnknownFields: false\n  versions: [{name: v1, served: true, storage: true, additionalPrinterColumns: [], schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: integer, default: 1.0, maximum: 1e3}}}}}}}]\n",
			"CustomResourceDefinition", `{"spec":{"names":{"shortNames":["p"]}}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			manifest := strings.ReplaceAll(tt.manifest, "NAMESPACE", ns)
			newVidraResource(t, ns, manifest)
			v := awaitReadyIgnoringHealth(t, ns)
			requireNoAccusation(t, v)
			requireDiff(t, ns, manifest, insight.ActionNone)
			name := "web"
			if tt.kind == "CustomResourceDefinition" {
				name = "parts." + ns + ".example.com"
			}
			obj := declaredObject(t, ns, manifest, tt.kind, name)
			version := get(t, obj).GetResourceVersion()
			require.NoError(t, mergePatch(obj, "%s", tt.edit))
			require.Eventually(t, func() bool { return getVidraResource(t, ns).Status.Drift != nil }, patience, 10*poll)
			v = awaitReadyIgnoringHealth(t, ns)
			requireNoAccusation(t, v)
			require.NotEqual(t, version, get(t, obj).GetResourceVersion())
			require.Equal(t, int64(1), v.Status.Drift.Heals, tt.reason)
		})
	}
}

// requireNoAccusation requires that no condition, problem or Event of a VidraResource suspects a webhook.
func requireNoAccusation(t *testing.T, v *v1alpha1.VidraResource) {
	t.Helper()
	require.Nil(t, meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionWarnings))
	require.NotContains(t, fmt.Sprint(v.Status), "webhook")
	for _, e := range eventsAbout(t, v) {
		require.NotContains(t, e.Note, "webhook")
	}
}

// TestRefusedChanges changes what the API server does not let change, or only within bounds: the message has its words and the field,
// and no advice that destroys data.
func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	const claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: web}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}], clusterIP: None}\n"
	const scaler = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}\n"
	const ingress = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\nspec: {defaultBackend: {service: {name: web, port: {number: 80}}}}\n"
	const binding = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: web}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: a}\n"
	const stateful = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web}\nspec:\n  replicas: 0\n  serviceName: web\n  selector: {matchLabels: {app: web}}\n" +
		"  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: registry.example/web}]}\n" +
		"  volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]\n"
	const job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: web}\nspec:\n  suspend: true\n  template: {spec: {restartPolicy: Never, containers: [{name: web, image: registry.example/web}]}}\n"
	tests := map[string]struct {
		reason, manifest, old, changed, kind, because string
		parts                                         []string
	}{
		"claim": {
			"an unbound claim changes in no field", claim, "1Gi", "512Mi", "PersistentVolumeClaim", v1alpha1.ReasonApplyFailed,
			[]string{"spec.resources.requests.storage", "never shrink"},
		},
		"selector": {
			"another name loses nothing", podOf("", ""), "{app: web}", "{app: shop}", "Deployment", v1alpha1.ReasonApplyFailed,
			[]string{"spec.selector", "immutable", "Give the Deployment another name"},
		},
		"address": {
			"the field can be omitted", service, "clusterIP: None", "clusterIP: 10.0.0.200", "Service", v1alpha1.ReasonApplyFailed,
			[]string{"spec.clusterIPs", "may not change once set", "Omit the field"},
		},
		"role": {
			"the subjects keep their rights", binding, "name: a}", "name: b}", "RoleBinding", v1alpha1.ReasonApplyFailed,
			[]string{"roleRef", "cannot change roleRef", "Add a RoleBinding with another name"},
		},
		"autoscaler": {
			"a bound of one field by another", scaler, "maxReplicas: 3", "maxReplicas: 3, minReplicas: 5", "HorizontalPodAutoscaler", v1alpha1.ReasonManifestInvalid,
			[]string{"spec.maxReplicas", "must be greater than or equal to"},
		},
		"sets": {
			"Pods of the former selector stay in the way of a new one", stateful, "{app: web}", "{app: shop}", "StatefulSet", v1alpha1.ReasonApplyFailed,
			[]string{"spec.selector", "Give the StatefulSet another name"},
		},
		"claims of a set": {
			"the set alone is deleted", stateful, "storage: 1Gi", "storage: 2Gi", "StatefulSet", v1alpha1.ReasonApplyFailed,
			[]string{"spec.volumeClaimTemplates", "--cascade=orphan"},
		},
		"headless": {
			"an address stays", strings.Replace(service, ", clusterIP: None", "", 1), "ports:", "clusterIP: None, ports:", "Service", v1alpha1.ReasonApplyFailed,
			[]string{"spec.clusterIP", "may not change once set", "Omit the field"},
		},
		"class of a claim": {
			"no data are copied", strings.Replace(claim, "spec: {", "spec: {storageClassName: a, ", 1), "storageClassName: a", "storageClassName: b", "PersistentVolumeClaim", v1alpha1.ReasonApplyFailed,
			[]string{"spec.storageClassName", "add a claim with another name"},
		},
		"job": {
			"it runs once", job, "registry.example/web", "registry.example/shop", "Job", v1alpha1.ReasonApplyFailed,
			[]string{"spec.template", "field is immutable", "another name"},
		},
		"immutable ConfigMap": {
			"what is immutable has another name for another content", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\nimmutable: true\ndata: {a: x}\n", "a: x", "a: z", "ConfigMap", v1alpha1.ReasonApplyFailed,
			[]string{"data", "field is immutable when `immutable` is set", "another name"},
		},
		"mutable again": {
			"nor can it be made mutable", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\nimmutable: true\ndata: {a: x}\n", "immutable: true", "immutable: false", "ConfigMap", v1alpha1.ReasonApplyFailed,
			[]string{"immutable", "field is immutable", "another name"},
		},
		"immutable Secret": {
			"so it is for a Secret", "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nimmutable: true\nstringData: {a: hunter2}\n", "hunter2", "hunter3", "Secret", v1alpha1.ReasonApplyFailed,
			[]string{"data", "immutable", "another name"},
		},
		"type of a Secret": {
			"its type never changes", "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\ntype: a\nstringData: {a: hunter2}\n", "type: a", "type: b", "Secret", v1alpha1.ReasonApplyFailed,
			[]string{"type", "(field is immutable)", "another name"},
		},
		"type of a Secret, later": {
			"its default never changes, either", "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {tls.crt: a, tls.key: b}\n", "metadata:", "type: kubernetes.io/tls\nmetadata:", "Secret", v1alpha1.ReasonApplyFailed,
			[]string{"type", "(field is immutable)", "another name"},
		},
		"slice": {
			"addresses have one family", "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web}\naddressType: IPv4\nendpoints: []\nports: []\n", "IPv4", "FQDN", "EndpointSlice", v1alpha1.ReasonApplyFailed,
			[]string{"addressType", "immutable", "another name"},
		},
		"quota": {
			"the scopes of a quota are its own", "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: web}\nspec: {hard: {pods: 1}, scopes: [BestEffort]}\n", "scopes: [BestEffort]", "scopes: [NotBestEffort]", "ResourceQuota", v1alpha1.ReasonApplyFailed,
			[]string{"spec.scopes", "immutable", "another name"},
		},
		"revision": {
			"data of a revision", "apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: web}\nrevision: 1\ndata: {a: x}\n", "a: x", "a: z", "ControllerRevision", v1alpha1.ReasonApplyFailed,
			[]string{"data", "immutable", "another name"},
		},
		"pod": {
			"most fields of a Pod never change", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {nodeSelector: {a: b}, containers: [{name: web, image: registry.example/web, command: [a]}]}\n", "command: [a]", "command: [b]", "Pod", v1alpha1.ReasonApplyFailed,
			[]string{"spec.containers", "Most fields of a Pod never change"},
		},
		"backend": {
			"two fields that exclude each other", ingress, "service: {name: web, port: {number: 80}}", "service: {name: web, port: {number: 80, name: http}}", "Ingress",
			v1alpha1.ReasonManifestInvalid, []string{"spec.defaultBackend", "cannot set both port name & port number"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			for _, role := range []string{"a", "b"} {
				require.NoError(t, admin.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: role}}))
			}
			newVidraResource(t, ns, tt.manifest)
			v := awaitReadyIgnoringHealth(t, ns)
			uid := entry(t, v, tt.kind, "web").UID
			setManifest(t, ns, strings.ReplaceAll(tt.manifest, tt.old, tt.changed))
			v = awaitNotReady(t, ns, tt.because, append(tt.parts, tt.kind+" "+ns+"/web")...)
			message := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady).Message
			require.NotContains(t, message, "delete the object", tt.reason)
			require.NotContains(t, message, `\n`)
			require.Equal(t, uid, entry(t, v, tt.kind, "web").UID)
			t.Log(message)
			setManifest(t, ns, tt.manifest)
			awaitReadyIgnoringHealth(t, ns)
		})
	}
}

// TestMissingReference applies an object that names another one, which does not exist: the message names that one, and it is applied once
// that exists.
func TestMissingReference(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: web}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}\n")
	awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "RoleBinding "+ns+"/web", "names an object that does not exist", `"reader" not found`)
	require.NoError(t, admin.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reader"}}))
	awaitReady(t, ns)
}

// TestOldVersions names the version to use where discovery knows it, and advises no CustomResourceDefinition.
func TestOldVersions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ manifest, kind, served string }{
		"Deployment":  {strings.Replace(podOf("", ""), "apps/v1", "apps/v1beta2", 1), "Deployment", "apps/v1"},
		"Ingress":     {"apiVersion: networking.k8s.io/v1beta1\nkind: Ingress\nmetadata: {name: web}\n", "Ingress", "networking.k8s.io/v1"},
		"CronJob":     {"apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: web}\n", "CronJob", "batch/v1"},
		"autoscaler":  {"apiVersion: autoscaling/v2beta2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\n", "HorizontalPodAutoscaler", "autoscaling/v2"},
		"other group": {"apiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: {name: web}\n", "Ingress", "networking.k8s.io/v1"},
		"budget":      {"apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: web}\n", "PodDisruptionBudget", "policy/v1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, tt.manifest)
			v := awaitNotReady(t, ns, v1alpha1.ReasonKindUnavailable, tt.kind, "set apiVersion to "+tt.served)
			require.NotContains(t, meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady).Message, "install")
		})
	}
}

// TestAmbiguousKinds has two groups with a kind of one name, and objects of one name in both: messages and Events name the group.
func TestAmbiguousKinds(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crd, _ := newKind(t)
	crd.Spec.Names.Kind, crd.Spec.Names.ListKind = "Service", "ServiceList"
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer"}}},
	}}
	require.NoError(t, admin.Create(t.Context(), crd))
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n"
	custom := "apiVersion: " + crd.Spec.Group + "/v1\nkind: Service\nmetadata: {name: web}\nspec: {size: 1}\n"
	manifest := manifests(service, custom)
	newVidraResource(t, ns, manifest)
	v := awaitReady(t, ns)
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(crd.Spec.Group + "/v1")
	obj.SetKind("Service")
	obj.SetNamespace(ns)
	obj.SetName("web")
	require.NoError(t, mergePatch(obj, `{"spec":{"size":3}}`))
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "Service."+crd.Spec.Group+" "+ns+"/web", "spec.size")
	setManifest(t, ns, strings.ReplaceAll(manifest, "size: 1", "size: big"))
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "Service."+crd.Spec.Group+" "+ns+"/web", "spec.size")
}

// TestRefusedChangesOfCluster is TestRefusedChanges for cluster-scoped kinds.
func TestRefusedChangesOfCluster(t *testing.T) {
	t.Parallel()
	const volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: NAMESPACE}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: a, hostPath: {path: /a}}\n"
	const definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: parts.NAMESPACE.example.com}\nspec:\n  group: NAMESPACE.example.com\n" +
		"  scope: Namespaced\n  names: {kind: Part, plural: parts}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n"
	tests := map[string]struct {
		reason, manifest, old, changed, kind string
		parts                                []string
	}{
		"volume":   {"the source of a volume has its data", volume, "path: /a", "path: /b", "PersistentVolume", []string{"spec.persistentvolumesource", "immutable", "add a volume with another name"}},
		"scope":    {"objects of the kind are lost with it", definition, "Namespaced", "Cluster", "CustomResourceDefinition", []string{"spec.scope", "immutable", "Objects of the kind are lost"}},
		"version":  {"objects are stored in it", definition, "name: v1,", "name: v2,", "CustomResourceDefinition", []string{"storedVersions", "v1", "with served: false"}},
		"class":    {"volumes keep their parameters", "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: NAMESPACE}\nprovisioner: example.com/a\nparameters: {a: x}\n", "a: x", "a: z", "StorageClass", []string{"parameters", "another name"}},
		"binding":  {"the subjects keep their rights", "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: NAMESPACE}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:basic-user}\n", "name: system:basic-user", "name: system:discovery", "ClusterRoleBinding", []string{"roleRef", "another name"}},
		"priority": {"Pods name it", "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NAMESPACE}\nvalue: 10\n", "value: 10", "value: 11", "PriorityClass", []string{"value", "another name"}},
		"runtime":  {"Pods name it", "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: NAMESPACE}\nhandler: a\n", "handler: a", "handler: b", "RuntimeClass", []string{"handler", "another name"}},
		"ingress":  {"Ingresses name it", "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: NAMESPACE}\nspec: {controller: example.com/a}\n", "example.com/a", "example.com/b", "IngressClass", []string{"spec.controller", "another name"}},
		"driver":   {"nodes know it", "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: NAMESPACE.example.com}\nspec: {attachRequired: true}\n", "true", "false", "CSIDriver", []string{"spec.attachedRequired", "immutable", "another name"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			manifest := strings.ReplaceAll(tt.manifest, "NAMESPACE", ns)
			newVidraResource(t, ns, manifest)
			awaitReadyIgnoringHealth(t, ns)
			setManifest(t, ns, strings.Replace(manifest, tt.old, tt.changed, 1))
			v := awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, append(tt.parts, tt.kind)...)
			message := condition(t, v, v1alpha1.ConditionReady).Message
			t.Log(message)
			require.NotContains(t, message, "delete the object", tt.reason)
			setManifest(t, ns, manifest)
			awaitReadyIgnoringHealth(t, ns)
		})
	}
}

// TestAmbiguousCustomKinds has two custom kinds of one name, and objects of one name in both: each text about one of them has the group.
func TestAmbiguousCustomKinds(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	first, one := newKind(t)
	second, other := newKind(t)
	for _, crd := range []*apiextensionsv1.CustomResourceDefinition{first, second} {
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer"}, "color": {Type: "string"}}},
		}}
		require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	}
	newVidraResource(t, ns, manifests(one, other))
	v := awaitReady(t, ns)
	is, not := "Thing."+first.Spec.Group, "Thing."+second.Spec.Group
	require.NoError(t, mergePatch(thingIn(first, ns), `{"spec":{"size":7}}`))
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", is+" "+ns+"/thing", "spec.size")
	await(t, func(c *assert.CollectT) { require.NotEmpty(c, getVidraResource(c, ns).Status.History) })

	asks, err := insight.New(env.Config, insight.Options{})
	require.NoError(t, err)
	style := render.Style{Wide: true, Now: time.Now()}
	tree, err := asks.Tree(t.Context(), insight.TreeQuery{VidraResource: ns})
	require.NoError(t, err)
	require.Contains(t, style.Tree(tree), is+"/thing")
	require.Contains(t, style.Tree(tree), not+"/thing")
	history, err := asks.History(t.Context(), insight.HistoryQuery{VidraResource: ns})
	require.NoError(t, err)
	require.Contains(t, style.History(history), is+" "+ns+"/thing", "the history has one of them alone")
	require.NotContains(t, style.History(history), not)
	why, err := asks.Why(t.Context(), insight.Target{Kind: "thing." + first.Spec.Group, Namespace: ns, Name: "thing"})
	require.NoError(t, err)
	require.Contains(t, style.Why(why), is+" "+ns+"/thing")
	files := []insight.File{{Name: "m.yaml", Text: manifests(strings.Replace(one, "size: 1", "size: 2", 1), other)}}
	diff, err := asks.Diff(t.Context(), insight.PreviewQuery{VidraResource: ns, Files: files})
	require.NoError(t, err)
	require.Contains(t, style.Diff(diff.VidraResources[0]), is+" "+ns+"/thing")

	setManifest(t, ns, manifests(strings.Replace(one, "size: 1", "size: big", 1), other))
	v = awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, is+" "+ns+"/thing: ", "spec.size")
	awaitEvent(t, v, corev1.EventTypeWarning, v1alpha1.ReasonManifestInvalid, "Apply", is+" "+ns+"/thing")
}

// TestCopyTooLarge has a VidraResource that fits into the API server, and does not with the copy that kubectl apply keeps in an annotation: a
// condition has the reason and the command that removes the copy. Without the annotation, it is tried again.
func TestCopyTooLarge(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	documents := make([]string, 3900)
	for i := range documents {
		documents[i] = fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d}}", i)
	}
	manifest := strings.Join(documents, "\n---\n")
	vr := newVidraResource(t, ns, manifest, func(v *v1alpha1.VidraResource) {
		v.Spec.Suspend = true // nothing is applied when it fits
		v.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: manifest[:min(len(manifest), 255<<10)]}
	})
	const remove = "`kubectl annotate vidraresource %s kubectl.kubernetes.io/last-applied-configuration-`"
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "the status of its 3900 objects, and the limit is 1400000", fmt.Sprintf(remove, ns))
	require.NoError(t, mergePatch(vr, `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":null}}}`))
	await(t, func(c *assert.CollectT) {
		require.NotContains(c, condition(c, getVidraResource(c, ns), v1alpha1.ConditionReady).Message, "kubectl annotate")
	})
	setManifest(t, ns, configMap("one", "")) // the end of the test resumes it
}

// TestUnquotedValues has numbers and truth values where the API server wants text: the message has the field and the step.
func TestUnquotedValues(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		manifest string
		parts    []string
	}{
		"number":     {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {port: 8080}\n", []string{"data.port", "quotes"}},
		"truth":      {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {on: true}\n", []string{"data.", "quotes"}},
		"annotation": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, annotations: {a: true}}\n", []string{"annotations"}},
		"variable":   {podOf("env: [{name: A, value: 1}]\n", ""), []string{`env[name="A"].value`, "expected string"}},
		"secret":     {"apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {pin: 1234}\n", []string{"stringData.pin"}},
		"plain text": {"apiVersion: v1\nkind: Secret\nmetadata: {name: web}\ndata: {pin: pass-word}\n", []string{"illegal base64"}},
		"unknown":    {podOf("imagePullPolizy: Always\n", ""), []string{`spec.template.spec.containers[name="web"].imagePullPolizy`, "field not declared in schema"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, tt.manifest)
			v := awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, tt.parts...)
			message := condition(t, v, v1alpha1.ConditionReady).Message
			t.Log(message)
			for _, internal := range []string{"valueUnstructured", "typed patch", "1234", "pass-word", ": .", ": :"} {
				require.NotContains(t, message, internal)
			}
		})
	}
}
