package generate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// unbounded are the fields that the schemas do not bound, by kind, with the reason.
var unbounded = map[string]map[string]string{
	v1alpha1.Kind: {
		"spec.manifest":                            "the API server bounds the object, and the reconciler the manifest: TestTooLarge",
		"spec.kustomize.patches[]":                 "its type is that of Flux; the build reports a patch that it cannot apply: TestFluxKustomize",
		"spec.kustomize.images[]":                  "as the patches",
		"spec.kustomize.commonMetadata":            "the API server reports values that it does not accept",
		"spec.kustomize.substitute":                "the build reports names that it does not accept",
		"spec.drift.ignore[].target.labelSelector": "its type is Kubernetes' own; the reconciler reports a selector that it cannot parse",
		"status": "only the operator writes it, and bounds it: TestStatusIsBounded",
	},
	v1alpha1.SyncKind: {
		"spec.template.labels":                              "the API server bounds the values in the VidraResources: TestSecretWithoutVidraResource",
		"spec.template.annotations":                         "as the labels",
		"spec.template.drift.ignore[].target.labelSelector": "as in a VidraResource",
		"status": "only the operator writes it, and bounds it: TestConclude",
	},
}

// TestEveryFieldIsValidated: each field of the CRDs has a description, which kubectl explain shows, and a bound, a pattern, an enum, a format or
// a rule, or a reason why not. Each rule has a message.
func TestEveryFieldIsValidated(t *testing.T) {
	for kind, file := range map[string]string{v1alpha1.Kind: crdFile, v1alpha1.SyncKind: syncCRDFile} {
		t.Run(kind, func(t *testing.T) {
			root, used := versionIn(t, file).Schema.OpenAPIV3Schema, map[string]bool{}
			require.NotEmpty(t, root.Description)
			for _, part := range []string{"spec", "status"} {
				requireDescribed(t, part, root.Properties[part])
				requireValidated(t, part, root.Properties[part], unbounded[kind], used)
			}
			for path := range unbounded[kind] {
				require.True(t, used[path], "%s has a bound, or does not exist: remove it from the list", path)
			}
		})
	}
}

// requireDescribed requires a description of the field of a path, and of those below it.
func requireDescribed(t *testing.T, path string, schema apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	require.NotEmpty(t, schema.Description, "%s has no description", path)
	below := schema.Properties
	if schema.Items != nil {
		below = schema.Items.Schema.Properties
	}
	for name, field := range below {
		requireDescribed(t, path+"."+name, field)
	}
}

// requireValidated requires a bound of the field of a path, and of those below it.
func requireValidated(t *testing.T, path string, schema apiextensionsv1.JSONSchemaProps, unbounded map[string]string, used map[string]bool) {
	t.Helper()
	for _, rule := range schema.XValidations {
		require.NotEmpty(t, rule.Message, "%s: the rule %s has no message", path, rule.Rule)
	}
	if _, found := unbounded[path]; found {
		used[path] = true
		return
	}
	switch schema.Type {
	case "object":
		require.NotEmpty(t, schema.Properties, "%s: any field is accepted", path)
		for name, below := range schema.Properties {
			requireValidated(t, path+"."+name, below, unbounded, used)
		}
	case "array":
		require.NotNil(t, schema.MaxItems, "%s has no maxItems", path)
		requireValidated(t, path+"[]", *schema.Items.Schema, unbounded, used)
	case "boolean":
	case "integer":
		require.True(t, schema.Minimum != nil && schema.Maximum != nil, "%s has no bounds", path)
	default:
		require.True(t, schema.Pattern != "" || schema.MaxLength != nil || len(schema.Enum) > 0 || strings.HasPrefix(schema.Format, "date"),
			"%s has no pattern, maxLength, enum or format: add one, with a message, or a reason to the list", path)
	}
}
