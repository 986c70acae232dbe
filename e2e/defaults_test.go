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
		"level":      {"the limits are defaults", "PriorityLevelConfiguration", "NAMESPACE", level + "  type: Limited\n  limited: {limitResponse: {type: Queue}}\n", level + "  type: Limited\n  limited: {limitResponse: {type: Reject}}\n"},
		"webhook":    {"the port is a default of the service", "ValidatingWebhookConfiguration", "NAMESPACE", hook + "    service: {name: a, namespace: b}\n", hook + "    url: https://a.example.com\n"},
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
			setManifest(t, ns, at(tt.after))
			v := awaitReadyIgnoringHealth(t, ns)
			require.Equal(t, before.UID, entry(t, v, tt.kind, at(tt.name)).UID, "%s: it is the same object", tt.reason)
			wanted := declaredObject(t, ns, at(tt.after), tt.kind, at(tt.name))
			live := &unstructured.Unstructured{}
			live.SetGroupVersionKind(wanted.GroupVersionKind())
			require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(wanted), live))
		})
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
