package cli

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/manifest"
)

// exportedKinds are objects of many kinds, in namespace NS.
const exportedKinds = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: blue, empty: ""}}
---
{apiVersion: v1, kind: Secret, metadata: {name: login}, stringData: {password: hunter2}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: web}}
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: NodePort, selector: {app: web}, ports: [{name: http, port: 80}, {name: dns, port: 53, protocol: UDP}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: headless}, spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: NS}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: none-NS, hostPath: {path: /tmp/NS}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: web
      volumes: [{name: tmp, emptyDir: {}}, {name: settings, configMap: {name: settings}}]
      containers:
      - {name: web, image: "web:1", ports: [{containerPort: 80}], livenessProbe: {httpGet: {path: /, port: 80}, periodSeconds: 7}, env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {serviceName: headless, replicas: 0, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: db}]}}, volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent}, spec: {selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: agent, image: agent}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: once}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: once, image: once}]}}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly}, spec: {schedule: "0 3 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: once, image: once}]}}}}}}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web}, spec: {rules: [{host: NS.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: closed}, spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: web}, rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: web}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: web}, subjects: [{kind: ServiceAccount, name: web, namespace: NS}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: NS}, aggregationRule: {clusterRoleSelectors: [{matchLabels: {NS: "true"}}]}, rules: []}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: NS-part, labels: {NS: "true"}}, rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: NS}, webhooks: [{name: a.example.com, admissionReviewVersions: [v1], sideEffects: None, failurePolicy: Ignore, clientConfig: {service: {name: web, namespace: NS}}, rules: [{apiGroups: [NS.example.com], apiVersions: [v1], resources: [nothings], operations: [CREATE]}]}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boxes.NS.example.com}
spec:
  group: NS.example.com
  scope: Namespaced
  names: {kind: Box, plural: boxes}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer, default: 3}, colour: {type: string}}}}}}}]
