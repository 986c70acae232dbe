package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// login is a Secret that a controller fills.
const login = `apiVersion: v1
kind: Secret
metadata:
  name: login
stringData:
  password: swordfish
`

// autoscaler is a HorizontalPodAutoscaler of the Deployment web.
const autoscaler = `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: web
spec:
  maxReplicas: 5
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: web
`

// vidraResourceFile writes a VidraResource that takes what it finds.
func vidraResourceFile(t *testing.T, name string, rules []v1alpha1.IgnoreRule, documents ...string) string {
	t.Helper()
	spec := map[string]any{
		"destination": map[string]any{"namespace": name}, "adopt": v1alpha1.AdoptAlways, "manifest": suite.Manifests(documents...),
	}
	if len(rules) > 0 {
		spec["drift"] = map[string]any{"ignore": rules}
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.Kind, "metadata": map[string]any{"name": name}, "spec": spec,
	})
	require.NoError(t, err)
	return writeFile(t, string(text))
}

// TestForecast names who will fight with a VidraResource that does not exist yet, and the rules that it prints end that.
func TestForecast(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "forecast")
	objects := []client.Object{&corev1.ConfigMap{}, &appsv1.Deployment{}, &corev1.Secret{}}
	create := func(text string, obj client.Object) {
		require.NoError(t, yaml.Unmarshal([]byte(text), obj))
		obj.SetNamespace("forecast")
		require.NoError(t, admin.Create(t.Context(), obj, client.FieldOwner("kubectl-create")))
	}
	for i, text := range []string{settings, web, login} {
		create(text, objects[i])
	}
	write := func(obj client.Object, manager, patch string) {
		require.NoError(t, admin.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(manager)))
	}
	write(objects[0], "kubectl-edit", `{"data":{"greeting":"bye"}}`)
	write(objects[0], "colour-controller", `{"data":{"colour":"red","theirs":"x"},"metadata":{"labels":{"tier":"front"}}}`)
	write(objects[2], "cert-manager-certificates-issuing", `{"stringData":{"password":"hunter2"}}`)
	scale := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))
	require.NoError(t, admin.SubResource("scale").Patch(t.Context(), objects[1], scale, client.FieldOwner("kube-controller-manager")))
	manifest := []string{settings, web, login}

	file := vidraResourceFile(t, "forecast", nil, manifest...)
	unnamed := vidra(t, "forecast", "-f", file)
	require.Equal(t, 1, unnamed.code, unnamed.stderr)
	require.Contains(t, unnamed.stdout, `Deployment forecast/web: field manager "kube-controller-manager" writes spec.replicas: this will fight`)
	create(autoscaler, &autoscalingv2.HorizontalPodAutoscaler{})
	forecast := vidra(t, "forecast", "-f", file)
	require.Equal(t, 1, forecast.code, forecast.stderr)
	golden(t, "forecast", forecast.stdout)
	document := vidra(t, "forecast", "-f", file, "-o", "json")
	for _, secret := range []string{"hunter2", "c3dvcmRmaXNo", "aHVudGVyMg"} {
		require.NotContains(t, forecast.stdout+document.stdout, secret)
	}

	var printed struct {
		VidraResources []struct {
			IgnoreRules []v1alpha1.IgnoreRule `json:"ignoreRules"`
		} `json:"vidraResources"`
	}
	require.NoError(t, json.Unmarshal([]byte(document.stdout), &printed))
	file = vidraResourceFile(t, "forecast", printed.VidraResources[0].IgnoreRules, manifest...)
	obeyed := vidra(t, "forecast", "-f", file)
	require.Equal(t, 0, obeyed.code, obeyed.stdout+obeyed.stderr)
	golden(t, "forecast-ignored", obeyed.stdout)
}

// TestForecastOfHistory counts what a program did, and sees an autoscaler in the manifest.
func TestForecastOfHistory(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "fights")
	cluster.NewVidraResource(t, "fights", suite.Manifests(settings, login))
	cluster.AwaitReady(t, "fights")
	require.Equal(t, "VidraResource fights: 0 fields will fight, 0 taken once\n", ok(t, "forecast", "fights"))
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "fights", Name: "settings"}}
	for _, value := range []string{"bye", "ciao"} {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"greeting":"`+value+`"}}`))
		require.NoError(t, admin.Patch(t.Context(), cm.DeepCopy(), patch, client.FieldOwner("greeter")))
		suite.Await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greetingOf(c, cm)) })
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fights", Name: "login"}}
	require.NoError(t, admin.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"password":"hunter2"}}`)), client.FieldOwner("issuer")))
	awaitText(t, `"ciao"`, "history", "fights")
	awaitText(t, "Secret fights/login", "history", "fights")
	fights := vidra(t, "forecast", "fights")
	require.Equal(t, 1, fights.code, fights.stderr)
	golden(t, "forecast-history", fights.stdout)

	vr := cluster.GetVidraResource(t, "fights")
	vr.Spec.Drift = &v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}
	require.NoError(t, admin.Update(t.Context(), vr))
	require.Contains(t, ok(t, "forecast", "fights"), "VidraResource fights: 0 fields will fight, 2 taken once\n")
	rule := &v1alpha1.DriftPolicy{Ignore: []v1alpha1.IgnoreRule{{Managers: []string{"greeter", "issuer"}}}}
	vr = cluster.GetVidraResource(t, "fights")
	vr.Spec.Drift = rule
	require.NoError(t, admin.Update(t.Context(), vr))
	require.Equal(t, "VidraResource fights: 0 fields will fight, 0 taken once\n", ok(t, "forecast", "fights"))

	planned := vidra(t, "forecast", "-n", "fights", "-f", writeFile(t, suite.Manifests(web, autoscaler)))
	require.Equal(t, 1, planned.code, planned.stderr)
	require.Contains(t, planned.stdout, "Deployment fights/web: HorizontalPodAutoscaler fights/web writes spec.replicas: this will fight\n")
}

// TestForecastUnchecked: what the user may not write or read is not said to be fine.
func TestForecastUnchecked(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "unchecked")
	meta := metav1.ObjectMeta{Namespace: "unchecked", Name: "viewer"}
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"", "apps"}, Resources: []string{"configmaps", "deployments"}, Verbs: []string{"get"},
	}}}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "viewer"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "unchecked", Name: "viewer"}},
	}))
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), "unchecked", "viewer")
	require.NoError(t, err)
	cm := &corev1.ConfigMap{}
	require.NoError(t, yaml.Unmarshal([]byte(settings), cm))
	cm.Namespace = "unchecked"
	require.NoError(t, admin.Create(t.Context(), cm))
	file := writeFile(t, suite.Manifests(settings, web, login))
	suite.Await(t, func(c *assert.CollectT) { // the API server learns of a RoleBinding soon
		unchecked := vidraAs(c, kubeconfig, "forecast", "-n", "unchecked", "-f", file)
		require.Equal(c, 2, unchecked.code)
		require.NotContains(c, unchecked.stdout, "ConfigMap unchecked/settings: you may not read it")
		golden(c, "forecast-unchecked", unchecked.stdout)
	})
	require.Equal(t, 2, vidra(t, "forecast").code)
	require.Contains(t, vidra(t, "forecast", "missing").stderr, "VidraResource missing does not exist")
}
