package e2e

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// web is a manifest with one object of each kind that users edit most.
const web = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: page
  labels:
    app: web
data:
  greeting: hello
  farewell: goodbye
---
apiVersion: v1
kind: Secret
metadata:
  name: login
data:
  password: aHVudGVyMg== # hunter2
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector:
    app: web
  ports:
  - name: http
    port: 80
    targetPort: 8080
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels:
    app: web
spec:
  replicas: 1
  selector:
    matchLabels:
      app: web
  template:
    metadata:
      labels:
        app: web
    spec:
      containers:
      - name: web
        image: registry.invalid/web:1
`

// declared are the objects of a manifest, as its author reads it: those that
// name no namespace are in the given one.
func declared(t *testing.T, namespace, manifest string) []*unstructured.Unstructured {
	t.Helper()
	var objs []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(obj)
		if errors.Is(err, io.EOF) {
			return objs
		}
		require.NoError(t, err)
		namespaced, err := admin.IsObjectNamespaced(obj)
		require.NoError(t, err)
		if namespaced && obj.GetNamespace() == "" {
			obj.SetNamespace(namespace)
		}
		objs = append(objs, obj)
	}
}

// declaredObject is the one object of a kind and name in a manifest.
func declaredObject(t *testing.T, namespace, manifest, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, obj := range declared(t, namespace, manifest) {
		if obj.GetKind() == kind && obj.GetName() == name {
			return obj
		}
	}
	require.Fail(t, "not in the manifest", "%s %s", kind, name)
	return nil
}

// requireInOrder requires that an object is as the manifest of the VidraResource
// owner says and marked as its own, and returns it. It may have more fields.
func requireInOrder(t require.TestingT, owner string, want *unstructured.Unstructured) *unstructured.Unstructured {
	live := get(t, want)
	require.Empty(t, difference("", want.Object, live.Object), "%s %s", want.GetKind(), want.GetName())
	require.Equal(t, "vidra", live.GetLabels()["managed-by"])
	require.Equal(t, owner, live.GetAnnotations()[v1alpha1.OwnerAnnotationKey(owner)])
	require.Contains(t, appliedBy(live), "vidra/"+owner)
	require.Nil(t, live.GetDeletionTimestamp())
	return live
}

// awaitInOrder waits until objects are as the manifest of owner says.
func awaitInOrder(t *testing.T, owner string, want ...*unstructured.Unstructured) {
	t.Helper()
	check := func(c *assert.CollectT) {
		for _, obj := range want {
			requireInOrder(c, owner, obj)
		}
	}
	message := "the objects of " + owner + " are as the manifest says"
	if len(want) == 1 {
		cluster.AwaitObject(t, 2*patience, want[0], check, message) // a Namespace that was deleted is emptied first
	} else {
		await(t, check, message)
	}
}

// appliedBy lists the field managers that applied an object.
func appliedBy(live *unstructured.Unstructured) []string {
	var managers []string
	for _, e := range live.GetManagedFields() {
		if e.Operation == "Apply" {
			managers = append(managers, e.Manager)
		}
	}
	return managers
}

// difference is the first path at which live does not have what want has; empty
// if it has all of it.
func difference(path string, want, live any) string {
	switch want := want.(type) {
	case map[string]any:
		fields, ok := live.(map[string]any)
		if !ok {
			return path
		}
		for name, value := range want {
			if _, ok := fields[name]; !ok {
				return path + "." + name + " is missing"
			}
			if d := difference(path+"."+name, value, fields[name]); d != "" {
				return d
			}
		}
		return ""
	case []any:
		items, ok := live.([]any)
		if !ok || len(items) != len(want) {
			return path + " has another length"
		}
		for i, value := range want {
			if d := difference(fmt.Sprintf("%s[%d]", path, i), value, items[i]); d != "" {
				return d
			}
		}
		return ""
	}
	if !reflect.DeepEqual(want, live) {
		return fmt.Sprintf("%s is %v instead of %v", path, live, want)
	}
	return ""
}
