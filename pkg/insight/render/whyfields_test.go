package render

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/insight"
)

// TestFieldsOfOthers: the fields that others set are listed by what the manifest has, with their values.
func TestFieldsOfOthers(t *testing.T) {
	now := time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	e := &insight.Explanation{
		ManagedBy: []insight.ManagedBy{{
			VidraResource: "shop", Left: []string{"data.ignored"},
			Fields: []string{"data.own", "data.same", "metadata.labels.managed-by", `metadata.annotations["owner.vidraresource.infrahub.operators.com/shop"]`},
		}},
		Others: []insight.OtherWriter{
			{Manager: "kubectl-label", Time: metav1.NewTime(now.Add(-36 * time.Second)), Details: []insight.OtherField{
				{Path: "metadata.labels.team", Value: `"payments"`}, {Path: "data.long"},
			}},
			{Manager: "scaler", Subresource: "scale", Time: metav1.NewTime(now.Add(-time.Minute)), Details: []insight.OtherField{
				{Path: "data.taken", Value: `"b"`, Claim: insight.Claimed}, {Path: "data.same", Value: `"c"`, Claim: insight.Shared},
			}},
		},
	}
	text := func(wide bool) string {
		var b strings.Builder
		explanation{e, Style{Wide: wide, Now: now}}.fields(&b, func(title string) { b.WriteString("# " + title + "\n") })
		return b.String()
	}
	require.Equal(t, `# Set by others, not in the manifest: Vidra does not change them
kubectl-label   36s ago   metadata.labels.team = "payments"
kubectl-label   36s ago   data.long
# Set by others, in the manifest with another value
scaler through scale   60s ago   data.taken = "b"
# Set by others to the value that the manifest has
scaler through scale   60s ago   data.same = "c"
# Owned by VidraResource shop
data.own, data.same
# Ignored by VidraResource shop, because of spec.drift.ignore
data.ignored
`, text(false))
	e.Others = []insight.OtherWriter{{Manager: "many", Details: make([]insight.OtherField, 7)}}
	require.Contains(t, text(false), "many   at an unknown time", "its entry in managedFields has no time")
	require.Contains(t, text(false), "... and 2 more, with -o wide\n")
	require.NotContains(t, text(true), "more")
}

// TestLastEdits: the text says who may know the user of an edit, once, and only if Vidra does not.
func TestLastEdits(t *testing.T) {
	now := time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	text := func(wide bool, edits ...insight.Edit) string {
		var b strings.Builder
		explanation{&insight.Explanation{Object: "Deployment shop/web", Edits: edits}, Style{Wide: wide, Now: now}}.lastEdits(&b)
		return b.String()
	}
	edited := insight.Edit{Last: metav1.NewTime(now.Add(-time.Minute)), Count: 1, Reason: "DriftCorrected", Note: `reverted spec.replicas to 1; "kubectl" had set it to 3`}
	const who = `A name in quotes is a program (the field manager): Kubernetes does not store the user of an edit in the object.
The policy stamp has Vidra name the user (docs/policies.md). The audit log of the API server has the user: Deployment shop/web, 2026-01-31T17:59:00Z.
`
	require.Equal(t, "none are known\n", text(false))
	require.Equal(t, "60s ago   "+edited.Note+"\n"+who, text(false, edited))
	require.Equal(t, 1, strings.Count(text(false, edited, edited), who), "once")
	require.Contains(t, text(true, edited), "60s ago   DriftCorrected   reverted", "the reason of the Event is for those who want all")
	stamped := edited
	stamped.User, stamped.Count = "alice@example.com", 3
	require.Equal(t, "60s ago   3 times   "+edited.Note+"\n", text(false, stamped))
}

// TestRemarksOnOwners: the title agrees with the handling of edits by the operator.
func TestRemarksOnOwners(t *testing.T) {
	tests := map[string]struct {
		reason string
		owner  insight.ManagedBy
		want   string
	}{
		"Reverted":   {"The mode reverts.", insight.ManagedBy{State: "Applied", Drift: "Correct"}, " (state Applied; edits of owned fields are reverted)"},
		"Unreverted": {"The manifest cannot be read, for example.", insight.ManagedBy{State: "Drifted", Drift: "Correct"}, " (state Drifted; an edit of it is not reverted now)"},
		"Reported":   {"The mode is the reason.", insight.ManagedBy{State: "Drifted", Drift: "Warn"}, " (state Drifted; edits are reported and not reverted)"},
		"Suspended":  {"The suspension is the reason.", insight.ManagedBy{State: "Drifted", Drift: "Correct", Suspended: true}, " (state Drifted; suspended: edits are not reverted)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, remarks(tt.owner), tt.reason) })
	}
}
