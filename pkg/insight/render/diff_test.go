package render

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/insight"
)

func TestDiffSummary(t *testing.T) {
	of := func(actions ...string) *insight.Difference {
		d := &insight.Difference{VidraResource: "shop"}
		for _, action := range actions {
			d.Objects = append(d.Objects, &insight.ObjectDifference{Action: action})
		}
		return d
	}
	tests := map[string]struct {
		reason string
		diff   *insight.Difference
		want   string
	}{
		"none":    {reason: "an empty manifest", diff: of(), want: "VidraResource shop: there is no object"},
		"one":     {reason: "of one kind", diff: of(insight.ActionNone), want: "VidraResource shop: 1 object is unchanged"},
		"several": {reason: "the first has the noun", diff: of(insight.ActionNone, insight.ActionPrune, insight.ActionChange, insight.ActionChange), want: "VidraResource shop: 2 objects change, 1 is deleted, 1 is unchanged"},
		"all": {
			reason: "each is counted", diff: of(insight.ActionCreate, insight.ActionChange, insight.ActionAdopt, insight.ActionMove, insight.ActionReplace, insight.ActionPrune, insight.ActionRelease, insight.ActionRefuse, insight.ActionNone),
			want: "VidraResource shop: 1 object is created, 1 changes, 1 is adopted, 1 moves, 1 is replaced, 1 is deleted, 1 is released, 1 is refused, 1 is unchanged",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, DiffSummary(tt.diff), tt.reason)
			require.True(t, strings.HasPrefix(Style{}.Diff(tt.diff), tt.want+"\n"), "the summary is first")
		})
	}
	suspended := of(insight.ActionChange)
	suspended.Suspended = true
	require.Equal(t, "VidraResource shop: 1 object changes; nothing is written while spec.suspend is true", DiffSummary(suspended))
}

// TestDeletion: a prune is a deletion to the user, with the command that keeps the object. Programs read the action.
func TestDeletion(t *testing.T) {
	o := &insight.ObjectDifference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", Action: insight.ActionPrune, Why: "it is no longer in the manifest"}
	require.Equal(t, `VidraResource shop: 1 object is deleted
- delete Deployment shop/web
    it is no longer in the manifest
    to keep it, unmanaged: `+"`vidra orphan deployment/web -n shop`\n", Style{}.Diff(&insight.Difference{VidraResource: "shop", Objects: []*insight.ObjectDifference{o}}))
	o.Cluster = "https://eu.example.com:6443"
	require.Contains(t, Style{}.DiffRemarks(o), "to keep it, unmanaged, with a kubeconfig of its cluster: "+
		"`kubectl annotate --overwrite deployment/web -n shop vidraresource.infrahub.operators.com/keep=true`", "vidra orphan refuses it")
	o.Action = insight.ActionRelease
	require.NotContains(t, strings.Join(Style{}.DiffRemarks(o), "\n"), "orphan")
}
