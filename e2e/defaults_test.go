package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
)

// podOf is a Deployment whose Pods have a container with fields, and further fields of the Pod.
func podOf(container, pod string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 0\n  selector: {matchLabels: {app: web}}\n  template:\n" +
		"    metadata: {labels: {app: web}}\n    spec:\n      containers:\n      - name: web\n        image: registry.example/web\n" + indentedBy(container, 8) + indentedBy(pod, 6)
}

func indentedBy(text string, by int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Repeat(" ", by) + line)
	}
	return b.String()
}

// TestDefaultsInTheWay changes manifests where a default of the API server beside the changed field would make the object invalid. A fresh
// object would be valid, so the change is applied to the one that exists, without spec.force and without a replacement.
func TestDefaultsInTheWay(t *testing.T) {
	t.Parallel()
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 0\n  selector: {matchLabels: {app: web}}\n" +
		"  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: registry.example/web}]}\n"
	const stateful = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web}\nspec:\n  replicas: 0\n  serviceName: web\n  selector: {matchLabels: {app: web}}\n" +
		"  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: registry.example/web}]}\n"
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  selector: {app: web}\n"
	const level = "apiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: PriorityLevelConfiguration\nmetadata: {name: NAMESPACE}\nspec:\n"
	const hook = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: NAMESPACE}\nwebhooks:\n- name: a.example.com\n" +
		"  sideEffects: None\n  admissionReviewVersions: [v1]\n  rules: []\n  clientConfig:\n"
	const definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: parts.NAMESPACE.example.com}\nspec:\n  group: NAMESPACE.example.com\n" +
		"  scope: Namespaced\n  names: {kind: Part, plural: parts}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n"
	const scaler = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec:\n  maxReplicas: 3\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n"
	const ingress = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\nspec:\n"
	const network = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web}\nspec:\n  podSelector: {}\n"
	const budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n"
	const limits = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: web}\nspec:\n  limits:\n"
	const flow = "apiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: FlowSchema\nmetadata: {name: NAMESPACE}\nspec:\n  priorityLevelConfiguration: {name: catch-all}\n  rules:\n"
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n"
	daemons := strings.NewReplacer("Deployment", "DaemonSet", "  replicas: 0\n", "").Replace(deployment)
	tests := map[string]struct {
		reason, kind, name, before, after string
	}{
		"strategy": {"rollingUpdate is a default of the other type", "Deployment", "web", deployment, deployment + "  strategy: {type: Recreate}\n"},
		"strategy and replicas": {
			"beside another change", "Deployment", "web", deployment, strings.Replace(deployment, "replicas: 0", "replicas: 1", 1) + "  strategy: {type: Recreate}\n",
		},
		"update strategy": {"so it is for a StatefulSet", "StatefulSet", "web", stateful, stateful + "  updateStrategy: {type: OnDelete}\n"},
		"volume":          {"defaultMode is a default of the former source", "Deployment", "web", podOf("", "volumes:\n- name: a\n  configMap: {name: a}\n"), podOf("", "volumes:\n- name: a\n  secret: {secretName: a}\n")},
		"empty volume":    {"a volume without a source is an emptyDir", "Deployment", "web", podOf("", "volumes:\n- name: a\n"), podOf("", "volumes:\n- name: a\n  configMap: {name: a}\n")},
		"probe": {
			"path and scheme are defaults of the former handler", "Deployment", "web", podOf("livenessProbe: {httpGet: {port: 80}}\n", ""),
			podOf("livenessProbe: {tcpSocket: {port: 80}}\n", ""),
		},
		"hook": {
			"so they are for a lifecycle hook", "Deployment", "web", podOf("lifecycle: {preStop: {httpGet: {port: 80}}}\n", ""),
			podOf("lifecycle: {preStop: {exec: {command: [sleep]}}}\n", ""),
		},
		"environment": {
			"apiVersion is a default of the former source", "Deployment", "web", podOf("env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]\n", ""),
			podOf("env: [{name: A, value: a}]\n", ""),
		},
		"external name": {"ports and addresses belong to the other types", "Service", "web", service + "  ports: [{port: 80}]\n", service + "  type: ExternalName\n  externalName: web.example.com\n"},
		"cluster IP":    {"and back", "Service", "web", service + "  type: ExternalName\n  externalName: web.example.com\n", service + "  ports: [{port: 80}]\n"},
		"node port":     {"ports of nodes belong to the other type", "Service", "web", service + "  type: NodePort\n  ports: [{port: 80}]\n", service + "  ports: [{port: 80}]\n"},
		"affinity": {
			"the timeout is a default", "Service", "web", service + "  sessionAffinity: ClientIP\n  ports: [{port: 80}]\n", service + "  sessionAffinity: None\n  ports: [{port: 80}]\n",
		},
		"level": {"the limits are defaults", "PriorityLevelConfiguration", "NAMESPACE", level + "  type: Limited\n  limited: {limitResponse: {type: Queue, queuing: {queues: 4, handSize: 2}}}\n", level + "  type: Limited\n  limited: {limitResponse: {type: Reject}}\n"},
		"job policy": {
			"podReplacementPolicy is a default that a failure policy forbids", "CronJob", "web", cronJob(""),
			cronJob("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}\n"),
		},
		"job policy and back": {
			"the value that it requires is a default, too", "CronJob", "web", cronJob("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}\n"), cronJob(""),
		},
		"job index": {
			"the limit for each index has another default of the limit", "CronJob", "web", cronJob(""), cronJob("completionMode: Indexed\ncompletions: 2\nbackoffLimitPerIndex: 1\n"),
		},
		"job success": {"a policy needs the mode", "CronJob", "web", cronJob("completionMode: Indexed\ncompletions: 2\nparallelism: 2\nsuccessPolicy: {rules: [{succeededCount: 1}]}\n"), cronJob("")},
		"cron":        {"values without a union", "CronJob", "web", cronJob(""), strings.Replace(cronJob(""), "schedule:", "concurrencyPolicy: Forbid\n  timeZone: Etc/UTC\n  schedule:", 1)},
		"autoscaler metric": {
			"the metric is a default", "HorizontalPodAutoscaler", "web", scaler, scaler + "  metrics: [{type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}}]\n",
		},
		"autoscaler target": {
			"the fields of the other type", "HorizontalPodAutoscaler", "web", scaler + "  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]\n",
			scaler + "  metrics: [{type: Pods, pods: {metric: {name: requests}, target: {type: AverageValue, averageValue: 1000m}}}]\n",
		},
		"autoscaler behavior": {
			"policies are defaults", "HorizontalPodAutoscaler", "web", scaler + "  behavior: {scaleDown: {stabilizationWindowSeconds: 60}}\n", scaler + "  behavior: {scaleDown: {selectPolicy: Disabled}, scaleUp: {stabilizationWindowSeconds: 0, policies: [{type: Pods, value: 1, periodSeconds: 15}]}}\n",
		},
		"autoscaler minimum": {"minReplicas 1 is a default", "HorizontalPodAutoscaler", "web", scaler, strings.Replace(scaler, "maxReplicas: 3", "maxReplicas: 1", 1)},
		"backend":            {"a backend for rules", "Ingress", "web", ingress + "  defaultBackend: {service: {name: web, port: {number: 80}}}\n", ingress + "  rules: [{host: web.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}]}}]\n"},
		"backend port":       {"a number for a name", "Ingress", "web", ingress + "  defaultBackend: {service: {name: web, port: {number: 80}}}\n", ingress + "  defaultBackend: {service: {name: web, port: {name: http}}}\n"},
		"backend kind":       {"a resource for a Service", "Ingress", "web", ingress + "  defaultBackend: {service: {name: web, port: {number: 80}}}\n", ingress + "  defaultBackend: {resource: {apiGroup: example.com, kind: Bucket, name: web}}\n"},
		"rules":              {"rules for a backend", "Ingress", "web", ingress + "  rules: [{host: web.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}]}}]\n", ingress + "  defaultBackend: {service: {name: web, port: {number: 80}}}\n"},
		"headless to name":   {"no address is left", "Service", "web", service + "  clusterIP: None\n  ports: [{port: 80}]\n", service + "  type: ExternalName\n  externalName: web.example.com\n"},
		"name to headless":   {"and back", "Service", "web", service + "  type: ExternalName\n  externalName: web.example.com\n", service + "  clusterIP: None\n  ports: [{port: 80}]\n"},
		"balancer": {
			"ports of nodes, health checks and the policy belong to the type", "Service", "web", service + "  type: LoadBalancer\n  externalTrafficPolicy: Local\n  ports: [{port: 80}]\n", service + "  ports: [{port: 80}]\n",
		},
		"balancer policy": {
			"the port of health checks belongs to the policy", "Service", "web", service + "  type: LoadBalancer\n  externalTrafficPolicy: Local\n  ports: [{port: 80}]\n", service + "  type: LoadBalancer\n  externalTrafficPolicy: Cluster\n  ports: [{port: 80}]\n",
		},
		"balancer class":        {"the class belongs to the type", "Service", "web", service + "  type: LoadBalancer\n  loadBalancerClass: example.com/a\n  ports: [{port: 80}]\n", service + "  type: NodePort\n  ports: [{port: 80}]\n"},
		"balancer name":         {"to a name", "Service", "web", service + "  type: LoadBalancer\n  ports: [{port: 80}]\n", service + "  type: ExternalName\n  externalName: web.example.com\n"},
		"node port kept":        {"one port for another with its node port", "Service", "web", service + "  type: NodePort\n  ports: [{name: a, port: 80}]\n", service + "  type: NodePort\n  ports: [{name: a, port: 8080}]\n"},
		"port protocol":         {"a second protocol", "Service", "web", service + "  ports: [{name: a, port: 53}]\n", service + "  ports: [{name: a, port: 53, protocol: UDP}, {name: b, port: 53, protocol: TCP}]\n"},
		"port name":             {"names are needed by several", "Service", "web", service + "  ports: [{port: 53}]\n", service + "  ports: [{name: b, port: 53}, {name: a, port: 54}]\n"},
		"probe command":         {"a handler for another", "Deployment", "web", podOf("readinessProbe: {httpGet: {port: 80}, periodSeconds: 5}\n", ""), podOf("readinessProbe: {exec: {command: [\"true\"]}}\n", "")},
		"probe grpc":            {"the service is a default", "Deployment", "web", podOf("livenessProbe: {grpc: {port: 80}}\n", ""), podOf("livenessProbe: {httpGet: {port: 80}}\n", "")},
		"startup probe":         {"the third probe", "Deployment", "web", podOf("startupProbe: {httpGet: {port: 80}}\nlivenessProbe: {httpGet: {port: 80}}\n", ""), podOf("startupProbe: {tcpSocket: {port: 80}}\n", "")},
		"explicit empty volume": {"an emptyDir for a ConfigMap", "Deployment", "web", podOf("", "volumes:\n- name: a\n  emptyDir: {}\n"), podOf("", "volumes:\n- name: a\n  configMap: {name: a}\n")},
		"path":                  {"the type of a path is a default", "Deployment", "web", podOf("", "volumes:\n- name: a\n  hostPath: {path: /a}\n"), podOf("", "volumes:\n- name: a\n  persistentVolumeClaim: {claimName: a}\n")},
		"projected":             {"the mode is a default", "Deployment", "web", podOf("", "volumes:\n- name: a\n  projected: {sources: [{secret: {name: a}}]}\n"), podOf("", "volumes:\n- name: a\n")},
		"projected source":      {"a source in an atomic list", "Deployment", "web", podOf("", "volumes:\n- name: a\n  projected: {sources: [{serviceAccountToken: {path: a}}]}\n"), podOf("", "volumes:\n- name: a\n  projected: {sources: [{downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}]}}]}\n")},
		"ephemeral":             {"the mode is a default of the template", "Deployment", "web", podOf("", "volumes:\n- name: a\n  ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}\n"), podOf("", "volumes:\n- name: a\n  emptyDir: {medium: Memory}\n")},
		"disk":                  {"a driver of an old kind", "Deployment", "web", podOf("", "volumes:\n- name: a\n  iscsi: {targetPortal: 10.0.0.1, iqn: \"iqn.2001-04.com.example:a\", lun: 0}\n"), podOf("", "volumes:\n- name: a\n  nfs: {server: 10.0.0.1, path: /a}\n")},
		"volume of a set":       {"in a StatefulSet", "StatefulSet", "web", strings.Replace(stateful, "spec: {containers", "spec: {volumes: [{name: a, configMap: {name: a}}], containers", 1), strings.Replace(stateful, "spec: {containers", "spec: {volumes: [{name: a, secret: {secretName: a}}], containers", 1)},
		"daemons":               {"rollingUpdate of a DaemonSet", "DaemonSet", "web", daemons, daemons + "  updateStrategy: {type: OnDelete}\n"},
		"daemons surge":         {"maxUnavailable has to be 0", "DaemonSet", "web", daemons, daemons + "  updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}\n"},
		"partition":             {"of a StatefulSet", "StatefulSet", "web", stateful + "  updateStrategy: {rollingUpdate: {partition: 1}}\n", stateful + "  updateStrategy: {type: OnDelete}\n"},
		"surge":                 {"of a Deployment", "Deployment", "web", deployment + "  strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}\n", deployment + "  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}\n"},
		"recreate and back":     {"the strategy is dropped", "Deployment", "web", deployment + "  strategy: {type: Recreate}\n", deployment},
		"policy":                {"directions are a default", "NetworkPolicy", "web", network + "  ingress: [{}]\n", network + "  policyTypes: [Egress]\n  egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]\n"},
		"peer":                  {"a peer is a union", "NetworkPolicy", "web", network + "  ingress: [{from: [{podSelector: {}}]}]\n", network + "  ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 80}]}]\n"},
		"budget":                {"one bound for the other", "PodDisruptionBudget", "web", budget + "  minAvailable: 1\n", budget + "  maxUnavailable: 50%\n"},
		"budget and back":       {"and back", "PodDisruptionBudget", "web", budget + "  maxUnavailable: 1\n", budget + "  minAvailable: 50%\n"},
		"source of a variable":  {"a value for a source", "Deployment", "web", podOf("env: [{name: A, value: a}]\n", ""), podOf("env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]\n", "")},
		"source of another":     {"the divisor is a default", "Deployment", "web", podOf("env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]\n", ""), podOf("env: [{name: A, valueFrom: {secretKeyRef: {name: a, key: a}}}]\n", "")},
		"dns":                   {"the policy is a default", "Deployment", "web", podOf("", ""), podOf("", "dnsPolicy: None\ndnsConfig: {nameservers: [10.0.0.10]}\n")},
		"dns and back":          {"and back", "Deployment", "web", podOf("", "dnsPolicy: None\ndnsConfig: {nameservers: [10.0.0.10]}\n"), podOf("", "")},
		"host network":          {"ports of the host are defaults", "Deployment", "web", podOf("ports: [{containerPort: 80}]\n", "hostNetwork: true\n"), podOf("ports: [{containerPort: 80, hostPort: 8080}]\n", "")},
		"host network kept":     {"a port of the host equals that of the container", "Deployment", "web", podOf("ports: [{containerPort: 80}]\n", ""), podOf("ports: [{containerPort: 80}]\n", "hostNetwork: true\n")},
		"spread":                {"policies are defaults", "Deployment", "web", podOf("", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 2, labelSelector: {matchLabels: {app: web}}}]\n"), podOf("", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}]\n")},
		"seccomp":               {"a profile", "Deployment", "web", podOf("", "securityContext: {seccompProfile: {type: Localhost, localhostProfile: a}}\n"), podOf("", "securityContext: {seccompProfile: {type: RuntimeDefault}}\n")},
		"restart":               {"a container that stays", "Deployment", "web", podOf("", "initContainers: [{name: a, image: registry.example/a}]\n"), podOf("", "initContainers: [{name: a, image: registry.example/a, restartPolicy: Always, startupProbe: {exec: {command: [\"true\"]}}}]\n")},
		"limit":                 {"default limits are those of the maximum", "LimitRange", "web", limits + "  - {type: Container, max: {cpu: 2}}\n", limits + "  - {type: Container, max: {cpu: 1}}\n"},
		"limit default":         {"requests are defaults of the limit", "LimitRange", "web", limits + "  - {type: Container, default: {cpu: 2}}\n", limits + "  - {type: Container, default: {cpu: 1}}\n"},
		"subject":               {"a subject is a union", "FlowSchema", "NAMESPACE", flow + "  - subjects: [{kind: User, user: {name: a}}]\n    nonResourceRules: [{verbs: [get], nonResourceURLs: [/a]}]\n", flow + "  - subjects: [{kind: ServiceAccount, serviceAccount: {namespace: a, name: a}}]\n    resourceRules: [{verbs: [get], apiGroups: [''], resources: [pods], namespaces: [a]}]\n"},
		"bytes":                 {"a key of text becomes one of bytes", "ConfigMap", "web", config + "data: {a: x, b: x}\n", config + "data: {b: x}\nbinaryData: {a: eA==}\n"},
		"protocols": {
			"one port of two protocols", "Deployment", "web", podOf("ports: [{name: a, containerPort: 53}]\n", ""), podOf("ports: [{name: a, containerPort: 53, protocol: UDP}, {name: b, containerPort: 53, protocol: TCP}]\n", ""),
		},
		"quota":   {"another limit", "ResourceQuota", "web", "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: web}\nspec: {hard: {pods: 1}}\n", "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: web}\nspec: {hard: {count/secrets: 1}}\n"},
		"token":   {"text for bytes", "Secret", "web", "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\ndata: {a: eA==}\n", "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {b: x}\n"},
		"webhook": {"the port is a default of the service", "ValidatingWebhookConfiguration", "NAMESPACE", hook + "    service: {name: a, namespace: b}\n", hook + "    url: https://a.example.com\n"},
		"conversion": {
			"the port stays when the conversion is omitted", "CustomResourceDefinition", "parts.NAMESPACE.example.com",
			definition + "  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: a, namespace: b}}}}\n", definition,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			at := func(text string) string { return strings.ReplaceAll(text, "NAMESPACE", ns) }
			newVidraResource(t, ns, at(tt.before))
			awaitReadyIgnoringHealth(t, ns)
			before := entry(t, getVidraResource(t, ns), tt.kind, at(tt.name))
			requireDiff(t, ns, at(tt.after), insight.ActionChange)
			setManifest(t, ns, at(tt.after))
			v := awaitReadyIgnoringHealth(t, ns)
			require.Equal(t, before.UID, entry(t, v, tt.kind, at(tt.name)).UID, "%s: it is the same object", tt.reason)
			wanted := declaredObject(t, ns, at(tt.after), tt.kind, at(tt.name))
			live := &unstructured.Unstructured{}
			live.SetGroupVersionKind(wanted.GroupVersionKind())
			require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(wanted), live))
			requireDiff(t, ns, at(tt.after), insight.ActionNone)
		})
	}
}

