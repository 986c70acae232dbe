package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestF16LabelStripped takes away the label by which managed objects are watched:
// for the watch the object is gone, and it must not stay away.
func TestF16LabelStripped(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		edit   func(obj *unstructured.Unstructured) error
	}{
		"removed": {
			reason: "the plain case",
			edit: func(obj *unstructured.Unstructured) error {
				return mergePatch(obj, `{"metadata":{"labels":{"managed-by":null}}}`)
			},
		},
		"changed": {
			reason: "another tool claims the object",
			edit: func(obj *unstructured.Unstructured) error {
				return mergePatch(obj, `{"metadata":{"labels":{"managed-by":"helm"}}}`)
			},
		},
		"all labels": {
			reason: "the labels of the manifest go, too",
			edit: func(obj *unstructured.Unstructured) error {
				return mergePatch(obj, `{"metadata":{"labels":null}}`)
			},
		},
		"with everything": {
			reason: "nothing on the object says any more that it is ours, and it was changed besides",
			edit: func(obj *unstructured.Unstructured) error {
				return mergePatch(obj, `{"metadata":{"labels":null,"annotations":null,"managedFields":[{}]},"data":{"greeting":"changed"}}`)
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, web)
			v := awaitReady(t, ns)
			obj := declaredObject(t, ns, web, "ConfigMap", "page")
			uid := get(t, obj).GetUID()

			mark := auditMark(t)
			for range 3 {
				require.NoError(t, tt.edit(obj))
				awaitInOrder(t, ns, obj)
			}
			require.Equal(t, uid, get(t, obj).GetUID(), "it is the same object: %s", tt.reason)
			requireCount(t, 3, func() requests { return operatorSince(t, mark).ObjectsIn(ns).Writes().Accepted() })
			requireTold(t, v, obj, []string{"restored the label managed-by=vidra"}, nil)
		})
	}
}

// TestLabelStrippedThenDeleted deletes an object that no watch sees.
func TestLabelStrippedThenDeleted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, web)
	v := awaitReady(t, ns)
	obj := declaredObject(t, ns, web, "ConfigMap", "page")
	uid := get(t, obj).GetUID()
	require.NoError(t, mergePatch(obj, `{"metadata":{"labels":{"managed-by":null}}}`))
	require.NoError(t, admin.Delete(t.Context(), obj.DeepCopy()))
	awaitInOrder(t, ns, obj)
	require.NotEqual(t, uid, get(t, obj).GetUID())
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "ConfigMap", "page")
}
