package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
)

// customKind creates a CustomResourceDefinition with a schema of spec, and returns the head of the manifest of an object of it, up to spec.
func customKind(t *testing.T, schema string) (head string) {
	t.Helper()
	crd := testenv.CRD(unique(t))
	spec := apiextensionsv1.JSONSchemaProps{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(schema), &spec))
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec}}
	require.NoError(t, admin.Create(t.Context(), crd))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), crd.DeepCopy()) })
	return "apiVersion: " + crd.Spec.Group + "/v1\nkind: Thing\nmetadata: {name: web}\nspec:\n"
}

// TestDefaultsOfCustomKindsInTheWay is TestDefaultsInTheWay for the schemas of custom kinds.
func TestDefaultsOfCustomKindsInTheWay(t *testing.T) {
	t.Parallel()
	const union = `
type: object
properties:
  type: {type: string, default: Rolling}
  rolling: {type: object, properties: {max: {type: integer, default: 1}, size: {type: integer}}}
  recreate: {type: object, properties: {grace: {type: integer, default: 5}}}
`
	const items = `
type: object
properties:
  parts:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [name]
    items:
      type: object
      required: [name]
      properties:
        name: {type: string}
        file: {type: object, properties: {path: {type: string}, mode: {type: integer, default: 420}}}
        url: {type: object, properties: {href: {type: string}, port: {type: integer, default: 443}}}
`
	tests := map[string]struct{ reason, schema, before, after string }{
		"oneOf": {
			"a default stays in the former member", union + "oneOf: [{required: [rolling]}, {required: [recreate]}]\n", "  rolling: {size: 2}\n", "  recreate: {}\n",
		},
		"oneOf of an empty member": {
			"which is a field of its own", union + "oneOf: [{required: [rolling]}, {required: [recreate]}]\n", "  rolling: {}\n", "  recreate: {grace: 1}\n",
		},
		"rule": {
			"a rule of the schema", union + "x-kubernetes-validations: [{rule: \"self.type == 'Rolling' ? !has(self.recreate) : !has(self.rolling)\", message: \"one of rolling and recreate, that of the type\"}]\n",
			"  rolling: {size: 2}\n", "  type: Recreate\n  recreate: {}\n",
		},
		"rule without a member": {
			"the type is a default", union + "x-kubernetes-validations: [{rule: \"self.type == 'Rolling' || !has(self.rolling)\"}]\n", "  rolling: {size: 2}\n", "  type: Recreate\n",
		},
		"properties": {
			"a number of fields", union + "maxProperties: 2\n", "  rolling: {size: 2}\n", "  recreate: {}\n",
		},
		"item": {
			"a union in an item of a list",
			items + "      oneOf: [{required: [file]}, {required: [url]}]\n", "  parts: [{name: a, file: {path: /a}}, {name: b, file: {path: /b}}]\n", "  parts: [{name: a, url: {href: a}}, {name: b, file: {path: /b}}]\n",
		},
		"rule in an item": {
			"a rule in an item of a list",
			items + "      x-kubernetes-validations: [{rule: \"!(has(self.file) && has(self.url))\"}]\n", "  parts: [{name: a, file: {path: /a}}]\n", "  parts: [{name: a, url: {href: a}}]\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			head := customKind(t, tt.schema)
			newVidraResource(t, ns, head+tt.before)
			awaitReadyIgnoringHealth(t, ns)
			before := entry(t, getVidraResource(t, ns), "Thing", "web")
			requireDiff(t, ns, head+tt.after, insight.ActionChange)
			setManifest(t, ns, head+tt.after)
			v := awaitReadyIgnoringHealth(t, ns)
			require.Equal(t, before.UID, entry(t, v, "Thing", "web").UID, "%s: it is the same object", tt.reason)
			requireDiff(t, ns, head+tt.after, insight.ActionNone)
		})
	}
}

