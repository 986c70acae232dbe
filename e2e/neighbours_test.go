package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	revisionAnnotation = "deployment.kubernetes.io/revision"
	helperRenamed      = `[{"op":"replace","path":"/spec/template/spec/containers/1/name","value":"sidecar"}]`
	restartedAt        = `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-01-02T03:04:05Z"}}}}}`
)

// neighbours have other programs write to an object with the field managers and the
// operations that they really use, before a structural edit beside their fields.
var neighbours = map[string]map[string]anEdit{
	"Deployment without replicas": {
		"horizontal autoscaler": {
			reason: "it writes through a subresource",
			first:  &change{throughSubresource("scale", "kube-controller-manager"), `{"spec":{"replicas":0}}`},
			change: change{clients["kubectl-replace"], helperRenamed},
		},
		"vertical autoscaler": {
			reason: "it updates a container of ours",
			first:  &change{patchedBy("vpa-updater", types.JSONPatchType), `[{"op":"add","path":"/spec/template/spec/containers/0/resources","value":{"requests":{"cpu":"2"},"limits":{"memory":"2Gi"}}}]`},
			change: change{clients["kubectl-replace"], helperRenamed},
		},
		"service mesh": {
			reason: "it adds a container, a volume and annotations",
			first: &change{patchedBy("istio-operator", types.StrategicMergePatchType), `{"spec":{"template":{"metadata":{"annotations":{"sidecar.istio.io/status":"injected"},"labels":{"service.istio.io/canonical-name":"web"}},
				"spec":{"containers":[{"name":"istio-proxy","image":"registry.invalid/proxy:1"}],"volumes":[{"name":"istio-envoy","emptyDir":{"medium":"Memory"}}]}}}}`},
			change: change{clients["kubectl-edit"], helperRenamed},
		},
		"Deployment controller": {
			reason: "it notes the revision in an annotation, beside ours",
			first:  &change{untilRevisionNoted, ""},
			change: change{clients["kubectl-patch"], `[{"op":"move","from":"/metadata/annotations/example.com~1team","path":"/metadata/annotations/example.com~1group"}]`},
		},
		"restart": {
			reason: "kubectl rollout restart writes into the template, beside our annotation",
			first:  &change{patchedBy("kubectl-rollout", types.StrategicMergePatchType), restartedAt},
			change: change{clients["kubectl-replace"], `[{"op":"move","from":"/spec/template/metadata/annotations/example.com~1team","path":"/spec/template/metadata/annotations/example.com~1group"}]`},
		},
		"restart by the same program": {
			reason: "its fields of before and of now are in one entry",
			first:  &change{patchedBy("node-fetch", types.StrategicMergePatchType), restartedAt},
			change: change{clients["node-fetch"], `[{"op":"move","from":"/spec/template/metadata/annotations/example.com~1team","path":"/spec/template/metadata/annotations/example.com~1group"}]`},
		},
		"kubectl scale": {
			reason: "a person, through a subresource",
			first:  &change{throughSubresource("scale", "kubectl"), `{"spec":{"replicas":2}}`},
			change: change{clients["kubectl-edit"], helperRenamed},
		},
		"sidecar of the same program": {
			reason: "what was there before the edit stays, though it is below the same parent",
			first:  &change{patchedBy("kubectl-edit", types.StrategicMergePatchType), `{"spec":{"template":{"spec":{"containers":[{"name":"debug","image":"registry.invalid/debug:1"}]}}}}`},
			change: change{clients["kubectl-edit"], helperRenamed},
		},
		"variable of another applier": {
			reason: "kubectl apply --server-side, in a list of ours",
			first:  &change{byAnother, `{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"EXTRA","value":"mine"}]}]}}}}`},
			change: change{clients["kubectl-replace"], `[{"op":"replace","path":"/spec/template/spec/containers/0/env/0/name","value":"LEVEL"}]`},
		},
	},
	"ValidatingWebhookConfiguration": {
		"certificate injector": {
			reason: "beside the member of a union",
			first:  &change{updatedBy("cainjector"), `[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"<ca>"}]`},
			change: change{clients["kubectl-patch"], `[{"op":"remove","path":"/webhooks/0/clientConfig/service"},{"op":"add","path":"/webhooks/0/clientConfig/url","value":"https://other.example.com"}]`},
		},
		"certificate injector, whole object written": {
			reason: "the edit sends the certificate, too",
			first:  &change{updatedBy("cainjector"), `[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"<ca>"}]`},
			change: change{clients["kubectl-replace"], `[{"op":"remove","path":"/webhooks/0/clientConfig/service"},{"op":"add","path":"/webhooks/0/clientConfig/url","value":"https://other.example.com"}]`},
		},
	},
	"CustomResourceDefinition with conversion": {
		"certificate injector": {
			reason: "in the conversion of a kind",
			first:  &change{updatedBy("cainjector"), `[{"op":"add","path":"/spec/conversion/webhook/clientConfig/caBundle","value":"<ca>"}]`},
			change: change{clients["kubectl-patch"], `[{"op":"remove","path":"/spec/conversion/webhook/clientConfig/service"},{"op":"add","path":"/spec/conversion/webhook/clientConfig/url","value":"https://other.example.com"}]`},
		},
	},
	"PodDisruptionBudget": {
		"disruption controller": {
			reason: "it reports the status",
			first:  &change{throughSubresource("status", "kube-controller-manager"), `{"status":{"observedGeneration":1,"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":1,"expectedPods":0}}`},
			change: change{clients["kubectl-replace"], `[{"op":"remove","path":"/spec/minAvailable"},{"op":"add","path":"/spec/maxUnavailable","value":1}]`},
		},
	},
}

