package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// withAdditions has additions treated in a way.
func withAdditions(policy v1alpha1.AdditionsPolicy) func(*v1alpha1.VidraResource) {
	return func(v *v1alpha1.VidraResource) {
		if v.Spec.Drift == nil {
			v.Spec.Drift = &v1alpha1.DriftPolicy{}
		}
		v.Spec.Drift.Additions = policy
	}
}

// revertedAdditions are edits of objects whose VidraResource reverts additions: an addition
// by a person is removed with two requests, and named; what others add stays, and costs
// nothing.
var revertedAdditions = map[string]map[string]anEdit{
	"Deployment without replicas": {
		"label": {
			reason: "kubectl label", want: undoneWhole, by: "kubectl-label", names: []string{"metadata.labels.extra"},
			change: change{patchedBy("kubectl-label", types.MergePatchType), `{"metadata":{"labels":{"extra":"mine"}}}`},
		},
		"variable": {
			reason: "kubectl set env, in a list of ours", want: undoneWhole, by: "kubectl-set", names: []string{`env[name="EXTRA"]`},
			change: change{patchedBy("kubectl-set", types.StrategicMergePatchType), `{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"EXTRA","value":"mine"}]}]}}}}`},
		},
		"sidecar": {
			reason: "kubectl edit, a list item with defaults", want: undoneWhole, by: "kubectl-edit", names: []string{`containers[name="debug"]`},
			change: change{patchedBy("kubectl-edit", types.StrategicMergePatchType), `{"spec":{"template":{"spec":{"containers":[{"name":"debug","image":"registry.invalid/debug:1"}]}}}}`},
		},
		"limits": {
			reason: "a field below a container of ours", want: undoneWhole, by: "k9s", names: []string{`containers[name="web"].resources`},
			change: change{patchedBy("k9s", types.StrategicMergePatchType), `{"spec":{"template":{"spec":{"containers":[{"name":"web","resources":{"limits":{"memory":"1Gi"}}}]}}}}`},
		},
		"default": {
			reason: "a field that the API server had filled in gets its default again", want: undoneWhole, by: "kubectl-patch", names: []string{"spec.revisionHistoryLimit"},
			change: change{patchedBy("kubectl-patch", types.MergePatchType), `{"spec":{"revisionHistoryLimit":3}}`},
		},
		"browser": {
			reason: "a console writes the whole object", want: undoneWhole, by: "Mozilla", names: []string{"metadata.annotations.note"},
			change: change{updatedBy("Mozilla"), `[{"op":"add","path":"/metadata/annotations/note","value":"mine"}]`},
		},
		"server-side apply": {
			reason: "kubectl apply --server-side", want: undoneWhole, by: "kubectl", names: []string{"metadata.labels.extra"},
			change: change{appliedAs("kubectl"), `{"metadata":{"labels":{"extra":"mine"}}}`},
		},
		"beside a value": {
			reason: "a value of ours and an addition in one edit", want: undoneWhole, by: "kubectl-edit", more: 1,
			names:  []string{`spec.template.metadata.annotations["example.com/team"]`, "metadata.labels.extra"},
			change: change{patchedBy("kubectl-edit", types.MergePatchType), `{"metadata":{"labels":{"extra":"mine"}},"spec":{"template":{"metadata":{"annotations":{"example.com/team":"other"}}}}}`},
		},
		"beside an autoscaler": {
			reason: "whose fields stay", want: undoneWhole, by: "kubectl-label", names: []string{"metadata.labels.extra"},
			first:  &change{patchedBy("vpa-updater", types.StrategicMergePatchType), `{"spec":{"template":{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"2"}}}]}}}}`},
			change: change{patchedBy("kubectl-label", types.MergePatchType), `{"metadata":{"labels":{"extra":"mine"}}}`},
		},
		"restart": {
			reason: "kubectl rollout restart goes on working", want: stays,
			change: change{patchedBy("kubectl-rollout", types.StrategicMergePatchType), restartedAt},
		},
		"cause": {
			reason: "kubectl annotate kubernetes.io/change-cause", want: stays,
			change: change{patchedBy("kubectl-annotate", types.MergePatchType), `{"metadata":{"annotations":{"kubernetes.io/change-cause":"because"}}}`},
		},
		"scale": {
			reason: "kubectl scale goes on working where the manifest leaves replicas out", want: stays,
			change: change{throughSubresource("scale", "kubectl"), `{"spec":{"replicas":0}}`},
		},
		"controller": {
			reason: "an autoscaler is no person", want: stays,
			change: change{patchedBy("vpa-updater", types.StrategicMergePatchType), `{"spec":{"template":{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"2"}}}]}}}}`},
		},
		"another applier": {
			reason: "nor is another operator", want: stays,
			change: change{byAnother, `{"metadata":{"labels":{"extra":"mine"}}}`},
		},
		"status": {
			reason: "kubectl edit --subresource=status", want: stays,
			change: change{throughSubresource("status", "kubectl-edit"), `{"status":{"conditions":[{"type":"Tested","status":"True","reason":"E2E"}]}}`},
		},
		"finalizer": {
			reason: "metadata of Kubernetes itself", want: stays, undo: `{"metadata":{"finalizers":null}}`,
			change: change{patchedBy("kubectl-edit", types.MergePatchType), `{"metadata":{"finalizers":["example.com/wait"]}}`},
		},
	},
	"ConfigMap": {
		"key": {
			reason: "a map of text", want: undoneWhole, by: "kubectl-edit", names: []string{"data.extra"},
			change: change{patchedBy("kubectl-edit", types.MergePatchType), `{"data":{"extra":"mine"}}`},
		},
	},
	"Secret": {
		"key": {
			reason: "the value is withheld", want: undoneWhole, by: "kubectl-edit", names: []string{"data.extra (values withheld)"},
			change: change{patchedBy("kubectl-edit", types.MergePatchType), `{"data":{"extra":"bWluZQ=="}}`},
		},
	},
	"ServiceAccount of many Secrets": {
		"Secret": {
			reason: "an item of nothing but a key", want: undoneWhole, by: "kubectl-patch", names: []string{`secrets[name="extra"]`},
			change: change{patchedBy("kubectl-patch", types.StrategicMergePatchType), `{"secrets":[{"name":"extra"}]}`},
		},
	},
}

