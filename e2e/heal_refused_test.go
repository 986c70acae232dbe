package e2e

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestImmutableFieldChangedByOthers has another user delete an object and create it with another
// value of a field that cannot change, while the VidraResource is suspended. The message says
// what the API server said, which field, and what to do, and that is right: doing it helps.
// Vidra does not delete the object itself, even with spec.force.
func TestImmutableFieldChangedByOthers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, manifest, kind, name string
		change                       func(obj *unstructured.Unstructured) error
		field, said                  string
	}{
		"selector": {
			reason: "of a Deployment", manifest: web, kind: "Deployment", name: "web", field: "spec.selector", said: "field is immutable",
			change: func(obj *unstructured.Unstructured) error {
				labels := map[string]any{"app": "theirs"}
				return errors.Join(unstructured.SetNestedMap(obj.Object, labels, "spec", "selector", "matchLabels"),
					unstructured.SetNestedMap(obj.Object, labels, "spec", "template", "metadata", "labels"))
			},
		},
		"role": {
			reason: "of a RoleBinding", kind: "RoleBinding", name: "readers", field: "roleRef", said: "roleRef: Invalid value: ",
			manifest: "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: readers}\n" +
				"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}\nsubjects: [{kind: ServiceAccount, name: a, namespace: b}]\n",
			change: func(obj *unstructured.Unstructured) error {
				return unstructured.SetNestedField(obj.Object, "edit", "roleRef", "name")
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, tt.manifest, forced)
			awaitReady(t, ns)
			obj := declaredObject(t, ns, tt.manifest, tt.kind, tt.name)
			changeSpec(t, ns, func(s *v1alpha1.VidraResourceSpec) { s.Suspend = true })
			awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
			require.NoError(t, admin.Delete(t.Context(), obj.DeepCopy()))
			awaitGone(t, obj)
			theirs := declaredObject(t, ns, tt.manifest, tt.kind, tt.name)
			require.NoError(t, tt.change(theirs))
			require.NoError(t, admin.Create(t.Context(), theirs, client.FieldOwner(person)))

			mark := auditMark(t)
			changeSpec(t, ns, func(s *v1alpha1.VidraResourceSpec) { s.Suspend = false })
			v := awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, tt.kind+" "+ns+"/"+tt.name+": ", tt.field, "the API server refuses the change of the object that exists",
				tt.said, "Delete the object, so that Vidra creates it again")
			awaitEvent(t, v, corev1.EventTypeWarning, "ApplyFailed", "Apply", tt.field, tt.said)
			require.Equal(t, theirs.GetUID(), get(t, obj).GetUID(), "%s: Vidra does not delete what another user created", tt.reason)
			require.Empty(t, operatorSince(t, mark).ObjectsIn(ns).Only(verbIs("delete")))

			require.NoError(t, admin.Delete(t.Context(), theirs)) // as the message says
			awaitInOrder(t, ns, obj)
			awaitReady(t, ns)
		})
	}
}