// TestNeighboursSurviveStructuralHeals undoes structural edits beside the fields of others,
// which stay as they are, and theirs.
func TestNeighboursSurviveStructuralHeals(t *testing.T) {
	t.Parallel()
	for kind, edits := range neighbours {
		for name, e := range edits {
			e.want = undoneWhole
			edits[name] = e
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testEditsOf(t, kind, "", edits)
		})
	}
}

// untilRevisionNoted waits until the controller of Deployments has written to a Deployment.
func untilRevisionNoted(_ string, obj *unstructured.Unstructured, _ string) error {
	return wait.PollUntilContextTimeout(context.Background(), poll, patience, true, func(ctx context.Context) (bool, error) {
		live := obj.DeepCopy()
		err := admin.Get(ctx, client.ObjectKeyFromObject(obj), live)
		return live.GetAnnotations()[revisionAnnotation] != "", err
	})
}

// patchedBy patches as a field manager does.
func patchedBy(manager string, how types.PatchType) howTo {
	return func(_ string, obj *unstructured.Unstructured, what string) error {
		return edit(obj, how, what, client.FieldOwner(manager))
	}
}

// updatedBy updates the whole object as a field manager does, after a JSON patch.
func updatedBy(manager string) howTo {
	return editing(func(_, edited *unstructured.Unstructured) error {
		return admin.Update(context.Background(), edited, client.FieldOwner(manager))
	})
}

// throughSubresource patches a subresource as a field manager does.
func throughSubresource(name, manager string) howTo {
	return func(_ string, obj *unstructured.Unstructured, what string) error {
		patch := client.RawPatch(types.MergePatchType, []byte(what))
		return admin.SubResource(name).Patch(context.Background(), obj.DeepCopy(), patch, client.FieldOwner(manager))
	}
}

// TestStructuralHealOfASharedObject undoes an edit of an object of two VidraResources, and
// leaves to each what it applies.
func TestStructuralHealOfASharedObject(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	manifest := editedObject("Deployment without replicas", "web", "")
	other := `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {example.com/other: "yes"}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "registry.invalid/web:1", env: [{name: OTHER, value: "yes"}]}
      - {name: more, image: "registry.invalid/more:1"}
`
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)
	newVidraResource(t, ns, other, named(ns+"-other"))
	awaitReady(t, ns+"-other")
	deployment := declaredObject(t, ns, manifest, "Deployment", "web")
	before := get(t, deployment)

	ops := `[{"op":"replace","path":"/spec/template/spec/containers/1/name","value":"sidecar"},
		{"op":"replace","path":"/spec/template/spec/containers/2/name","value":"less"},
		{"op":"move","from":"/metadata/annotations/example.com~1team","path":"/metadata/annotations/example.com~1group"}]`
	require.NoError(t, clients["kubectl-replace"](ns, deployment, ops))
	await(t, func(c *assert.CollectT) {
		live := get(c, deployment)
		require.True(c, contains(live.Object, declared(t, ns, other)[0].Object))
		require.True(c, contains(live.Object, deployment.Object))
		require.True(c, contains(settled(before), settled(live)), "something is left of the edit")
	})
	awaitReady(t, ns)
	awaitReady(t, ns+"-other")
}

// TestStructuralHealAndIgnoreRules leaves alone what a structural edit adds where a rule
// ignores the path or the field manager, and undoes the rest.
func TestStructuralHealAndIgnoreRules(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	manifest := editedObject("Deployment without replicas", "web", "")
	newVidraResource(t, ns, manifest, withDrift(v1alpha1.DriftPolicy{Ignore: []v1alpha1.IgnoreRule{
		{Paths: []string{"/spec/template/metadata/annotations"}},
		{Managers: []string{"mesh"}},
	}}))
	awaitReady(t, ns)
	deployment := declaredObject(t, ns, manifest, "Deployment", "web")
	require.NoError(t, patchedBy("mesh", types.StrategicMergePatchType)(ns, deployment,
		`{"spec":{"template":{"spec":{"containers":[{"name":"proxy","image":"registry.invalid/proxy:1"}]}}}}`))
	ops := `[{"op":"replace","path":"/spec/template/spec/containers/1/name","value":"sidecar"},
		{"op":"add","path":"/spec/template/metadata/annotations/example.com~1note","value":"mine"}]`
	require.NoError(t, clients["kubectl-patch"](ns, deployment, ops))
	await(t, func(c *assert.CollectT) {
		require.Equal(c, []string{"helper", "proxy", "web"}, containersOf(c, deployment))
	})
	template, _, err := unstructured.NestedStringMap(get(t, deployment).Object, "spec", "template", "metadata", "annotations")
	require.NoError(t, err)
	require.Equal(t, "mine", template["example.com/note"])
}

