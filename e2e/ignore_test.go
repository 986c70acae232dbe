package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// ignoring gives a VidraResource rules.
func ignoring(rules ...v1alpha1.IgnoreRule) func(*v1alpha1.VidraResource) {
	return withDrift(v1alpha1.DriftPolicy{Ignore: rules})
}

// replicas is how many replicas a Deployment is to have.
func replicas(t require.TestingT, obj client.Object) int64 {
	n, found, err := unstructured.NestedInt64(get(t, obj).Object, "spec", "replicas")
	require.NoError(t, err)
	require.True(t, found)
	return n
}

// scale changes the replicas of a Deployment as an autoscaler does.
func scale(t *testing.T, obj *unstructured.Unstructured, manager string, n int) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":`+string(rune('0'+n))+`}}`))
	require.NoError(t, admin.SubResource("scale").Patch(t.Context(), obj.DeepCopy(), patch, client.FieldOwner(manager)))
}

// TestIgnoredPath leaves a path to others. Vidra sets it when it creates the object,
// owns it no more, and writes it again when the rule goes; what else is changed is
// reverted all the time.
func TestIgnoredPath(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	rule := v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Group: "apps", Kind: "Deployment", Name: "web"}, Paths: []string{"/spec/replicas"}}
	newVidraResource(t, ns, web, ignoring(rule))
	awaitReady(t, ns)
	deployment := declaredObject(t, ns, web, "Deployment", "web")
	require.EqualValues(t, 1, replicas(t, deployment), "it is created as the manifest says")
	require.NotContains(t, ownedBy(t, deployment, "vidra/"+ns), "f:replicas")

	mark := auditMark(t)
	require.NoError(t, mergePatch(deployment, `{"spec":{"replicas":3}}`))
	require.NoError(t, mergePatch(deployment, `{"spec":{"template":{"metadata":{"labels":{"app":"web","edited":null}}}}}`))
	image := `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"registry.invalid/web:2"}]}}}}`
	require.NoError(t, edit(deployment, "application/strategic-merge-patch+json", image))
	await(t, func(c *assert.CollectT) {
		containers, _, err := unstructured.NestedSlice(get(c, deployment).Object, "spec", "template", "spec", "containers")
		require.NoError(c, err)
		require.Equal(c, "registry.invalid/web:1", containers[0].(map[string]any)["image"])
	})
	require.EqualValues(t, 3, replicas(t, deployment))
	requireCount(t, 1, func() requests { return operatorSince(t, mark).On("deployments", ns, "web").Writes() }, "the image is all that was reverted")

	// Another manifest leaves the field alone, too, and so does a new life.
	changed := manifests(web, configMap("more", "hello"))
	setManifest(t, ns, changed)
	awaitReady(t, ns)
	require.EqualValues(t, 3, replicas(t, deployment))
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Drift.Ignore = nil })
	await(t, func(c *assert.CollectT) { require.EqualValues(c, 1, replicas(c, deployment)) })
	awaitReady(t, ns)
	awaitInOrder(t, ns, declared(t, ns, changed)...)
}

// TestIgnoredPathOfAnObjectThatExists adds a rule later: the field keeps its value,
// though only Vidra had set it.
func TestIgnoredPathOfAnObjectThatExists(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, web)
	awaitReady(t, ns)
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) {
		spec.Drift = &v1alpha1.DriftPolicy{Ignore: []v1alpha1.IgnoreRule{{Target: v1alpha1.IgnoreTarget{Kind: "ConfigMap"}, Paths: []string{"/data/greeting"}}}}
	})
	awaitReady(t, ns)
	page := declaredObject(t, ns, web, "ConfigMap", "page")
	require.Equal(t, "hello", greeting(t, page))
	owned := ownedBy(t, page, "vidra/"+ns)
	require.NotContains(t, owned, "f:greeting")
	require.Contains(t, owned, "f:farewell")
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"hi","farewell":"bye"}}`))
	await(t, func(c *assert.CollectT) {
		require.Empty(c, difference("", map[string]any{"data": map[string]any{"greeting": "hi", "farewell": "goodbye"}}, get(c, page).Object))
	})
}

// TestIgnoredManager leaves to an autoscaler what it sets, wherever that is, and to
// no other manager.
func TestIgnoredManager(t *testing.T) {
	t.Parallel()
	const scaler = "autoscaler"
	ns := newNamespace(t)
	newVidraResource(t, ns, web, ignoring(v1alpha1.IgnoreRule{
		Target:   v1alpha1.IgnoreTarget{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Managers: []string{scaler},
	}))
	v := awaitReady(t, ns)
	deployment := declaredObject(t, ns, web, "Deployment", "web")
	require.NoError(t, mergePatch(deployment, `{"spec":{"replicas":2}}`))
	awaitInOrder(t, ns, deployment)
	awaitEvent(t, deployment, corev1.EventTypeNormal, "ChangeReverted", "Restore", "spec.replicas")

	mark := auditMark(t) // the Event comes after the answer to the request that it reports
	scale(t, deployment, scaler, 4)
	requireCount(t, 1, func() requests { return operatorSince(t, mark).On("deployments", ns, "web").Writes() })
	scale(t, deployment, scaler, 5)
	page := declaredObject(t, ns, web, "ConfigMap", "page")
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"hi"}}`))
	awaitInOrder(t, ns, page)
	require.EqualValues(t, 5, replicas(t, deployment))
	require.Len(t, operatorSince(t, mark).On("deployments", ns, "web").Writes(), 1, "it is left once, and for good")
	require.Len(t, withReason(eventsAbout(t, deployment), "ChangeReverted"), 1, "what the person did, not what the autoscaler did")
	setManifest(t, ns, manifests(web, configMap("more", "hello")))
	awaitReady(t, ns)
	require.EqualValues(t, 5, replicas(t, deployment), "a new manifest does not take it back")
	require.Equal(t, v.UID, getVidraResource(t, ns).UID)
}

