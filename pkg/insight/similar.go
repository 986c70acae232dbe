package insight

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// similar returns the names that a typing error may have meant, by the measure of cobra for the names of commands.
func similar(typed string, names []string) []string {
	const mostErrors = 2
	known := &cobra.Command{SuggestionsMinimumDistance: min(mostErrors, len(typed)-1)}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		known.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	found := known.SuggestionsFor(typed)
	return found[:min(len(found), mostProposed)]
}

// mostProposed is how many names a message proposes at most.
const mostProposed = 3

// didYouMean proposes names; empty for none.
func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(names, " or ") + "?"
}
