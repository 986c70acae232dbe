package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDiffSummary(t *testing.T) {
	of := func(actions ...string) *difference {
		d := &difference{VidraResource: "shop"}
		for _, action := range actions {
			d.Objects = append(d.Objects, &objectDifference{Action: action})
		}
		return d
	}
	tests := map[string]struct {
		reason string
		diff   *difference
		want   string
	}{
		"none":    {reason: "an empty manifest", diff: of(), want: "VidraResource shop: there is no object"},
		"one":     {reason: "of one kind", diff: of(actionNone), want: "VidraResource shop: 1 object is unchanged"},
		"several": {reason: "the first has the noun", diff: of(actionNone, actionPrune, actionChange, actionChange), want: "VidraResource shop: 2 objects change, 1 is deleted, 1 is unchanged"},
		"all": {
			reason: "each is counted", diff: of(actionCreate, actionChange, actionAdopt, actionMove, actionReplace, actionPrune, actionRelease, actionRefuse, actionNone),
			want: "VidraResource shop: 1 object is created, 1 changes, 1 is adopted, 1 moves, 1 is replaced, 1 is deleted, 1 is released, 1 is refused, 1 is unchanged",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, tt.diff.summary(), tt.reason)
			require.True(t, strings.HasPrefix(tt.diff.text(false), tt.want+"\n"), "the summary is first")
		})
	}
	suspended := of(actionChange)
	suspended.Suspended = true
	require.Equal(t, "VidraResource shop: 1 object changes; nothing is written while spec.suspend is true", suspended.summary())
}

// TestDeletion: a prune is a deletion to the user, with the command that keeps the object. Programs read the action.
func TestDeletion(t *testing.T) {
	o := &objectDifference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", Action: actionPrune, Why: "it is no longer in the manifest"}
	require.Equal(t, `VidraResource shop: 1 object is deleted
- delete Deployment shop/web
    it is no longer in the manifest
    to keep it, unmanaged: `+"`vidra orphan deployment/web -n shop`\n", (&difference{VidraResource: "shop", Objects: []*objectDifference{o}}).text(false))
	o.Action = actionRelease
	require.NotContains(t, strings.Join(o.remarks(), "\n"), "orphan")
}
