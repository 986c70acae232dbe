package ownership

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// deploymentOfTwo is a Deployment of which a VidraResource and kubectl scale own fields.
const deploymentOfTwo = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  managedFields:
  - manager: vidra/shop
    operation: Apply
    time: "2026-01-02T12:00:00Z"
    fieldsType: FieldsV1
    fieldsV1:
      f:spec:
        f:selector: {}
        f:template:
          f:spec:
            f:containers:
              k:{"name":"web"}:
                .: {}
                f:image: {}
                f:name: {}
                f:ports:
                  k:{"containerPort":80,"protocol":"TCP"}:
                    .: {}
                    f:containerPort: {}
  - manager: kubectl
    operation: Update
    subresource: scale
    time: "2026-01-02T13:00:00Z"
    fieldsType: FieldsV1
    fieldsV1:
      f:spec:
        f:replicas: {}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    spec:
      containers:
      - name: sidecar
      - name: web
        image: web:1
        ports:
        - containerPort: 80
          protocol: TCP
`

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	body, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	require.NoError(t, u.UnmarshalJSON(body))
	return u
}

func TestFieldsOf(t *testing.T) {
	obj := parsed(t, deploymentOfTwo)
	configuration := map[string]any{"spec": map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
		"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
			"name": "web", "image": "web:1", "ports": []any{map[string]any{"containerPort": int64(80)}},
		}}}},
	}}
	leaves, above := FieldsOf(obj, "vidra/shop", configuration, shown)
	pointers := map[string]string{}
	for _, field := range append(leaves, above...) {
		pointers[field.Path] = field.Pointer()
	}
	const container = `spec.template.spec.containers[name="web"]`
	require.Equal(t, map[string]string{
		"spec": "/spec", "spec.selector": "/spec/selector", "spec.template": "/spec/template", "spec.template.spec": "/spec/template/spec",
		"spec.template.spec.containers": "/spec/template/spec/containers",
		container:                       "/spec/template/spec/containers/0", // in the configuration it is the first
		container + ".image":            "/spec/template/spec/containers/0/image",
		container + ".name":             "/spec/template/spec/containers/0/name",
		container + ".ports":            "/spec/template/spec/containers/0/ports",
		container + `.ports[containerPort=80,protocol="TCP"]`:               "/spec/template/spec/containers/0/ports/0",
		container + `.ports[containerPort=80,protocol="TCP"].containerPort`: "/spec/template/spec/containers/0/ports/0/containerPort",
	}, pointers)
	require.Equal(t, "spec.selector", leaves[0].Path)

	entry := obj.GetManagedFields()[1]
	require.Equal(t, []Field{{Path: "spec.replicas"}}, FieldsOfEntry(obj, entry, "vidra/shop", nil, shown))
}

// TestFieldsOfEntryOfAnotherItem: the item of another manager is in no configuration that leaves out a key of its own item.
func TestFieldsOfEntryOfAnotherItem(t *testing.T) {
	t.Parallel()
	const tcp, udp = `k:{"port":80,"protocol":"TCP"}`, `k:{"port":80,"protocol":"UDP"}`
	item := func(key string) string {
		return `{"f:spec":{"f:ports":{"` + strings.ReplaceAll(key, `"`, `\"`) + `":{".":{},"f:name":{}}}}}`
	}
	tests := map[string]struct {
		reason, ours, ports string
		want                []string
	}{
		"Other":   {"The item that leaves out its protocol is the one that was applied.", item(tcp), `[{"port":80,"name":"http"}]`, nil},
		"Shared":  {"Both managers have the item.", item(udp), `[{"port":80,"name":"dns"}]`, []string{"spec", "ports", "0", "name"}},
		"Both":    {"Each item of the configuration has its element.", item(tcp), `[{"port":80,"name":"http"},{"port":80,"protocol":"UDP","name":"dns"}]`, []string{"spec", "ports", "1", "name"}},
		"Renamed": {"An edit changed the protocol of the item, so that the applier has none.", `{"f:spec":{"f:type":{}}}`, `[{"port":80,"name":"http"}]`, []string{"spec", "ports", "0", "name"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := widget(t, `"spec":{"ports":[{"port":80,"protocol":"TCP","name":"http"},{"port":80,"protocol":"UDP","name":"dns"}]}`,
				managed(manager, "Apply", "2026-01-02T03:04:05Z", tt.ours), theirs("kubectl-patch", item(udp)))
			configuration := parsed(t, `{"spec":{"ports":`+tt.ports+`},"kind":"Widget","apiVersion":"v1"}`).Object
			for _, entry := range live.GetManagedFields() {
				if entry.Manager == "kubectl-patch" {
					require.Equal(t, []Field{{Path: `spec.ports[port=80,protocol="UDP"].name`, Tokens: tt.want}}, FieldsOfEntry(live, entry, manager, configuration, shown), tt.reason)
				}
			}
		})
	}
}

func TestWritersOf(t *testing.T) {
	writers := WritersOf(parsed(t, deploymentOfTwo))
	tests := map[string]struct {
		reason string
		path   []string
		want   []string
	}{
		"leaf":    {reason: "through a subresource", path: []string{"spec", "replicas"}, want: []string{"kubectl"}},
		"item":    {reason: "by its index in the object", path: []string{"spec", "template", "spec", "containers", "1", "image"}, want: []string{"vidra/shop"}},
		"atomic":  {reason: "it is owned as a whole", path: []string{"spec", "selector", "matchLabels", "app"}, want: []string{"vidra/shop"}},
		"default": {reason: "no manager set it", path: []string{"spec", "template", "spec", "containers", "1", "ports", "0", "protocol"}},
		"other":   {reason: "an item of which nothing is owned", path: []string{"spec", "template", "spec", "containers", "0", "name"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var managers []string
			for _, w := range writers.Of(tt.path...) {
				managers = append(managers, w.Manager)
			}
			require.Equal(t, tt.want, managers, tt.reason)
		})
	}
	require.Equal(t, []string{"spec", "selector"}, writers.Whole("spec", "selector", "matchLabels"))
	require.Equal(t, []string{"spec", "selector"}, writers.Whole("spec", "selector", "matchLabels", "app"))
	require.Nil(t, writers.Whole("spec", "selector"), "it is the field")
	require.Nil(t, writers.Whole("spec", "template", "other"), "the fields of the one above have owners of their own")
	require.Nil(t, writers.Whole("spec", "strategy", "type"), "no manager owns it")
}

// TestWritersOfIndex: an item may be owned by its index.
func TestWritersOfIndex(t *testing.T) {
	t.Parallel()
	writers := WritersOf(widget(t, `"spec":{"list":["a","b"]}`, theirs("old", `{"f:spec":{"f:list":{"i:1":{}}}}`)))
	require.Len(t, writers.Of("spec", "list", "1"), 1)
	require.Empty(t, writers.Of("spec", "list", "0"))
}

func TestMask(t *testing.T) {
	secret := parsed(t, `{apiVersion: v1, kind: Secret, metadata: {name: s, annotations: {kubectl.kubernetes.io/last-applied-configuration: "x"}, labels: {a: b}}, type: Opaque, data: {password: cGFzcw==}}`)
	masked := Mask(secret, shown, func(path []string, _ any) any { return path[len(path)-1] })
	require.Equal(t, map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": map[string]any{"password": "password"},
		"metadata": map[string]any{
			"name": "s", "labels": map[string]any{"a": "b"},
			"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "kubectl.kubernetes.io/last-applied-configuration"},
		},
	}, masked.Object)
	annotated := parsed(t, `{apiVersion: v1, kind: Widget, metadata: {name: c, annotations: {infrahub.operators.com/sensitive: "true", note: "x"}}, spec: {annotations: {infrahub.operators.com/sensitive: "z"}}}`)
	masked = Mask(annotated, shown, func([]string, any) any { return "***" })
	require.Equal(t, map[string]any{
		"apiVersion": "v1", "kind": "Widget", "spec": map[string]any{"annotations": map[string]any{"infrahub.operators.com/sensitive": "***"}},
		"metadata": map[string]any{"name": "c", "annotations": map[string]any{"infrahub.operators.com/sensitive": "true", "note": "***"}},
	}, masked.Object, "only the annotation that withholds the values is shown")
	pod := parsed(t, `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, env: [{name: A, value: secret}]}]}}`)
	masked = Mask(pod, shown, func([]string, any) any { return "***" })
	containers, _, err := unstructured.NestedSlice(masked.Object, "spec", "containers")
	require.NoError(t, err)
	require.Equal(t, []any{map[string]any{"name": "c", "env": []any{map[string]any{"name": "A", "value": "***"}}}}, containers)
	app := parsed(t, `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {env: {DB: {name: x, valueFrom: x, env: x, last-applied: x}}}}`)
	masked = Mask(app, shown, func([]string, any) any { return "***" })
	require.Equal(t, map[string]any{"env": map[string]any{"DB": map[string]any{"name": "***", "valueFrom": "***", "env": "***", "last-applied": "***"}}}, masked.Object["spec"], "all of the value of a variable")
	require.Equal(t, "cGFzcw==", secret.Object["data"].(map[string]any)["password"], "the object is not changed")
}
