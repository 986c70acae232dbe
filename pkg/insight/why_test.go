package insight

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// TestClaims: the fields that others set have the claim of the manifest, and their values, but for those of Secrets.
func TestClaims(t *testing.T) {
	live := func(kind string) *unstructured.Unstructured {
		return objectOf(t, `
apiVersion: v1
kind: `+kind+`
metadata:
  name: web
  labels: {team: payments}
  managedFields:
  - {manager: kubectl-label, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:metadata":{"f:labels":{"f:team":{}}},"f:data":{"f:long":{}}}}
  - {manager: scaler, operation: Update, subresource: scale, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:data":{"f:taken":{},"f:same":{}}}}
data: {long: `+strings.Repeat("x", 100)+`, taken: b, same: c}
`)
	}
	set := func(paths ...string) (fields []ownership.Field) {
		for _, path := range paths {
			fields = append(fields, ownership.Field{Path: path, Tokens: strings.Split(path, ".")})
		}
		return fields
	}
	e := &Explanation{ManagedBy: []ManagedBy{{Fields: []string{"data.own", "data.same"}, configured: set("data.own", "data.same", "data.taken")}}}
	details := func(kind string) (all []OtherField) {
		obj := live(kind)
		for _, o := range e.othersOf(obj, ownership.Disclose(false, ownership.SensitivityOf(obj), false)) {
			all = append(all, o.Details...)
		}
		return all
	}
	require.Equal(t, []OtherField{
		{Path: "data.long", Value: `"` + strings.Repeat("x", 59) + "…"}, {Path: "metadata.labels.team", Value: `"payments"`},
		{Path: "data.same", Value: `"c"`, Claim: Shared}, {Path: "data.taken", Value: `"b"`, Claim: Claimed},
	}, details("ConfigMap"))
	require.Contains(t, details("Secret"), OtherField{Path: "data.taken", Value: `"***"`, Claim: Claimed}, "a value of a Secret is never shown")
}
