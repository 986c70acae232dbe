package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// set are fields of the live object, with what leads to them.
func set(paths ...string) (fields []ownership.Field) {
	for _, path := range paths {
		fields = append(fields, ownership.Field{Path: path, Tokens: strings.Split(path, ".")})
	}
	return fields
}

// TestFieldsOfOthers: the fields that others set are listed by what the manifest has, with their values, but for those of Secrets.
func TestFieldsOfOthers(t *testing.T) {
	now := time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	live := func(kind string) *target {
		return &target{id: object.Identity{Namespace: "shop", Name: "web"}, live: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": kind,
			"metadata": map[string]any{"labels": map[string]any{"team": "payments"}},
			"data":     map[string]any{"long": strings.Repeat("x", 100), "own": "a", "taken": "b", "same": "c"},
		}}}
	}
	e := &explanation{
		known: ownership.Disclose(false, false, false),
		ManagedBy: []managedBy{{
			VidraResource: "shop", Left: []string{"data.ignored"},
			Fields:     []string{"data.own", "data.same", "metadata.labels.managed-by", `metadata.annotations["owner.vidraresource.infrahub.operators.com/shop"]`},
			configured: set("data.own", "data.same", "data.taken"),
		}},
		Others: []otherWriter{
			{Manager: "kubectl-label", Time: metav1.NewTime(now.Add(-36 * time.Second)), fields: set("metadata.labels.team", "data.long")},
			{Manager: "scaler", Subresource: "scale", Time: metav1.NewTime(now.Add(-time.Minute)), fields: set("data.taken", "data.same")},
		},
	}
	text := func(of *target, wide bool) string {
		var b strings.Builder
		e.fields(of, &b, func(title string) { b.WriteString("# " + title + "\n") }, false, wide, now)
		return b.String()
	}
	require.Equal(t, `# Set by others, not in the manifest: Vidra does not change them
kubectl-label   36s ago   metadata.labels.team = "payments"
kubectl-label   36s ago   data.long = "`+strings.Repeat("x", 59)+`…
# Set by others, in the manifest with another value
scaler through scale   60s ago   data.taken = "b"
# Set by others to the value that the manifest has
scaler through scale   60s ago   data.same = "c"
# Owned by VidraResource shop
data.own, data.same
# Ignored by VidraResource shop, because of spec.drift.ignore
data.ignored
`, text(live("ConfigMap"), false))
	require.Contains(t, text(live("Secret"), false), `data.taken = "***"`+"\n", "a value of a Secret is never shown")

	e.Others = []otherWriter{{Manager: "many", fields: set(strings.Fields(strings.Repeat("metadata.labels.team ", 7))...)}}
	require.Contains(t, text(live("ConfigMap"), false), "... and 2 more, with -o wide\n")
	require.NotContains(t, text(live("ConfigMap"), true), "more")
}

// TestLastEdits: the text says who may know the user of an edit, once, and only if Vidra does not.
func TestLastEdits(t *testing.T) {
	now := time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	of := &target{id: object.Identity{Namespace: "shop", Name: "web"}}
	of.id.Kind = "Deployment"
	text := func(wide bool, edits ...edit) string {
		var b strings.Builder
		(&explanation{Edits: edits}).lastEdits(of, &b, false, wide, now)
		return b.String()
	}
	edited := edit{Last: metav1.NewTime(now.Add(-time.Minute)), Count: 1, Reason: "DriftCorrected", Note: `reverted spec.replicas to 1; "kubectl" had set it to 3`}
	const who = `A name in quotes is a program (the field manager): Kubernetes does not store the user of an edit in the object.
The policy stamp has Vidra name the user (docs/policies.md). The audit log of the API server has the user: Deployment shop/web, 2026-01-31T17:59:00Z.
`
	require.Equal(t, "none are known\n", text(false))
	require.Equal(t, "60s ago   "+edited.Note+"\n"+who, text(false, edited))
	require.Equal(t, 1, strings.Count(text(false, edited, edited), who), "once")
	require.Contains(t, text(true, edited), "60s ago   DriftCorrected   reverted", "the reason of the Event is for those who want all")
	stamped := edited
	stamped.user, stamped.Count = "alice@example.com", 3
	require.Equal(t, "60s ago   3 times   "+edited.Note+"\n", text(false, stamped))
}