// TestAdditionsAreReverted edits objects whose VidraResource reverts additions.
func TestAdditionsAreReverted(t *testing.T) {
	t.Parallel()
	for kind, edits := range revertedAdditions {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testEditsOf(t, kind, "", edits, withAdditions(v1alpha1.AdditionsRevert))
		})
	}
}

// appliedAs is kubectl apply --server-side under the name of a field manager.
func appliedAs(manager string) howTo {
	return func(_ string, obj *unstructured.Unstructured, what string) error { return applying(obj, what, manager) }
}

// TestAdditionsAreReported has a VidraResource that warns of additions: they stay, are named
// in the condition Drifted and in an Event, and keep nothing else from being reverted. What
// controllers write causes no work. When the addition is gone, so is the condition.
func TestAdditionsAreReported(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	manifest := editedObject("Deployment without replicas", "web", "")
	newVidraResource(t, ns, manifest, withAdditions(v1alpha1.AdditionsWarn))
	awaitReady(t, ns)
	deployment := declaredObject(t, ns, manifest, "Deployment", "web")
	label := patchedBy("kubectl-label", types.MergePatchType)

	mark := auditMark(t)
	require.NoError(t, label(ns, deployment, `{"metadata":{"labels":{"extra":"mine"}}}`))
	reported := drifts(metav1.ConditionTrue, v1alpha1.ReasonDriftDetected)
	parts := []string{"Deployment " + ns + "/web", "metadata.labels.extra", `"kubectl-label"`, "spec.drift.additions is Warn"}
	v := awaitCondition(t, ns, reported, parts...)
	require.Equal(t, metav1.ConditionTrue, condition(t, v, v1alpha1.ConditionReady).Status, "the object is as the manifest says")
	awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", parts...)

	// Other writers, and a change of ours.
	require.NoError(t, reporting(ns, deployment, `{"status":{"conditions":[{"type":"Tested","status":"True","reason":"E2E"}]}}`))
	require.NoError(t, patchedBy("mesh", types.MergePatchType)(ns, deployment, `{"metadata":{"labels":{"mesh":"on"}}}`))
	require.NoError(t, patchedBy("kubectl-rollout", types.StrategicMergePatchType)(ns, deployment, restartedAt))
	require.NoError(t, patchedBy("kubectl-edit", types.MergePatchType)(ns, deployment, `{"metadata":{"annotations":{"example.com/team":"other"}}}`))
	awaitInOrder(t, ns, deployment)
	requireCount(t, 1, func() requests { return operatorSince(t, mark).On("deployments", ns, "web") }, "the change of ours")
	require.Equal(t, "mine", get(t, deployment).GetLabels()["extra"])
	awaitCondition(t, ns, reported, parts...)

	// Another value is another report.
	require.NoError(t, label(ns, deployment, `{"metadata":{"labels":{"extra":"yours"}}}`))
	awaitCondition(t, ns, reported, `"yours"`)
	awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", `"yours"`)
	require.NoError(t, label(ns, deployment, `{"metadata":{"labels":{"extra":null}}}`))
	awaitCondition(t, ns, drifts(metav1.ConditionFalse, v1alpha1.ReasonInSync))
	require.Len(t, operatorSince(t, mark).On("deployments", ns, "web"), 1)
	require.Len(t, withReason(eventsAbout(t, getVidraResource(t, ns)), "DriftDetected"), 2)
}

