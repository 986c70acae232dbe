package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// as reads the object with an ID into a type.
func (o objects) as(t *testing.T, id string, into any) {
	t.Helper()
	require.Contains(t, o, id)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o[id].Object, into, true))
}

// deployment returns the Deployment of the operator, and its arguments behind those of the base.
func (o objects) deployment(t *testing.T) (d *appsv1.Deployment, added []string) {
	t.Helper()
	return o.deploymentIn(t, testenv.OperatorNamespace)
}

// deploymentIn does what deployment does in another namespace.
func (o objects) deploymentIn(t *testing.T, namespace string) (d *appsv1.Deployment, added []string) {
	t.Helper()
	d = &appsv1.Deployment{}
	o.as(t, "Deployment "+namespace+"/vidra-operator", d)
	return d, d.Spec.Template.Spec.Containers[0].Args[3:]
}

// TestValues renders values that kustomize has no component for, and has the API server check the
// objects.
func TestValues(t *testing.T) {
	t.Parallel()
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
image: {repository: registry.example.com/vidra, tag: v1.2.3, digest: "`+digest+`", pullPolicy: Always, pullSecrets: [{name: registry}]}
crds: {enabled: false}
podDisruptionBudget: {enabled: false}
policies: {authors: {enabled: true}, removalWarning: {enabled: false}}
resources: {requests: {memory: 1Gi}, limits: {memory: 2Gi}}
priorityClassName: system-cluster-critical
nodeSelector: {node-role.kubernetes.io/infra: ""}
tolerations: [{key: infra, operator: Exists}]
env: [{name: HTTPS_PROXY, value: "http://proxy.example.com:3128"}]
volumes: [{name: ca, configMap: {name: ca}}]
volumeMounts: [{name: ca, mountPath: /etc/ssl/certs/own.pem, subPath: own.pem}]
eventValues: none
kubeconfigNamespace: clusters
flags: {workers: 1000000, object-events: false, backstop-interval: 0, cloudevents-sink: "http://sink.example.com:8080/vidra"}
managedKinds: {rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, patch, delete]}]}
impersonation: {namespaces: [shop, web], selector: "team=shop"}
metricsReaders: [{namespace: monitoring, name: prometheus-k8s}]
networkPolicy: {enabled: true, apiServerPorts: [6443], metricsFrom: [{namespaceSelector: {}}], egress: [{ports: [{port: 3128}]}]}
`), 0o600))
	all := renderChart(t, testenv.OperatorNamespace, "--values="+file)
	require.Contains(t, renderChart(t, testenv.OperatorNamespace, "--set=prometheusRule.enabled=true,prometheusRule.labels.release=monitoring")["PrometheusRule vidra-system/vidra-operator"].GetLabels(), "release")

	deployment, args := all.deployment(t)
	pod := deployment.Spec.Template.Spec
	operator := pod.Containers[0]
	require.Equal(t, "registry.example.com/vidra:v1.2.3@"+digest, operator.Image)
	require.Equal(t, "registry", pod.ImagePullSecrets[0].Name)
	require.Equal(t, []string{
		"--impersonation-namespaces=team=shop", "--event-values=none", "--kubeconfig-namespace=clusters",
		"--backstop-interval=0", "--cloudevents-sink=http://sink.example.com:8080/vidra", "--object-events=false", "--workers=1000000",
	}, args)
	require.Equal(t, "2Gi", operator.Resources.Limits.Memory().String())
	require.Equal(t, "HTTPS_PROXY", operator.Env[len(operator.Env)-1].Name)
	require.Equal(t, "POD_NAME", operator.Env[0].Name, "those of the base stay")
	require.Equal(t, "ca", operator.VolumeMounts[0].Name)
	require.Equal(t, "system-cluster-critical", pod.PriorityClassName)
	require.Contains(t, pod.NodeSelector, "node-role.kubernetes.io/infra")

	for _, absent := range []string{
		"CustomResourceDefinition /" + crdName, "PodDisruptionBudget vidra-system/vidra-operator", "ValidatingAdmissionPolicy /vidra-removal-warning",
	} {
		require.NotContains(t, all, absent)
	}
	require.Contains(t, all, "ValidatingAdmissionPolicy /vidra-authors")

	kinds := &rbacv1.ClusterRole{}
	all.as(t, "ClusterRole /vidra-managed-kinds", kinds)
	require.Equal(t, []string{"configmaps"}, kinds.Rules[0].Resources)
	everywhere, shop := &rbacv1.ClusterRoleBinding{}, &rbacv1.RoleBinding{}
	all.as(t, "ClusterRoleBinding /vidra-impersonation", everywhere)
	require.Empty(t, everywhere.Subjects, "the namespaces are named")
	all.as(t, "RoleBinding shop/vidra-impersonation", shop)
	require.Equal(t, testenv.OperatorNamespace, shop.Subjects[0].Namespace)
	require.Contains(t, all, "RoleBinding web/vidra-impersonation")
	require.Contains(t, all, "RoleBinding clusters/vidra-kubeconfigs")
	require.NotContains(t, all, "RoleBinding vidra-system/vidra-kubeconfigs")
	require.Contains(t, all, "ClusterRoleBinding /vidra-metrics-reader")

	policy := &networkingv1.NetworkPolicy{}
	all.as(t, "NetworkPolicy vidra-system/vidra-operator", policy)
	var ports []int
	for _, rule := range policy.Spec.Egress {
		for _, port := range rule.Ports {
			ports = append(ports, port.Port.IntValue())
		}
	}
	require.Equal(t, []int{53, 53, 9090, 8083, 6443, 8080, 3128}, ports, "DNS, artifacts of Flux and of Vidra, the API server, the sink and the proxy")
	require.Len(t, policy.Spec.Ingress[0].From, 1)
	requireAccepted(t, all)

	t.Run("kubeconfigs of all namespaces", func(t *testing.T) {
		all := renderChart(t, testenv.OperatorNamespace, "--set=kubeconfigNamespace=*")
		binding := &rbacv1.ClusterRoleBinding{}
		all.as(t, "ClusterRoleBinding /vidra-kubeconfigs", binding)
		require.Equal(t, "ClusterRole", binding.RoleRef.Kind)
		require.Contains(t, all, "ClusterRole /vidra-kubeconfigs")
		require.NotContains(t, all, "Role vidra-system/vidra-kubeconfigs")
	})
}

// TestValuesOfNamespaces renders values together with namespaces, for which kustomize has no folder.
func TestValuesOfNamespaces(t *testing.T) {
	t.Parallel()
	all := renderChart(t, "default", "--set=namespaces={shop,vidra-system},restricted=true,impersonation.namespaces={shop}")
	_, args := all.deploymentIn(t, "default")
	require.Equal(t, []string{"--require-service-account", "--event-values=none", "--infrahub=false", "--namespaces=shop,vidra-system"}, args,
		"the operator may not select namespaces by their labels")
	for _, namespace := range []string{"shop", "vidra-system"} {
		role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
		all.as(t, "Role "+namespace+"/vidra-managed-kinds", role)
		require.Equal(t, []string{"list", "watch"}, role.Rules[0].Verbs, "it writes as the accounts")
		require.Equal(t, []string{"events"}, role.Rules[1].Resources)
		all.as(t, "RoleBinding "+namespace+"/vidra-managed-kinds", binding)
		require.Equal(t, "default", binding.Subjects[0].Namespace)
	}
	require.Contains(t, all, "RoleBinding shop/vidra-impersonation")
	require.NotContains(t, all, "RoleBinding vidra-system/vidra-impersonation")
	require.Contains(t, all, "ValidatingAdmissionPolicy /vidra-authors")
	own, everywhere := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	all.as(t, "ClusterRole /vidra-operator", own)
	names := slices.IndexFunc(own.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "namespaces") })
	require.Equal(t, []string{"default", "shop", "vidra-system"}, own.Rules[names].ResourceNames, "its own, and those of the values")
	for _, binding := range []string{"vidra-managed-kinds", "vidra-impersonation"} {
		all.as(t, "ClusterRoleBinding /"+binding, everywhere)
		require.Empty(t, everywhere.Subjects, "of %s", binding)
	}
	requireAccepted(t, all)

	all = renderChart(t, testenv.OperatorNamespace, "--set=namespaces={shop},managedKinds.rules[0].apiGroups={apps},managedKinds.rules[0].resources={deployments},managedKinds.rules[0].verbs={list}")
	role := &rbacv1.Role{}
	all.as(t, "Role shop/vidra-managed-kinds", role)
	require.Equal(t, []string{"deployments"}, role.Rules[0].Resources, "those of the values")
	require.Equal(t, []string{"events"}, role.Rules[1].Resources)
}

// requireAccepted has the API server check objects, without writing them.
func requireAccepted(t *testing.T, all objects) {
	t.Helper()
	for _, obj := range all {
		if obj.GetNamespace() != "" { // a dry run makes no other one
			obj.SetNamespace("default")
		}
		require.NoError(t, testenv.Apply(t.Context(), cluster.Config, []*unstructured.Unstructured{obj}, client.DryRunAll))
	}
}

// TestValuesThatAreRefused requires that the schema names what it refuses.
func TestValuesThatAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ reason, set, want string }{
		"a typo":              {"it would have no effect", "replica=2", "'replica' not allowed"},
		"a typo below":        {"it would have no effect", "networkPolicy.enable=true", "'enable' not allowed"},
		"a flag that is none": {"the operator would not start", "flags.worker=3", "'worker' not allowed"},
		"a flag with a value": {"the chart sets it", "flags.installation=east", "'installation' not allowed"},
		"a type of a flag":    {"the operator would not start", "flags.workers=many", "/flags/workers"},
		"a type":              {"a text is true in a template", "restricted=no", "/restricted"},
		"a digest":            {"the kubelet would refuse it", "image.digest=latest", "/image/digest"},
		"an installation":     {"the operator refuses it", "installation=default", "/installation"},
		"a key of a rule":     {"the rule would grant something else", "managedKinds.rules[0].resource=pods", "'resource' not allowed"},
		"values of no one":    {"the operator refuses it", "eventValues=some", "/eventValues"},
		"a namespace twice":   {"the flag would name it twice", "namespaces={shop,shop}", "/namespaces"},
		"a shard twice":       {"one Deployment would overwrite the other", "shards[0].name=a,shards[0].selector=x=1,shards[1].name=a,shards[1].selector=x=2", "shards has the name a twice"},
		"a pattern":           {"the operator refuses it", "namespaces={team-*}", "/namespaces/0"},
		"namespaces by labels": {
			"the operator may not read labels of Namespaces", "namespaces={shop},impersonation.selector=team=shop", "name the namespaces in impersonation.namespaces",
		},
		"an account elsewhere": {
			"the operator manages nothing there", "namespaces={shop},impersonation.namespaces={web}", "impersonation.namespaces has web",
		},
		"a reader without name": {"the binding would have no subject", "metricsReaders[0].namespace=monitoring", "'name'"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), helmBinary, "template", "vidra", filepath.Join(config, "chart"), "--set="+tt.set).CombinedOutput()
			require.Error(t, err, tt.reason)
			require.Contains(t, string(out), tt.want, tt.reason)
		})
	}
}

// TestLint requires that helm has nothing to say of the chart but that it has no icon.
func TestLint(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), helmBinary, "lint", "--strict", filepath.Join(config, "chart")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, 1, strings.Count(string(out), "[INFO]"), "%s", out)
	require.NotContains(t, string(out), "[WARNING]")
}
