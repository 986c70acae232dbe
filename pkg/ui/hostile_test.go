package ui

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/fixture"
)

// TestHostileStatus: the pages about a VidraResource with any status that another client may write.
func TestHostileStatus(t *testing.T) {
	for seed := range uint64(fixture.HostileSeeds) {
		vr := &v1alpha1.VidraResource{Status: fixture.HostileStatus(seed)}
		vr.Name = "shop"
		require.NotPanics(t, func() {
			now := time.Now()
			is := stateOf(vr, insight.DefaultProgram.ReportOf(vr).InOrder)
			rowOf(&entry{vr: vr, state: is, heals: healingsOf(vr.Status.History)}, filterOf(url.Values{"search": {"page"}}), 0, now)
			healsPerHour(healingsOf(vr.Status.History), now)
			factsOf(vr)
			inventoryOf(vr, url.Values{})
			inventoryOf(vr, url.Values{"number": {"-1"}, "objects": {"page"}})
			timelineOfMoments(newestFirst(append(timelineOf(vr.Name, vr.Status.History, nil, nil), transitionsOf(vr, is)...)), shownMoments)
			recentOf(vr, is)
			for _, c := range vr.Status.Conditions {
				conditionTone(vr, c)
			}
		}, "seed %d", seed)
	}
}
