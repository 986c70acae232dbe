package generate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// unbounded are the fields that the schema does not bound, with the reason.
var unbounded = map[string]string{
	"spec.manifest": "the API server bounds the object, and the reconciler the manifest: TestTooLarge",
	"spec.drift.ignore[].target.labelSelector": "its type is Kubernetes' own; the reconciler reports a selector that it cannot parse",
	"status": "only the operator writes it, and bounds it: TestStatusIsBounded",
}

// TestEveryFieldIsValidated: each field of the CRD has a bound, a pattern, an enum, a format or a
// rule, or a reason why not, and each rule has a message.
func TestEveryFieldIsValidated(t *testing.T) {
	root := version(t).Schema.OpenAPIV3Schema
	used := map[string]bool{}
	for _, part := range []string{"spec", "status"} {
		requireValidated(t, part, root.Properties[part], used)
	}
	for path := range unbounded {
		require.True(t, used[path], "%s has a bound, or does not exist: remove it from the list", path)
	}
}

// requireValidated requires a bound of the field of a path, and of those below it.
func requireValidated(t *testing.T, path string, schema apiextensionsv1.JSONSchemaProps, used map[string]bool) {
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
			requireValidated(t, path+"."+name, below, used)
		}
	case "array":
		require.NotNil(t, schema.MaxItems, "%s has no maxItems", path)
		requireValidated(t, path+"[]", *schema.Items.Schema, used)
	case "boolean":
	case "integer":
		require.True(t, schema.Minimum != nil && schema.Maximum != nil, "%s has no bounds", path)
	default:
		require.True(t, schema.Pattern != "" || schema.MaxLength != nil || len(schema.Enum) > 0 || strings.HasPrefix(schema.Format, "date"),
			"%s has no pattern, maxLength, enum or format: add one, with a message, or a reason to the list", path)
	}
}
