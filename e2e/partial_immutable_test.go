package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestF29ChangeIsTakenBack changes fields that the API server does not let change: the
// object and the field are named, the object stays as it is, the others are applied,
// and taking the change back is enough.
func TestF29ChangeIsTakenBack(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason   string
		manifest string
		// old and changed are the text that is changed.
		old, changed string
		kind, name   string
		field        string
	}{
		"Secret": {
			reason: "of a Secret the field is told, and no value", kind: "Secret", name: "fixed", field: "data",
			manifest: "apiVersion: v1\nkind: Secret\nmetadata:\n  name: fixed\nimmutable: true\ndata:\n  password: aHVudGVyMg==\n",
			old:      "aHVudGVyMg==", changed: "aHVudGVyMw==",
		},
		"Job template": {
			reason: "the API server quotes the whole template", kind: "Job", name: "once", field: "spec.template",
			manifest: "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: once\nspec:\n  suspend: true\n  template:\n    spec:\n      restartPolicy: Never\n" +
				"      containers:\n      - {name: once, image: registry.invalid/web:1}\n",
			old: "web:1", changed: "web:2",
		},
		"StatefulSet claims": {
			reason: "the API server names what may change instead", kind: "StatefulSet", name: "db", field: "spec",
			manifest: "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: db\nspec:\n  replicas: 0\n  serviceName: db\n  selector:\n    matchLabels: {app: db}\n" +
				"  template:\n    metadata:\n      labels: {app: db}\n    spec:\n      containers:\n      - {name: db, image: registry.invalid/db:1}\n" +
				"  volumeClaimTemplates:\n  - metadata: {name: data}\n    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n",
			old: "1Gi", changed: "2Gi",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			before := manifests(configMap("first", "hello"), tt.manifest)
			after := manifests(configMap("first", "hi"), strings.ReplaceAll(tt.manifest, tt.old, tt.changed))
			newVidraResource(t, ns, before)
			awaitReady(t, ns)
			object := declaredObject(t, ns, before, tt.kind, tt.name)
			uid := get(t, object).GetUID()

			step := "spec.force"
			if tt.kind == "StatefulSet" { // its claims stay
				step = "--cascade=orphan"
			}
			setManifest(t, ns, after)
			v := awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, tt.kind+" "+ns+"/"+tt.name, tt.field, step)
			require.Equal(t, v1alpha1.ObjectFailed, entry(t, v, tt.kind, tt.name).State, tt.reason)
			awaitEvent(t, v, corev1.EventTypeWarning, "ApplyFailed", "Apply", tt.kind+" "+ns+"/"+tt.name, tt.field, step)
			require.Equal(t, uid, requireInOrder(t, ns, object).GetUID(), "it was neither changed nor replaced")
			requireInOrder(t, ns, declaredObject(t, ns, after, "ConfigMap", "first"))

			setManifest(t, ns, before)
			awaitReady(t, ns)
			require.Equal(t, uid, requireInOrder(t, ns, object).GetUID())
		})
	}
}
