package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fenced is the manifest web and, of two kinds in it, one more object each.
var fenced = manifests(web, configMap("fence", "hello"), `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: fence
  labels:
    app: fence
spec:
  replicas: 0
  selector: {matchLabels: {app: fence}}
  template:
    metadata: {labels: {app: fence}}
    spec: {containers: [{name: fence, image: "registry.invalid/fence:1"}]}
`)

// TestHarmlessEdits changes what is not in the manifest. It stays, and costs no
// request. That nothing happens is shown without waiting: what happens to
// another object of the same kind afterwards goes through the same watch and the
// same queue, and is reverted.
func TestHarmlessEdits(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		kind   string
		edit   func(obj *unstructured.Unstructured) error
		// stays is what the edit leaves behind; nothing if it changes nothing.
		stays map[string]any
	}{
		"status": {
			reason: "most events are updates of a status", kind: "Deployment",
			edit: func(obj *unstructured.Unstructured) error {
				patch := client.RawPatch(types.MergePatchType, []byte(
					`{"status":{"conditions":[{"type":"Tested","status":"True","reason":"E2E"}]}}`))
				return admin.Status().Patch(t.Context(), obj.DeepCopy(), patch, client.FieldOwner(person))
			},
		},
		"foreign annotation": {
			reason: "it bumps the generation of a Deployment, and is none of ours", kind: "Deployment",
			edit: func(obj *unstructured.Unstructured) error {
				return mergePatch(obj, `{"metadata":{"annotations":{"example.com/note":"hi"}}}`)
			},
			stays: map[string]any{"metadata": map[string]any{"annotations": map[string]any{"example.com/note": "hi"}}},
		},
		"foreign label": {
			reason: "labels have many owners", kind: "ConfigMap",
			edit: func(obj *unstructured.Unstructured) error {
				return mergePatch(obj, `{"metadata":{"labels":{"example.com/team":"web"}}}`)
			},
			stays: map[string]any{"metadata": map[string]any{"labels": map[string]any{"example.com/team": "web"}}},
		},
		"foreign finalizer": {
			reason: "finalizers have many owners", kind: "ConfigMap",
			edit: func(obj *unstructured.Unstructured) error {
				return mergePatch(obj, `{"metadata":{"finalizers":["example.com/wait"]}}`)
			},
			stays: map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/wait"}}},
		},
		"unowned key": {
			reason: "a key that the manifest does not have belongs to who wrote it", kind: "ConfigMap",
			edit: func(obj *unstructured.Unstructured) error {
				return mergePatch(obj, `{"data":{"extra":"mine"}}`)
			},
			stays: map[string]any{"data": map[string]any{"extra": "mine", "greeting": "hello"}},
		},
		"unowned field": {
			reason: "a field that the manifest leaves out is for others to set", kind: "Deployment",
			edit: func(obj *unstructured.Unstructured) error {
				return mergePatch(obj, `{"spec":{"minReadySeconds":7}}`)
			},
			stays: map[string]any{"spec": map[string]any{"minReadySeconds": int64(7)}},
		},
		"unowned container": {
			reason: "an injected sidecar is an item of a list that has other items of ours", kind: "Deployment",
			edit: func(obj *unstructured.Unstructured) error {
				return edit(obj, types.StrategicMergePatchType,
					`{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"registry.invalid/sidecar:1"}]}}}}`)
			},
		},
		"no-op": {
			reason: "a user sets what is set already", kind: "ConfigMap",
			edit: func(obj *unstructured.Unstructured) error {
				return mergePatch(obj, `{"data":{"greeting":"hello"}}`)
			},
		},
		"agreement": {
			reason: "another manager applies the value that we apply: now both own it", kind: "ConfigMap",
			edit: func(obj *unstructured.Unstructured) error {
				return edit(obj, types.ApplyPatchType, `{"apiVersion":"v1","kind":"ConfigMap","data":{"greeting":"hello"}}`)
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, fenced)
			awaitReady(t, ns)
			obj := declaredObject(t, ns, fenced, tt.kind, objectNames[tt.kind])
			fence := declaredObject(t, ns, fenced, tt.kind, "fence")
			// A finalizer would keep the VidraResource, too, when the test ends.
			t.Cleanup(func() { require.NoError(t, mergePatch(obj, `{"metadata":{"finalizers":null}}`)) })

			mark := auditMark(t)
			require.NoError(t, tt.edit(obj))
			// The first pass may still be about to write to obj when fence is put
			// back; it has ended when the second one begins.
			for range 2 {
				require.NoError(t, mergePatch(fence, `{"metadata":{"annotations":null}}`))
				awaitInOrder(t, ns, fence)
			}

			requireCount(t, 2, func() requests { return operatorSince(t, mark).ObjectsIn(ns).Only(nameIs("fence")) })
			require.Empty(t, operatorSince(t, mark).ObjectsIn(ns).Only(nameIs(obj.GetName())), tt.reason)
			live := get(t, obj)
			require.Empty(t, difference("", tt.stays, live.Object), tt.reason)
			require.Empty(t, eventsAbout(t, live), "nothing was reverted")
		})
	}
}
