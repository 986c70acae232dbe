package ownership

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// benchmarked are the objects of the benchmarks, from the common to the large.
func benchmarked(tb testing.TB) map[string]*unstructured.Unstructured {
	tb.Helper()
	return map[string]*unstructured.Unstructured{
		"Deployment40Fields": owning(tb, "apps/v1", "Deployment", deploymentOf40),
		"ConfigMap900Keys":   owning(tb, "v1", "ConfigMap", fmt.Sprintf(`{"data":{%s}}`, repeat(900, `"key-%04d":"value %[1]d"`))),
		"ConfigMap1MiB":      owning(tb, "v1", "ConfigMap", fmt.Sprintf(`{"data":{"blob":%q}}`, strings.Repeat("0123456789abcdef", 1<<16))),
		"CRD": owning(tb, "apiextensions.k8s.io/v1", "CustomResourceDefinition", fmt.Sprintf(`{"spec":{"group":"example.com","scope":"Namespaced",
		  "names":{"kind":"Widget","plural":"widgets"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{
		  "type":"object","properties":{%s}}}}]}}`, repeat(300, `"field%d":{"type":"string","maxLength":%[1]d,"description":"What field %[1]d of a widget says."}`))),
		"CustomResourceLarge": owning(tb, "example.com/v1", "Widget", fmt.Sprintf(`{"spec":{"parts":[%s]}}`,
			repeat(1000, `{"name":"part-%d","size":%[1]d,"weight":0.5,"tags":["a","b"]}`))),
	}
}

// deploymentOf40 is what is applied of a Deployment: 40 fields, as leaves of the
// owned set.
const deploymentOf40 = `{
  "metadata": {"labels": {"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop", "managed-by": "vidra"},
    "annotations": {"owner.vidraresource.infrahub.operators.com/web": "web"}},
  "spec": {"replicas": 2, "revisionHistoryLimit": 3, "minReadySeconds": 5, "selector": {"app": "web"},
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
    "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
      "serviceAccountName": "web", "terminationGracePeriodSeconds": 30,
      "securityContext": {"runAsNonRoot": true, "fsGroup": 1000},
      "containers": [{"name": "web", "image": "registry.example.com/shop/web:1.2.3", "imagePullPolicy": "IfNotPresent", "args": ["--verbose", "--port=8080"],
        "env": [{"name": "LOG", "value": "info"}, {"name": "REGION", "value": "eu"}],
        "ports": [{"containerPort": 8080, "protocol": "TCP", "name": "http"}],
        "resources": {"limits": {"cpu": "1", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5, "failureThreshold": 3},
        "volumeMounts": [{"mountPath": "/etc/web", "name": "config", "readOnly": true}]}],
      "volumes": [{"name": "config", "configMap": {"name": "web"}}]}}}}`

// repeat writes n items with their number, as the content of a list or a map.
func repeat(n int, format string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(items, ",")
}

// listKeys are the fields by which items of associative lists are told apart.
var listKeys = map[string][]string{
	"containers": {"name"}, "env": {"name"}, "volumes": {"name"}, "parts": {"name"},
	"ports": {"containerPort", "protocol"}, "volumeMounts": {"mountPath"},
}

// owning is an object as the API server returns it when manager applied content.
func owning(tb testing.TB, apiVersion, kind, content string) *unstructured.Unstructured {
	tb.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(tb, u.UnmarshalJSON([]byte(fmt.Sprintf(`{"apiVersion":%q,"kind":%q,%s`, apiVersion, kind, content[1:]))))
	fields := map[string]any{}
	for name, v := range u.Object {
		if name != "apiVersion" && name != "kind" {
			fields["f:"+name] = fieldsOf(name, v)
		}
	}
	u.SetName("web")
	u.SetNamespace("shop")
	entry := func(manager, operation string, fields map[string]any) any {
		return map[string]any{"manager": manager, "operation": operation, "apiVersion": apiVersion,
			"fieldsType": "FieldsV1", "time": "2026-01-02T03:04:05Z", "fieldsV1": fields}
	}
	require.NoError(tb, unstructured.SetNestedSlice(u.Object, []any{
		entry(manager, "Apply", fields),
		entry("kube-controller-manager", "Update", map[string]any{"f:status": map[string]any{"f:observedGeneration": map[string]any{}}}),
	}, "metadata", "managedFields"))
	return u
}