// TestIgnoreRulesThatDoNotFit: a rule that matches nothing is said, one that cannot
// be is refused.
func TestIgnoreRulesThatDoNotFit(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, web, ignoring(
		v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Kind: "Deployment"}, Paths: []string{"/spec/replicas"}},
		v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Kind: "StatefulSet"}, Paths: []string{"/spec/replicas"}},
		v1alpha1.IgnoreRule{Paths: []string{"/spec/nosuchfield"}},
		v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Kind: "ConfigMap"}, Paths: []string{"/data/greeting", "/data/wrong"}},
		v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Group: v1alpha1.CoreGroup, Kind: "Deployment"}, Paths: []string{"/spec/replicas"}},
		v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Group: v1alpha1.CoreGroup, Kind: "Service"}, Paths: []string{"/spec/ports/[name=http]", "/spec/ports/[name=none]"}},
	))
	v := awaitReady(t, ns)
	unmatched := condition(t, v, v1alpha1.ConditionUnmatchedIgnoreRules)
	require.Contains(t, unmatched.Message, "spec.drift.ignore[1]")
	require.Contains(t, unmatched.Message, "/spec/nosuchfield")
	require.NotContains(t, unmatched.Message, "spec.drift.ignore[0]")
	require.Contains(t, unmatched.Message, "spec.drift.ignore[3].paths[1] /data/wrong", "a wrong path beside a right one")
	require.NotContains(t, unmatched.Message, "/data/greeting")
	require.Contains(t, unmatched.Message, "spec.drift.ignore[4]", "the core group has no Deployments")
	require.Contains(t, unmatched.Message, "spec.drift.ignore[5].paths[1] /spec/ports/[name=none]")
	require.NotContains(t, unmatched.Message, "[name=http]")
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Drift.Ignore = spec.Drift.Ignore[:1] })
	await(t, func(c *assert.CollectT) {
		for _, condition := range getVidraResource(c, ns).Status.Conditions {
			require.NotEqual(c, v1alpha1.ConditionUnmatchedIgnoreRules, condition.Type)
		}
	})
	for reason, rule := range map[string]v1alpha1.IgnoreRule{
		"a rule needs paths or managers": {Target: v1alpha1.IgnoreTarget{Kind: "Deployment"}},
		"should match":                   {Paths: []string{"spec.replicas"}},
	} {
		v := getVidraResource(t, ns)
		base := v.DeepCopy()
		v.Spec.Drift.Ignore = []v1alpha1.IgnoreRule{rule}
		require.ErrorContains(t, admin.Patch(t.Context(), v, client.MergeFrom(base)), reason)
	}
}

// TestIgnoredItemByKey has a rule for the image of one container, and a manifest that inserts another one before it: the rule
// stays with its container.
func TestIgnoredItemByKey(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	rule := v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Kind: "Deployment"}, Paths: []string{"/spec/template/spec/containers/[name=web]/image"}}
	newVidraResource(t, ns, podOf("", ""), ignoring(rule))
	awaitReady(t, ns)
	deployment := declaredObject(t, ns, podOf("", ""), "Deployment", "web")
	setImage := func(container, image string) {
		t.Helper()
		patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, container, image)
		require.NoError(t, edit(deployment, types.StrategicMergePatchType, patch, client.FieldOwner("image-updater")))
	}
	images := func(t require.TestingT) map[string]any {
		containers, _, err := unstructured.NestedSlice(get(t, deployment).Object, "spec", "template", "spec", "containers")
		require.NoError(t, err)
		all := map[string]any{}
		for _, c := range containers {
			all[c.(map[string]any)["name"].(string)] = c.(map[string]any)["image"]
		}
		return all
	}
	setImage("web", "registry.example/web:2")
	inserted := strings.Replace(podOf("", ""), "      containers:\n", "      containers:\n      - name: first\n        image: registry.example/first\n", 1)
	setManifest(t, ns, inserted)
	awaitReady(t, ns)
	require.Equal(t, map[string]any{"first": "registry.example/first", "web": "registry.example/web:2"}, images(t))
	setImage("web", "registry.example/web:3")
	setImage("first", "registry.example/first:3")
	await(t, func(c *assert.CollectT) {
		require.Equal(c, map[string]any{"first": "registry.example/first", "web": "registry.example/web:3"}, images(c))
	})
	awaitReady(t, ns)

	v := getVidraResource(t, ns)
	base := v.DeepCopy()
	v.Spec.Drift.Ignore[0].Paths = []string{"/spec/template/spec/containers/[web]/image"}
	require.NoError(t, admin.Patch(t.Context(), v, client.MergeFrom(base)))
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "[web] selects no list item", "such as [name=web]")
	require.Equal(t, "registry.example/web:3", images(t)["web"])
}

// ownedBy is the text of what a field manager applied to an object.
func ownedBy(t *testing.T, obj client.Object, manager string) string {
	t.Helper()
	for _, e := range get(t, obj).GetManagedFields() {
		if e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply {
			return e.FieldsV1.GetRawString()
		}
	}
	return ""
}
