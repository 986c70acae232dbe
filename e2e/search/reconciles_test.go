package search

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/stretchr/testify/require"
)

// mostReconciles bounds the reconciles of one VidraResource in a plan: about 30 are usual, and a loop makes 100 a second, perhaps without any request.
const mostReconciles = 80

// requireFewReconciles requires that operators have reconciled each VidraResource of a run at most mostReconciles times, by their logs.
func (r *run) requireFewReconciles(counts map[string]int) {
	for _, name := range names {
		require.LessOrEqual(r, counts[r.owner(name)], mostReconciles, "reconciles of %s", r.owner(name))
	}
}

// countReconciles returns how often operators, also those that were killed, have reconciled each VidraResource.
func countReconciles(t require.TestingT) map[string]int {
	counts := map[string]int{}
	for _, log := range operatorLogs() {
		text, err := os.ReadFile(log)
		require.NoError(t, err)
		for line := range bytes.Lines(text) {
			var is struct {
				Msg           string
				VidraResource struct{ Name string }
			}
			if bytes.Contains(line, []byte(`"Reconciled"`)) && json.Unmarshal(line, &is) == nil && is.Msg == "Reconciled" {
				counts[is.VidraResource.Name]++
			}
		}
	}
	return counts
}
