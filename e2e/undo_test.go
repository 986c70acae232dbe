package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// parts is a Deployment with something of each kind that an edit may replace. It leaves the
// replicas to others.
const parts = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: parts
spec:
  selector:
    matchLabels: {app: parts}
  template:
    metadata:
      labels: {app: parts}
    spec:
      containers:
      - name: web
        image: registry.invalid/web:1
        env:
        - name: LOG
          value: info
        volumeMounts:
        - name: data
          mountPath: /data
      volumes:
      - name: data
        emptyDir: {}
`

const budget = `apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: budget
spec:
  minAvailable: 1
  selector:
    matchLabels: {app: parts}
`

const port = `apiVersion: v1
kind: Service
metadata:
  name: port
spec:
  selector: {app: parts}
  ports:
  - port: 80
`

// toHostPath turns a volume of parts into a directory of the node.
const toHostPath = `[{"op":"remove","path":"/spec/template/spec/volumes/0/emptyDir"},` +
	`{"op":"add","path":"/spec/template/spec/volumes/0/hostPath","value":{"path":"/"}}]`

// undone waits until an object is as it was before an edit.
func undone(t *testing.T, before *unstructured.Unstructured) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		live := get(c, before)
		require.Empty(c, difference("", settled(before), settled(live)), "something is missing")
		require.Empty(c, difference("", settled(live), settled(before)), "something is left of the edit")
	}, "%s %s is as it was before the edit", before.GetKind(), before.GetName())
}

// TestUndoWhole edits the structure of objects: what the edit added is removed with what it
// removed restored, with two requests at most, without reading the object.
func TestUndoWhole(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, manifest, kind, name, edit string
		told                               []string
	}{
		"container renamed": {
			reason: "the apply alone would leave two containers", manifest: parts, kind: "Deployment", name: "parts",
			edit: `[{"op":"replace","path":"/spec/template/spec/containers/0/name","value":"www"}]`,
			told: []string{`estored spec.template.spec.containers[name="web"] to `, `emoved spec.template.spec.containers[name="www"]; "person" had added it`},
		},
		"emptyDir to hostPath": {
			reason: "the apply alone would be invalid", manifest: parts, kind: "Deployment", name: "parts", edit: toHostPath,
			told: []string{`emptyDir to {}; "person" had removed it`, `hostPath; "person" had added it as {"path":"/","type":""}`},
		},
		"value to valueFrom": {
			reason: "so would this one", manifest: parts, kind: "Deployment", name: "parts",
			edit: `[{"op":"remove","path":"/spec/template/spec/containers/0/env/0/value"},` +
				`{"op":"add","path":"/spec/template/spec/containers/0/env/0/valueFrom","value":{"fieldRef":{"fieldPath":"metadata.name"}}}]`,
			told: []string{`env[name="LOG"].value (values withheld)`, `env[name="LOG"].valueFrom`},
		},
		"minAvailable to maxUnavailable": {
			reason: "a budget has one of the two", manifest: budget, kind: "PodDisruptionBudget", name: "budget",
			edit: `[{"op":"remove","path":"/spec/minAvailable"},{"op":"add","path":"/spec/maxUnavailable","value":1}]`,
			told: []string{`estored spec.minAvailable to 1; "person" had removed it`, `emoved spec.maxUnavailable; "person" had added it as 1`},
		},
		"port renumbered": {
			reason: "an item of a list with two keys, one of which the manifest leaves to its default", manifest: port, kind: "Service", name: "port",
			edit: `[{"op":"replace","path":"/spec/ports/0/port","value":8080}]`,
			told: []string{`estored spec.ports[port=80,protocol="TCP"] to `, `emoved spec.ports[port=8080,protocol="TCP"]; "person" had added it`},
		},
		"protocol changed": {
			reason: "the default is what changes", manifest: port, kind: "Service", name: "port",
			edit: `[{"op":"replace","path":"/spec/ports/0/protocol","value":"UDP"}]`,
			told: []string{`emoved spec.ports[port=80,protocol="UDP"]; "person" had added it`},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			v := newVidraResource(t, ns, tt.manifest)
			awaitReady(t, ns)
			obj := declaredObject(t, ns, tt.manifest, tt.kind, tt.name)
			before := get(t, obj)
			mark := auditMark(t)
			require.NoError(t, jsonPatch(obj, "%s", tt.edit))
			undone(t, before)
			requireTold(t, v, obj, tt.told, nil)
			sent := operatorSince(t, mark).ObjectsIn(ns).Only(nameIs(tt.name))
			if !crowded(sent) {
				require.LessOrEqual(t, len(sent.Writes().Accepted()), 2, "%s: %s", tt.reason, sent)
			}
			if len(sent.Accepted()) == len(sent) { // no other client wrote at the same time
				require.Empty(t, sent.Only(verbIs("get")), "%s: %s", tt.reason, sent)
			}
			await(t, func(c *assert.CollectT) {
				drift := getVidraResource(c, ns).Status.Drift
				require.NotNil(c, drift)
				require.NotNil(c, drift.LastHeal)
				require.Equal(c, person, drift.LastHeal.Manager)
				require.NotEmpty(c, drift.LastHeal.Fields)
				require.NotEmpty(c, drift.LastHeal.Added)
			})
		})
	}
}

// TestUndoStorm renames a container again and again, before and between the two requests of
// each heal: nothing of it is left.
func TestUndoStorm(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, parts)
	awaitReady(t, ns)
	web := declaredObject(t, ns, parts, "Deployment", "parts")
	before := get(t, web)
	for i := range 40 {
		require.NoError(t, jsonPatch(web, `[{"op":"replace","path":"/spec/template/spec/containers/0/name","value":"www-%d"}]`, i))
	}
	undone(t, before)
}

// TestUndoKeepsWhatWasThere: what others added before an edit, or through a subresource, or
// under an ignore rule, survives the edit of another manager and of their own.
func TestUndoKeepsWhatWasThere(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	manifest := manifests(parts, configMap("page", "hello"))
	newVidraResource(t, ns, manifest, func(v *v1alpha1.VidraResource) {
		v.Spec.Drift = &v1alpha1.DriftPolicy{Ignore: []v1alpha1.IgnoreRule{
			{Target: v1alpha1.IgnoreTarget{Kind: "ConfigMap"}, Paths: []string{"/data/note"}},
			{Target: v1alpha1.IgnoreTarget{Kind: "ConfigMap"}, Managers: []string{"trusted"}},
		}}
	})
	awaitReady(t, ns)
	page := declaredObject(t, ns, manifest, "ConfigMap", "page")
	web := declaredObject(t, ns, manifest, "Deployment", "parts")

	require.NoError(t, mergePatch(page, `{"data":{"mine":"1"}}`))
	require.NoError(t, edit(page, types.MergePatchType, `{"data":{"injected":"1"}}`, client.FieldOwner("injector")))
	require.NoError(t, jsonPatch(page, "%s", `[{"op":"move","from":"/data/greeting","path":"/data/moved"},{"op":"add","path":"/data/note","value":"1"}]`))
	await(t, func(c *assert.CollectT) {
		data, _, err := unstructured.NestedStringMap(get(c, page).Object, "data")
		require.NoError(c, err)
		require.Equal(c, map[string]string{"greeting": "hello", "mine": "1", "injected": "1", "note": "1"}, data)
	})
	require.NoError(t, edit(page, types.JSONPatchType, `[{"op":"move","from":"/data/greeting","path":"/data/trusted"}]`, client.FieldOwner("trusted")))
	await(t, func(c *assert.CollectT) {
		data, _, err := unstructured.NestedStringMap(get(c, page).Object, "data")
		require.NoError(c, err)
		require.Equal(c, "hello", data["greeting"])
		require.Equal(c, "hello", data["trusted"], "the rule leaves to it what it adds")
	})

	scale(t, web, "kube-controller-manager", 3)
	require.NoError(t, jsonPatch(web, "%s", `[{"op":"replace","path":"/spec/template/spec/containers/0/name","value":"www"}]`))
	await(t, func(c *assert.CollectT) {
		live := get(c, web)
		containers, _, err := unstructured.NestedSlice(live.Object, "spec", "template", "spec", "containers")
		require.NoError(c, err)
		require.Len(c, containers, 1)
		require.Equal(c, "web", containers[0].(map[string]any)["name"])
		replicas, _, err := unstructured.NestedInt64(live.Object, "spec", "replicas")
		require.NoError(c, err)
		require.EqualValues(c, 3, replicas)
	})
}

// TestAdditionsBesideEmptyLists: built-in kinds store no empty list. Its absence is no removal, so that what an edit of a value adds beside it stays.
func TestAdditionsBesideEmptyLists(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	const manifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: parts}
spec:
  replicas: 0
  selector: {matchLabels: {app: parts}}
  template:
    metadata: {labels: {app: parts}}
    spec:
      volumes: []
      securityContext: {supplementalGroups: [], sysctls: []}
      affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
      containers: [{name: web, image: "registry.invalid/web:1", env: [], ports: []}]
`
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)
	web := declaredObject(t, ns, manifest, "Deployment", "parts")
	require.NoError(t, edit(web, types.StrategicMergePatchType, `{"spec":{"template":{"spec":{
		"nodeSelector":{"example.com/disk":"fast"},"securityContext":{"runAsUser":1000},
		"containers":[{"name":"web","image":"registry.invalid/web:2","envFrom":[{"configMapRef":{"name":"more","optional":true}}]}]}}}}`, client.FieldOwner("kubectl-edit")))
	awaitEvent(t, web, corev1.EventTypeNormal, "ChangeReverted", "Restore", `containers[name="web"].image`)
	pod, _, err := unstructured.NestedMap(get(t, web).Object, "spec", "template", "spec")
	require.NoError(t, err)
	container := pod["containers"].([]any)[0].(map[string]any)
	require.Equal(t, "registry.invalid/web:1", container["image"])
	require.Contains(t, container, "envFrom")
	require.Contains(t, pod, "nodeSelector")
	require.Equal(t, map[string]any{"runAsUser": int64(1000)}, pod["securityContext"])
	require.NotContains(t, fmt.Sprint(historyOf(getVidraResource(t, ns).Status, "parts")), "[]", "no list is restored")
}

