package search

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// variants is the number of configurations of each object.
	variants = 3
	// mine is the key that users add.
	mine = "mine"
	// withheld begins the values of Secrets. It has 12 bytes, so that base64 shows it as such, too.
	withheld = "confidential"
)

// pool has the objects that manifests may have.
var pool = []string{
	"ConfigMap/one", "ConfigMap/two", "ConfigMap/three", "ConfigMap/far", "Secret/key", "Service/web", "Deployment/web", "Role/reader",
	"Thing/custom", "ClusterRole/reader", "Namespace/nested", "ConfigMap/inside", "PersistentVolumeClaim/data", "ConfigMap/foreign",
}

// wholePool has the objects of pool, and those of scenarios alone. The type of Secret/typed is immutable.
var wholePool = append(slices.Clone(pool), typed)

const typed = "Secret/typed"

// with returns an object with the objects without which it cannot exist.
func with(object string) []string {
	if object == "ConfigMap/inside" {
		return []string{object, "Namespace/nested"}
	}
	return []string{object}
}

// world is the names of one run of a plan: its namespaces and a prefix of cluster-scoped names.
type world struct{ prefix string }

func (w world) main() string             { return w.prefix }
func (w world) far() string              { return w.prefix + "-far" }
func (w world) mirror() string           { return w.prefix + "-mirror" }
func (w world) owner(name string) string { return w.prefix + "-" + name }
func (w world) nested() string           { return w.prefix + "-nested" }
func (w world) kindOf(object string) string {
	kind, _, _ := strings.Cut(object, "/")
	return kind
}

// object returns an object of the pool in a variant.
func (w world) object(object string, variant int) *unstructured.Unstructured {
	kind, name, _ := strings.Cut(object, "/")
	namespace := w.main()
	switch object {
	case "ConfigMap/far":
		namespace = w.far()
	case "ConfigMap/inside":
		namespace = w.nested()
	case "Namespace/nested":
		namespace, name = "", w.nested()
	case "ClusterRole/reader":
		namespace, name = "", w.prefix+"-reader"
	}
	value := fmt.Sprintf("value-%d", variant)
	body := map[string]string{
		"ConfigMap": "apiVersion: v1\nkind: ConfigMap\ndata: {value: " + value + extra(variant, ", extra: x") + "}\n",
		"Secret": "apiVersion: v1\nkind: Secret\ndata: {value: " + base64.StdEncoding.EncodeToString([]byte(withheld+value)) +
			extra(variant, ", extra: eA==") + "}\n",
		"Service": "apiVersion: v1\nkind: Service\nspec:\n  selector: {app: " + value + "}\n  ports:\n  - {name: a, port: 80, protocol: TCP}\n" +
			extra(variant, "  - {name: b, port: 443, protocol: TCP}\n"),
		"Deployment": "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: 0\n  selector: {matchLabels: {app: web}}\n  template:\n" +
			"    metadata: {labels: {app: web}}\n    spec:\n      containers:\n      - name: main\n        image: example.com/web:" + value +
			"\n        env:\n        - {name: VALUE, value: " + value + "}\n" + extra(variant, "        - {name: EXTRA, value: x}\n") +
			extra(variant, "      - {name: side, image: example.com/side}\n"),
		"Role":        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nrules:\n- {apiGroups: [''], resources: [" + rule(variant) + "], verbs: [get]}\n",
		"ClusterRole": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nrules:\n- {apiGroups: [''], resources: [" + rule(variant) + "], verbs: [get]}\n",
		"Thing":       "apiVersion: search.example.com/v1\nkind: Thing\nspec: {value: " + value + extra(variant, ", list: [a, b]") + "}\n",
		"Namespace":   "apiVersion: v1\nkind: Namespace\n",
		"PersistentVolumeClaim": "apiVersion: v1\nkind: PersistentVolumeClaim\nspec:\n  accessModes: [ReadWriteOnce]\n" +
			"  resources: {requests: {storage: 1Gi}}\n",
	}[kind]
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(body), &u.Object); err != nil {
		panic(err) // a text of this file
	}
	u.SetName(name)
	u.SetNamespace(namespace)
	if object == typed {
		u.Object["type"] = "example.com/" + value
	}
	labels := map[string]string{"variant": value}
	if variant%2 == 1 {
		labels["odd"] = "yes"
	}
	u.SetLabels(labels)
	return u
}

// extra returns what odd variants have and even ones drop.
func extra(variant int, text string) string {
	if variant%2 == 1 {
		return text
	}
	return ""
}

func rule(variant int) string { return []string{"pods", "nodes", "services"}[variant] }

// content returns the fields of an object that a manifest decides, without those that users may add and that the API server assigns.
func content(u *unstructured.Unstructured) map[string]any {
	u = u.DeepCopy()
	labels := u.GetLabels()
	for _, l := range []string{"managed-by", "kubernetes.io/metadata.name", mine} {
		delete(labels, l)
	}
	maps.DeleteFunc(labels, func(key, _ string) bool { return v1alpha1.IsShardLabel(key) })
	found := map[string]any{"labels": labels}
	for _, path := range [][]string{
		{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"data", mine}, {"spec", mine}, {"spec", "selector", mine}, {"spec", "template", "metadata", "labels", mine},
		{"spec", "volumeName"},
	} {
		unstructured.RemoveNestedField(u.Object, path...)
	}
	for _, field := range []string{"spec", "data", "rules", "type"} {
		if v, has := u.Object[field]; has {
			found[field] = v
		}
	}
	return found
}

// manifest returns the documents of a spec, in one text or in two for a manifest in parts.
func (w world) manifest(s spec) (inline, part string) {
	var documents []string
	for _, object := range wholePool {
		variant, has := s.Objects[object]
		if !has {
			continue
		}
		text, err := yaml.Marshal(w.object(object, variant).Object)
		if err != nil {
			panic(err) // objects of this file
		}
		documents = append(documents, string(text))
	}
	switch s.Broken {
	case "syntax":
		documents = append(documents, "a: [b")
	case "duplicate":
		documents = append(documents, documents[0])
	case "unknown-kind":
		documents = append(documents, "apiVersion: none.example.com/v1\nkind: None\nmetadata: {name: none}\n")
	case "refused":
		documents = append(documents, "apiVersion: v1\nkind: Service\nmetadata: {name: refused}\nspec: {ports: [{port: 99999}]}\n")
	case "no-name":
		documents = append(documents, "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n")
	case "template":
		documents = append(documents, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Name }}}\n")
	}
	if s.Parts {
		return "", strings.Join(documents, "---\n")
	}
	return strings.Join(documents, "---\n"), ""
}