// TestNormalizedCustomValues is TestNormalizedValues for the schemas of custom kinds.
func TestNormalizedCustomValues(t *testing.T) {
	t.Parallel()
	const schema = `
type: object
properties:
  whole: {type: integer}
  ratio: {type: number}
  port: {x-kubernetes-int-or-string: true}
  memory: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}], pattern: "^[0-9.]+([KMGT]i?|m)?$"}
  mode: {type: string, default: fast}
  note: {type: string, nullable: true}
  wait: {type: string, format: duration}
  at: {type: string, format: date-time}
  blob: {type: string, format: byte}
  set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  list: {type: array, items: {type: object, properties: {a: {type: string}, b: {type: string, default: c}}}}
  names: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name, kind], items: {type: object, required: [name], properties: {name: {type: string}, kind: {type: string, default: Role}, size: {type: integer, default: 3}}}}
  more: {type: object, additionalProperties: {type: object, properties: {size: {type: integer, default: 1}}}}
  free: {type: object, x-kubernetes-preserve-unknown-fields: true}
  inner: {type: object, default: {}, properties: {size: {type: integer, default: 7}}}
`
	tests := map[string]struct{ reason, fields string }{
		"numbers":        {"a number without a fraction is whole", "  whole: 1.0\n  ratio: 1\n"},
		"exponents":      {"numbers of YAML and JSON", "  whole: 1e3\n  ratio: 1.50\n"},
		"large numbers":  {"no digit is lost", "  whole: 9007199254740993\n  ratio: 1e21\n"},
		"number or text": {"both are kept as written", "  port: \"80\"\n  memory: 1024Mi\n"},
		"text or number": {"both are kept as written", "  port: 80\n  memory: 1\n"},
		"null":           {"a default, a value, and nothing", "  mode: null\n  note: null\n  inner: null\n"},
		"empty":          {"what is empty stays", "  set: []\n  list: []\n  names: []\n  more: {}\n  free: {}\n  inner: {}\n  mode: \"\"\n"},
		"times":          {"text is kept as written", "  wait: 90m\n  at: 2030-01-01T02:00:00+02:00\n  blob: aGVsbG8=\n"},
		"sets":           {"the order of a set", "  set: [c, a, b]\n"},
		"items":          {"defaults in the items of an atomic list", "  list: [{a: x}, {a: \"y\", b: z}, {}]\n"},
		"keys":           {"a default is a key", "  names: [{name: a}, {name: a, kind: Group}, {name: b, size: 1}]\n"},
		"maps":           {"defaults in a map", "  more: {x: {}, \"y\": {size: 2}}\n"},
		"free":           {"what no schema has", "  free: {a: null, b: 1.0, c: [1, null, {d: 1e3}], e: {}}\n"},
	}
	head := customKind(t, schema)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			manifest := head + tt.fields
			newVidraResource(t, ns, manifest)
			v := awaitReadyIgnoringHealth(t, ns)
			requireNoAccusation(t, v)
			requireDiff(t, ns, manifest, insight.ActionNone)
			obj := declaredObject(t, ns, manifest, "Thing", "web")
			require.NoError(t, mergePatch(obj, `{"metadata":{"labels":{"managed-by":"other"}}}`))
			require.Eventually(t, func() bool { return getVidraResource(t, ns).Status.Drift != nil }, patience, 10*poll)
			v = awaitReadyIgnoringHealth(t, ns)
			requireNoAccusation(t, v)
			require.Equal(t, int64(1), v.Status.Drift.Heals, tt.reason)
		})
	}
}