// cronJob is a CronJob whose Jobs have fields.
func cronJob(fields string) string {
	return "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: web}\nspec:\n  suspend: true\n  schedule: \"0 0 1 1 *\"\n  jobTemplate:\n    spec:\n" + indentedBy(fields, 6) +
		"      template: {spec: {restartPolicy: Never, containers: [{name: web, image: registry.example/web}]}}\n"
}

// requireDiff requires that `vidra diff` shows an action for each object of a manifest.
func requireDiff(t *testing.T, name, manifest, action string) {
	t.Helper()
	asks, err := insight.New(env.Config, insight.Options{})
	require.NoError(t, err)
	diff, err := asks.Diff(t.Context(), insight.PreviewQuery{VidraResource: name, Files: []insight.File{{Name: "manifest.yaml", Text: manifest}}})
	require.NoError(t, err)
	for _, o := range diff.VidraResources[0].Objects {
		require.Equal(t, action, o.Action, "%s: %s\n%s", o.Object(), o.Why, o.Diff)
	}
}

// awaitReadyIgnoringHealth waits until the generation of a VidraResource is applied in full.
func awaitReadyIgnoringHealth(t *testing.T, ns string) *v1alpha1.VidraResource {
	t.Helper()
	var v *v1alpha1.VidraResource
	await(t, func(c *assert.CollectT) {
		v = getVidraResource(t, ns)
		require.Equal(c, v.Generation, v.Status.ObservedGeneration)
		require.NotEmpty(c, v.Status.ManagedResources)
		for _, e := range v.Status.ManagedResources {
			require.Equal(c, v1alpha1.ObjectApplied, e.State, fmt.Sprint(v.Status.Problems))
		}
		require.Empty(c, v.Status.LastError)
	})
	return v
}