`

// TestExport exports objects of many kinds. A VidraResource of the manifest adopts all of them without a change.
func TestExport(t *testing.T) {
	t.Parallel()
	kubectl, err := testenv.Kubectl(t.Context(), testenv.Options{Out: os.Stderr})
	require.NoError(t, err)
	const ns = "export"
	makeNamespace(t, ns)
	var made []*unstructured.Unstructured
	create := func(text string) {
		objects, err := manifest.Parse(strings.ReplaceAll(text, "NS", ns), manifest.Options{})
		require.NoError(t, err)
		for _, o := range objects {
			u := o.Unstructured
			labels := u.GetLabels()
			if labels == nil {
				labels = map[string]string{}
			}
			labels["set"] = ns
			if slices.Contains([]string{"Deployment", "CronJob", "NetworkPolicy"}, u.GetKind()) {
				labels["shown"] = "true"
			}
			u.SetLabels(labels)
			if mapping, err := admin.RESTMapper().RESTMapping(u.GroupVersionKind().GroupKind(), u.GroupVersionKind().Version); err == nil && mapping.Scope.Name() == "namespace" {
				u.SetNamespace(ns)
			}
			require.NoError(t, admin.Create(t.Context(), u), u.GetKind())
			t.Cleanup(func() { _ = admin.Delete(context.Background(), u) })
			made = append(made, u)
		}
	}
	create(exportedKinds)
	box := "{apiVersion: NS.example.com/v1, kind: Box, metadata: {name: a, namespace: NS}, spec: {colour: blue}}"
	suite.Await(t, func(c *assert.CollectT) {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(ns + ".example.com/v1")
		list.SetKind("BoxList")
		require.NoError(c, admin.List(context.Background(), list))
	})
	create(box)
	live := func(u *unstructured.Unstructured) *unstructured.Unstructured { return cluster.Get(t, u) }
	suite.Await(t, func(c *assert.CollectT) { // its controller writes the rules
		rules, _, _ := unstructured.NestedSlice(cluster.Get(c, made[18]).Object, "rules")
		require.NotEmpty(c, rules)
	})
	args := []string{"export", "-n", ns, "-l", "set=" + ns, "--cluster-scoped"}
	masked := vidra(t, args...)
	require.Equal(t, 0, masked.code, masked.stderr)
	require.NotContains(t, masked.stdout+masked.stderr, "aHVudGVyMg")
	require.Contains(t, masked.stderr, "left out 1 object with values that are not shown: --with-secrets prints them")
	golden(t, "export", vidra(t, "export", "-n", ns, "-l", "set="+ns+",shown=true").stdout)

	exported := vidra(t, append(args, "--with-secrets")...)
	require.Equal(t, 0, exported.code, exported.stderr)
	require.NotContains(t, exported.stderr, "an apply of its document changes it")
	objects, err := manifest.Parse(exported.stdout, manifest.Options{})
	require.NoError(t, err)
	require.Len(t, objects, len(made))
	for _, text := range []string{"uid:", "resourceVersion", "managedFields", "creationTimestamp", "status:", "volumeName", "controller-uid", "terminationGracePeriodSeconds", "ipFamil", "dnsPolicy", "revisionHistoryLimit", "size: 3"} {
		require.NotContains(t, exported.stdout, text)
	}
	before := map[string]*unstructured.Unstructured{}
	for _, u := range made {
		before[u.GetKind()+" "+u.GetName()] = live(u)
	}
	cluster.RemoveAtEnd(t, ns)
	var documents []string
	for _, o := range objects {
		if _, aggregated := o.Object["aggregationRule"]; aggregated { // the operator is no cluster-admin, as the API server requires
			continue
		}
		text, err := o.MarshalJSON()
		require.NoError(t, err)
		documents = append(documents, string(text))
	}
	made2 := vidraReading(t, suite.Manifests(documents...), "create", ns, "-n", ns, "-f", "-")
	require.Equal(t, 0, made2.code, made2.stderr)
	vr := cluster.AwaitReadyFor(t, 2*time.Minute, ns)
	require.Len(t, vr.Status.ManagedResources, len(made)-1)
	require.Equal(t, 0, vidra(t, "diff", ns).code)
	for _, u := range made {
		was, is := before[u.GetKind()+" "+u.GetName()], live(u)
		require.Equal(t, was.GetUID(), is.GetUID(), u.GetKind())
		for _, one := range []*unstructured.Unstructured{was, is} {
			delete(one.Object, "metadata")
			delete(one.Object, "status")
		}
		require.Equal(t, was.Object, is.Object, u.GetKind())
	}
	of := vidra(t, "export", ns, "--with-secrets")
	require.Equal(t, 0, of.code, of.stderr)
	again, err := manifest.Parse(of.stdout, manifest.Options{})
	require.NoError(t, err)
	require.Len(t, again, len(made)-1)
	require.NotContains(t, of.stdout, "managed-by")
	require.NotContains(t, of.stdout, "owner.vidraresource")
	require.NoError(t, cluster.MergePatch(vr, `{"spec":{"deletionPolicy":"Orphan"}}`))

	// What is deleted and created from the manifest is as it was.
	file := writeFile(t, exported.stdout)
	require.NoError(t, cluster.DeleteVidraResource(t.Context(), ns))
	cluster.AwaitGone(t, vr)
	specs := map[string]any{}
	for _, u := range made {
		if slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "CronJob", "Ingress", "NetworkPolicy", "PodDisruptionBudget", "HorizontalPodAutoscaler", "Box"}, u.GetKind()) || u.GetName() == "headless" {
			specs[u.GetKind()] = live(u).Object["spec"]
			require.NoError(t, admin.Delete(t.Context(), u, client.PropagationPolicy(metav1.DeletePropagationBackground)))
			cluster.AwaitGone(t, u)
		}
	}
	require.Len(t, specs, 10)
	tool(t, 0, kubectl, "apply", "--server-side", "--force-conflicts", "-f", file)
	for _, u := range made {
		if was, deleted := specs[u.GetKind()]; deleted && (u.GetKind() != "Service" || u.GetName() == "headless") {
			require.Equal(t, was, live(u).Object["spec"], u.GetKind())
		}
	}

	// What others own, or Kubernetes makes, is counted.
	all := vidra(t, "export", "-n", ns)
	require.Equal(t, 0, all.code, all.stderr)
	require.Contains(t, all.stderr, "that another object owns")
	require.NotContains(t, all.stdout, "kube-root-ca.crt")
	require.Equal(t, 1, vidra(t, "export", ns, "-l", "a=b").code)
	require.Contains(t, vidra(t, "export", "-n", ns, "-l", "set=none").stderr, "no object found")
}

// TestExportWithoutAKind: a kind that is deleted between discovery and its list has no objects. One whose list a proxy refuses may have some.
func TestExportWithoutAKind(t *testing.T) {
	t.Parallel()
	const ns = "export-without-a-kind"
	makeNamespace(t, ns)
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}}))
	gone := apidiscoveryv2.APIGroupDiscovery{
		ObjectMeta: metav1.ObjectMeta{Name: "gone.example.com"},
		Versions: []apidiscoveryv2.APIVersionDiscovery{{Version: "v1", Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Resources: []apidiscoveryv2.APIResourceDiscovery{{
			Resource: "things", ResponseKind: &metav1.GroupVersionKind{Group: "gone.example.com", Version: "v1", Kind: "Thing"},
			Scope: apidiscoveryv2.ScopeNamespace, SingularResource: "thing", Verbs: []string{"get", "list", "patch"},
		}}}},
	}
	for name, tt := range map[string]struct {
		reason string
		always bool // whether discovery has the kind again
	}{
		"gone":    {"discovery has it no more", false},
		"refused": {"discovery has it", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var shown atomic.Int32
			kubeconfig := serveKubeconfig(t, reverseProxy(t, func(r *http.Response) error {
				if r.Request.URL.Path != "/apis" || shown.Add(1) > 1 && !tt.always {
					return nil
				}
				_, err := changeDiscovery(r, func(all *apidiscoveryv2.APIGroupDiscoveryList) { all.Items = append(all.Items, gone) }) //nolint:bodyclose // the proxy closes it
				return err
			}), name)
			a := vidraAs(t, kubeconfig, "export", "-n", ns)
			require.Contains(t, a.stdout, "name: page", a.stderr)
			require.Equal(t, int32(2), shown.Load())
			if !tt.always {
				require.NotContains(t, a.stderr, "things", tt.reason)
			} else {
				require.Contains(t, a.stderr, "list things.gone.example.com", tt.reason)
			}
		})
	}
}
