package search

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// generated are the fields of the spec that plans set by rules of their own, with the fields below them.
var generated = []string{
	"destination.namespace", "destination.reconcileOnEvents", "manifest", "manifestFrom", "wait", "force", "adopt", "prune", "deletionPolicy", "suspend",
	"drift.mode", "drift.additions", "revision.hold", "revision.to", "dependsOn", "serviceAccountName",
}

// elsewhere are the fields that other tests vary.
var elsewhere = map[string]string{
	"destination.server":                "e2e/remote has the other clusters",
	"kustomize.components":              "e2e/sources has the artifacts",
	"kustomize.ignoreMissingComponents": "e2e/sources has the artifacts",
	"kustomize.images":                  "e2e/sources has the artifacts",
	"kustomize.namePrefix":              "e2e/sources has the artifacts",
	"kustomize.nameSuffix":              "e2e/sources has the artifacts",
	"kustomize.patches":                 "e2e/sources has the artifacts",
	"kustomize.substituteFrom":          "e2e/sources has the artifacts",
	"kustomize.targetNamespace":         "e2e/sources has the artifacts",
}

// values are the valid values of fields whose schema does not give them.
var values = map[string][]any{
	"interval": {"10s", "1m", "24h"}, "reconciledAt": {"2026-01-02T03:04:05Z", "2026-02-03T04:05:06Z"},
	"drift.maxExposure": {"1s", "30s"}, "drift.maxBreakGlass": {"0s", "1h"}, "revisionHistoryLimit": {int64(0), int64(1), int64(20)}, "drift.healsPerMinute": {int64(30), int64(1000)},
	"healthChecks": { // they agree with kstatus, so that each object has one health
		[]any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "current": "has(metadata.uid)", "inProgress": "has(metadata.deletionTimestamp)"}},
		[]any{map[string]any{"apiVersion": "search.example.com/v1", "kind": "Thing", "current": "true"}},
	},
	"drift.ignore": {
		[]any{map[string]any{"target": map[string]any{"kind": "ConfigMap"}, "paths": []any{"/data/absent"}}},
		[]any{map[string]any{"target": map[string]any{"group": "apps", "name": "absent"}, "managers": []any{"absent"}}},
	},
}

// field is a field of the spec that the schema describes.
type field struct {
	path   string
	schema apiextensionsv1.JSONSchemaProps
}

// specFields returns the fields of the spec of a VidraResource, by the CustomResourceDefinition. A list is one field.
func specFields() (all []field, err error) {
	text, err := os.ReadFile("../../config/crd/bases/infrahub.operators.com_vidraresources.yaml")
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, crd); err != nil {
		return nil, err
	}
	var add func(path string, s apiextensionsv1.JSONSchemaProps)
	add = func(path string, s apiextensionsv1.JSONSchemaProps) {
		if s.Type != "object" {
			all = append(all, field{path, s})
			return
		}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			add(strings.TrimPrefix(path+"."+name, "."), s.Properties[name])
		}
	}
	add("", crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
	return all, nil
}

// others returns the fields that plans set to any valid value: they change no promise of the search.
func others() (found []field) {
	all, err := specFields()
	if err != nil {
		panic(err) // a file of the project
	}
	for _, f := range all {
		if _, is := elsewhere[f.path]; !is && !slices.Contains(generated, f.path) {
			found = append(found, f)
		}
	}
	return found
}

// valid returns the valid values of a field, of which the schema gives those of enums and booleans.
func (f field) valid() (all []any) {
	switch {
	case values[f.path] != nil:
		return values[f.path]
	case f.schema.Type == "boolean":
		return []any{true, false}
	}
	for _, raw := range f.schema.Enum {
		all = append(all, strings.Trim(string(raw.Raw), `"`))
	}
	return all
}

// invalid returns a value that the API server refuses: one of another type.
func (f field) invalid() any {
	if f.schema.Type == "string" {
		return int64(7)
	}
	return "no " + f.schema.Type
}

// withOthers draws valid values for some of the other fields.
func withOthers(t *rapid.T, s *spec) {
	for _, f := range others() {
		if rapid.IntRange(0, 7).Draw(t, "set "+f.path) == 0 {
			if s.Others == nil {
				s.Others = map[string]any{}
			}
			s.Others[f.path] = rapid.SampledFrom(f.valid()).Draw(t, f.path)
		}
	}
}

// TestEveryField requires that plans set each field of the spec, or that another test does.
func TestEveryField(t *testing.T) {
	all, err := specFields()
	require.NoError(t, err)
	known := map[string]bool{}
	for _, f := range all {
		known[f.path] = true
	}
	for _, f := range others() {
		require.NotEmpty(t, f.valid(), "%s has no value in plans", f.path)
	}
	for _, path := range append(slices.Clone(generated), slices.Sorted(maps.Keys(elsewhere))...) {
		require.True(t, known[path], "the CustomResourceDefinition has no field %s", path)
	}
}
