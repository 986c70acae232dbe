package main

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// kind is a kind that is edited.
type kind struct {
	gvr schema.GroupVersionResource
	// manifest of the one object of the kind; %[1]s stands for its namespace.
	manifest string
}

var (
	deployment = &kind{
		gvr: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		manifest: `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: target
  namespace: %[1]s
  labels: {app: target, bench: %[1]s}
spec:
  replicas: 2
  selector:
    matchLabels: {app: target}
  template:
    metadata:
      labels: {app: target}
    spec:
      containers:
      - name: web
        image: nginxinc/nginx-unprivileged:stable-alpine
        ports:
        - containerPort: 8080
`,
	}
	configMap = &kind{
		gvr: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		manifest: `
apiVersion: v1
kind: ConfigMap
metadata:
  name: target
  namespace: %[1]s
  labels: {app: target, bench: %[1]s}
data:
  greeting: hello
  language: en
`,
	}
	service = &kind{
		gvr: schema.GroupVersionResource{Version: "v1", Resource: "services"},
		manifest: `
apiVersion: v1
kind: Service
metadata:
  name: target
  namespace: %[1]s
  labels: {app: target, bench: %[1]s}
spec:
  selector: {app: target}
  ports:
  - port: 80
    targetPort: 8080
`,
	}
	kinds = []*kind{deployment, configMap, service}
)

// in is the object of the kind in a namespace.
func (k *kind) in(namespace string) (*unstructured.Unstructured, error) {
	return asObject(k.text(namespace))
}

// asObject is the object of a manifest.
func asObject(manifest string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	json, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		return nil, err
	}
	return u, u.UnmarshalJSON(json)
}

func (k *kind) text(namespace string) string { return fmt.Sprintf(k.manifest, namespace) }

// manifest holds the target of each kind, and ConfigMaps beside them until there
// are n objects.
func manifest(namespace string, n int) string {
	var docs []string
	for _, k := range kinds {
		docs = append(docs, k.text(namespace))
	}
	for i := len(docs); i < n; i++ {
		docs = append(docs, fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata:
  name: beside-%d
  namespace: %s
data:
  number: "%[1]d"
`, i, namespace))
	}
	return strings.Join(docs, "---")
}

// edit is an edit of an object by a user.
type edit struct {
	name string
	kind *kind
	// patch is a merge patch; empty to delete the object.
	patch string
	// structural is a JSON patch that removes something and adds something else in its
	// place. It is made on Vidra's side; the floor, which has no answer to it, gets patch. The
	// two make controllers do the same: both begin a rollout, or none does.
	structural string
}

var edits = []edit{
	{name: "Deployment spec.replicas", kind: deployment, patch: `{"spec":{"replicas":3}}`},
	{name: "Deployment deleted", kind: deployment},
	{name: "ConfigMap data changed", kind: configMap, patch: `{"data":{"greeting":"edited"}}`},
	{name: "ConfigMap key removed", kind: configMap, patch: `{"data":{"greeting":null}}`},
	{name: "ConfigMap label changed", kind: configMap, patch: `{"metadata":{"labels":{"app":"edited"}}}`},
	{name: "ConfigMap deleted", kind: configMap},
	{name: "Service spec.selector", kind: service, patch: `{"spec":{"selector":{"app":"edited"}}}`},
	{
		name: "Deployment container renamed", kind: deployment, patch: `{"spec":{"template":{"spec":{"containers":[` +
			`{"name":"web","image":"edited","ports":[{"containerPort":8080}]}]}}}}`,
		structural: `[{"op":"replace","path":"/spec/template/spec/containers/0/name","value":"edited"}]`,
	},
	{
		name: "Service port renumbered", kind: service, patch: `{"spec":{"selector":{"app":"edited"}}}`,
		structural: `[{"op":"replace","path":"/spec/ports/0/port","value":8080}]`,
	},
}

// structural reports whether an edit is structural.
func structural(name string) bool {
	return slices.ContainsFunc(edits, func(e edit) bool { return e.name == name && e.structural != "" })
}