// TestTransitionRules changes what a rule of the schema does not let change: the message has the rule and the field, and no advice to
// delete an object that may stand for data.
func TestTransitionRules(t *testing.T) {
	t.Parallel()
	const schema = `
type: object
properties:
  class: {type: string, x-kubernetes-validations: [{rule: "self == oldSelf", message: "class is immutable"}]}
  size: {type: integer, x-kubernetes-validations: [{rule: "self >= oldSelf", message: "size can only grow"}]}
`
	head := customKind(t, schema)
	const manifest = "  class: a\n  size: 3\n"
	tests := map[string]struct {
		reason, old, changed string
		parts                []string
	}{
		"immutable": {"a value that never changes", "class: a", "class: b", []string{"spec.class", "class is immutable"}},
		"bounded":   {"a value that only grows", "size: 3", "size: 2", []string{"spec.size", "size can only grow"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, head+manifest)
			awaitReadyIgnoringHealth(t, ns)
			setManifest(t, ns, head+strings.Replace(manifest, tt.old, tt.changed, 1))
			v := awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, append(tt.parts, "Thing "+ns+"/web")...)
			message := condition(t, v, v1alpha1.ConditionReady).Message
			t.Log(message)
			require.NotContains(t, message, "delete the object", tt.reason)
			setManifest(t, ns, head+manifest)
			awaitReadyIgnoringHealth(t, ns)
		})
	}
}

// TestDuplicateKeys has manifests with two items of one key in a list of the kind map, and an item twice in a set. The API server refuses
// them, and the message has the list and the key. In an object that is adopted they are merged.
func TestDuplicateKeys(t *testing.T) {
	t.Parallel()
	const schema = `
type: object
properties:
  set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  names: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string}, size: {type: integer}}}}
`
	head := customKind(t, schema)
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{name: a, port: 80}, {name: b, port: 80}]}\n"
	tests := map[string]struct {
		reason, manifest, kind string
		parts                  []string
	}{
		"variables":        {"of one container", podOf("env: [{name: A, value: a}, {name: B, value: b}, {name: A, value: c}]\n", ""), "Deployment", []string{"env", `name="A"`}},
		"equal variables":  {"with one value", podOf("env: [{name: A, value: a}, {name: A, value: a}]\n", ""), "Deployment", []string{"env", `name="A"`}},
		"ports":            {"of one container", podOf("ports: [{name: a, containerPort: 80}, {name: b, containerPort: 80}]\n", ""), "Deployment", []string{"ports", "containerPort=80"}},
		"ports of Service": {"of one protocol", service, "Service", []string{"ports", "port=80"}},
		"port names":       {"two ports of one name", strings.NewReplacer("name: b", "name: a", "port: 80}]", "port: 81}]").Replace(service), "Service", []string{"spec.ports[1].name", "Duplicate"}},
		"containers":       {"of a Pod", podOf("", "") + "      - {name: web, image: registry.example/shop}\n", "Deployment", []string{"containers", `name="web"`}},
		"mounts":           {"at one path", podOf("volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /a}]\n", "volumes: [{name: a}, {name: b}]\n"), "Deployment", []string{"volumeMounts", "/a"}},
		"volumes":          {"of one name", podOf("", "volumes: [{name: a}, {name: a, configMap: {name: a}}]\n"), "Deployment", []string{"volumes", `name="a"`}},
		"finalizers":       {"a set", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, finalizers: [example.com/a, example.com/a]}\n", "ConfigMap", []string{"finalizers", "example.com/a"}},
		"custom set":       {"of a custom kind", head + "  set: [a, b, a]\n", "Thing", []string{"spec.set", "a"}},
		"custom items":     {"of a custom kind", head + "  names: [{name: a, size: 1}, {name: a, size: 2}]\n", "Thing", []string{"spec.names", `name="a"`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, manifests(configMap("other", "hello"), tt.manifest))
			v := awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, append(tt.parts, tt.kind+" "+ns+"/web")...)
			message := condition(t, v, v1alpha1.ConditionReady).Message
			t.Log(message)
			requireNoAccusation(t, v)
			for _, internal := range []string{"failed to create typed patch object", "webhook"} {
				require.NotContains(t, message, internal, tt.reason)
			}
			require.Equal(t, v1alpha1.ObjectApplied, entry(t, v, "ConfigMap", "other").State)
		})
	}
}