// TestUndoAfterWarn: while nothing is written, the whole edit is reported; then it is undone
// whole, without what a controller added meanwhile.
func TestUndoAfterWarn(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		begin, end func(*v1alpha1.VidraResourceSpec)
	}{
		"Warn": {
			func(s *v1alpha1.VidraResourceSpec) { s.Drift = &v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn} },
			func(s *v1alpha1.VidraResourceSpec) { s.Drift = nil },
		},
		"Suspend": {
			func(s *v1alpha1.VidraResourceSpec) { s.Suspend = true },
			func(s *v1alpha1.VidraResourceSpec) { s.Suspend = false },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, parts, func(v *v1alpha1.VidraResource) { tt.begin(&v.Spec); v.Spec.Suspend = false })
			awaitReady(t, ns)
			changeSpec(t, ns, tt.begin)
			v := awaitReady(t, ns)
			web := declaredObject(t, ns, parts, "Deployment", "parts")
			const andRename = `[{"op":"replace","path":"/spec/template/spec/containers/0/name","value":"www"},`
			require.NoError(t, jsonPatch(web, "%s", andRename+toHostPath[1:]))
			awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect",
				`volumes[name="data"].emptyDir was removed and should be {}, removed by "person"`,
				`volumes[name="data"].hostPath was added as {"path":"/","type":""} and should not be there, added by "person"`)
			awaitCondition(t, ns, drifts(metav1.ConditionTrue, "DriftDetected"), "emptyDir", "hostPath")
			require.NoError(t, edit(web, types.StrategicMergePatchType,
				`{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"registry.invalid/mesh:1"}]}}}}`, client.FieldOwner("injector")))
			changeSpec(t, ns, tt.end)
			awaitReady(t, ns)
			await(t, func(c *assert.CollectT) {
				live := get(c, web).Object
				volumes, _, err := unstructured.NestedSlice(live, "spec", "template", "spec", "volumes")
				require.NoError(c, err)
				require.Len(c, volumes, 1)
				require.Contains(c, volumes[0], "emptyDir")
				require.NotContains(c, volumes[0], "hostPath")
				containers, _, err := unstructured.NestedSlice(live, "spec", "template", "spec", "containers")
				require.NoError(c, err)
				names := make([]any, 0, len(containers))
				for _, container := range containers {
					names = append(names, container.(map[string]any)["name"])
				}
				require.ElementsMatch(c, []any{"web", "sidecar"}, names)
			})
		})
	}
}

// TestUndoAfterRestart edits objects while the operator is down: one as users do, and one as
// an operator leaves it that ends between the two requests.
func TestUndoAfterRestart(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(parts, configMap("page", "hello")))
	awaitReady(t, ns)
	web, page := declaredObject(t, ns, parts, "Deployment", "parts"), declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	before := []*unstructured.Unstructured{get(t, web), get(t, page)}
	stopOperator(t)

	require.NoError(t, jsonPatch(web, "%s", toHostPath))
	require.NoError(t, jsonPatch(page, "%s", `[{"op":"move","from":"/data/greeting","path":"/data/moved"}]`))
	live := get(t, page)
	undo := ownership.Undo{Manager: v1alpha1.FieldManager(ns), Prefix: v1alpha1.FieldManagerPrefix, Configuration: page.Object}
	added := undo.Added(live, live)
	require.NotEmpty(t, added.Patch)
	patch, err := json.Marshal(added.Patch)
	require.NoError(t, err)
	require.NoError(t, edit(page, types.JSONPatchType, string(patch), client.FieldOwner(undo.Manager)))

	startOperator(t)
	for _, obj := range before {
		undone(t, obj)
	}
	awaitReady(t, ns)
}
