package ownership

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWithAlias drops the account of a template, which has two names.
func TestWithAlias(t *testing.T) {
	const (
		live         = `"serviceAccount":"robot","serviceAccountName":"robot"`
		both         = `{"f:spec":{"f:template":{"f:spec":{"f:serviceAccount":{},"f:serviceAccountName":{}}}}}`
		applied      = `{"f:spec":{"f:template":{"f:spec":{"f:serviceAccountName":{}}}}}`
		former       = `{"f:spec":{"f:template":{"f:spec":{"f:serviceAccount":{}}}}}`
		replicas     = `{"f:spec":{"f:replicas":{}}}`
		withoutThose = `{"f:spec":{"f:template":{"f:spec":{}}}}`
	)
	for name, tt := range map[string]struct {
		reason           string
		kind             string
		entries          []string
		live, configured string
		want             []string // the fields of the entries; none if nothing changes
	}{
		"Dropped":  {reason: "The manifest had it.", kind: "apps/v1 Deployment", entries: []string{ours(applied)}, live: live, want: []string{both}},
		"Former":   {reason: "The manifest had it under its former name.", kind: "apps/v1 Deployment", entries: []string{ours(former)}, live: live, want: []string{both}},
		"Stale":    {reason: "An owner without a lasting wish loses it.", kind: "batch/v1 Job", entries: []string{ours(applied), theirs("kubectl-client-side-apply", former)}, live: live, want: []string{both, withoutThose}},
		"NeverHad": {reason: "A user or a webhook added the account.", kind: "apps/v1 Deployment", entries: []string{ours(replicas)}, live: live},
		"Other":    {reason: "Another manager wants it.", kind: "apps/v1 Deployment", entries: []string{ours(applied), theirs("some-controller", former)}, live: live},
		"Edited":   {reason: "The names have two values.", kind: "apps/v1 Deployment", entries: []string{ours(applied)}, live: `"serviceAccount":"mine","serviceAccountName":"robot"`},
		"Kept":     {reason: "The manifest has it.", kind: "apps/v1 Deployment", entries: []string{ours(applied)}, live: live, configured: `"serviceAccountName":"robot"`},
		"Renamed":  {reason: "The manifest has it under its former name.", kind: "apps/v1 Deployment", entries: []string{ours(applied)}, live: live, configured: `"serviceAccount":"robot"`},
		"Custom":   {reason: "A custom kind has two fields.", kind: "example.com/v1 Deployment", entries: []string{ours(applied)}, live: live},
		"None":     {reason: "There is no account.", kind: "apps/v1 Deployment", entries: []string{ours(applied)}},
		"NotOurs":  {reason: "We own nothing.", kind: "apps/v1 Deployment", entries: []string{theirs("some-controller", applied)}, live: live},
		"Both":     {reason: "The manifest had both names: the apply removes them.", kind: "apps/v1 Deployment", entries: []string{ours(both)}, live: live},
	} {
		t.Run(name, func(t *testing.T) {
			version, kind, _ := strings.Cut(tt.kind, " ")
			of := func(content string, entries ...string) *unstructured.Unstructured {
				return object(t, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"w","managedFields":[%s]},"spec":{"template":{"spec":{%s}}}}`,
					version, kind, strings.Join(entries, ","), content))
			}
			obj := of(tt.live, tt.entries...)
			before := obj.DeepCopy()
			managedFields, path := WithAlias(obj, manager, DefaultTools, of(tt.configured).Object)
			require.Equal(t, before, obj, "the argument is not modified")
			require.Equal(t, tt.want != nil, path != nil, tt.reason)
			for i, want := range tt.want {
				fields, err := json.Marshal(managedFields[i].(map[string]any)["fieldsV1"])
				require.NoError(t, err)
				require.JSONEq(t, want, string(fields), tt.reason)
			}
			if path == nil {
				return
			}
			require.NoError(t, unstructured.SetNestedSlice(obj.Object, managedFields, "metadata", "managedFields"))
			back, changed := WithoutField(obj, manager, path)
			require.True(t, changed)
			fields, err := json.Marshal(back[0].(map[string]any)["fieldsV1"])
			require.NoError(t, err)
			require.JSONEq(t, map[bool]string{true: applied, false: former}[path[len(path)-1] == formerAccountName], string(fields), "the field is given back")
		})
	}
}