// TestAdditionsBeforeThePolicy has additions that are older than the policy: each policy
// looks at what is there, not at when it came, in objects that were adopted, too.
func TestAdditionsBeforeThePolicy(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	page := declared(t, ns, configMap("page", "hello"))[0]
	created := page.DeepCopy()
	created.SetLabels(map[string]string{"before": "adoption"})
	require.NoError(t, admin.Create(t.Context(), created, client.FieldOwner("kubectl-create")))
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	require.NoError(t, patchedBy("kubectl-edit", types.MergePatchType)(ns, page, `{"data":{"extra":"mine"}}`))
	require.NoError(t, patchedBy("mesh", types.MergePatchType)(ns, page, `{"data":{"injected":"yes"}}`))
	policy := func(policy v1alpha1.AdditionsPolicy) {
		changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Drift = &v1alpha1.DriftPolicy{Additions: policy} })
	}
	policy(v1alpha1.AdditionsWarn)
	awaitCondition(t, ns, drifts(metav1.ConditionTrue, v1alpha1.ReasonDriftDetected), "data.extra", "metadata.labels.before")
	policy(v1alpha1.AdditionsKeep)
	awaitCondition(t, ns, drifts(metav1.ConditionFalse, v1alpha1.ReasonInSync))
	require.Equal(t, "mine", get(t, page).Object["data"].(map[string]any)["extra"])
	policy(v1alpha1.AdditionsRevert)
	await(t, func(c *assert.CollectT) {
		live := get(c, page)
		require.Equal(c, map[string]any{"greeting": "hello", "injected": "yes"}, live.Object["data"])
		require.Equal(c, map[string]string{"managed-by": "vidra"}, live.GetLabels())
	})
	awaitReady(t, ns)
	awaitEvent(t, page, corev1.EventTypeNormal, "ChangeReverted", "Restore", "data.extra", "kubectl-edit", "metadata.labels.before", "kubectl-create")
}

// TestAdditionsAreReportedWhileLeft suspends a VidraResource that reverts additions: they
// are reported meanwhile, and removed when it is resumed.
func TestAdditionsAreReportedWhileLeft(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	page := declared(t, ns, configMap("page", "hello"))[0]
	newVidraResource(t, ns, configMap("page", "hello"), withAdditions(v1alpha1.AdditionsRevert))
	awaitReady(t, ns)
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
	awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
	require.NoError(t, patchedBy("kubectl-edit", types.MergePatchType)(ns, page, `{"data":{"extra":"mine"}}`))
	awaitCondition(t, ns, drifts(metav1.ConditionTrue, v1alpha1.ReasonDriftDetected), "data.extra", "kubectl-edit", "spec.suspend is true")
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = false })
	await(t, func(c *assert.CollectT) {
		require.Equal(c, map[string]any{"greeting": "hello"}, get(c, page).Object["data"])
	})
	awaitCondition(t, ns, drifts(metav1.ConditionFalse, v1alpha1.ReasonInSync))
}

// TestAdditionsByTheOperatorsFlags restarts the operator with flags: the policy is that of
// VidraResources that say nothing of it, and the list of tools another one. An addition that
// was made while no operator ran is removed. It is not parallel: it restarts the operator.
func TestAdditionsByTheOperatorsFlags(t *testing.T) {
	ns := newNamespace(t)
	manifest := manifests(configMap("page", "hello"), configMap("kept", "hello"))
	newVidraResource(t, ns, manifest)
	kept := ns + "-keep"
	newVidraResource(t, ns, configMap("other", "hello"), named(kept), withAdditions(v1alpha1.AdditionsKeep))
	awaitReady(t, ns)
	awaitReady(t, kept)
	add := func(manager, name string) {
		obj := declared(t, ns, configMap(name, "hello"))[0]
		require.NoError(t, patchedBy(manager, types.MergePatchType)(ns, obj, `{"data":{"extra":"mine"}}`))
	}
	extra := func(t require.TestingT, name string) bool {
		data, _ := get(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}).Object["data"].(map[string]any)
		return data["extra"] == "mine"
	}
	stopOperator(t)
	add("my-tool", "page")
	add("kubectl-edit", "kept")
	add("my-tool", "other")
	flagged, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary, Args: []string{"--drift-additions=Revert", "--people-tools=my-*,k9s"}})
	require.NoError(t, err)
	await(t, func(c *assert.CollectT) { require.False(c, extra(c, "page")) })
	awaitReady(t, ns)
	add("my-tool", "page")
	await(t, func(c *assert.CollectT) { require.False(c, extra(c, "page")) })
	require.True(t, extra(t, "kept"), "kubectl is not in the list")
	require.True(t, extra(t, "other"), "the VidraResource says Keep")
	require.NoError(t, flagged.Stop(stopTimeout))
}
