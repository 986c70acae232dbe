package ownership

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWithMirrors drops the account of a template, which has two names.
func TestWithMirrors(t *testing.T) {
	const both = `{"f:spec":{"f:template":{"f:spec":{"f:serviceAccount":{},"f:serviceAccountName":{}}}}}`
	const live = `"serviceAccount":"robot","serviceAccountName":"robot"`
	const theirAccount = `{"f:spec":{"f:template":{"f:spec":{"f:serviceAccount":{}}}}}`
	const replicas = `{"f:spec":{"f:replicas":{}}}`
	for name, tt := range map[string]struct {
		reason           string
		kind             string
		entries          []string
		live, configured string
		want             []string // the fields of the entries; none if nothing changes
	}{
		"Dropped": {
			reason: "The apply that dropped one name has left the other.", kind: "apps/v1 Deployment", entries: []string{ours(replicas)}, live: live,
			want: []string{`{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:serviceAccount":{},"f:serviceAccountName":{}}}}}`},
		},
		"Stale": {
			reason: "An owner without a lasting wish loses it.", kind: "batch/v1 Job", entries: []string{ours(`{"f:spec":{"f:template":{"f:spec":{}}}}`), theirs("kubectl-client-side-apply", theirAccount)}, live: live,
			want: []string{both, `{"f:spec":{"f:template":{"f:spec":{}}}}`},
		},
		"Other":   {reason: "Another manager wants it.", kind: "apps/v1 Deployment", entries: []string{ours(replicas), theirs("some-controller", theirAccount)}, live: live},
		"Kept":    {reason: "The manifest has it.", kind: "apps/v1 Deployment", entries: []string{ours(replicas)}, live: live, configured: `"serviceAccountName":"robot"`},
		"Former":  {reason: "The manifest has it under its former name.", kind: "apps/v1 Deployment", entries: []string{ours(replicas)}, live: live, configured: `"serviceAccount":"robot"`},
		"Custom":  {reason: "A custom kind has two fields.", kind: "example.com/v1 Deployment", entries: []string{ours(replicas)}, live: live},
		"None":    {reason: "There is no account.", kind: "apps/v1 Deployment", entries: []string{ours(replicas)}},
		"NotOurs": {reason: "We own nothing.", kind: "apps/v1 Deployment", entries: []string{theirs("some-controller", replicas)}, live: live},
	} {
		t.Run(name, func(t *testing.T) {
			version, kind, _ := strings.Cut(tt.kind, " ")
			of := func(content string, entries ...string) *unstructured.Unstructured {
				return object(t, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"w","managedFields":[%s]},"spec":{"template":{"spec":{%s}}}}`,
					version, kind, strings.Join(entries, ","), content))
			}
			obj := of(tt.live, tt.entries...)
			before := obj.DeepCopy()
			managedFields, changed := WithMirrors(obj, manager, DefaultTools, of(tt.configured).Object)
			require.Equal(t, before, obj, "the argument is not modified")
			require.Equal(t, tt.want != nil, changed, tt.reason)
			for i, want := range tt.want {
				fields, err := json.Marshal(managedFields[i].(map[string]any)["fieldsV1"])
				require.NoError(t, err)
				require.JSONEq(t, want, string(fields), tt.reason)
			}
		})
	}
}
