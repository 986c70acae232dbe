package ui

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
)

// TestHandling: the page promises no revert of an edit that the operator leaves.
func TestHandling(t *testing.T) {
	t.Parallel()
	until := metav1.Date(2026, 1, 31, 18, 0, 0, 0, metav1.Now().UTC().Location())
	cases := map[string]struct {
		reason string
		by     insight.ManagedBy
		want   string
	}{
		"Correct":    {"It is the usual mode.", insight.ManagedBy{State: "Applied", Drift: "Correct"}, "edits of owned fields are reverted"},
		"CreateOnly": {"The annotation of the object counts more than the mode.", insight.ManagedBy{State: "Applied", Drift: "Correct", Apply: v1alpha1.ApplyCreateOnly}, "apply CreateOnly: edits are left"},
		"Unreadable": {"The manifest is unreadable.", insight.ManagedBy{State: "Drifted", Drift: "Correct"}, "an edit of it is not reverted now"},
		"Exempt":     {"A user asked for that.", insight.ManagedBy{State: "Drifted", Drift: "Correct", Exempt: &v1alpha1.BreakGlassStatus{Until: &until}}, "no edit is reverted until 2026-01-31T18:00:00Z: exemption by break-glass"},
		"Unanswered": {"Another client wrote the status.", insight.ManagedBy{Drift: "Correct", Exempt: &v1alpha1.BreakGlassStatus{}}, "no edit is reverted: exemption by break-glass"},
		"Suspended":  {"The exemption changes nothing meanwhile.", insight.ManagedBy{Drift: "Correct", Suspended: true, Exempt: &v1alpha1.BreakGlassStatus{Until: &until}}, "suspended: edits are not reverted"},
		"Unknown":    {"Another version knows the mode.", insight.ManagedBy{Drift: "Audit"}, "spec.drift.mode Audit, which this version of vidra does not know"},
	}
	for name, tc := range cases {
		v := &objectView{Why: &insight.Explanation{ManagedBy: []insight.ManagedBy{tc.by}}}
		v.addOwners()
		require.Equal(t, tc.want, v.Owners[0].Handling, "%s: %s", name, tc.reason)
	}
}