// TestStructuralHealRefusedByWebhook has a webhook refuse each of the two requests of a heal:
// the message names the webhook and what it said. Nothing is lost: when the webhook is gone, the
// edit is undone whole.
func TestStructuralHealRefusedByWebhook(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		// refuses reports whether the webhook refuses the manager's write of an object.
		refuses func(old, object *unstructured.Unstructured) bool
		code    int32
	}{
		"every write": {reason: "the first of the two requests", refuses: func(_, _ *unstructured.Unstructured) bool { return true }, code: http.StatusForbidden},
		"removal": {
			reason: "the second one, with the code of an invalid object", code: http.StatusUnprocessableEntity,
			refuses: func(old, object *unstructured.Unstructured) bool {
				_, was, _ := unstructured.NestedString(old.Object, "data", "salute")
				_, is, _ := unstructured.NestedString(object.Object, "data", "salute")
				return was && !is
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, configMap("page", "hello"))
			awaitReady(t, ns)
			page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
			before := get(t, page)
			w := startWebhook(t, ns, false, func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
				old, object := &unstructured.Unstructured{}, &unstructured.Unstructured{}
				if r.UserInfo.Username != operatorUser || !writesTo(r, "page") || old.UnmarshalJSON(r.OldObject.Raw) != nil ||
					object.UnmarshalJSON(r.Object.Raw) != nil || !tt.refuses(old, object) {
					return nil
				}
				answer := refused("change freeze until Monday")
				answer.Result.Code = tt.code
				return answer
			})
			require.NoError(t, jsonPatch(page, `[{"op":"move","from":"/data/greeting","path":"/data/salute"}]`))
			v := awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "ConfigMap "+ns+"/page: ", w.name, "change freeze until Monday")
			require.NotContains(t, condition(t, v, v1alpha1.ConditionReady).Message, "refuses the change of the object that exists", "%s: the webhook is no immutable field", tt.reason)
			require.Equal(t, metav1.ConditionTrue, condition(t, v, v1alpha1.ConditionDrifted).Status)
			awaitEvent(t, v, corev1.EventTypeWarning, "ApplyFailed", "Apply", w.name, "change freeze until Monday")
			w.remove(t)
			undone(t, before)
			awaitReady(t, ns)
			awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "data.greeting", `emoved data.salute; "person" had added it`)
		})
	}
}

// TestHealInTheWayOfAnIgnoreRule has a manager that a rule ignores set what excludes a field of
// the VidraResource: the message names the field that is in the way, its manager, and what to do.
func TestHealInTheWayOfAnIgnoreRule(t *testing.T) {
	t.Parallel()
	recreate := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: parts}\nspec:\n  strategy: {type: Recreate}\n" + parts[len("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: parts\nspec:\n"):]
	tests := map[string]struct {
		reason, manifest, kind, name, edit, undo string
		named                                    []string
	}{
		"union": {
			reason: "the API server names the field of the other manager, in a list", manifest: parts, kind: "Deployment", name: "parts", edit: toHostPath,
			undo:  `[{"op":"remove","path":"/spec/template/spec/volumes/0/hostPath"},{"op":"add","path":"/spec/template/spec/volumes/0/emptyDir","value":{}}]`,
			named: []string{`spec.template.spec.volumes[name="data"].hostPath`, "may not specify more than 1 volume type"},
		},
		"discriminator": {
			reason: "the API server names a field that the manifest does not have", manifest: recreate, kind: "Deployment", name: "parts",
			edit:  `[{"op":"replace","path":"/spec/strategy","value":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":2}}}]`,
			undo:  `[{"op":"replace","path":"/spec/strategy","value":{"type":"Recreate"}}]`,
			named: []string{"spec.strategy.rollingUpdate", "may not be specified when strategy"},
		},
		"two fields": {
			reason: "the API server names what both are in", manifest: budget, kind: "PodDisruptionBudget", name: "budget",
			edit:  `[{"op":"remove","path":"/spec/minAvailable"},{"op":"add","path":"/spec/maxUnavailable","value":1}]`,
			undo:  `[{"op":"remove","path":"/spec/maxUnavailable"},{"op":"add","path":"/spec/minAvailable","value":1}]`,
			named: []string{"spec.maxUnavailable", "cannot be both set"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, tt.manifest, withDrift(v1alpha1.DriftPolicy{Ignore: []v1alpha1.IgnoreRule{{Managers: []string{"node-fetch"}}}}))
			awaitReady(t, ns)
			obj := declaredObject(t, ns, tt.manifest, tt.kind, tt.name)
			require.NoError(t, clients["node-fetch"](ns, obj, tt.edit))
			awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, append(tt.named, "the API server refused to revert", `of "node-fetch", which Vidra does not change`,
				"remove it from the object, or change the manifest or spec.drift.ignore")...)
			require.NoError(t, clients["node-fetch"](ns, obj, tt.undo))
			awaitReady(t, ns)
		})
	}
}