// fieldsOf is the owned tree of a value: maps are granular, lists of listKeys
// associative, all others atomic.
func fieldsOf(name string, v any) map[string]any {
	tree := map[string]any{}
	switch v := v.(type) {
	case map[string]any:
		for name, v := range v {
			tree["f:"+name] = fieldsOf(name, v)
		}
	case []any:
		for _, item := range v {
			if names := listKeys[name]; names != nil {
				keys := map[string]any{}
				for _, name := range names {
					keys[name] = item.(map[string]any)[name]
				}
				text, _ := json.Marshal(keys) // strings and numbers: never fails
				sub := fieldsOf("", item)
				sub["."] = map[string]any{}
				tree["k:"+string(text)] = sub
			}
		}
	}
	return tree
}

// BenchmarkDigest measures what an event costs in three ways. "Decoded" is ours:
// it walks the managedFields as the informer decoded them. "Set" encodes them
// again and parses them as a fieldpath.Set. "SetOfText" only parses them, as if
// the informer had kept the text.
func BenchmarkDigest(b *testing.B) {
	for name, u := range benchmarked(b) {
		fields := applied(u, manager)
		text, err := json.Marshal(fields)
		require.NoError(b, err)
		ways := map[string]func(){
			"Decoded":   func() { Of(u, Managers(u, "vidra/")[0]) },
			"Set":       func() { digestOfSet(setOf(fields), u) },
			"SetOfText": func() { digestOfSet(parse(b, text), u) },
		}
		for way, run := range ways {
			b.Run(name+"/"+way, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					run()
				}
			})
		}
	}
}

// BenchmarkDrift measures what it costs to tell what was changed: one field, and
// each of them.
func BenchmarkDrift(b *testing.B) {
	for name, restored := range benchmarked(b) {
		found := restored.DeepCopy()
		found.SetLabels(map[string]string{"app.kubernetes.io/name": "other"})
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Drift(found, restored, manager, shown)
			}
		})
		b.Run(name+"/AllRemoved", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Drift(&unstructured.Unstructured{Object: map[string]any{}}, restored, manager, shown)
			}
		})
	}
}

func parse(tb testing.TB, text []byte) *fieldpath.Set {
	tb.Helper()
	set := fieldpath.NewSet()
	require.NoError(tb, set.FromJSON(bytes.NewReader(text)))
	return set
}

// digestOfSet is what Of would be if it were made of a fieldpath.Set.
func digestOfSet(set *fieldpath.Set, u *unstructured.Unstructured) Digest {
	e := encoders.Get().(*encoder)
	ownedSet(e, set, u.Object)
	return e.digest()
}

func ownedSet(e *encoder, set *fieldpath.Set, live any) {
	n := node{live: live}
	for _, element := range elements(set) {
		e.string('p', element.String())
		child, _ := n.child(element)
		if below, nested := set.Children.Get(element); nested {
			ownedSet(e, below, child)
		} else {
			e.value(child)
		}
	}
}

func TestBenchmarkedDeploymentOwns40Fields(t *testing.T) {
	set := setOf(applied(benchmarked(t)["Deployment40Fields"], manager))
	require.Equal(t, 40, set.Leaves().Size(), set.Leaves())
}

// BenchmarkAdded measures what it takes to find what an edit added, and to write the patch
// that reclaims it: it comes before the first request of a structural heal.
func BenchmarkAdded(b *testing.B) {
	applied := benchmarked(b)["Deployment40Fields"]
	undo := Undo{Known: shown, Manager: manager, Prefix: "vidra/", BeforeKnown: true, Before: Others(applied, "vidra/")}
	require.NoError(b, json.Unmarshal([]byte(deploymentOf40), &undo.Configuration))
	found := owning(b, "apps/v1", "Deployment", strings.Replace(deploymentOf40, `"name": "web", "image"`, `"name": "edited", "image"`, 1))
	entries := found.Object["metadata"].(map[string]any)["managedFields"].([]any)
	entries[1].(map[string]any)["manager"] = "kubectl-edit"
	ours, theirs := entries[0].(map[string]any)["fieldsV1"].(map[string]any), map[string]any{}
	entries[1].(map[string]any)["fieldsV1"] = theirs
	for _, name := range []string{"f:spec", "f:template", "f:spec"} {
		below := map[string]any{}
		theirs[name] = below
		ours, theirs = ours[name].(map[string]any), below
	}
	theirs["f:containers"] = ours["f:containers"]
	delete(ours, "f:containers")
	require.Len(b, undo.Added(found, found).Changes, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(undo.Added(found, found).Patch); err != nil {
			b.Fatal(err)
		}
	}
}