// containersOf are the names of the containers of a Deployment, in order.
func containersOf(t require.TestingT, obj client.Object) []string {
	list, _, err := unstructured.NestedSlice(get(t, obj).Object, "spec", "template", "spec", "containers")
	require.NoError(t, err)
	var names []string
	for _, container := range list {
		fields, _ := container.(map[string]any)
		name, _ := fields["name"].(string)
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestInjectedSidecarSurvivesStructuralHeals has a webhook inject a container into each
// Deployment that is written, as a service mesh does. What it injects with an edit by
// another program stays, too, because it comes back with the heal.
func TestInjectedSidecarSurvivesStructuralHeals(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startWebhookOn(t, []string{"configmaps", "deployments"}, ns, true, func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if r.Kind.Kind != "Deployment" || !writesTo(r, "web") || r.SubResource != "" || strings.Contains(string(r.Object.Raw), "istio-proxy") {
			return nil
		}
		return patched(`[{"op":"add","path":"/spec/template/spec/containers/-","value":{"name":"istio-proxy","image":"registry.invalid/proxy:1"}}]`)
	})
	manifest := editedObject("Deployment without replicas", "web", "")
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)
	deployment := declaredObject(t, ns, manifest, "Deployment", "web")
	for manager, how := range clients {
		mark := auditMark(t)
		require.NoError(t, how(ns, deployment, helperRenamed))
		await(t, func(c *assert.CollectT) {
			require.Equal(c, []string{"helper", "istio-proxy", "web"}, containersOf(c, deployment), manager)
		})
		// The edit takes the injected container away, and the webhook injects it with the edit.
		require.NoError(t, how(ns, deployment, `[{"op":"replace","path":"/spec/template/spec/containers","value":[{"name":"server","image":"registry.invalid/web:2"}]}]`))
		await(t, func(c *assert.CollectT) {
			require.Equal(c, []string{"helper", "istio-proxy", "web"}, containersOf(c, deployment), manager)
		})
		requireCount(t, 4, func() requests { return operatorSince(t, mark).On("deployments", ns, "web").Writes().Accepted() }, manager)
	}
}

// TestEditThatServerSideApplyCannotRead removes the key of an item of a list, which the API
// server allows in a ServiceAccount and server-side apply cannot merge: each apply fails,
// also those of others, until the list is replaced.
func TestEditThatServerSideApplyCannotRead(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	manifest := editedObject("ServiceAccount of many Secrets", "web", "")
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)
	account := declaredObject(t, ns, manifest, "ServiceAccount", "web")
	before := settled(get(t, account))
	labelAdded := `,{"op":"add","path":"/metadata/labels/mine","value":"x"}`
	if keepsManagedFields(t, ns) { // then nothing says that the edit added it
		labelAdded = ""
	}
	for _, ops := range []string{
		`[{"op":"remove","path":"/secrets/0/name"}]`, `[{"op":"add","path":"/secrets/-","value":{}}]`,
		`[{"op":"remove","path":"/secrets/0/name"},{"op":"remove","path":"/metadata/labels/app"}` + labelAdded + `]`,
		`[{"op":"remove","path":"/metadata/labels"},{"op":"remove","path":"/secrets/1/name"}]`,
	} {
		require.NoError(t, asJSONPatch(ns, account, ops))
		await(t, func(c *assert.CollectT) {
			require.Equal(c, before, settled(get(c, account)), "%s: %v", ops, condition(c, getVidraResource(c, ns), v1alpha1.ConditionReady))
		})
		awaitInOrder(t, ns, account)
	}
	awaitReady(t, ns)
}

// keepsManagedFields reports whether the API server keeps the managedFields of an object as they were when an edit of it
// cannot be merged, as Kubernetes 1.37 does. Older ones remove them.
func keepsManagedFields(t *testing.T, ns string) bool {
	t.Helper()
	account := declared(t, ns, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: keyless}\nsecrets: [{name: a}]\n")[0]
	require.NoError(t, testenv.Apply(t.Context(), env.Config, []*unstructured.Unstructured{account}))
	require.NoError(t, asJSONPatch(ns, account, `[{"op":"remove","path":"/secrets/0/name"}]`))
	return len(get(t, account).GetManagedFields()) > 0
}
