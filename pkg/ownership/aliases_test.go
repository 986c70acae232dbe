package ownership

import (
	"encoding/json"
	"fmt"
	"slices"
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
		"AfterOthers": {
			reason: "Entries of others, and Updates of ours, come first.", kind: "apps/v1 Deployment", live: live,
			entries: []string{managed("some-controller", "Apply", "2026-01-02T03:04:05Z", replicas), theirs(manager, replicas), ours(applied)}, want: []string{replicas, replicas, both},
		},
		"Applied": {reason: "Another manager applies the other name.", kind: "apps/v1 Deployment", entries: []string{ours(applied), managed("some-controller", "Apply", "2026-01-02T03:04:05Z", former)}, live: live},
		"Updated": {reason: "A client wrote the other name under our name.", kind: "apps/v1 Deployment", entries: []string{ours(applied), theirs(manager, former)}, live: live},
		"NotOurs": {reason: "We own nothing.", kind: "apps/v1 Deployment", entries: []string{theirs("some-controller", applied)}, live: live},
		"Both":    {reason: "The manifest had both names: the apply removes them.", kind: "apps/v1 Deployment", entries: []string{ours(both)}, live: live},
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
			fields, err := json.Marshal(back[len(tt.entries)-len(tt.want)+slices.Index(tt.want, both)].(map[string]any)["fieldsV1"])
			require.NoError(t, err)
			require.JSONEq(t, map[bool]string{true: applied, false: former}[path[len(path)-1] == formerAccountName], string(fields), "the field is given back")
		})
	}
}

// TestWithoutField removes a field from the entry that the manager applied alone.
func TestWithoutField(t *testing.T) {
	t.Parallel()
	const both, one = `{"f:spec":{"f:a":{},"f:b":{}}}`, `{"f:spec":{"f:b":{}}}`
	obj := widget(t, `"spec":{}`, ours(both), theirs(manager, both), managed("other", "Apply", "2026-01-02T03:04:05Z", both))
	managedFields, changed := WithoutField(obj, manager, []string{"spec", "a"})
	require.True(t, changed)
	text, err := json.Marshal(managedFields)
	require.NoError(t, err)
	require.JSONEq(t, "["+ours(one)+","+theirs(manager, both)+","+managed("other", "Apply", "2026-01-02T03:04:05Z", both)+"]", string(text))
	_, changed = WithoutField(obj, manager, []string{"spec", "c"})
	require.False(t, changed, "the manager applied no such field")
}

// TestHasAccount finds the account of Pods under both its names, and nowhere else.
func TestHasAccount(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason, spec string
		want         bool
	}{
		"Pod":        {"An account of a Pod.", `"spec":{"serviceAccountName":"robot"}`, true},
		"Former":     {"Its former name.", `"spec":{"serviceAccount":"robot"}`, true},
		"Deployment": {"A template of Pods.", `"spec":{"replicas":1,"template":{"spec":{"serviceAccountName":"robot"}}}`, true},
		"CronJob":    {"A template of Jobs.", `"spec":{"jobTemplate":{"spec":{"template":{"spec":{"serviceAccount":"robot"}}}}}`, true},
		"None":       {"There is none.", `"spec":{"template":{"spec":{"containers":[]}}}`, false},
		"Elsewhere":  {"Another field has the name.", `"data":{"serviceAccountName":"robot"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, HasAccount(widget(t, tc.spec).Object), tc.reason)
		})
	}
}
